# SPDX-License-Identifier: BSD-3-Clause
"""What was recorded, cut and planned, as text."""

from __future__ import annotations

import re
from typing import Literal

from torch_nntile import _c
from torch_nntile.profiling import answers

__all__ = ["explain"]

Stage = Literal["all", "pending", "passes", "graph", "cuts", "tiles", "plan"]
_COMMENT = re.compile(r" {2,}# [^\"\n]*$", re.MULTILINE)


def explain(
    stage: Stage = "all", *, lines: bool = False, summary: bool = False, why: bool = False
) -> str:
    """Text of a stage of the last lowering: "graph", "tiles", "plan", or all three.

    "pending" is what was recorded in graph mode and has not run yet. "cuts" lists the axes that are
    cut, and for each automatic cut the estimated time and tasks before and after it. "passes" is the
    graph as recorded and after each pass.

    Args:
        stage: as above; not asked for with `summary` or `why`.
        lines: beside each op of a graph, the line of the program that recorded it.
        summary: instead, one screen about the last profile: time by module and op, counters,
            memory. Without a profile, counters since the start.
        why: instead, in words: why graphs were planned again, what was copied, what ran on the host
            and from which line.

    Raises:
        ValueError: `stage` is unknown, or is given with `summary` or `why`.
    """
    if summary or why:
        answers.check_alone(stage, summary, why)
        return answers.summary() if summary else answers.why()
    stages = ("graph", "tiles", "plan") if stage == "all" else (stage,)
    texts = [_c.owned_text("nntile_record_text", _c.record(), name.encode()) for name in stages]
    text = "\n".join(texts)
    return text if lines else _COMMENT.sub("", text)
