# SPDX-License-Identifier: BSD-3-Clause
"""A profile's page in a browser: no error on its console, bars in the colors of the legend."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from matplotlib import image

import torch_nntile

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


def shown(page: Path) -> tuple[int, list[str]]:
    """How many pixels have a color, and what the browser's console says."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip(f"no browser: none of {', '.join(BROWSERS)} is installed")
    picture = page.with_suffix(".png")
    command = [browser, "--headless", "--disable-gpu", "--window-size=1000,700"]
    command += ["--enable-logging=stderr", f"--user-data-dir={page.parent / 'browser'}"]
    command += [f"--screenshot={picture}", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    done = subprocess.run(
        [*command, page.as_uri()], capture_output=True, text=True, timeout=120, check=False
    )
    assert picture.exists(), done.stderr
    pixels = image.imread(picture)[..., :3]
    colored = pixels.max(axis=2) - pixels.min(axis=2) > 0.3  # neither white, gray nor black
    return int(colored.sum()), re.findall(r"CONSOLE.*", done.stderr)


@pytest.mark.slow
def test_a_browser_draws_the_page(tmp_path: Path) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU()).to("nntile")
    x = torch.randn(512, 256, device="nntile")
    for _ in range(2):
        with torch_nntile.profile() as p:
            net(x).sum().backward()
    p.html(tmp_path / "report.html")
    colored, said = shown(tmp_path / "report.html")
    assert said == []
    assert colored > 500, "bars and keys"


@pytest.mark.slow
def test_an_error_on_the_console_and_an_empty_page_are_seen(tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text("<!DOCTYPE html><p>text</p><script>nothing.there = 1</script>")
    colored, said = shown(page)
    assert colored == 0
    assert len(said) == 1
    assert "nothing is not defined" in said[0]
