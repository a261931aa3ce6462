# SPDX-License-Identifier: BSD-3-Clause
"""The model of the machine: the time of work on one worker. Cuts, plans and estimates use it."""

from __future__ import annotations

import os
from pathlib import Path

from torch_nntile import _c
from torch_nntile.errors import InvalidArgumentError, NotFoundError

__all__ = ["cost_text", "load_cost"]


def load_cost(path: str | os.PathLike[str] | None) -> None:
    """Load the constants of the model from a file that `python -m torch_nntile.calibrate` wrote.

    They apply to ops recorded from now on; existing data keeps its cuts. The environment
    variable NNTILE_COST names such a file for the whole process.

    Args:
        path: a file with one "name = value" on each line; names left out get their defaults.
            None: go back to the file of NNTILE_COST, or to all defaults.

    Raises:
        LookupError: the file cannot be read.
        ValueError: a name or a value is not valid. The message has its line; nothing changes.
    """
    text = ""
    path = path if path is not None else _c.text(_c.settings().cost) or None
    if path is not None:
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise NotFoundError(f"load_cost: cannot read '{os.fspath(path)}': {error}") from error
    if "\0" in text:
        raise InvalidArgumentError(f"load_cost: '{os.fspath(path or '')}' is no text")
    _c.call("nntile_cost_set", text.encode())


def cost_text() -> str:
    """Return the constants in use as the text of a cost file, with units as comments."""
    return _c.owned_text("nntile_cost_text")
