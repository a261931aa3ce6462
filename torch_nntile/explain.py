# SPDX-License-Identifier: BSD-3-Clause
"""What was recorded, cut and planned, as text."""

from __future__ import annotations

from typing import Literal

from torch_nntile import _c

__all__ = ["explain"]

Stage = Literal["all", "pending", "passes", "graph", "cuts", "tiles", "plan"]


def explain(stage: Stage = "all") -> str:
    """Text of a stage of the last lowering: "graph", "tiles", "plan", or all three.

    "pending" is what was recorded in graph mode and has not run yet. "cuts" lists the axes that are
    cut, and for each automatic cut the estimated time and tasks before and after it. "passes" is the
    graph as recorded and after each pass.
    """
    stages = ("graph", "tiles", "plan") if stage == "all" else (stage,)
    return "\n".join(
        _c.owned_text("nntile_record_text", _c.record(), name.encode()) for name in stages
    )
