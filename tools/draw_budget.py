# SPDX-License-Identifier: BSD-3-Clause
"""Writes docs/guides/pictures/budget.svg: a step in a quarter of its memory, as a profile saw it.

    .venv/bin/python tools/draw_budget.py

The picture is of a run, so it is not a golden file: each run gives another one.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn

import torch_nntile
from torch_nntile.profiling import report

TARGET = Path(__file__).resolve().parents[1] / "docs/guides/pictures/budget.svg"
STYLE = "text { font: 11px sans-serif; fill: #222 } .grid { stroke: #ddd }"


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.body = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        added: Tensor = self.body(self.norm(x))
        return x + added


def profiled(folder: str) -> torch_nntile.profile:
    torch_nntile.init_context(ncpu=2, memory="32MiB", swap=folder)
    torch.manual_seed(0)
    model = nn.Sequential(*(Block(512) for _ in range(6))).to("nntile")
    optimizer = torch.optim.Adam(model.parameters())

    def step() -> None:
        x = torch.randn(512, 512).to("nntile")
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(3):
        step()
    with torch_nntile.profile() as p:
        step()
    return p


def main() -> None:
    with tempfile.TemporaryDirectory(dir=".") as folder:
        p = profiled(folder)
        torch_nntile.shutdown_context()
    drawings, height = [], 0
    for text in re.findall(r"<svg.*?</svg>", report.body(p), re.DOTALL)[:2]:
        box = re.search(r'viewBox="0 0 (\d+) (\d+)"', text)
        assert box
        width, own = int(box[1]), int(box[2])
        drawings.append(
            text.replace("<svg", f'<svg y="{height}" width="{width}" height="{own}"', 1)
        )
        height += own + 8
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">'
    )
    background = f'<rect width="{width}" height="{height}" fill="#fff"/>'
    text = f"{head}<style>{STYLE}</style>{background}{''.join(drawings)}</svg>\n"
    text = re.sub(r"<title>.*?</title>", "", text)  # pages show a picture without them
    TARGET.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
