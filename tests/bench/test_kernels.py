# SPDX-License-Identifier: BSD-3-Clause
"""What it costs to record a kernel in Python, beside a row and an op of torch.library."""

from __future__ import annotations

import pytest
import torch
from bench import timing
from bench.timing import Goal, Row
from parity import assert_close, runtime_mode
from torch import Tensor

import torch_nntile
from torch_nntile import In, Out, Scalar, index, kernel

pytestmark = pytest.mark.bench
pytest.importorskip("numba")
CALLS = 200  # recorded in a go


def finish() -> None:
    torch_nntile.run_graph()
    torch_nntile.wait()


def test_record_a_kernel(rows: list[Row]) -> None:
    @kernel(points="a.shape", cut={"rows": 0})
    def added(
        a: In("f32", (None, None), axes=("rows", None)),
        b: In("f32", "a"),
        s: Scalar(float),
        y: Out("f32", "a"),
    ):
        i, j = index()
        y[i, j] = a[i, j] + s * b[i, j]

    @torch.library.custom_op("nntile_bench::added", mutates_args=())
    def in_library(a: Tensor, b: Tensor, s: float) -> Tensor:
        return torch.add(a, b, alpha=s)

    a, b = torch.eye(8, device="nntile"), torch.full((8, 8), 0.5, device="nntile")
    calls = {
        "kernel": lambda: added(a, b, 2.0),
        "row": lambda: torch.add(a, b, alpha=2.0),
        "library": lambda: in_library(a, b, 2.0),
    }
    with runtime_mode("graph"):
        loops = {name: timing.loop(call, CALLS, finish) for name, call in calls.items()}
        us = timing.medians(loops, timing.repeats(60))
        assert_close(added(a, b, 2.0).cpu(), torch.add(a, b, alpha=2.0).cpu())
    more = us["kernel"] - us["row"]
    rows.append(Row("record a kernel, more than a row", "us", more, goal=Goal(5)))
    rows.append(Row("record a kernel", "us", us["kernel"], us["library"], "torch.library"))
