# SPDX-License-Identifier: BSD-3-Clause
"""Writes docs/guides/pictures/profile.png: the page of a profile, as a browser shows it.

    .venv/bin/python tools/draw_profile.py

It needs Chromium. The picture is of a run, so it is not a golden file: each run gives another one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn

import torch_nntile

TARGET = Path(__file__).resolve().parents[1] / "docs/guides/pictures/profile.png"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        result: Tensor = self.out(y.transpose(1, 2).reshape(batch, length, width))
        return result


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        added: Tensor = self.mlp(self.norm2(x))
        return x + added


def profiled() -> torch_nntile.profile:
    torch_nntile.init_context(ncpu=2)
    block = Block(256, 4).to("nntile")
    optimizer = torch.optim.AdamW(block.parameters())
    x = torch.randn(4, 256, 256, device="nntile")
    torch_nntile.set_axis_group_name(x, {0: "batch"})
    torch_nntile.set_axis_group_tiling("batch", [2, 2])

    def steps() -> None:
        for _ in range(2):
            loss = block(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            loss.item()

    for _ in range(3):
        with torch_nntile.profile() as p:
            steps()
    return p


def main() -> None:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        sys.exit(f"draw_profile: none of {', '.join(BROWSERS)} is installed")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        profiled().html(page)
        torch_nntile.shutdown_context()
        command = [browser, "--headless", "--disable-gpu", "--hide-scrollbars"]
        command += ["--window-size=1020,900"]
        command += [*(["--no-sandbox"] if os.geteuid() == 0 else []), f"--user-data-dir={folder}/b"]
        subprocess.run([*command, f"--screenshot={TARGET}", page.as_uri()], check=True, timeout=120)


if __name__ == "__main__":
    main()
