# SPDX-License-Identifier: BSD-3-Clause
"""One entry of PyTorch's op_db in one dtype as cases: what the CPU does, and whether the device does it.

A case is a sample in a form: forward, backward, in place, out=, with operands that are not
contiguous, and the samples of errors. What the CPU refuses must be refused in its class. Floating
results are compared with those of wider operands: of 16 bits the device may err four times as much
as the CPU. Random results have shapes, dtypes and a range.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from op_calls import into_out
from parity import moved
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

import torch_nntile

__all__ = ["DTYPES", "EXCEPTIONS", "Verdict", "names", "settle", "verdicts"]

DTYPES = (
    *(torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32),
    *(torch.uint8, torch.bool, torch.complex64),
)
WIDER = {
    **dict.fromkeys((torch.float16, torch.bfloat16, torch.float32), torch.float64),
    torch.complex64: torch.complex128,
}
# Cases (words of "float32 backward 3" that must be in it) where the CPU is no measure, and why.
EXCEPTIONS: tuple[tuple[str, str, str], ...] = (
    ("native_group_norm", "", "the CPU refuses layouts that group_norm() never gives to it"),
    *(
        ("nn.functional.max_pool1d", dtype, "without gradients the CPU has a kernel of its own")
        for dtype in ("int64", "int32", "uint8", "bool")
    ),
    ("nn.functional.hardsigmoid", "float64 backward", "the CPU's sixth is a float32"),
    ("narrow_copy", "errors", "an internal assertion of the CPU's kernel, narrow() says it better"),
    ("normal", "out", "the CPU does not resize an empty out= of numbers and tensors"),
    ("normal.number_mean", "out", "likewise"),
)
NARROWER = {torch.float64: torch.float32, torch.complex128: torch.complex64}
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


@dataclass
class Outcome:
    """What a call gave, on the CPU; or its exception."""

    tensors: list[Tensor | None] = field(default_factory=list)
    error: Exception | None = None


def entries() -> dict[str, Any]:
    from torch.testing._internal.common_methods_invocations import op_db

    return {f"{op.name}.{op.variant_test_name}".rstrip("."): op for op in op_db}


def names() -> list[str]:
    return [name for name in entries() if not name.startswith(tuple(LEFT_OUT))]


# ---- samples


def on(device: str, leaf: Any) -> Any:
    """A copy with the layout of `leaf`, on data of its own."""
    if isinstance(leaf, Tensor):
        return copied(leaf, device)
    if isinstance(leaf, torch.device) or (isinstance(leaf, str) and leaf == "cpu"):
        return torch.device(device)
    return leaf


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
    if leaf.dim() > 1:
        view = data.transpose(0, -1).contiguous().transpose(0, -1)[..., ::2]
    else:
        view = data[::2]
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


def run(function: Callable[..., Any], sample: Sample, device: str, grad: bool) -> Outcome:
    try:
        args, kwargs = pytree.tree_map(lambda x: on(device, x), sample)
        pairs = zip(leaves_of(sample), leaves_of((args, kwargs)), strict=True)
        leaves = [new.requires_grad_() for old, new in pairs if grad and old.requires_grad]
        with torch.device(device) if device != "cpu" else contextlib.nullcontext():
            result = function(*args, **kwargs)
        found: list[Any] = leaves_of(result)
        found = list(gradients(found, leaves)) if grad else found
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


def gradients(results: list[Tensor], leaves: list[Tensor]) -> tuple[Tensor | None, ...]:
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
    return torch.autograd.grad(outputs, leaves, cotangents, allow_unused=True)


class Draws(TorchDispatchMode):
    """Whether an op was called that draws random numbers."""

    drew = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.drew |= torch.Tag.nondeterministic_seeded in func.tags
        return func(*args, **(kwargs or {}))


def draws(function: Callable[..., Any], sample: Sample) -> bool:
    with Draws() as seen:
        run(function, sample, "cpu", False)
    return seen.drew


# ---- comparison


def difference(
    found: Tensor, expected: Tensor, near: Nearness | None, k: int, by_element: bool
) -> str:
    """Empty if result k is the CPU's but for rounding."""
    if (found.dtype, found.shape) != (expected.dtype, expected.shape):
        return f"{found.dtype} {tuple(found.shape)}, expected {expected.dtype} {tuple(expected.shape)}"
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
        usable = wide is not None and wide.shape == expected.shape
        usable = usable and (wide.is_complex() or not expected.is_complex())
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
    k = where.reshape(-1).nonzero()[0].item()
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
            if x is not y and (x if y is None else y).any():
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


def verdicts(
    name: str, dtype: torch.dtype, most: int, begin: Callable[[str], None]
) -> Iterator[Verdict]:
    """All cases of an entry; `begin` is told of each before it runs."""
    from torch.testing._internal.opinfo.core import BinaryUfuncInfo, UnaryUfuncInfo

    op = entries()[name]
    by_element = isinstance(op, (UnaryUfuncInfo, BinaryUfuncInfo))
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
            summed = grad and len({x.shape for x in leaves_of(sample)}) > 1
            kind, text = judge(function, sample, grad, by_element and not summed, name)
            if kind:
                yield Verdict(case, kind, text)
    if dtype == torch.float32 and op.error_inputs_func is not None:
        yield from error_verdicts(name, op, begin)


def judge(
    function: Callable[..., Any], sample: Sample, grad: bool, by_element: bool, name: str
) -> tuple[str, str]:
    torch.manual_seed(1)
    expected = run(function, sample, "cpu", grad)
    if not strided_only(expected.tensors):
        return "", ""
    if grad and not any(x.requires_grad for x in leaves_of(sample)):
        return "", ""
    found = run(function, sample, "nntile", grad)
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
