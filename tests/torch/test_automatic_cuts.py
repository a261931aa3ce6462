# SPDX-License-Identifier: BSD-3-Clause
"""Cuts that are chosen: they follow the cost module, bind nobody, and can be saved and edited."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
import torch
from emulated_devices import on_cores
from parity import runtime_mode
from torch import Tensor, nn

import torch_nntile
from torch_nntile import (
    explain,
    load_cuts,
    save_cuts,
    set_axis_group_name,
    set_axis_group_tiling,
    wait,
)

pytestmark = on_cores
WIDTH, ROWS = 512, 1024  # a product of 5 ms


def assert_close(found: Any, expected: Any) -> None:
    """Sums of 512 normal numbers, in another order."""
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-3)


def steps(mode: str, count: int, rows: int = ROWS) -> tuple[list[Tensor], list[tuple[int, int]]]:
    """Losses of a small model, and tasks and lowerings of each step."""
    torch.manual_seed(0)
    device = "cpu" if mode == "cpu" else "nntile"
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, 7)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    losses, counts = [], []
    for _ in range(count):
        x, y = torch.randn(rows, WIDTH).to(device), torch.randint(7, (rows,)).to(device)
        torch_nntile.wait()
        before = torch_nntile.stats()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        if mode == "graph":
            torch_nntile.run_graph()
        torch_nntile.wait()
        after = torch_nntile.stats()
        counts.append((after.tasks - before.tasks, after.lowerings - before.lowerings))
    return [loss.cpu() for loss in losses], counts


@pytest.fixture(autouse=True)
def _nothing_waits() -> None:
    """Calls of another test would be in the first graph of this one."""
    wait()


def tiles_of(result: Tensor) -> int:
    """Tiles of the result of the graph that was lowered last."""
    assert result.device.type == "nntile"
    wait()
    value = explain("graph").rpartition("return ")[2].split()[0]
    return explain("tiles").count(f"\n  {value}[")


def line_of(text: str, extent: int) -> str:
    """The line of saved cuts whose segments have this sum."""

    def segments(line: str) -> list[int]:
        return [int(word) for word in line.partition("=")[2].split() if word.isdigit()]

    return next(line for line in text.splitlines() if "%" in line and sum(segments(line)) == extent)


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_a_loop_has_its_plans_by_the_third_step(mode: str) -> None:
    expected, _ = steps("cpu", 8)
    with runtime_mode(mode):
        losses, counts = steps(mode, 8)
    assert_close(losses, expected)
    tasks, lowerings = zip(*counts, strict=True)
    assert set(tasks[2:]) == {tasks[2]} and not any(lowerings[2:])
    assert tasks[2] > 24  # some of it is cut, else they are 15


def test_a_product_is_cut_along_its_rows_and_its_operands_are_not_copied() -> None:
    a, b = torch.randn(ROWS, WIDTH).to("nntile"), torch.randn(WIDTH, WIDTH).to("nntile")
    torch_nntile.wait()
    before = torch_nntile.stats()
    c = a @ b
    torch_nntile.wait()
    after = torch_nntile.stats()
    assert after.tasks - before.tasks == tiles_of(c) >= 2 and after.copies == before.copies
    assert f"{ROWS} cut" in explain("cuts") and "chosen" in explain("cuts")
    d = c.relu()  # follows, and is cut no further
    assert tiles_of(d) == after.tasks - before.tasks
    assert_close(d.cpu(), (a.cpu() @ b.cpu()).relu())


def test_a_square_is_cut_along_its_rows() -> None:
    """Of two axes of one length the one along which tiles lie together, into as many as both would give."""
    a, b, c = (torch.randn(2048, 2048).to("nntile") for _ in range(3))
    y = torch.addcmul(a, b, c)
    assert tiles_of(y) > 2 and " axes" not in explain("cuts").split("\n")[0]
    assert_close(y.cpu(), torch.addcmul(a.cpu(), b.cpu(), c.cpu()))


def test_small_work_is_not_cut() -> None:
    x = torch.randn(64, 64).to("nntile")
    assert tiles_of(x @ x) == 1 and "chosen" not in explain("cuts")


def test_an_axis_within_a_cache_line_stays_whole() -> None:
    """Each half of a batch of 16 that lies innermost would read all lines of the other."""
    x = torch.randn(256, 256, 16).to("nntile").permute(2, 0, 1)
    copies = [x.clone() for _ in range(8)]
    torch_nntile.wait()
    assert "256 cut" in explain("cuts") and "16 cut" not in explain("cuts")
    assert torch.equal(copies[7].cpu(), x.cpu())


def test_an_optimizer_follows_its_parameter() -> None:
    p = torch.randn(700, 500, device="nntile")
    gradient = torch.randn(1000, 700).to("nntile").t() @ torch.randn(1000, 500).to("nntile")
    wait()
    p.add_(gradient, alpha=-0.1)
    whole = tiles_of(p)
    for _ in range(3):
        p.mul_(0.9).add_(gradient)
        assert tiles_of(p) == whole


def test_chosen_cuts_bind_nobody() -> None:
    """A name that the user gives, a size or "whole", wins over what was chosen before."""
    a, b = torch.randn(ROWS, WIDTH).to("nntile"), torch.randn(WIDTH, WIDTH).to("nntile")
    c = a @ b
    chosen = tiles_of(c)
    rows = f"rows_{uuid.uuid4().hex[:8]}"
    set_axis_group_name(c, {0: rows})
    for sizes, tiles in (("whole", 1), (100, 11), ("auto", None), ((24, 1000), 2)):
        set_axis_group_tiling(rows, sizes)
        d = c * 2
        assert chosen > 1 and (tiles is None or tiles_of(d) == tiles)
        assert_close(d.cpu(), a.cpu() @ b.cpu() * 2)
    with pytest.raises(ValueError, match="'auto' or 'whole', got 'half'"):
        set_axis_group_tiling(rows, "half")  # type: ignore[arg-type]


@pytest.mark.parametrize("extent", [0, 1, 2, 7, 1021])
def test_any_extent(extent: int) -> None:
    torch.manual_seed(1)
    x, w = torch.randn(extent, 300), torch.randn(300, 2003)
    found = (x.to("nntile") @ w.to("nntile")).softmax(-1)
    assert_close(found.cpu(), (x @ w).softmax(-1))


PROGRAM = """
import torch, torch_nntile
x = torch.randn(1024, 512).to("nntile")
y = (x @ torch.randn(512, 512).to("nntile")).relu()
torch_nntile.run_graph()
torch_nntile.wait()
print(torch_nntile.stats().tasks)
"""


def tasks_with(**environment: str) -> int:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "NNTILE_RUNTIME_MODE": "graph", **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(run.stdout)


def test_cuts_are_switched_off_and_do_not_depend_on_the_workers() -> None:
    assert tasks_with(NNTILE_AUTOMATIC_CUTS="0") == 1
    assert tasks_with(STARPU_NCPU="1") == tasks_with(STARPU_NCPU="3") > 2


def test_saved_cuts_are_taken_again(tmp_path: Path) -> None:
    file = tmp_path / "cuts.txt"
    shape = (1003, WIDTH)  # of no other test

    def product() -> Tensor:
        with runtime_mode("graph"):
            x, w = torch.randn(shape).to("nntile"), torch.randn(WIDTH, 640).to("nntile")
            y = (x @ w).relu()
            torch_nntile.run_graph()
        return y

    rows = f"rows_{uuid.uuid4().hex[:8]}"
    x = torch.randn(5, 3, device="nntile")
    set_axis_group_name(x, {0: rows})
    set_axis_group_tiling(rows, (2, 3))
    chosen = tiles_of(product())
    save_cuts(file)
    text = file.read_text()
    assert f"axis {rows} = 2 3\n" in text and text.startswith("cuts 1\n") and text.endswith("end\n")
    line = line_of(text, 1003)
    file.write_text(
        text.replace(line, line.partition("=")[0] + "= 500 503").replace("= 2 3", "= 4 1")
    )
    try:
        load_cuts(file)
        assert tiles_of(product()) == 2 != chosen or chosen == 2
        assert "500" in explain("tiles") or "500, 503" in explain("cuts")
        y = x + 1
        assert tiles_of(y) == 2 and "(4, 1)" in explain("cuts")
    finally:
        file.write_text(text)
        load_cuts(file)
    assert tiles_of(product()) == chosen


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: expected 'cuts'"),
        ("cuts 2\nend\n", "line 1: version 2"),
        ("cuts 1\naxis a = 3 4\n", "line 3: the text stops before 'end'"),
        ("cuts 1\naxis a = 3 0\nend\n", "line 2: a segment must be > 0"),
        ("cuts 1\n# all\naxis a =\nend\n", "line 3: expected segments"),
        ("cuts 1\naxis a = 1\naxis a = 2\nend\n", "line 3: axis 'a' is there twice"),
        ("cuts 1\n  %3 dim 0 = 4\nend\n", "line 2: expected 'axis', 'graph'"),
        ("cuts 1\ngraph 0x1 0x2 of 3 nodes\n  %3 dim = 4\nend\n", "line 3: "),
        ("cuts 1\ngraph 1f 0x2 of 3 nodes\nend\n", "line 2: "),
    ],
)
def test_wrong_files_of_cuts(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "cuts.txt"
    file.write_text(text)
    with pytest.raises(ValueError, match=re.escape(message)):
        load_cuts(file)


def test_cuts_that_do_not_fit(tmp_path: Path) -> None:
    file = tmp_path / "cuts.txt"
    rows = f"rows_{uuid.uuid4().hex[:8]}"
    x = torch.randn(6, 3, device="nntile")
    set_axis_group_name(x, {0: rows})
    file.write_text(f"cuts 1\naxis {rows} = 3 4\nend\n")
    with pytest.raises(ValueError, match=r"line 2: .*sum to 7, its extent is 6"):
        load_cuts(file)
    file.write_text("cuts 1\ngraph 0x1 0x2 of 3 nodes\n  %999 dim 0 = 1 2\nend\n")
    load_cuts(file)  # of another model
    assert_close((x + 1).cpu(), x.cpu() + 1)

    # of a graph that is known, edited wrongly: an error where it is lowered, and then the next call works
    a = torch.randn(1009, WIDTH).to("nntile")
    b = torch.randn(WIDTH, WIDTH).to("nntile")
    c = a @ b
    save_cuts(file)
    assert c.shape == (1009, WIDTH)
    good = file.read_text()
    line = line_of(good, 1009)
    bad = good.replace(line, line.partition("=")[0] + "= 1 2")
    assert bad != good
    file.write_text(bad)
    try:
        load_cuts(file)
        with pytest.raises(RuntimeError, match=r"cuts, line \d+: "):
            print(a @ b)
    finally:
        file.write_text(good)
        load_cuts(file)
    assert_close((a @ b).cpu(), a.cpu() @ b.cpu())
    with pytest.raises(FileNotFoundError):
        save_cuts(tmp_path / "none" / "cuts.txt")


@pytest.mark.parametrize("cut", [False, True], ids=["whole operands", "cut operands"])
def test_a_product_asks_for_its_result_only(cut: bool) -> None:
    """Tasks read blocks of tiles as they are; nothing is copied to fit the cuts of the product."""
    shape = (2400, 2400)
    a, b = (torch.randn(shape) for _ in range(2))
    a, b = (x.to("nntile").mul(1.0) if cut else x.to("nntile") for x in (a, b))
    torch_nntile.wait()
    torch.nntile.reset_peak_memory_stats()
    before = torch.nntile.memory_allocated()
    c = a @ b
    torch_nntile.wait()
    asked = torch.nntile.max_memory_allocated() - before
    assert 4 * c.numel() <= asked <= 1.05 * 4 * c.numel()
