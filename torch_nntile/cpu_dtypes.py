# SPDX-License-Identifier: BSD-3-Clause
"""Dtypes of compositions are those of the CPU's kernel: it refuses in its own words, or computes.

A composition is written for real floating operands. PyTorch's parts of it take more (an elu of integers,
a norm of bools) or give something else (a norm of complex numbers is real).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from torch_nntile.notices import runs_on_host
from torch_nntile.schemas import is_written, schema_of

__all__ = ["complex_on_host", "on_host", "refusing_as_cpu"]

# Else it is the numbers or the shapes of the stand-ins that are refused.
_OF_DTYPES = re.compile(
    "not implemented for|floating|can't be cast|cannot be cast|dtype|scalar type|bool tensor|complex"
)
# The CPU counts floating numbers only. Other devices count integers, and models do: the tokens of experts.
_MORE_THAN_CPU = frozenset(("histc", "histc.out"))
_MOST_ELEMENTS = 10_000  # of stand-ins with the operands' sizes
_REAL = frozenset((torch.float32, torch.float64, torch.float16, torch.bfloat16))


def complex_on_host(
    overload: str, function: Callable[..., Any], may_fall_back: Callable[[], bool]
) -> Callable[..., Any]:
    """`function` for real operands; of complex ones the CPU's kernel of "vdot" computes.

    Raises:
        NotImplementedError: an operand is complex, and `may_fall_back()` is False.
    """
    if any(is_written(argument) for argument in schema_of(f"aten::{overload}").arguments):
        return function
    op = _op(overload)
    warned = False

    @functools.wraps(function)
    def chosen(*args: Any, **kwargs: Any) -> Any:
        nonlocal warned
        if _all_real(args, kwargs) or not any(t.is_complex for t in _dtypes(args, kwargs)):
            return function(*args, **kwargs)
        if not may_fall_back():
            raise NotImplementedError(
                f"nntile: 'aten::{overload}' of complex numbers runs on the host, and cpu_fallback is off"
            )
        if not warned:
            runs_on_host(f"aten::{overload}", "of complex numbers")
            warned = True
        return on_host(op, args, kwargs)

    return chosen


def refusing_as_cpu(overload: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """`kernel` of one form ("elu", "elu_", "elu.out"), for the dtypes that the CPU's kernel takes.

    Raises:
        What the CPU raises for operands of such dtypes, asked once with stand-ins.
    """
    if overload in _MORE_THAN_CPU:
        return kernel
    op = _op(overload)
    accepted: set[tuple[torch.dtype, ...]] = set()

    @functools.wraps(kernel)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if _all_real(args, kwargs):
            return kernel(*args, **kwargs)
        dtypes = _dtypes(args, kwargs)
        known = dtypes in accepted or _REAL.issuperset(dtypes)
        if not known and _ask(op, args, kwargs):
            accepted.add(dtypes)
        return kernel(*args, **kwargs)

    return checked


def _op(overload: str) -> Any:
    name, _, variant = overload.partition(".")
    return getattr(getattr(torch.ops.aten, name), variant or "default")


def _all_real(args: Any, kwargs: Any) -> bool:
    """The usual call, seen in half a microsecond: real floating tensors, no lists of them, no dtypes."""
    for x in (*args, *kwargs.values()):
        if isinstance(x, Tensor):
            if x.dtype not in _REAL:
                return False
        elif isinstance(x, torch.dtype) or (isinstance(x, list) and x and isinstance(x[0], Tensor)):
            return False
    return True


def _leaves(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _leaves(value)
        else:
            yield value


def _tensors(args: Any, kwargs: Any) -> list[Tensor]:
    return [x for x in _leaves((*args, *kwargs.values())) if isinstance(x, Tensor)]


def _dtypes(args: Any, kwargs: Any) -> tuple[torch.dtype, ...]:
    leaves = _leaves((*args, *kwargs.values()))
    found = (x.dtype if isinstance(x, Tensor) else x for x in leaves)
    return tuple(x for x in found if isinstance(x, torch.dtype))


def _ask(op: Any, args: Any, kwargs: Any) -> bool:
    """Raises what the CPU says of these dtypes. Its own generator stays as it is.

    False: it was a call of no elements, which kernels may take whatever the dtypes are.
    """
    tensors = _tensors(args, kwargs)
    few = sum(x.numel() for x in tensors) <= _MOST_ELEMENTS
    if any(isinstance(x, torch.Generator) for x in _leaves((*args, *kwargs.values()))):
        return True

    def stand_in(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return _on_cpu(x)
        return torch.ones([n if few else min(n, 2) for n in x.shape], dtype=x.dtype, device="cpu")

    args, kwargs = pytree.tree_map(stand_in, (args, kwargs))
    draws = torch.Tag.nondeterministic_seeded in op.tags
    try:
        with torch.random.fork_rng(devices=(), enabled=draws):
            result = op(*args, **kwargs)
    except (RuntimeError, TypeError, IndexError, ValueError) as error:
        if _OF_DTYPES.search(str(error)):
            raise
        return True
    return any(x.numel() for x in pytree.tree_leaves(result) if isinstance(x, Tensor))


def on_host(op: Any, args: Any, kwargs: Any) -> Any:
    given = [x.device for x in _tensors(args, kwargs) if x.device.type != "cpu"]
    device = given[0] if given else kwargs.get("device", "cpu")
    args, kwargs = pytree.tree_map(
        lambda x: x.cpu() if isinstance(x, Tensor) else _on_cpu(x), (args, kwargs)
    )
    result = op(*args, **kwargs)
    return pytree.tree_map(lambda x: x.to(device) if isinstance(x, Tensor) else x, result)


def _on_cpu(value: Any) -> Any:
    return torch.device("cpu") if isinstance(value, torch.device) else value
