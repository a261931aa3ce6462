# SPDX-License-Identifier: BSD-3-Clause
"""The one comparison of the tests: a call on CPU PyTorch and on device "nntile", in every way it can run.

>>> assert_parity(torch.mm, [a, b], cuts={0: {0: (1, 5)}})

compares values, dtypes, shapes, strides, what the call wrote into its inputs, and gradients; eager
and in graph mode; whole and with dim 0 of input 0 cut into 1 + 5.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

import torch_nntile
from torch_nntile import aten, modes
from torch_nntile.conformance.calls import data_of, moved

__all__ = [
    "FACTORS",
    "Rounding",
    "assert_close",
    "assert_parity",
    "begins_soon",
    "elementwise",
    "moved",
    "numbers",
    "refused",
    "runtime_mode",
    "three_derivatives",
    "tolerance",
]

Sizes = int | Sequence[int]
Cuts = Mapping[int, Mapping[int, Sizes]]  # input -> dim of its data -> sizes


@dataclass(frozen=True)
class Rounding:
    """Errors of one element in eps, those of both libraries together.

    Where terms cancel, errors are those of the terms, not of their small result: of results and
    gradients, or where the slope crosses zero, of gradients only.
    """

    factor: float = 8.0
    cancels: bool = False
    slope_cancels: bool = False


_STEEP, _CANCELS = Rounding(32.0), Rounding(cancels=True)
FACTORS: dict[str, Rounding] = {
    "": Rounding(),
    **dict.fromkeys(("pow", "_foreach_pow"), _STEEP),
    **dict.fromkeys(("add", "sub", "rsub", "lerp", "addcmul", "addcdiv"), _CANCELS),
    **dict.fromkeys(("_foreach_lerp", "_foreach_addcmul", "_foreach_addcdiv"), _CANCELS),
    **dict.fromkeys(("_foreach_add", "_foreach_sub", "remainder", "fmod"), _CANCELS),
    **dict.fromkeys(("digamma", "lgamma"), _CANCELS),  # between their zeros
    **dict.fromkeys(("tanh", "sigmoid", "silu"), Rounding(slope_cancels=True)),  # 1 - y
    # Series that the CPU sums in float32, ours in float64.
    **dict.fromkeys(("i0", "special_i1", "special_i0e"), _STEEP),
    "special_i1e": Rounding(32.0, slope_cancels=True),  # at its maximum
    **dict.fromkeys(
        ("gelu", "gelu_backward", "silu_backward", "logaddexp", "logaddexp2"), _CANCELS
    ),
}


COTANGENT = 2.0  # the largest that gradients are taken with


def begins_soon() -> bool:
    """Whether what waits is submitted, though nothing follows and nobody reads."""
    deadline = time.monotonic() + 20
    while torch_nntile.has_pending_graph() and time.monotonic() < deadline:
        time.sleep(0.001)
    return not torch_nntile.has_pending_graph()


@functools.cache
def elementwise() -> frozenset[str]:
    """Names of overloads whose rows are element-wise: "add", "_foreach_add"."""
    from strategies import op_of  # late: only who compares needs the table

    rows = (row for row in aten.ROWS if op_of(row.op).rule == "map")
    return frozenset(row.overload.partition(".")[0].rstrip("_") for row in rows)


def tolerance(dtype: torch.dtype, length: int = 1, op: str = "") -> float:
    """Relative error allowed for results that each sum `length` products."""
    if not dtype.is_floating_point:
        return 0.0
    factor = FACTORS.get(op, FACTORS[""]).factor
    return factor * torch.finfo(dtype).eps * math.sqrt(max(length, 1))


def assert_close(
    found: Tensor,
    expected: Tensor,
    length: int = 1,
    op: str = "",
    computed: torch.dtype = torch.float64,
    terms: float = 0.0,
    gradient: bool = False,
) -> None:
    """Equal dtype and shape, and values within the table.

    `computed` is the coarsest dtype of the inputs: CPU PyTorch rounds to it before it writes a
    wider out= argument. `terms`: how large the terms are that may cancel.
    """
    assert found.dtype == expected.dtype, f"dtype {found.dtype}, expected {expected.dtype}"
    assert found.shape == expected.shape, f"shape {found.shape}, expected {expected.shape}"
    relative = scale = smallest = 0.0
    if expected.is_floating_point():
        coarsest = max(expected.dtype, computed, key=lambda dtype: torch.finfo(dtype).eps)
        relative = tolerance(coarsest, length, op)
        finite = expected[expected.isfinite()].double()
        rounding = FACTORS.get(op, FACTORS[""])
        scale = largest_of([finite]) if length > 1 or rounding.cancels else 0.0
        scale = max(scale, terms if rounding.cancels else 0.0)
        if gradient and rounding.slope_cancels:
            scale = max(scale, COTANGENT)
        smallest = torch.finfo(expected.dtype).tiny
    torch.testing.assert_close(
        found, expected, rtol=relative, atol=relative * scale + smallest, equal_nan=True
    )


def largest_of(tensors: Sequence[Tensor]) -> float:
    """The largest finite number of the floating ones; 0 if there is none."""
    finite = [x[x.isfinite()].abs() for x in tensors if x.is_floating_point()]
    return max([x.max().item() for x in finite if x.numel()], default=0.0)


@contextlib.contextmanager
def runtime_mode(mode: str) -> Iterator[None]:
    """Run a block in this mode; what is pending runs when it ends."""
    before = torch_nntile.runtime_mode()
    modes.set_mode(modes.number_of(mode))
    try:
        yield
    finally:
        modes.set_mode(modes.number_of(before))


@dataclass
class Outcome:
    """What a run left behind, on the CPU, by name."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    strides: dict[str, tuple[int, ...]] = field(default_factory=dict)


def run(
    call: Callable[..., Any], inputs: Sequence[Tensor], device: str, cuts: Cuts, grad: bool
) -> Outcome:
    leaves = [moved(x, device) for x in inputs]
    data = [x if x._base is None else x._base for x in leaves]
    if device == "nntile":
        set_cuts(data, cuts)
    if grad:
        leaves = [x.detach().requires_grad_(x.is_floating_point()) for x in leaves]
    outcome = Outcome()
    results = [x for x in pytree.tree_leaves(call(*leaves)) if x is not None]
    pending: dict[str, Tensor] = {}
    for k, result in enumerate(results):
        if isinstance(result, Tensor):
            assert result.device.type == device, f"result {k} is on {result.device}"
            pending[f"result {k}"] = result.detach()
            outcome.strides[f"result {k}"] = strides_of(result)
        else:
            outcome.tensors[f"result {k}"] = torch.tensor(result)
    pending |= {f"data of input {k}": x.detach() for k, x in enumerate(data)}
    if grad:
        pending |= gradients(leaves, [x for x in results if isinstance(x, Tensor)])
    # The first read runs everything that graph mode has pending.
    outcome.tensors |= {name: tensor.cpu() for name, tensor in pending.items()}
    return outcome


def strides_of(tensor: Tensor) -> tuple[int, ...]:
    """Strides that matter: those of dims with more than one element."""
    if tensor.numel() == 0:
        return ()
    return tuple(s for n, s in zip(tensor.shape, tensor.stride(), strict=True) if n > 1)


def gradients(leaves: list[Tensor], results: list[Tensor]) -> dict[str, Tensor]:
    outputs = [x for x in results if x.requires_grad]
    wanted = {f"gradient {k}": x for k, x in enumerate(leaves) if x.requires_grad}
    if not outputs or not wanted:
        return {}
    cotangents = [
        torch.linspace(-1, COTANGENT, x.numel()).reshape(x.shape).to(x.device, x.dtype)
        for x in outputs
    ]
    found = torch.autograd.grad(outputs, list(wanted.values()), cotangents, allow_unused=True)
    return {name: x.detach() for name, x in zip(wanted, found, strict=True) if x is not None}


def set_cuts(data: Sequence[Tensor], cuts: Cuts) -> None:
    for k, dims in cuts.items():
        for dim, sizes in dims.items():
            # The extent is part of the name: groups of earlier calls may still be alive.
            name = f"input{k}_dim{dim}_of_{data[k].shape[dim]}"
            torch_nntile.set_axis_group_name(data[k], {dim: name})
            torch_nntile.set_axis_group_tiling(name, sizes)


def assert_parity(
    call: Callable[..., Any],
    inputs: Sequence[Tensor],
    *,
    cuts: Cuts | Sequence[Cuts] | None = None,
    grad: bool = True,
    modes: Sequence[str] = ("eager", "graph"),
    length: int | None = None,
    op: str = "",
    same_bits: bool = False,
) -> Outcome:
    """Compare `call(*inputs)` on the device with CPU PyTorch; returns the CPU's outcome.

    Args:
        call: takes tensors, returns a tree of tensors and numbers; may write into its inputs
            (with grad=False).
        inputs: CPU tensors; views keep their layout and the data around them.
        cuts: input -> dim of its data -> tiling; or several of these. The whole run is always made.
        grad: whether to compare gradients of the floating inputs.
        length: number of terms that a result sums; None: one for an element-wise `op`, whose
            gradients may be sums, else at most the largest input.
        op: row of the table of tolerances.
        same_bits: cut runs must equal the whole run bit by bit.
    """
    sums = length if length is not None else max([x.numel() for x in inputs], default=1)
    lengths = (1 if length is None and op in elementwise() else sums, sums)
    expected = run(call, inputs, "cpu", {}, grad)
    computed, terms = coarsest_of(inputs), largest_of(inputs)
    several = [cuts] if isinstance(cuts, Mapping) else list(cuts or ())
    for mode in modes:
        whole = None
        for each in ({}, *several):
            try:
                with runtime_mode(mode):
                    found = run(call, inputs, "nntile", each, grad)
                compare(found, expected, lengths, op, computed, terms)
                assert found.strides == expected.strides
                if whole is not None and same_bits:
                    compare_bits(found, whole)
                whole = whole or found
            except Exception as error:
                text = report(call, inputs, each, mode)
                raise AssertionError(f"{type(error).__name__}: {error}\n{text}") from error
    return expected


def coarsest_of(inputs: Sequence[Tensor]) -> torch.dtype:
    dtypes = [x.dtype for x in inputs if x.is_floating_point()]
    return max(dtypes, key=lambda dtype: torch.finfo(dtype).eps, default=torch.float64)


def compare(
    found: Outcome,
    expected: Outcome,
    lengths: tuple[int, int],
    op: str,
    computed: torch.dtype,
    terms: float = 0.0,
) -> None:
    """`lengths`: how many terms results sum, and gradients."""
    assert found.tensors.keys() == expected.tensors.keys(), (
        f"got {list(found.tensors)}, expected {list(expected.tensors)}"
    )
    for name, tensor in expected.tensors.items():
        gradient = name.startswith("gradient")
        try:
            assert_close(
                found.tensors[name], tensor, lengths[gradient], op, computed, terms, gradient
            )
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from None


def compare_bits(found: Outcome, whole: Outcome) -> None:
    for name, tensor in whole.tensors.items():
        same = torch.equal(bits(found.tensors[name]), bits(tensor))
        assert same, f"{name}: the bits of a cut run differ from those of the whole run"


def bits(tensor: Tensor) -> Tensor:
    """A nan has the same bits as any other: no library says which sign one gets."""
    dense = torch.empty(tensor.numel(), dtype=tensor.dtype)
    dense.copy_(tensor.reshape(-1))
    if dense.is_floating_point():
        dense.masked_fill_(dense.isnan(), math.nan)
    return dense.view(torch.uint8)


# ---- the text of a failure


def report(call: Callable[..., Any], inputs: Sequence[Tensor], cuts: Cuts, mode: str) -> str:
    return (
        f"\ncall: {source_of(call)}\nmode: {mode}\ncuts: {cuts}\n"
        f"{safely(lambda: torch_nntile.explain('graph'))}\n"
        f"---- paste this:\n{snippet(call, inputs, cuts, mode)}\n----"
    )


def safely(text: Callable[[], str]) -> str:
    try:
        return text()
    except Exception as error:
        return f"(no graph: {error})"


def source_of(call: Callable[..., Any]) -> str:
    if isinstance(call, torch._ops.OpOverload):
        return f"torch.ops.{call}"
    if not inspect.isfunction(call):
        return repr(call)
    if call.__module__.startswith("torch."):
        return f"{call.__module__}.{call.__qualname__}"
    try:
        return inspect.getsource(call).strip()
    except OSError:
        return repr(call)


def snippet(call: Callable[..., Any], inputs: Sequence[Tensor], cuts: Cuts, mode: str) -> str:
    lines = ["import torch, torch_nntile, parity", "from math import inf, nan", "inputs = ["]
    for x in inputs:
        data = data_of(x).detach()
        text = f"torch.tensor({data.reshape(-1).tolist()}, dtype={data.dtype})"
        text += f".reshape({tuple(data.shape)})"
        if x._base is not None:
            text += f".as_strided({tuple(x.shape)}, {x.stride()}, {x.storage_offset()})"
        lines.append(f"    {text},")
    source = source_of(call)
    lines += [
        "]",
        *(
            [source, f"call = {call.__name__}"]
            if source.startswith("def ")
            else [f"call = {source}"]
        ),
    ]
    lines.append(f"parity.assert_parity(call, inputs, cuts={cuts}, modes=({mode!r},))")
    return "\n".join(lines)


def numbers(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 3) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def refused(call: Callable[..., Any], *inputs: Tensor) -> None:
    """By an error of the CPU's class, at the call or when its result is read."""
    with pytest.raises(Exception) as cpu:  # noqa: PT011
        call(*inputs)
    with pytest.raises(cpu.type):
        pytree.tree_map(Tensor.cpu, call(*(x.to("nntile") for x in inputs)))


def three_derivatives(slopes: Sequence[Tensor], leaves: Sequence[Tensor]) -> list[Tensor | None]:
    """The first, second and third ones of the leaves: each of sines of those before."""
    found: list[Tensor | None] = []
    for _ in range(3):
        total = torch.stack([s.sin().sum() for s in slopes]).sum()
        grads = torch.autograd.grad(total, leaves, create_graph=True, allow_unused=True)
        slopes = [g for g in grads if g is not None]
        found += grads
    return found
