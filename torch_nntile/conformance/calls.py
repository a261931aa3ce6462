# SPDX-License-Identifier: BSD-3-Clause
"""Samples of PyTorch's op_db in any dtype and layout, and what a call of one leaves on the CPU."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

import torch_nntile

__all__ = [
    "DTYPES",
    "NARROWER",
    "WIDER",
    "Outcome",
    "Sample",
    "apart",
    "as_dtype",
    "data_of",
    "draws",
    "into_out",
    "leaves_of",
    "moved",
    "run",
    "samples_of",
    "strided_only",
    "wider",
]

DTYPES = (
    *(torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32),
    *(torch.uint8, torch.bool, torch.complex64),
)
WIDER = {
    **dict.fromkeys((torch.float16, torch.bfloat16, torch.float32), torch.float64),
    torch.complex64: torch.complex128,
}
NARROWER = {torch.float64: torch.float32, torch.complex128: torch.complex64}


@dataclass
class Outcome:
    """What a call gave, on the CPU; or its exception."""

    tensors: list[Tensor | None] = field(default_factory=list)
    error: Exception | None = None


# ---- samples


def on(device: str, leaf: Any) -> Any:
    """A copy with the layout of `leaf`, on data of its own."""
    if isinstance(leaf, Tensor):
        return copied(leaf, device)
    if isinstance(leaf, torch.device) or (isinstance(leaf, str) and leaf == "cpu"):
        return torch.device(device)
    return leaf


def data_of(tensor: Tensor) -> Tensor:
    """The dense tensor that `tensor` is a view of: itself if it is none."""
    base = tensor if tensor._base is None else tensor._base
    assert base.storage_offset() == 0 and base.is_contiguous(), "inputs are views of dense tensors"
    return base


def moved(tensor: Tensor, device: str) -> Tensor:
    """A copy on a device with the same layout on the same data, borders included."""
    data = data_of(tensor).detach().clone().to(device)
    return data.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())


def copied(x: Tensor, device: str) -> Tensor:
    try:
        return moved(x, device)
    except (AssertionError, RuntimeError):
        same = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=device)
        return same.copy_(x.detach())


def as_dtype(values: Any, change: Callable[[torch.dtype], torch.dtype]) -> Any:
    def cast(x: Any) -> Any:
        if isinstance(x, Tensor) and change(x.dtype) != x.dtype:
            return x.detach().to(change(x.dtype)).requires_grad_(x.requires_grad)
        return change(x) if isinstance(x, torch.dtype) else x

    return pytree.tree_map(cast, values)


def wider(dtype: torch.dtype) -> torch.dtype:
    return WIDER.get(dtype, dtype)


def apart(leaf: Any) -> Any:
    """The same numbers as a view that is not contiguous."""
    if not isinstance(leaf, Tensor) or not leaf.dim() or not leaf.numel():
        return leaf
    data = leaf.detach().contiguous().repeat_interleave(2, -1)
    view = data.transpose(0, -1).contiguous().transpose(0, -1)[..., ::2]
    return view.requires_grad_(leaf.requires_grad)


Sample = tuple[tuple[Any, ...], dict[str, Any]]


def samples_of(op: Any, dtype: torch.dtype, most: int) -> list[Sample]:
    """Some of op_db's own, evenly; of dtypes that it has none for, its first ones converted."""
    torch.manual_seed(0)
    made = None
    if dtype in op.dtypes:
        grad = op.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
        with contextlib.suppress(Exception):
            made = list(op.sample_inputs("cpu", dtype, requires_grad=grad))
    if made is None:
        with contextlib.suppress(Exception):
            first = next(d for d in DTYPES if d in op.dtypes)
            made = list(op.sample_inputs("cpu", first))[:2]
            kinds = (first.is_floating_point, first.is_complex)
            made = [
                as_dtype(
                    (s.input, s.args, s.kwargs),
                    lambda d: dtype if (d.is_floating_point, d.is_complex) == kinds else d,
                )
                for s in made
            ]
            return [((input_, *args), kwargs) for input_, args, kwargs in made]
    made = made or []
    step = max(len(made) / most, 1)
    chosen = [made[int(k * step)] for k in range(min(len(made), most))]
    return [((s.input, *s.args), s.kwargs) for s in chosen]


def leaves_of(values: Any) -> list[Tensor]:
    return [x for x in pytree.tree_leaves(values) if isinstance(x, Tensor)]


def strided_only(values: Any) -> bool:
    return all(x.layout == torch.strided and not x.is_nested for x in leaves_of(values))


# ---- calls


def into_out(op: Any) -> Callable[..., Any]:
    """The out= form, into outputs of the right shape and into empty ones."""

    def call(*args: Any, **kwargs: Any) -> Any:
        expected = op(*args, **kwargs)
        several = not isinstance(expected, Tensor)
        found = []
        for make in (lambda x: torch.full_like(x, 7), lambda x: x.new_empty(0)):
            outs = pytree.tree_map(make, expected)
            result = op(*args, **kwargs, out=tuple(outs) if several else outs)
            found += [result, outs]
        return [tuple(x) if isinstance(x, (tuple, list)) else x for x in found]

    return call


Around = Callable[[], contextlib.AbstractContextManager[Any]]


def run(
    function: Callable[..., Any],
    sample: Sample,
    device: str,
    grad: bool,
    watch: Around = contextlib.nullcontext,
) -> Outcome:
    """`watch` is around the call on a device that is not the CPU; with `grad`, around the gradients."""
    try:
        args, kwargs = pytree.tree_map(lambda x: on(device, x), sample)
        pairs = zip(leaves_of(sample), leaves_of((args, kwargs)), strict=True)
        leaves = [new.requires_grad_() for old, new in pairs if grad and old.requires_grad]
        watched = watch if device != "cpu" else contextlib.nullcontext
        here = torch.device(device) if device != "cpu" else contextlib.nullcontext()
        with here, contextlib.nullcontext() if grad else watched():
            result = function(*args, **kwargs)
        found: list[Any] = leaves_of(result)
        if grad:
            found = list(gradients(found, leaves, watched))
        if not grad:
            found += [torch.tensor(x) for x in pytree.tree_leaves(result) if is_number(x)]
        outcome = Outcome([None if x is None else x.detach().cpu() for x in found])
        if device != "cpu":
            torch_nntile.wait()  # also for what nobody reads
        return outcome
    except Exception as error:
        if device != "cpu":
            with contextlib.suppress(Exception):
                torch_nntile.wait()  # other tasks of a refused op may fail, too
        return Outcome(error=error)


def is_number(x: Any) -> bool:
    return isinstance(x, (bool, int, float, complex))


def gradients(
    results: list[Tensor], leaves: list[Tensor], watch: Around = contextlib.nullcontext
) -> tuple[Tensor | None, ...]:
    outputs = [x for x in results if x.requires_grad]
    if not outputs or not leaves:
        return ()
    cotangents = [
        torch.linspace(-1, 2, x.numel(), dtype=torch.float64, device="cpu")
        .reshape(x.shape)
        .to(torch.float32)
        .to(x.device, x.dtype)
        for x in outputs
    ]
    with watch():
        return torch.autograd.grad(outputs, leaves, cotangents, allow_unused=True)


class Draws(TorchDispatchMode):
    """Whether an op was called that draws random numbers."""

    drew: bool = False

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.drew |= torch.Tag.nondeterministic_seeded in func.tags
        return func(*args, **(kwargs or {}))


def draws(function: Callable[..., Any], sample: Sample) -> bool:
    with Draws() as seen:
        run(function, sample, "cpu", False)
    return bool(seen.drew)
