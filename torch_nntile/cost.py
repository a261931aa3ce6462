# SPDX-License-Identifier: BSD-3-Clause
"""The model of the machine: what work takes on one worker. Cuts, plans and estimates ask it."""

from __future__ import annotations

import os
from pathlib import Path

from torch_nntile import _c
from torch_nntile.errors import InvalidArgumentError, NotFoundError

__all__ = ["cost_text", "load_cost"]


def load_cost(path: str | os.PathLike[str] | None) -> None:
    """Take the constants of the model from a file that `python -m torch_nntile.calibrate` wrote.

    It holds for what is recorded from now on; values that exist keep their cuts. The environment
    variable NNTILE_COST names such a file for the whole process.

    Args:
        path: of the file, one "name = value" a line; names left out get their defaults.
            None: as the process began, with the file of NNTILE_COST or all defaults.

    Raises:
        LookupError: the file cannot be read.
        ValueError: a name or a value that cannot be used, with its line; nothing has changed.
    """
    text = ""
    path = path if path is not None else os.environ.get("NNTILE_COST") or None
    if path is not None:
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise NotFoundError(f"load_cost: cannot read '{os.fspath(path)}': {error}") from error
    if "\0" in text:
        raise InvalidArgumentError(f"load_cost: '{os.fspath(path or '')}' is no text")
    _c.call("nntile_cost_set", text.encode())


def cost_text() -> str:
    """The constants that hold now, as the text of a cost file, units as comments."""
    return _c.owned_text("nntile_cost_text")
