# SPDX-License-Identifier: BSD-3-Clause
"""Warnings: one line at the user's line, with what he can do, and no path of our sources."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

PROGRAM = """
import torch
from torch import nn

class Layer(nn.Module):
    def forward(self, x):
        return torch.linalg.det(x).sum()  # line 7

x = torch.eye(3, device="nntile", requires_grad=True)
Layer()(x + 1).backward()
Layer()(x + 1)
torch.linalg.eigvals(x.detach())  # line 12
"""


def test_a_warning_names_the_users_line(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, check=True, timeout=120
    )
    warned = [line for line in done.stderr.splitlines() if "nntile" in line]
    assert warned, done.stderr
    assert any(line.startswith(f"{program}:7: UserWarning: nntile: ") for line in warned)
    assert any(line.startswith(f"{program}:12: UserWarning: nntile: ") for line in warned)
    for line in warned:
        assert "runs on the host" in line and "fallback_report()" in line
        assert "cpu_fallback=False" in line
    assert "csrc" not in done.stderr and "Triggered" not in done.stderr
    assert len(warned) == len({line.split("'")[1] for line in warned}), "twice for one op"


def test_a_warning_can_be_an_error() -> None:
    with torch.library._scoped_library("nntile_notices_test", "FRAGMENT") as library:
        library.define("twice(Tensor x) -> Tensor")  # an op that has not warned in this process
        library.impl("twice", lambda x: x * 2, "CPU")
        x = torch.eye(3, device="nntile")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(UserWarning, match="nntile_notices_test::twice"):
                torch.ops.nntile_notices_test.twice(x)
        assert torch.ops.nntile_notices_test.twice(x).shape == (3, 3)


def test_reading_parameters_is_no_reason_to_warn() -> None:
    model = torch.nn.Linear(2, 2).to("nntile")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with torch.no_grad():
            assert model.weight.cpu().shape == (2, 2)
        model.to("cpu")
