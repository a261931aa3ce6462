# SPDX-License-Identifier: BSD-3-Clause
"""Puts the table to work: rows, compositions and decompositions become kernels of the device.

The order of choice for an overload: a row (aten.py), a composition (ours or PyTorch's), then a host
kernel as a task, which `cpu_fallback=False` makes an error.
"""

from __future__ import annotations

from typing import Any

import torch

from torch_nntile import _c, aten
from torch_nntile.compositions.forms import Composition
from torch_nntile.compositions.registry import COMPOSITIONS, KERNELS, OWN_OPS
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
    for name, function in COMPOSITIONS.items():
        composition = Composition(name, function)
        for form in siblings(f"aten::{name}"):
            overload = form.removeprefix("aten::")
            if form not in taken and (overload == name or overload not in COMPOSITIONS):
                library.impl(overload, _untraced(composition.kernel(overload)), "PrivateUse3")
                # Where PyTorch has a formula through which autograd sees, the formula runs it.
                has_formula = torch._C._dispatch_has_kernel_for_dispatch_key(
                    form, "CompositeImplicitAutograd"
                )
                full, _, variant = form.partition(".")
                _c.call(
                    "nntile_stub_register_composition",
                    full.encode(),
                    variant.encode(),
                    int(not has_formula),
                )
                taken.add(form)
    for overload, key, kernel in KERNELS:
        library.impl(overload, _untraced(kernel), key)
    _c.call("nntile_stub_register_others")


def _untraced(kernel: Any) -> Any:
    """A kernel is one op, also for Dynamo, which compiles what Python runs between its graphs.

    This is what `torch.compiler.disable` does, without the import of Dynamo.
    """
    frames = torch._C._dynamo.eval_frame
    skip = frames._FrameAction.SKIP
    strategy = frames._FrameExecStrategy(skip, skip)
    frames.set_code_exec_strategy(kernel.__code__, strategy)
    return kernel


def _library(kind: str, namespace: str) -> torch.library.Library:
    library = torch.library.Library(namespace, kind)
    _libraries.append(library)
    return library


def _define_own_ops() -> None:
    library = _library("DEF", "nntile")
    for name, op in OWN_OPS.items():
        library.define(op.schema)
        library.impl(name, op.meta, "Meta")
        if op.backward is not None:
            torch.library.register_autograd(
                f"nntile::{name}", op.backward, setup_context=op.setup_context, lib=library
            )
    for schema, notice in NOTICES.items():
        library.define(schema)
        library.impl(schema.partition("(")[0], notice, "CompositeExplicitAutograd")
