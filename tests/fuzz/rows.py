# SPDX-License-Identifier: BSD-3-Clause
"""All rows. To try another operation, add a row to one of the tables."""

from __future__ import annotations

from fuzz import rows_autograd, rows_math, rows_more, rows_views
from fuzz.machine import Nature
from fuzz.row import Row

__all__ = ["NATURES", "ROWS"]

ROWS: tuple[Row, ...] = (*rows_views.ROWS, *rows_math.ROWS, *rows_more.ROWS, *rows_autograd.ROWS)
NATURES: dict[str, Nature] = {row.name: row.nature for row in ROWS}
assert len(NATURES) == len(ROWS), "two rows have one name"
