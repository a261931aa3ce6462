# SPDX-License-Identifier: BSD-3-Clause
"""Versions, build and workers: put this at the top of a bug report."""

from __future__ import annotations

import platform
from typing import Literal, overload

import torch

from torch_nntile import _c, _torch_build, stubs
from torch_nntile.errors import InvalidArgumentError

__all__ = ["show_config"]


@overload
def show_config(mode: Literal["stdout"] = "stdout") -> None: ...
@overload
def show_config(mode: Literal["dicts"]) -> dict[str, str]: ...
def show_config(mode: Literal["stdout", "dicts"] = "stdout") -> dict[str, str] | None:
    """Print versions of Python, PyTorch and torch_nntile, and the settings of the C library.

    Args:
        mode: "stdout" prints one "key: value" on each line; "dicts" returns them instead. The
            words are those of `numpy.show_config()`.

    Raises:
        ValueError: `mode` is another word.
    """
    if mode not in {"stdout", "dicts"}:
        raise InvalidArgumentError(f"show_config: mode must be 'stdout' or 'dicts', got {mode!r}")
    info = config()
    if mode == "dicts":
        return info
    for key, value in info.items():
        print(f"{key}: {value}")
    return None


def config() -> dict[str, str]:
    """What `show_config()` prints."""
    info = {
        "torch_nntile": _c.text(_c.get("nntile_version_text")),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "torch": torch.__version__,
        "torch at build": _torch_build.STUBS[stubs.minor_of(torch.__version__)][0],
    }
    for line in _c.text(_c.get("nntile_context_describe")).splitlines():
        key, _, value = line.partition(": ")
        info[key] = value
    return info
