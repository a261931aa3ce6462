# SPDX-License-Identifier: BSD-3-Clause
"""What a user should know while his program runs: warnings of one line, at his line.

The stub knows when; it calls these through PyTorch's dispatcher, as ops of namespace nntile.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["NOTICES", "runs_on_host", "warn"]

_LIBRARIES = ("torch", "torch_nntile")
_LOOPS = ("accelerate.", "transformers.trainer")  # the modules that move models by themselves


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def warn(text: str) -> None:
    """Warn at the innermost line that is neither PyTorch's nor ours; backward passes have none."""
    level, frame = 2, sys._getframe().f_back
    while frame is not None and _module(frame).partition(".")[0] in _LIBRARIES:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, UserWarning, stacklevel=level)


def runs_on_host(op: str) -> None:
    """Once for each overload, when it first runs on PyTorch's CPU kernel."""
    warn(
        f"nntile: '{op}' has no row for this call and runs on the host, on PyTorch's CPU kernel; "
        "torch_nntile.fallback_report() says what that costs, init_context(cpu_fallback=False) forbids it"
    )


_left = False  # a model left already


def parameter_read() -> None:
    """A parameter is copied to the host without gradients, as `model.to("cpu")` does.

    That is silent and slow to find where a training loop does it, as it took the CPU by itself.
    """
    global _left
    if _left:
        return
    frame = sys._getframe().f_back  # none in a thread of autograd
    while frame is not None and not _module(frame).startswith(_LOOPS):
        frame = frame.f_back
    if frame is None:
        return
    state = sys.modules["accelerate.state"].PartialState._shared_state
    if state.get("_cpu") or getattr(state.get("device"), "type", None) != "cpu":
        return  # the user asked for it, or parameters are saved
    _left = True
    warn(
        "nntile: accelerate moves a model from device nntile to the CPU, the device that it found "
        "by itself; set os.environ['ACCELERATE_TORCH_DEVICE'] = 'nntile' first, and it stays"
    )


def unknown_settings(names: str) -> None:
    """Once, at the first tensor."""
    warn(
        f"nntile: no setting is called {names}; the environment variables that have an effect stand "
        "in help(torch_nntile.context)"
    )


NOTICES: dict[str, Callable[..., Any]] = {
    "runs_on_host(str op) -> ()": runs_on_host,
    "parameter_read() -> ()": parameter_read,
    "unknown_settings(str names) -> ()": unknown_settings,
}
