# SPDX-License-Identifier: BSD-3-Clause
"""Public names that have a better one now. They go with version 0.2."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any

from torch_nntile.axes import axis_groups
from torch_nntile.context import restrict_workers
from torch_nntile.modes import run_graph
from torch_nntile.show_config import config

__all__ = ["OLD", "find"]

# Old name -> what to write instead, what it does.
OLD: dict[str, tuple[str, Callable[..., Any]]] = {
    "config": ("torch_nntile.show_config('dicts')", config),
    "format_axis_groups": ("torch_nntile.axis_groups()", axis_groups),
    "print_axis_groups": ("print(torch_nntile.axis_groups())", lambda: print(axis_groups())),
    "restore_where": ("torch_nntile.restrict_workers('any')", lambda: restrict_workers("any")),
    "restrict_cpu": ("torch_nntile.restrict_workers('cpu')", lambda: restrict_workers("cpu")),
    "restrict_cuda": ("torch_nntile.restrict_workers('cuda')", lambda: restrict_workers("cuda")),
    "run": ("torch_nntile.run_graph()", run_graph),
}


def find(name: str) -> Any:
    """What an old name does, with a warning at the line that asks for it: `torch_nntile.__getattr__`."""
    if name == "models":  # a module: it warns itself
        return importlib.import_module("torch_nntile.models")
    if name not in OLD:
        raise AttributeError(f"module 'torch_nntile' has no attribute {name!r}")
    new, function = OLD[name]
    text = f"torch_nntile.{name} goes with version 0.2: write {new}"
    warnings.warn(text, DeprecationWarning, stacklevel=2)
    return function
