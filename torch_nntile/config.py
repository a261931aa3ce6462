# SPDX-License-Identifier: BSD-3-Clause
"""Versions, build and workers: put this at the top of a bug report."""

from __future__ import annotations

import platform

import torch

from torch_nntile import _c, _torch_build, stubs

__all__ = ["config", "show_config"]


def config() -> dict[str, str]:
    """Return versions of Python, PyTorch and torch_nntile, and the settings of the C library."""
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


def show_config() -> None:
    """Print `config()`, one "key: value" on each line."""
    for key, value in config().items():
        print(f"{key}: {value}")
