# SPDX-License-Identifier: BSD-3-Clause
"""One entry of PyTorch's op_db in one dtype as cases: what the CPU does, and whether the device does it.

A case is a sample in a form: forward, backward, in place, out=, with operands that are not
contiguous, and the samples of errors. What the CPU refuses must be refused in its class. Floating
results are compared with those of wider operands: of 16 bits the device may err four times as much
as the CPU. Random results have shapes, dtypes and a range.
"""

from __future__ import annotations

import contextlib
import functools
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from torch_nntile.conformance.calls import (
    DTYPES,
    NARROWER,
    WIDER,
    Around,
    Outcome,
    Sample,
    apart,
    as_dtype,
    draws,
    into_out,
    leaves_of,
    run,
    samples_of,
    strided_only,
    wider,
)

__all__ = [
    "DTYPES",
    "EXCEPTIONS",
    "LEFT_OUT",
    "Verdict",
    "entries",
    "excepted",
    "is_by_element",
    "judge",
    "names",
    "settle",
    "verdicts",
]

# Cases (words of "float32 backward 3" that must be in it) where the CPU is no measure, and why.
EXCEPTIONS: tuple[tuple[str, str, str], ...] = (
    ("native_group_norm", "", "the CPU refuses layouts that group_norm() never gives to it"),
    *(
        ("nn.functional.max_pool1d", dtype, "without gradients the CPU has a kernel of its own")
        for dtype in ("int64", "int32", "uint8", "bool")
    ),
    *(
        ("histc", dtype, "counts integers, too, as on other accelerators")
        for dtype in ("int64", "int32", "uint8")
    ),
    ("nn.functional.hardsigmoid", "float64 backward", "the CPU's sixth is a float32"),
    ("native_layer_norm", "float64 backward", "of rows of two numbers only rounding is left"),
    ("nn.functional.layer_norm", "float64 backward", "likewise"),
    ("index_select", "errors", "the CPU looks for overlaps before it resizes out=, others after"),
    ("masked_fill", "errors", "a value of one element and one dim is taken as a number"),
    ("narrow_copy", "errors", "an internal assertion of the CPU's kernel, narrow() says it better"),
    *(
        (name, dtype, "of equals the CPU's order is that of its instructions, ours is stable")
        for name in ("sort", "argsort")
        for dtype in ("bfloat16", "float16", "uint8", "bool")
    ),
    *(
        (name, dtype, "the CPU's float32 errs by eight units, ours is computed in float64")
        for name in ("special.i1", "special.i1e")
        for dtype in ("int64", "int32", "uint8", "bool")
    ),
    ("erfinv", "float64 backward", "exp(y * y): what is rounded in y grows"),
    ("normal", "out", "the CPU does not resize an empty out= of numbers and tensors"),
    ("normal.number_mean", "out", "likewise"),
)
# Entries that cannot be compared, and why.
LEFT_OUT = {
    "jiterator": "kernels compiled for CUDA",
    "sparse": "no strided tensors",
    "to_sparse": "no strided tensors",
    "tensor_split": "PyTorch wants indices on the CPU, a sample's tensors all go to the device",
}
# Results are what memory had.
UNINITIALISED = ("empty", "new_empty", "resize_", "resize_as_")


@dataclass(frozen=True)
class Verdict:
    """case: "float32 backward 3". kind: "same", "refused" (by both), "random", or what is wrong:
    "value", "error" (the CPU computes), "accepted" (the CPU refuses), "class" (of the exception)."""

    case: str
    kind: str
    text: str = ""


@functools.cache
def entries() -> dict[str, Any]:
    """Entries of op_db by name and variant; PyTorch needs seconds, and expecttest, to make them."""
    from torch.testing._internal.common_methods_invocations import op_db

    return {f"{op.name}.{op.variant_test_name}".rstrip("."): op for op in op_db}


def names() -> list[str]:
    return [name for name in entries() if not name.startswith(tuple(LEFT_OUT))]


# ---- comparison


def difference(
    found: Tensor, expected: Tensor, near: Nearness | None, k: int, by_element: bool
) -> str:
    """Empty if result k is the CPU's but for rounding."""
    if (found.dtype, found.shape) != (expected.dtype, expected.shape):
        return (
            f"{found.dtype} {tuple(found.shape)}, expected {expected.dtype} {tuple(expected.shape)}"
        )
    f, e = comparable(found), comparable(expected)
    if torch.equal(f, e):
        return ""
    same = (f == e) | ((f != f) & (e != e))
    if not (expected.is_floating_point() or expected.is_complex()):
        return sample_text(found, expected, ~same)
    special = ~same & ~(f.isfinite() & e.isfinite())
    if special.any():
        return f"special: {sample_text(found, expected, special)}"
    eps = torch.finfo(expected.dtype).eps
    r, amplified, length = e, 0.0, 1
    if near is not None:
        length = 1 if by_element else max(near.length, 1)
        eps = max(eps, near.eps)
        r, amplified = near.reference(k, e), near.amplified(k, by_element)
    r = torch.where(same | ~r.isfinite(), e, r)
    sure = ~same & r.isfinite()
    if not sure.any():
        return ""
    size = sizes_of(r, by_element)[sure]
    ours, theirs = (f - r).abs()[sure], (e - r).abs()[sure]
    allowed = 4 * max((theirs / size).max().item(), amplified * eps)
    allowed += eps if eps > 1e-4 else 8 * eps * math.sqrt(length)
    wrong = ours > allowed * size
    if not wrong.any():
        return ""
    where = torch.zeros_like(sure)
    where[sure] = wrong
    return f"{(ours / size).max().item() / eps:.3g} eps: {sample_text(found, expected, where)}"


def comparable(x: Tensor) -> Tensor:
    """In a dtype that has all arithmetic and every number of x's."""
    if x.is_complex():
        return x.to(torch.complex128)
    return x.double() if x.is_floating_point() else x


def sizes_of(exact: Tensor, by_element: bool) -> Tensor:
    """What errors are relative to: each element itself, or the largest one."""
    size = exact.abs()
    if not by_element and (finite := size[size.isfinite()]).numel():
        size = finite.max().expand(size.shape)
    return size.clamp(min=torch.finfo(torch.float32).tiny)


class Nearness:
    """How near to the truth the CPU itself comes: it computes with wider operands.

    Of float64 there are none: its error is taken to be that of float32, in eps.
    """

    def __init__(self, function: Callable[..., Any], sample: Sample, grad: bool) -> None:
        leaves = [x for x in pytree.tree_leaves(sample) if isinstance(x, (Tensor, torch.dtype))]
        dtypes = {x.dtype if isinstance(x, Tensor) else x for x in leaves}
        self.length = max([x.numel() for x in leaves_of(sample)], default=1)
        self.eps = max((torch.finfo(d).eps for d in dtypes if d in WIDER), default=0.0)
        self.wide: list[Tensor | None] = []
        self.short: list[Tensor | None] = []
        if self.eps:
            self.wide = run(function, as_dtype(sample, wider), "cpu", grad).tensors
        elif torch.float64 in dtypes or torch.complex128 in dtypes:
            short = as_dtype(sample, lambda d: NARROWER.get(d, d))
            self.short = run(function, short, "cpu", grad).tensors
            self.wide = run(function, as_dtype(short, wider), "cpu", grad).tensors

    def reference(self, k: int, expected: Tensor) -> Tensor:
        wide = self.wide[k] if self.eps and k < len(self.wide) else None
        if wide is None or wide.shape != expected.shape:
            return expected
        usable = wide.is_complex() or not expected.is_complex()
        return comparable(wide).to(expected.dtype) if usable else expected

    def amplified(self, k: int, by_element: bool) -> float:
        """Error of float32 in its eps."""
        if k >= len(self.short) or k >= len(self.wide):
            return 0.0
        short, wide = self.short[k], self.wide[k]
        if short is None or wide is None or short.shape != wide.shape or not short.numel():
            return 0.0
        s, w = comparable(short), comparable(wide)
        error = (s - w).abs() / sizes_of(w, by_element)
        error = error[error.isfinite()]
        return error.max().item() / torch.finfo(torch.float32).eps if error.numel() else 0.0


def sample_text(found: Tensor, expected: Tensor, where: Tensor) -> str:
    k = int(where.reshape(-1).nonzero()[0].item())
    several = f"{int(where.sum())} of {where.numel()}"
    return f"{several}, [{k}] {found.reshape(-1)[k]} for {expected.reshape(-1)[k]}"


def compare(
    found: Outcome, expected: Outcome, near: Nearness | None, by_element: bool
) -> tuple[str, str]:
    if expected.error is not None:
        if found.error is None:
            return "accepted", f"{type(expected.error).__name__}: {expected.error}"
        # A composite op may be refused by another part of it.
        kind = RuntimeError if isinstance(expected.error, RuntimeError) else type(expected.error)
        if isinstance(found.error, kind):
            return "refused", ""
        return "class", f"{found.error!r}, expected {expected.error!r}"
    if found.error is not None:
        return "error", f"{type(found.error).__name__}: {found.error}"
    if len(found.tensors) != len(expected.tensors):
        return "value", f"{len(found.tensors)} results, expected {len(expected.tensors)}"
    for k, (x, y) in enumerate(zip(found.tensors, expected.tensors, strict=True)):
        if x is None or y is None:
            given = x if x is not None else y
            if given is not None and given.any():
                return "value", f"result {k} is {x}, expected {y}"
            continue
        if text := difference(x, y, near, k, by_element):
            return "value", f"result {k}: {text}"
    return "same", ""


def compare_random(found: Outcome, several: list[Outcome]) -> tuple[str, str]:
    """Shapes, dtypes and the range of what the CPU draws."""
    expected = several[0]
    if expected.error is not None or found.error is not None:
        return compare(found, expected, None, False)
    shapes = [[(x.dtype, x.shape) for x in o.tensors if x is not None] for o in (found, expected)]
    if shapes[0] != shapes[1]:
        return "value", f"{shapes[0]}, expected {shapes[1]}"
    for k, x in enumerate(found.tensors):
        drawn = [o.tensors[k] for o in several if o.error is None]
        seen = torch.cat([y.reshape(-1) for y in drawn if y is not None]) if x is not None else None
        if x is None or not x.numel() or seen is None or x.is_complex():
            continue
        low, high = seen.double().aminmax()
        room = 2 * (high - low) + 1
        if not ((x.double() >= low - room) & (x.double() <= high + room)).all() and low.isfinite():
            return "value", f"result {k}: {x.aminmax()} where the CPU draws {low} to {high}"
    return "random", ""


# ---- cases of an entry


def in_place(op: Any) -> Callable[..., Any]:
    return lambda x, *args, **kwargs: op.inplace_variant(x.clone(), *args, **kwargs)


def forms(op: Any, dtype: torch.dtype) -> Iterator[tuple[str, Callable[..., Any], bool]]:
    """Name, function, whether the gradient is meant."""
    yield "forward", op.op, False
    yield "apart", op.op, False
    if op.supports_autograd and (dtype.is_floating_point or dtype.is_complex):
        yield "backward", op.op, True
    if op.inplace_variant is not None:
        yield "in place", in_place(op), False
    if op.supports_out:
        yield "out", into_out(op.op), False


def is_by_element(op: Any, sample: Sample, grad: bool) -> bool:
    """Whether each element has an error of its own; gradients of what was expanded are sums."""
    from torch.testing._internal.opinfo.core import BinaryUfuncInfo, UnaryUfuncInfo

    summed = grad and len({x.shape for x in leaves_of(sample)}) > 1
    return isinstance(op, (UnaryUfuncInfo, BinaryUfuncInfo)) and not summed


def verdicts(
    name: str, dtype: torch.dtype, most: int, begin: Callable[[str], None]
) -> Iterator[Verdict]:
    """All cases of an entry; `begin` is told of each before it runs."""
    op = entries()[name]
    short = str(dtype).removeprefix("torch.")
    samples = samples_of(op, dtype, most)
    for form, function, grad in forms(op, dtype):
        for k, sample in enumerate(samples):
            if not strided_only(sample):
                continue
            if form == "apart":
                sample = pytree.tree_map(apart, sample)
            case = f"{short} {form} {k}"
            if excepted(name, case):
                continue
            begin(case)
            by_element = is_by_element(op, sample, grad)
            kind, text = judge(function, sample, grad, by_element, name)
            if kind:
                yield Verdict(case, kind, text)
    if dtype == torch.float32 and op.error_inputs_func is not None:
        yield from error_verdicts(name, op, begin)


def judge(
    function: Callable[..., Any],
    sample: Sample,
    grad: bool,
    by_element: bool,
    name: str,
    watch: Around = contextlib.nullcontext,
) -> tuple[str, str]:
    """Kind and text of a verdict; nothing where there is nothing to compare."""
    torch.manual_seed(1)
    expected = run(function, sample, "cpu", grad)
    if not strided_only(expected.tensors):
        return "", ""
    if grad and not any(x.requires_grad for x in leaves_of(sample)):
        return "", ""
    found = run(function, sample, "nntile", grad, watch)
    if name.rpartition(".")[2].startswith(UNINITIALISED):
        return compare_random(found, [expected]) if expected.error else ("random", "")
    if draws(function, sample):
        more = [run(function, sample, "cpu", grad) for _ in range(24)]
        return compare_random(found, [expected, *more])
    kind, text = compare(found, expected, None, by_element)
    if kind == "value":  # only then the wider one is needed
        kind, text = compare(found, expected, Nearness(function, sample, grad), by_element)
    return kind, text


def excepted(name: str, case: str) -> bool:
    words = set(case.split())
    return any(n == name and set(w.split()) <= words for n, w, _ in EXCEPTIONS)


def error_verdicts(name: str, op: Any, begin: Callable[[str], None]) -> Iterator[Verdict]:
    torch.manual_seed(0)
    try:
        made = list(op.error_inputs("cpu"))
    except Exception:  # those for other devices
        return
    for k, error in enumerate(made):
        sample = ((error.sample_input.input, *error.sample_input.args), error.sample_input.kwargs)
        if not strided_only(sample) or excepted(name, f"errors {k}"):
            continue
        begin(f"errors {k}")
        expected = run(op.op, sample, "cpu", False)
        if expected.error is None:
            continue
        found = run(op.op, sample, "nntile", False)
        kind, text = compare(found, expected, None, False)
        yield Verdict(f"errors {k}", kind, text)


def settle() -> None:
    """Of this process: no warnings, and entries of random numbers do not seed the generator."""
    from torch.testing._internal import common_methods_invocations

    warnings.simplefilter("ignore")
    common_methods_invocations.wrapper_set_seed = lambda op, *args, **kw: op(*args, **kw)
