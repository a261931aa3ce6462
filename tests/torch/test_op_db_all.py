# SPDX-License-Identifier: BSD-3-Clause
"""All of PyTorch's op_db: nine dtypes, forward, backward, in place, out=, not contiguous, errors.

It runs in processes of its own, so that a crash or a hang is a line of the report and not its end.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from torch_nntile.conformance import cases, runner

FEW = ("abs", "linspace", "nn.functional.binary_cross_entropy", "bernoulli")


def text_of(log: runner.Log) -> str:
    return f"{dict(log.counts)}; wrong are:\n" + "\n".join(log.bad[:50])


def test_a_few(tmp_path: Path) -> None:
    log = runner.Log(tmp_path / "log")
    runner.run_all([(name, "float32") for name in FEW], log, samples=2, jobs=1)
    assert not log.bad, text_of(log)
    assert log.counts["same"] > 12 and log.counts["random"], text_of(log)


@pytest.mark.slow
def test_a_crash_is_named_and_the_rest_runs(tmp_path: Path) -> None:
    log = runner.Log(tmp_path / "log")
    runner.run_all([("no such entry", "float32"), ("abs", "float32")], log, samples=1, jobs=1)
    (line,) = log.bad
    assert line.startswith("no such entry\tfloat32: start\tcrash")
    assert log.counts["same"], text_of(log)


@pytest.mark.slow
def test_all(tmp_path: Path) -> None:
    dtypes = [str(dtype).removeprefix("torch.") for dtype in cases.DTYPES]
    entries = [(name, dtype) for name in cases.names() for dtype in dtypes]
    log = runner.Log(tmp_path / "log")
    runner.run_all(entries, log, samples=4, jobs=2)
    assert not log.bad, text_of(log)
    assert log.counts["same"] > 45_000, text_of(log)


def test_exceptions_are_entries() -> None:
    known = set(cases.names())
    minor = int(torch.__version__.split(".")[1])
    later = {"native_group_norm"} if minor < 13 else set()  # an entry since 2.13
    assert {name for name, _, _ in cases.EXCEPTIONS} - later <= known
