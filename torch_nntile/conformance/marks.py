# SPDX-License-Identifier: BSD-3-Clause
"""How an entry of op_db runs, forward and backward: on tiles, on the host, or not.

Each sample is called twice: as a user calls it, when the answer is compared with the CPU's, and with
cpu_fallback=False, when whatever asks for a kernel of the host is an error. Compositions that read a
tensor to the host and compute there raise nothing: `Tensor.cpu` and `Tensor.to` are watched for them.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import torch_nntile
from torch_nntile import aten, fallback
from torch_nntile.compositions import forms
from torch_nntile.compositions.registry import COMPOSITIONS
from torch_nntile.conformance import cases
from torch_nntile.conformance.calls import Sample, leaves_of, run, samples_of, strided_only
from torch_nntile.schemas import siblings

__all__ = ["MARKS", "NONE", "NOT_RUN", "marks", "worse"]

# From good to bad.
MARKS = {
    "R": "every overload that reaches the device has a row: tasks on tiles",
    "C": "one of them is a composition of ops that have rows: tasks on tiles",
    "H": "PyTorch's CPU kernel computes some of it, as a task or directly",
    "U": "raises an error, but the CPU computes it",
    "X": "computes something else than the CPU, or crashes",
}
NONE = "·"  # the CPU does not take the dtype, or has no gradient
NOT_RUN = "–"  # cannot be compared
_ORDER = "".join(MARKS) + NOT_RUN
_OFF = re.compile(r"'(?:aten::)?([\w.:]+)'.*cpu_fallback is off")


def worse(mark: str, than: str) -> bool:
    """Whether a mark is a step back. What was not there, or is not there now, is none."""
    return NONE not in (mark, than) and _ORDER.index(mark) > _ORDER.index(than)


def marks(
    name: str, dtype: torch.dtype, most: int, begin: Callable[[str], None]
) -> Iterator[tuple[str, str, str]]:
    """(case, mark, which overloads or why) of each sample; `begin` is told of each before it runs."""
    short = str(dtype).removeprefix("torch.")
    if reason := next((r for n, r in _LEFT_OUT.items() if name.startswith(n)), ""):
        yield f"{short} forward", NOT_RUN, reason
        return
    op = cases.entries()[name]
    if dtype not in op.dtypes:
        return
    samples = [s for s in samples_of(op, dtype, most) if strided_only(s) and _fits(name, s)]
    differentiable = op.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
    for form in ("forward", "backward") if differentiable else ("forward",):
        for k, sample in enumerate(samples):
            case = f"{short} {form} {k}"
            begin(case)
            if found := _mark(name, op, sample, case, form == "backward"):
                yield case, *found


_LEFT_OUT = {k: v for k, v in cases.LEFT_OUT.items() if k != "tensor_split"}


def _fits(name: str, sample: Sample) -> bool:
    """PyTorch wants the indices of tensor_split on the CPU."""
    return name != "tensor_split" or not leaves_of(sample[0][1:])


def _mark(name: str, op: Any, sample: Sample, case: str, grad: bool) -> tuple[str, str] | None:
    watched = _Watched()
    by_element = cases.is_by_element(op, sample, grad)
    kind, text = cases.judge(op.op, sample, grad, by_element, name, watched.as_the_user)
    if kind == "error":
        return "U", text
    if kind == "value" and not cases.excepted(name, case):
        return "X", text
    if kind not in ("same", "random", "value"):
        return None  # refused by the CPU, or no strided result
    if not watched.host:
        outcome = run(op.op, sample, "nntile", grad, watched.with_rows_only)
        if outcome.error is not None:
            refused = _OFF.search(str(outcome.error))
            watched.host.add(refused.group(1) if refused else type(outcome.error).__name__)
    if watched.host:
        return "H", ", ".join(sorted(watched.host))
    composed = sorted(watched.overloads & _compositions())
    return ("C", ", ".join(composed)) if composed else ("R", "")


class _Watched:
    """What the calls of one sample asked the device and the host for."""

    def __init__(self) -> None:
        self.overloads: set[str] = set()
        self.host: set[str] = set()

    @contextlib.contextmanager
    def as_the_user(self) -> Iterator[None]:
        torch_nntile.wait()
        torch_nntile.reset_fallback_report()
        with self._reads():
            yield
            torch_nntile.wait()
        self.host |= {_short(row.overload) for row in torch_nntile.fallback_report()}

    @contextlib.contextmanager
    def with_rows_only(self) -> Iterator[None]:
        before = fallback.cpu_fallback()
        fallback.set_cpu_fallback(False)
        try:
            with _Overloads(self.overloads):
                yield
        finally:
            fallback.set_cpu_fallback(before)

    @contextlib.contextmanager
    def _reads(self) -> Iterator[None]:
        """Compositions that bring data to the host to compute there, or from there."""
        cpu, to = Tensor.cpu, Tensor.to

        def note() -> None:
            self.host.update(map(_short, forms.active()))

        def noted_cpu(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            note()
            return cpu(x, *args, **kwargs)

        def noted_to(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            moved = to(x, *args, **kwargs)
            if moved.device != x.device and x.dim():
                note()
            return moved

        Tensor.cpu, Tensor.to = noted_cpu, noted_to  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            Tensor.cpu, Tensor.to = cpu, to  # type: ignore[method-assign]


class _Overloads(TorchDispatchMode):
    """Names of what reaches the device."""

    def __init__(self, names: set[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names = names

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if any(x.device.type == "nntile" for x in leaves_of((args, kwargs, result))):
            self.names.add(_short(func.name()))
        return result


def _short(overload: str) -> str:
    return overload.removeprefix("aten::")


@functools.cache
def _compositions() -> frozenset[str]:
    rows = {_short(s) for row in aten.ROWS for s in siblings(row.qualified)}
    return frozenset(_short(s) for n in COMPOSITIONS for s in siblings(f"aten::{n}")) - rows
