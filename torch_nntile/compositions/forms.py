# SPDX-License-Identifier: BSD-3-Clause
"""Functions of Python as kernels of the device, in all forms of an overload.

A composition is written for real floating operands. What the CPU's kernel does besides, one table says
(csrc/shapes/habits.cc), which rows and host functions use too; `Composition` applies it. Of dtypes that
are not all floating the CPU is asked once: it takes them, or its error is the user's.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from torch_nntile import _c
from torch_nntile.schemas import is_in_place, is_written, scalar_type, schema_of

__all__ = ["Composition", "active"]

Function = Callable[..., Any]

_MOST_ELEMENTS = 10_000  # of stand-ins with the operands' sizes
_MASKS = frozenset((torch.bool, torch.uint8))
_REAL = frozenset((torch.float32, torch.float64, torch.float16, torch.bfloat16))
_ON_HOST = torch._C.DispatchKeySet(torch._C.DispatchKey.PrivateUse2)  # see dispatch.register()
_inside = threading.local()


# Those numbers of nntile_stub_layout and nntile_stub_habit_flag that compositions have. No enums: Dynamo may
# look into a kernel, and finds that 0 is not equal to a member that is 0.
_CONTIGUOUS, _LIKE_FIRST = 2, 3  # 1: elementwise
_EXACT_OUT, _ANY_DTYPE, _INTEGERS_ON_HOST = 64, 128, 256


def _habit(overload: str) -> tuple[int, int]:
    name, _, variant = overload.partition(".")
    number = _c.get("nntile_stub_habit", f"aten::{name}".encode(), variant.encode())
    return number % 16, number // 16


def active() -> set[str]:
    """Overloads whose compositions run at the moment, in this thread."""
    names: set[str] = _inside.__dict__.setdefault("names", set())
    return names


class Composition:
    """A functional overload ("elu", "clamp.Tensor"), or one that writes; the function that computes it."""

    def __init__(self, overload: str, function: Function) -> None:
        self.overload = overload
        self.function = function
        self.layout, self.flags = _habit(overload)
        arguments = schema_of(f"aten::{overload}").arguments
        self.writes = any(is_written(argument) for argument in arguments)

    def kernel(self, overload: str) -> Function:
        """The kernel of one form ("elu", "elu_", "elu.out"), as the dispatcher calls it.

        Raises:
            What the CPU raises for operands of such dtypes.
        """
        form, op = self._form(overload), _op(overload)
        accepted: set[tuple[Any, ...]] = set()
        any_dtype = bool(self.flags & _ANY_DTYPE)

        @functools.wraps(self.function)
        def kernel(*args: Any, **kwargs: Any) -> Any:
            names = active()
            if overload in names:  # PyTorch's decompositions may come back to the op itself
                raise NotImplementedError(
                    f"nntile: the decomposition of aten::{overload} needs aten::{overload} itself"
                )
            names.add(overload)
            try:
                dtypes = tuple(_dtypes((*args, *kwargs.values())))
                if not _REAL.issuperset(dtypes):
                    if self._goes_to_host(dtypes):
                        return op.redispatch(_ON_HOST, *args, **kwargs)
                    kind = (_c.get("nntile_stub_call_state"), *dtypes)
                    if not any_dtype and kind not in accepted and _ask(op, args, kwargs):
                        accepted.add(kind)
                return form(args, kwargs)
            finally:
                names.discard(overload)

        return kernel

    def _form(self, overload: str) -> Function:
        """The function of a form, of its arguments: results go where its schema says."""
        if self.writes:
            return lambda args, kwargs: self.function(*args, **kwargs)
        schema = schema_of(f"aten::{overload}")
        outs = [a.name for a in schema.arguments if a.is_out]
        if outs and not set(outs) <= {*inspect.signature(self.function).parameters}:
            # The out= forms that PyTorch generates have no kernel of the CPU, and resize without strides.
            restrides = torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{overload}", "CPU")
            exact = bool(_habit(overload)[1] & _EXACT_OUT)

            def out_form(args: Any, kwargs: Any) -> Any:
                targets = [kwargs.pop(out) for out in outs]
                results = self.compute(args, kwargs)
                results = results if isinstance(results, tuple) else (results,)
                for target, result in zip(targets, results, strict=True):
                    _write_out(target, result, restrides, exact)
                return targets[0] if len(targets) == 1 else tuple(targets)

            return out_form
        if is_in_place(schema):
            return lambda args, kwargs: args[0].copy_(self.compute(args, kwargs))
        return self.compute

    def compute(self, args: Any, kwargs: Any) -> Any:
        """New results with the CPU's strides."""
        result = self.function(*args, **kwargs)
        return _laid_out(result, self.layout, args) if self.layout else result

    def _goes_to_host(self, dtypes: tuple[torch.dtype, ...]) -> bool:
        """Whether the formula is not for these numbers: one for real floating ones rarely is for complex."""
        if self.writes:
            return False
        whole = self.flags & _INTEGERS_ON_HOST and not dtypes[0].is_floating_point
        return bool(whole) or any(dtype.is_complex for dtype in dtypes)


# ---- results


def _write_out(target: Tensor, result: Tensor, restrides: bool, exact: bool) -> None:
    """Put a result into an out= argument, as ATen does: resize, then cast and copy."""
    if target.device != result.device:
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{result.device} and {target.device}! (an out= argument)"
        )
    if exact and target.dtype != result.dtype:
        raise RuntimeError(
            f"Expected out tensor to have dtype {result.dtype} (scalar type {scalar_type(result.dtype)}), "
            f"but got {target.dtype} instead"
        )
    if target.shape != result.shape:
        target.resize_(result.shape)
        if restrides:
            target.as_strided_(result.shape, torch.empty_like(result).stride())
    target.copy_(result)


def _laid_out(result: Tensor, layout: int, args: Any) -> Tensor:
    if layout == _CONTIGUOUS:
        return result.contiguous()
    operands = [x for x in args if isinstance(x, Tensor)]
    if layout == _LIKE_FIRST:
        if result.shape != operands[0].shape:
            return result.to(operands[0].dtype)
        like = torch.empty_like(operands[0])
        same = (result.dtype, result.stride()) == (like.dtype, like.stride())
        return result if same else like.copy_(result)
    if all(x.stride() == result.stride() for x in operands):
        return result
    shape, strides = _of_all(tuple((x.shape, x.stride()) for x in operands))
    if all(n == 1 or a == b for n, a, b in zip(shape, strides, result.stride(), strict=True)):
        return result
    return torch.empty_strided(shape, strides, dtype=result.dtype, device=result.device).copy_(
        result
    )


@functools.lru_cache(maxsize=4096)
def _of_all(
    layouts: tuple[tuple[torch.Size, tuple[int, ...]], ...],
) -> tuple[torch.Size, tuple[int, ...]]:
    """Shape and strides of what an element-wise op makes of operands that lie so, as PyTorch chooses them."""
    first, *others = (
        torch.empty_strided(shape, stride, device="meta") for shape, stride in layouts
    )
    for other in others or [first]:
        first = first * other
    return first.shape, torch.empty_like(first).stride()


# ---- dtypes


def _op(overload: str) -> Any:
    name, _, variant = overload.partition(".")
    return getattr(getattr(torch.ops.aten, name), variant or "default")


def _dtypes(values: Iterable[Any]) -> Iterator[torch.dtype]:
    """Of all tensors, also of those in lists; and what is a dtype itself."""
    for x in values:
        if isinstance(x, Tensor):
            yield x.dtype
        elif isinstance(x, torch.dtype):
            yield x
        elif isinstance(x, (list, tuple)):
            yield from _dtypes(x)


def _ask(op: Any, args: Any, kwargs: Any) -> bool:
    """Raises what the CPU says of these dtypes. Its own generator stays as it is.

    An error that stays whichever operands become float32 is one of the stand-ins, their numbers or shapes.
    False: it was a call of no elements, which kernels may take whatever the dtypes are.
    """
    named = dict(zip((a.name for a in op._schema.arguments), args, strict=False)) | kwargs
    values, tree = pytree.tree_flatten(named)
    if any(isinstance(x, torch.Generator) for x in values):
        return True
    few = sum(x.numel() for x in values if isinstance(x, Tensor)) <= _MOST_ELEMENTS
    # An index leads into one element as well, and a mask to all: a result without elements tells nothing.
    names = [name for name, value in named.items() for _ in pytree.tree_leaves(value)]
    numbers = [
        int(not name.startswith("ind") or (isinstance(x, Tensor) and x.dtype in _MASKS))
        for name, x in zip(names, values, strict=True)
    ]

    def answer(floats: frozenset[int]) -> Any:
        stand_ins = [
            _stand_in(x, torch.float32 if k in floats else None, number, few)
            for k, (x, number) in enumerate(zip(values, numbers, strict=True))
        ]
        draws = torch.Tag.nondeterministic_seeded in op.tags
        try:
            with torch.random.fork_rng(devices=(), enabled=draws):
                return op(**pytree.tree_unflatten(stand_ins, tree))
        except (RuntimeError, TypeError, IndexError, ValueError) as error:
            return error

    result = answer(frozenset())
    if not isinstance(result, Exception):
        return any(x.numel() for x in pytree.tree_leaves(result) if isinstance(x, Tensor))
    others = {k: own for k, x in enumerate(values) for own in _dtypes((x,)) if own not in _REAL}
    alike = [frozenset(k for k in others if others[k] == dtype) for dtype in set(others.values())]
    for floats in (frozenset(others), *alike, *(frozenset((k,)) for k in others)):
        if not isinstance(answer(floats), Exception):
            raise result
    return True


def _stand_in(x: Any, dtype: torch.dtype | None, number: int, whole: bool) -> Any:
    """A small tensor of the CPU for x, of this dtype if one is given; so too where x is a dtype."""
    if isinstance(x, Tensor):
        shape = [n if whole else min(n, 2) for n in x.shape]
        return torch.full(shape, number, dtype=dtype or x.dtype, device="cpu")
    if isinstance(x, torch.dtype):
        return dtype or x
    return torch.device("cpu") if isinstance(x, torch.device) else x
