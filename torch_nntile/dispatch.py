# SPDX-License-Identifier: BSD-3-Clause
"""Puts the table to work: rows, compositions and decompositions become kernels of the device.

The order of choice for an overload: a row (aten.py), a composition (decomp.py), PyTorch's own
decomposition, then a host kernel as a task, which `cpu_fallback=False` makes an error.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from torch_nntile import _c, aten, decomp
from torch_nntile.compositions import Composition
from torch_nntile.notices import NOTICES
from torch_nntile.schemas import siblings

__all__ = ["register"]

_libraries: list[torch.library.Library] = []  # a kernel lives as long as its Library


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
    for composition in _compositions():
        for name in siblings(f"aten::{composition.overload}"):
            if name not in taken:
                overload = name.removeprefix("aten::")
                library.impl(overload, composition.kernel(overload), "PrivateUse1")
                taken.add(name)
    for overload, function in decomp.DIFFERENTIABLE.items():
        for key in ("PrivateUse1", "AutogradPrivateUse1"):
            library.impl(overload, function, key)
    for overload, function in decomp.DERIVATIVES.items():
        library.impl(overload, function, "AutogradPrivateUse1")
    for overload, function in decomp.NESTED.items():
        library.impl(overload, function, "NestedTensorPrivateUse1")
    _c.call("nntile_stub_register_others")


def _compositions() -> Iterator[Composition]:
    for overload, function in decomp.COMPOSITIONS.items():
        yield Composition(overload, function)
    for overload in decomp.DECOMPOSED:
        yield Composition(overload, _late_decomposition(overload))


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
            return look_up()(*args, **kwargs)
        except AssertionError as error:  # some assert what kernels check
            raise RuntimeError(f"{overload}: {error}") from error

    return decomposition


@functools.cache
def _core_decompositions() -> dict[Any, Callable[..., Any]]:
    from torch._decomp import core_aten_decompositions

    return dict(core_aten_decompositions().items())  # its own .get() knows no entry
