# SPDX-License-Identifier: BSD-3-Clause
"""Puts the table to work: rows, compositions and decompositions become kernels of the device.

The order of choice for an overload: a row (aten.py), a composition (decomp.py), PyTorch's own
decomposition, then a host kernel as a task, which `cpu_fallback=False` makes an error.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from torch_nntile import _c, aten, decomp
from torch_nntile.cpu_dtypes import complex_on_host, refusing_as_cpu
from torch_nntile.cpu_strides import with_strides_of_cpu
from torch_nntile.notices import NOTICES
from torch_nntile.schemas import is_in_place, schema_of, siblings

__all__ = ["Fallback", "fallback_report", "reset_fallback_report"]

_ERROR, _WARN = 0, 1  # numbers of nntile_stub_mode
_EXACT_OUT = frozenset(("aten::aminmax.out", "aten::multinomial.out"))  # others cast
_cpu_fallback = True
_inside = threading.local()
_libraries: list[torch.library.Library] = []  # a kernel lives as long as its Library


@dataclass(frozen=True, slots=True)
class Fallback:
    """An overload that ran on PyTorch's CPU kernel."""

    overload: str
    calls: int
    bytes: int
    milliseconds: float


def fallback_report() -> list[Fallback]:
    """Overloads that had no row and ran on the host, slowest first; empty if there was none."""
    size = _c.get("nntile_stub_fallback_report", _c.ffi.NULL, 0)
    out = _c.new(f"char[{size + 4096}]")  # room for ops that are met in between
    _c.get("nntile_stub_fallback_report", out, size + 4096)
    rows = []
    for line in _c.text(out).splitlines():
        overload, calls, nbytes, milliseconds = line.split()
        rows.append(Fallback(overload, int(calls), int(nbytes), float(milliseconds)))
    return sorted(rows, key=lambda row: -row.milliseconds)


def reset_fallback_report() -> None:
    """Start counting anew."""
    _c.get("nntile_stub_fallback_reset")


def cpu_fallback() -> bool:
    """Whether an op without a row may run on the host."""
    return _cpu_fallback


def set_cpu_fallback(allowed: bool) -> None:
    """Allow it (a warning for each overload), or make it an error."""
    global _cpu_fallback
    _cpu_fallback = bool(allowed)
    _c.get("nntile_stub_fallback_mode", _WARN if allowed else _ERROR)


def active() -> set[str]:
    """Overloads whose compositions run at the moment, in this thread."""
    names: set[str] = _inside.__dict__.get("names", set())
    return names


def register() -> None:
    """Register all kernels. Called once, at import."""
    _define_own_ops()
    taken = set()
    for row in aten.ROWS:
        for name in siblings(row.qualified):
            full, _, overload = name.partition(".")
            _c.call(
                "nntile_stub_register_row",
                full.encode(),
                overload.encode(),
                row.op.encode(),
                row.arguments.encode(),
                row.flags,
            )
            taken.add(name)
    library = _library("IMPL", "aten")
    for overload, function in decomp.COMPOSITIONS.items():
        _register_composition(library, f"aten::{overload}", function, taken)
    for overload in decomp.DECOMPOSED:
        _register_composition(library, f"aten::{overload}", _late_decomposition(overload), taken)
    for overload, function in decomp.DIFFERENTIABLE.items():
        for key in ("PrivateUse1", "AutogradPrivateUse1"):
            library.impl(overload, function, key)
    for overload, function in decomp.DERIVATIVES.items():
        library.impl(overload, function, "AutogradPrivateUse1")
    for overload, function in decomp.NESTED.items():
        library.impl(overload, function, "NestedTensorPrivateUse1")
    _c.call("nntile_stub_register_others")


def _library(kind: str, namespace: str) -> torch.library.Library:
    library = torch.library.Library(namespace, kind)
    _libraries.append(library)
    return library


def _define_own_ops() -> None:
    library = _library("DEF", "nntile")
    for schema, meta in decomp.OWN_OPS.items():
        library.define(schema)
        if meta is not None:
            library.impl(schema.partition("(")[0], meta, "Meta")
    for name, (backward, setup_context) in decomp.AUTOGRAD.items():
        torch.library.register_autograd(
            f"nntile::{name}", backward, setup_context=setup_context, lib=library
        )
    for schema, notice in NOTICES.items():
        library.define(schema)
        library.impl(schema.partition("(")[0], notice, "CompositeExplicitAutograd")


# ---- compositions in Python


def _register_composition(
    library: torch.library.Library, name: str, function: Callable[..., Any], taken: set[str]
) -> None:
    function = with_strides_of_cpu(name.removeprefix("aten::"), function)
    function = complex_on_host(name.removeprefix("aten::"), function, cpu_fallback)
    for sibling in siblings(name):
        if sibling in taken:
            continue
        taken.add(sibling)
        overload = sibling.removeprefix("aten::")
        kernel = refusing_as_cpu(overload, _adapt(sibling, function))
        library.impl(overload, kernel, "PrivateUse1")


def _adapt(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The functional form as a kernel of a sibling: results go where the schema says."""
    schema = schema_of(name)
    outs = [a.name for a in schema.arguments if a.is_out]
    if outs and not _takes(function, outs):
        # The out= forms that PyTorch generates have no kernel of the CPU, and resize without strides.
        with_strides = torch._C._dispatch_has_kernel_for_dispatch_key(name, "CPU")

        def out_kernel(*args: Any, **kwargs: Any) -> Any:
            targets = [kwargs.pop(out) for out in outs]
            results = function(*args, **kwargs)
            results = results if isinstance(results, tuple) else (results,)
            for target, result in zip(targets, results, strict=True):
                if name in _EXACT_OUT and target.dtype != result.dtype:
                    raise RuntimeError(
                        f"Expected out tensor to have dtype {result.dtype}, but got {target.dtype} instead"
                    )
                write_out(target, result, with_strides)
            return targets[0] if len(targets) == 1 else tuple(targets)

        return _guarded(name, out_kernel)
    if is_in_place(schema) and name.removeprefix("aten::") not in decomp.COMPOSITIONS:

        def in_place_kernel(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
            return self.copy_(function(self, *args, **kwargs))

        return _guarded(name, in_place_kernel)
    return _guarded(name, function)


def _takes(function: Callable[..., Any], outs: list[str]) -> bool:
    """Whether the function names these arguments: it writes them itself."""
    return set(outs) <= {*inspect.signature(function).parameters}


def write_out(target: torch.Tensor, result: torch.Tensor, with_strides: bool = False) -> None:
    """Put a result into an out= argument, as ATen does: resize, then cast and copy."""
    if target.shape != result.shape:
        target.resize_(result.shape)
        if with_strides:
            target.as_strided_(result.shape, torch.empty_like(result).stride())
    target.copy_(result)


def _guarded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """PyTorch's decompositions may come back to the op itself: an error, not a recursion."""

    @functools.wraps(function)
    def kernel(*args: Any, **kwargs: Any) -> Any:
        names: set[str] = _inside.__dict__.setdefault("names", set())
        if name in names:
            raise NotImplementedError(f"nntile: the decomposition of {name} needs {name} itself")
        names.add(name)
        try:
            return function(*args, **kwargs)
        finally:
            names.discard(name)

    return kernel


def _late_decomposition(overload: str) -> Callable[..., Any]:
    """PyTorch's own decomposition, looked up at the first call: the table takes 0.15 s to build."""

    @functools.cache
    def look_up() -> Callable[..., Any]:
        name, _, variant = overload.partition(".")
        op = getattr(getattr(torch.ops.aten, name), variant or "default")
        function: Callable[..., Any] = _core_decompositions()[op]
        return function

    def decomposition(*args: Any, **kwargs: Any) -> Any:
        try:
            result = look_up()(*args, **kwargs)
            return decomp.like_first(result, args[0]) if overload in decomp.LIKE_FIRST else result
        except AssertionError as error:  # some assert what kernels check
            raise RuntimeError(f"{overload}: {error}") from error

    return decomposition


@functools.cache
def _core_decompositions() -> dict[Any, Callable[..., Any]]:
    from torch._decomp import core_aten_decompositions

    return dict(core_aten_decompositions().items())  # its own .get() knows no entry
