# SPDX-License-Identifier: BSD-3-Clause
"""The page docs/guides/works_with.md names the versions that these tests run."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

import pytest
import torch
from torch import nn

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "works_with.md"


def test_versions_are_those_installed() -> None:
    rows = re.findall(r"^\| ([a-z]+) \| (\d+\.\d+) \|", PAGE.read_text(), flags=re.MULTILINE)
    assert {name for name, _ in rows} >= {"torch", "transformers", "accelerate", "lightning"}
    for name, version in rows:
        installed = ".".join(importlib.metadata.version(name).split(".")[:2])
        assert installed == version, f"run the tests of {name} {installed} and change the page"


@pytest.mark.skipif(hasattr(torch._C, "_scatter"), reason="a build of PyTorch that scatters")
def test_data_parallel_is_among_what_does_not_work() -> None:
    assert "`nn.DataParallel`" in PAGE.read_text().split("## What does not")[1]
    model = nn.DataParallel(nn.Linear(2, 2).to("nntile"))
    with pytest.raises(AttributeError, match="_scatter"):
        model(torch.ones(4, 2, device="nntile"))
