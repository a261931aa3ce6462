# SPDX-License-Identifier: BSD-3-Clause
"""Processes of pytest-xdist that write the same folder do so one after the other."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

BUILD = Path(__file__).resolve().parent.parent / "build"


@contextlib.contextmanager
def turn(name: str) -> Iterator[None]:
    with (BUILD / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
