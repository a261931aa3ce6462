# SPDX-License-Identifier: BSD-3-Clause
"""Draws the pictures of docs/concepts/tiling.md: what the device did with a view of a cut tensor.

python tools/draw_tiles.py     prints {name: SVG} as JSON; tools/make_docs.py writes the files

Nothing is drawn by hand. The data is 0, 1, 2, ..; what the view's result holds says which element
it read, `explain("graph")` how both are cut, `stats()` what it cost.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape

import torch
from torch import Tensor

if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD") == "0":
    import torch_nntile  # noqa: F401

CELL, GAP, TOP = 26, 14, 44  # pixels
COLOURS = ("#cfe3f7", "#fbd9b5", "#d3edcb", "#f6cfd6", "#e2d6f3", "#f7efb2", "#d5d5d5", "#bfe9e6")

Factors = list[tuple[int, list[int]]]  # of one dim, outer first: extent, where it is cut
Cuts = dict[int, int | list[int]]


@dataclass(frozen=True)
class Picture:
    shape: tuple[int, ...]
    cuts: Cuts
    call: str  # a Python expression of x


PICTURES = {
    "transpose": Picture((4, 6), {0: [1, 3], 1: [2, 4]}, "x.t()"),
    "slice": Picture((6, 8), {0: [2, 4], 1: 4}, "x[1:6:2, 1:7]"),
    "merge": Picture((3, 4, 2), {1: [1, 3]}, "x.view(12, 2)"),
    "heads": Picture((4, 6), {1: [2, 4]}, "x.view(4, 3, 2).transpose(0, 1)"),
    "pieces": Picture((6, 4), {0: 2}, "x.view(4, 6)"),
    "inside": Picture((4, 6), {1: [1, 5]}, "x.view(4, 3, 2)"),
    "irregular": Picture((4, 6), {1: [2, 4]}, "x.view(24)[4:].view(4, 5)"),
}


def parsed(text: str) -> list[Factors]:
    """ "rows=4 cut [2], 3 x 4 cut [1]" -> [[(4, [2])], [(3, []), (4, [1])]]."""
    found = []
    for dim in re.split(r", (?![^\[]*\])", text):
        factors: Factors = []
        for factor in re.sub(r"^[^=]*=", "", dim).split(" x "):
            extent, _, cut = factor.partition(" cut ")
            factors.append((int(extent), json.loads(cut) if cut else []))
        found.append(factors)
    return found


def cuts_of(tensor: Tensor) -> list[Factors]:
    """How the data of a dense tensor is stored, by dim of the tensor."""
    from torch_nntile import explain, wait

    _kept = tensor.exp()  # the last graph has the tensor as input 0
    wait()
    order = sorted(range(tensor.dim()), key=lambda dim: -tensor.stride()[dim])
    match = re.search(r"%0 : \w+\[(.*)\]\s+= input stored \[(.*)\]", explain("graph"))
    if match is None or match[1] != ", ".join(str(tensor.shape[dim]) for dim in order):
        raise RuntimeError(f"no input of shape {tuple(tensor.shape)} in\n{explain('graph')}")
    by_dim = dict(zip(order, parsed(match[2]), strict=True))
    return [by_dim[dim] for dim in range(tensor.dim())]


def tiles_of(shape: tuple[int, ...], cuts: list[Factors]) -> list[tuple[int, ...]]:
    """For each element, row-major, the segments that it lies in."""
    found = []
    for index in range(math.prod(shape)):
        segments: list[int] = []
        for extent, factors in reversed(list(zip(shape, cuts, strict=True))):
            index, at = divmod(index, extent)
            for size, borders in reversed(factors):
                at, part = divmod(at, size)
                segments.insert(0, sum(border <= part for border in borders))
        found.append(tuple(segments))
    return found


def positions(shape: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Left upper corner of each element: a matrix, or matrices side by side."""
    columns, rows = shape[-1], shape[-2]
    for index in range(math.prod(shape)):
        block, rest = divmod(index, rows * columns)
        row, column = divmod(rest, columns)
        yield block * (columns * CELL + GAP) + column * CELL, row * CELL


def drawn(
    title: str,
    values: list[int],
    shape: tuple[int, ...],
    tiles: list[tuple[int, ...]],
    colours: dict[int, str],
) -> str:
    """One tensor: a cell for each element, a thick line around each tile."""
    at = list(positions(shape))
    tile_at = dict(zip(at, tiles, strict=True))
    lines = [f'<text x="0" y="{TOP - 24}" class="title">{escape(title)}</text>']
    cut = f"{len(set(tiles))} tiles" if len(set(tiles)) > 1 else "1 tile"
    lines.append(f'<text x="0" y="{TOP - 8}">{" x ".join(map(str, shape))}, {cut}</text>')
    for (x, y), value in zip(at, values, strict=True):
        y += TOP
        lines.append(f'<rect x="{x}" y="{y}" fill="{colours[value]}" width="26" height="26"/>')
        lines.append(f'<text x="{x + 13}" y="{y + 17}" class="cell">{value}</text>')
    edges = []
    for (x, y), tile in tile_at.items():
        sides = {
            (x - CELL, y): f"M{x} {y + TOP}v{CELL}",
            (x + CELL, y): f"M{x + CELL} {y + TOP}v{CELL}",
            (x, y - CELL): f"M{x} {y + TOP}h{CELL}",
            (x, y + CELL): f"M{x} {y + TOP + CELL}h{CELL}",
        }
        edges += [path for place, path in sides.items() if tile_at.get(place) != tile]
    lines.append(f'<path d="{"".join(edges)}"/>')
    return "\n".join(lines)


STYLE = (
    "text{font:12px sans-serif;fill:#222}.title{font:bold 13px monospace}"
    ".cell{font-size:11px;text-anchor:middle}rect{stroke:#999;stroke-width:.5}"
    "path{stroke:#111;stroke-width:2.5;fill:none;stroke-linecap:square}.paper{fill:#fff;stroke:none}"
)


def svg(picture: Picture, name: str) -> str:
    from torch_nntile import set_axis_group_name, set_axis_group_tiling, stats, wait

    view: Callable[[Tensor], Tensor] = eval(f"lambda x: {picture.call}")
    x = torch.arange(math.prod(picture.shape), dtype=torch.float32).view(picture.shape).to("nntile")
    for dim, sizes in picture.cuts.items():
        set_axis_group_name(x, {dim: f"{name}{dim}"})
        set_axis_group_tiling(f"{name}{dim}", sizes)
    x.mul_(1)
    wait()
    before = stats()
    y = view(x) + 0
    wait()
    after = stats()
    cost = f"y = {picture.call} + 0 took {after.tasks - before.tasks} tasks, "
    cost += f"{after.copies - before.copies} of them copies"
    of_x, of_y = (tiles_of(tuple(t.shape), cuts_of(t)) for t in (x, y))
    order = {tile: k for k, tile in enumerate(sorted(set(of_x)))}
    colours = {k: COLOURS[order[tile] % len(COLOURS)] for k, tile in enumerate(of_x)}
    ids = [int(value) for value in y.cpu().flatten().tolist()]
    left = drawn("x", list(range(x.numel())), tuple(x.shape), of_x, colours)
    right = drawn(picture.call, ids, tuple(y.shape), of_y, colours)
    corners = [list(positions(tuple(t.shape))) for t in (x, y)]
    shift = max(a for a, _ in corners[0]) + CELL + 4 * GAP
    width = shift + max(max(a for a, _ in corners[1]) + CELL, 160) + GAP
    height = TOP + max(b for both in corners for _, b in both) + CELL + 34
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width + GAP}" height="{height}">',
            f'<style>{STYLE}</style><rect class="paper" width="100%" height="100%"/>',
            f'<g transform="translate({GAP})">\n{left}\n</g>',
            f'<g transform="translate({GAP + shift})">\n{right}\n</g>',
            f'<text x="{GAP}" y="{height - 10}">{escape(cost)}</text>',
            "</svg>\n",
        )
    )


def main() -> None:
    from torch_nntile import init_context

    init_context(ncpu=2)
    json.dump({name: svg(picture, name) for name, picture in PICTURES.items()}, sys.stdout)


if __name__ == "__main__":
    main()
