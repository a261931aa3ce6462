# SPDX-License-Identifier: BSD-3-Clause
"""Device "nntile" for PyTorch: every op becomes tasks on tiles that StarPU places.

>>> import torch
>>> torch.ones(2, device="nntile") + 1
tensor([2., 2.], device='nntile:0')
"""

from __future__ import annotations

import sys

# `python -m torch_nntile.diagnose` must run where the rest cannot be loaded: it goes step by step.
if "torch_nntile.diagnose" not in sys.orig_argv:
    # _start is first: it loads PyTorch, checks its version and registers the device.
    from torch_nntile import _start, training
    from torch_nntile.axes import (
        axis_groups,
        load_cuts,
        save_cuts,
        set_axis_group_name,
        set_axis_group_tiling,
    )
    from torch_nntile.context import (
        init_context,
        restrict_workers,
        shutdown_context,
        wait,
    )
    from torch_nntile.cost import cost_text, load_cost
    from torch_nntile.errors import NntileError
    from torch_nntile.estimate import Estimate, estimate, estimate_only
    from torch_nntile.explain import explain
    from torch_nntile.fallback import Fallback, fallback_report, reset_fallback_report
    from torch_nntile.kernels import (
        In,
        InMut,
        Kernel,
        Out,
        Scalar,
        Unused,
        expression,
        index,
        kernel,
    )
    from torch_nntile.modes import (
        Stats,
        compile_graph,
        has_pending_graph,
        run_graph,
        runtime_mode,
        stats,
    )
    from torch_nntile.old_names import find as __getattr__  # noqa: F401
    from torch_nntile.profiling.profile import profile
    from torch_nntile.replay.captured import Captured, capture
    from torch_nntile.show_config import show_config

    __version__ = _start.version()

__all__ = [
    "Captured",
    "Estimate",
    "Fallback",
    "In",
    "InMut",
    "Kernel",
    "NntileError",
    "Out",
    "Scalar",
    "Stats",
    "Unused",
    "axis_groups",
    "capture",
    "compile_graph",
    "cost_text",
    "estimate",
    "estimate_only",
    "explain",
    "expression",
    "fallback_report",
    "has_pending_graph",
    "index",
    "init_context",
    "kernel",
    "load_cost",
    "load_cuts",
    "profile",
    "reset_fallback_report",
    "restrict_workers",
    "run_graph",
    "runtime_mode",
    "save_cuts",
    "set_axis_group_name",
    "set_axis_group_tiling",
    "show_config",
    "shutdown_context",
    "stats",
    "training",
    "wait",
]


def __dir__() -> list[str]:
    """What a user calls: completion in a notebook does not show the modules inside."""
    return [*__all__, "__version__"]
