# SPDX-License-Identifier: BSD-3-Clause
"""Windows of eager mode: calls wait for those behind them, and nobody can see that they did."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from parity import begins_soon
from torch import Tensor, nn

from torch_nntile import capture, explain, has_pending_graph, stats, wait

DEVICE = "nntile"


def counted(call: Callable[[], Any]) -> tuple[int, int, int]:
    """Graphs, tasks and lowerings of a call."""
    wait()
    before = stats()
    call()
    wait()
    after = stats()
    return (
        after.graphs - before.graphs,
        after.tasks - before.tasks,
        after.lowerings - before.lowerings,
    )


@pytest.mark.parametrize(("width", "expected"), [(64, 2), (5, 1)])
def test_a_product_and_what_follows_are_one_graph(width: int, expected: int) -> None:
    """A small product goes with what is before it, too."""
    x, w = torch.randn(6, width).to(DEVICE), torch.randn(width, width).to(DEVICE)

    def two_layers() -> Tensor:
        y = x
        for _ in range(2):
            y = torch.tanh((y @ w) * 2 + 1)
        return y

    kept = [two_layers()]
    graphs, tasks, lowerings = counted(lambda: kept.append(two_layers()))
    assert (graphs, lowerings) == (expected, 0)
    assert tasks <= 4
    assert "tanh" in explain("graph") and "matmul" in explain("graph")


def test_results_nobody_holds_have_no_tiles() -> None:
    x = torch.randn(7, 5).to(DEVICE)
    wait()
    before = torch.nntile.memory_stats()["tile_bytes"]
    torch.nntile.empty_cache()
    y = ((x + 1) * 2).exp()
    wait()
    text = explain("graph")
    assert text.count("f32[7, 5]") <= 3, text
    assert torch.nntile.memory_stats()["tile_bytes"] <= before + 7 * 5 * 4 + 4096
    assert y.shape == (7, 5)


@pytest.mark.parametrize("calls", [1, 3, 63, 64, 65, 200])
def test_a_loop_finds_its_plans(calls: int) -> None:
    x = torch.zeros(3, 5).to(DEVICE)

    def step() -> None:
        y = x
        for k in range(calls):
            y = y + 1 if k % 7 else y.relu()
        assert y.sum().item() == 15 * sum(k % 7 > 0 for k in range(calls))

    for _ in range(2):
        step()
    assert [counted(step)[2] for _ in range(4)].count(0) >= 3  # a thread may find one idle


@pytest.mark.parametrize("ends", [None, wait])
def test_lengths_that_vary_make_a_bounded_number_of_plans(ends: Callable[[], Any] | None) -> None:
    """Windows go over the end of a step where it does not wait; both find their plans again."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0).to(DEVICE)

    def all_lengths() -> None:
        for n in range(3, 11):
            layer(torch.randn(2, n, 8).to(DEVICE)).sum().backward()
            if ends:
                ends()

    def lowerings() -> int:
        before = stats().lowerings
        all_lengths()
        return stats().lowerings - before

    first = lowerings()
    for _ in range(40):  # calls that come often are known by then
        all_lengths()
    again = [lowerings() for _ in range(3)]
    assert sum(again) <= 2 < first, (first, again)  # a thread may find one idle


def test_what_nothing_follows_begins_soon() -> None:
    x = torch.ones(4, device=DEVICE)
    wait()
    y = x + 1
    assert begins_soon()
    assert y.tolist() == [2.0] * 4


def test_observers_change_nothing() -> None:
    from torch_nntile import _c

    x = torch.ones(4, device=DEVICE)
    wait()
    before = stats()
    _c.call("nntile_record_compose", _c.record(), 1)  # so that no timer submits
    try:
        y = x + 1
        for _ in range(2):
            torch.nntile.mem_get_info(), torch.nntile.memory_stats(), torch.nntile.memory_summary()
            torch.accelerator.memory_stats(), torch.nntile.memory_snapshot()
            seen = stats()
            assert (seen.graphs, seen.ops, seen.waiting) == (before.graphs, before.ops + 1, 1)
        wait()
        assert (stats().graphs, stats().waiting) == (before.graphs + 1, 0)
    finally:
        _c.call("nntile_record_compose", _c.record(), 0)
    assert y.tolist() == [2.0] * 4


def test_large_results_are_not_held_back() -> None:
    total = torch.nntile.mem_get_info()[1]
    if total > 200 << 30:
        pytest.skip("a 64th of this machine's memory takes too long to fill")
    x = torch.ones(total // 64 // 4 + 1000, device=DEVICE)
    assert not has_pending_graph()
    assert x[-1].item() == 1


@pytest.mark.usefixtures("calls_wait")
def test_no_window_ends_within_a_composition() -> None:
    """Else what its calls hand to each other would be stored, however large it is."""
    x = torch.randn(4, 3, 5).to(DEVICE)
    wait()

    def calls() -> list[Tensor]:
        kept = [x + k for k in range(62)]
        return [*kept, F.batch_norm(x, None, None, training=True)]

    kept = [calls()]
    for _ in range(5):  # on a busy machine the timer may end a window, of these or of those before
        wait()
        graphs, _, lowerings = counted(lambda: kept.append(calls()))
        if (graphs, lowerings) == (1, 0):
            break
    assert (graphs, lowerings) == (1, 0)
    assert not has_pending_graph()  # it was full at the end
    graph = explain("graph")
    assert graph.count("channel_sums") == 1
    assert len(graph.splitlines()[-2].split(",")) <= 66, (
        graph
    )  # results: 62, this one and statistics


def test_a_mean_within_a_composition_is_of_its_graph() -> None:
    x = torch.randn(4, 6).to(DEVICE).requires_grad_()
    y = torch.randn(4, 6).to(DEVICE)
    dy = torch.randn(4, 3).to(DEVICE)
    kept: list[object] = [F.mse_loss(x.detach(), y)]
    wait()
    assert counted(lambda: kept.append(F.mse_loss(x.detach(), y)))[0] == 1
    z = F.glu(x)
    wait()
    assert counted(lambda: kept.append(torch.autograd.grad(z, x, dy)))[0] == 1
    assert explain("graph").count("view_write") == 2  # a half each: no pass of its own made them
    assert explain("tiles").count(" : map ") == 2


def test_what_a_composition_left_begins_soon() -> None:
    """Also if its last call was long ago when it ended: the watcher looks again."""
    from torch_nntile import _c

    x = torch.ones(4, device=DEVICE)
    wait()
    _c.call("nntile_record_compose", _c.record(), 1)
    y = x + 1
    time.sleep(0.05)
    assert has_pending_graph()
    _c.call("nntile_record_compose", _c.record(), 0)
    assert begins_soon()
    assert y.tolist() == [2.0] * 4


@pytest.mark.usefixtures("calls_wait")
def test_a_composition_that_fails_ends() -> None:
    x = torch.randn(4, 3, 5).to(DEVICE)
    for _ in range(3):
        with pytest.raises(RuntimeError):
            F.batch_norm(x, None, None, training=False)
    y = x
    for _ in range(200):
        y = y + 1
    assert has_pending_graph()
    wait()
    kept = [x + k for k in range(64)]
    assert not has_pending_graph()
    assert len(kept) == 64


def test_a_task_that_fails_names_its_call() -> None:
    table = torch.randn(5, 3).to(DEVICE)
    index = torch.tensor([1, 7]).to(DEVICE)
    y = F.embedding(index, table) * 2 + 1
    with pytest.raises(IndexError, match=r"embedding.*7"):
        y.sum().item()
    assert (table + 1).shape == (5, 3)
    assert torch.isfinite(table.sum()).item()


def test_names_and_cuts_hold_from_the_next_call_on() -> None:
    import torch_nntile

    x = torch.randn(12, 4).to(DEVICE)
    torch_nntile.set_axis_group_name(x, {0: "window_rows"})
    torch_nntile.set_axis_group_tiling("window_rows", 4)
    y = x + 1
    torch_nntile.set_axis_group_tiling("window_rows", 12)
    wait()
    z = (x + 1) * 2
    wait()
    assert explain("tiles").count(": map") == 1
    assert torch.equal(z.cpu(), (x.cpu() + 1) * 2)
    assert torch.equal(y.cpu(), x.cpu() + 1)


def test_threads() -> None:
    """Calls of several threads are one window; each reads what it computed."""
    import threading

    found: dict[int, list[float]] = {}

    def work(k: int) -> None:
        x = torch.full((3,), float(k)).to(DEVICE)
        for _ in range(50):
            x = x * 1 + 1
        found[k] = x.tolist()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {k: [k + 50.0] * 3 for k in range(4)}


def test_one_by_one() -> None:
    """NNTILE_WINDOWS=0: each call is a graph."""
    program = """
import torch, torch_nntile
x = torch.ones(3, 4, device="nntile")
torch_nntile.wait()
before = torch_nntile.stats()
y = ((x @ x.t()) * 2 + 1).relu()
assert not torch_nntile.has_pending_graph()
torch_nntile.wait()
after = torch_nntile.stats()
print(after.graphs - before.graphs, y.sum().item())
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "NNTILE_WINDOWS": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["4", "81.0"]


MEMORY = """
import torch, torch_nntile
torch_nntile.init_context(ncpu=1, memory="4MiB")
MIB = 1 << 18
held = [torch.full((MIB // 64,), float(k), device="nntile") for k in range(230)]
torch_nntile.wait()
raised = []
made = []
for k in range(40):
    try:
        made.append(held[k] + 1)
        made[-1] = made[-1] * 2
    except torch.OutOfMemoryError as error:
        raised.append(str(error))
        break
try:
    total = sum(t[0].item() for t in made)
except (torch.OutOfMemoryError, RuntimeError) as error:
    raised.append(str(error))
assert raised, "it fits"
assert "memory" in raised[0], raised
del made
for k in range(200):
    held[k] = None
x = held[-1] + 1
assert x[0].item() == 230, x
y = torch.ones(5, device="nntile")
assert (y * 2).tolist() == [2.0] * 5
print("fine")
"""


def test_a_window_that_does_not_fit() -> None:
    """An error, then what was freed is free, and the next calls work."""
    done = subprocess.run(
        [sys.executable, "-c", MEMORY], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stdout.strip() == "fine", done.stderr[-2000:]


def test_a_capture_takes_over() -> None:
    x = torch.ones(3, device=DEVICE)
    y = x + 1
    function = capture(lambda t: t * y)
    for _ in range(4):
        z = x * 3
        assert function(z).tolist() == [6.0] * 3
