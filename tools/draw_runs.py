# SPDX-License-Identifier: BSD-3-Clause
"""Writes pictures of runs, as a profile saw them. Each run gives another one, so they are no golden files.

.venv/bin/python tools/draw_runs.py budget     # docs/guides: a step in a quarter of its memory
.venv/bin/python tools/draw_runs.py devices    # docs/guides: cores and an emulated GPU (make cuda)
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn

import torch_nntile
from torch_nntile.profiling import report

ROOT = Path(__file__).resolve().parents[1]
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


class Chosen(nn.Module):
    """Between two layers that a GPU takes the largest numbers of all, which a core chooses."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.before, self.after = Block(width), Block(width)
        self.width = width

    def forward(self, x: Tensor) -> Tensor:
        chosen = self.before(x).flatten().topk(4 * self.width).values
        result: Tensor = self.after(chosen.view(4, self.width))
        return result


def profiled(model: nn.Module, *sizes: int) -> torch_nntile.profile:
    model = model.to("nntile")
    optimizer = torch.optim.Adam(model.parameters())

    def step() -> None:
        x = torch.randn(*sizes).to("nntile")
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(3):
        step()
    with torch_nntile.profile() as p:
        step()
    torch_nntile.shutdown_context()
    return p


def budget() -> tuple[torch_nntile.profile, int]:
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory(dir=".") as folder:
        torch_nntile.init_context(ncpu=2, memory="32MiB", swap=folder)
        return profiled(nn.Sequential(*(Block(512) for _ in range(6))), 512, 512), 2


def devices() -> tuple[torch_nntile.profile, int]:
    emulation = ROOT / "build/cuda/tests/cuda_emulation"
    if "LD_PRELOAD" not in os.environ:
        core = ROOT / "build/cuda/libnntile_c/libnntile_c.so"
        found = {"LD_LIBRARY_PATH": str(emulation), "LD_PRELOAD": str(core)}
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **found})
    torch.manual_seed(0)
    torch_nntile.init_context(ncpu=2, ncuda=1)
    return profiled(Chosen(128), 8, 32, 128), 1


def draw(p: torch_nntile.profile, parts: int, target: Path) -> None:
    drawings, height = [], 0
    for text in re.findall(r"<svg.*?</svg>", report.body(p), re.DOTALL)[:parts]:
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
    target.write_text(text, encoding="utf-8")


def main() -> None:
    kind = sys.argv[1] if len(sys.argv) == 2 else ""
    if kind == "budget":
        draw(*budget(), ROOT / "docs/guides/pictures/budget.svg")
    elif kind == "devices":
        draw(*devices(), ROOT / "docs/guides/pictures/devices.svg")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
