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
    """Return the text of a stage of the last lowering: "graph", "tiles", "plan", or all three.

    A lowering cuts a recorded graph into tiles (parts of its tensors) and makes a plan, the list
    of tasks on tiles. "pending" shows the ops recorded that are not submitted yet. This submits
    nothing: to see the ops that eager mode has buffered as tiles, call `wait()` first.
    "cuts" lists the axes that are cut, and for each automatic cut the estimated time and tasks
    before and after it. "passes" shows the graph as recorded and after each pass.

    Args:
        stage: as above; leave it out with `summary` or `why`.
        lines: show next to each op of a graph the line of your program that recorded it.
        summary: return instead one screen about the last profile: time by module and op,
            counters, memory. Without a profile, return counters since the start.
        why: return instead an explanation: why the device made new plans, what it copied, and
            what ran on the host and from which line.

    Raises:
        ValueError: `stage` is unknown, or you gave it with `summary` or `why`.
    """
    if summary or why:
        answers.check_alone(stage, summary, why)
        return answers.summary() if summary else answers.why()
    stages = ("graph", "tiles", "plan") if stage == "all" else (stage,)
    texts = [_c.owned_text("nntile_record_text", _c.record(), name.encode()) for name in stages]
    text = "\n".join(texts)
    return text if lines else _COMMENT.sub("", text)
