# SPDX-License-Identifier: BSD-3-Clause
"""Memory that is full, was full, or is idle: what is counted, kept, and still possible.

One process runs all parts, with budgets of its own; each test reads the result of its part.
"""

from __future__ import annotations

import json

import interpreter
import pytest

PROGRAM = """
import json, random, time, traceback
import torch, torch_nntile as nt
from torch.nn import functional as F

MIB = 1 << 20
results, parts = {}, []

def part(budget):
    def register(function):
        parts.append((budget, function))
        return function
    return register

def in_use():
    stats = torch.nntile.memory_stats()
    return stats["tile_bytes"] - stats["pool_bytes"]

def tasks():
    nt.wait()
    return torch.nntile.memory_stats()["tasks"]

def full(elements=MIB // 4):
    held = []
    try:
        while True:
            held.append(torch.full((elements,), float(len(held)), device="nntile"))
    except torch.OutOfMemoryError:
        return held

@part("16MiB")
def freed_at_once():
    x = torch.ones(MIB // 4, device="nntile")
    before = in_use()
    del x
    nt.wait()
    assert (before, in_use()) == (MIB, 0), (before, in_use())

@part("16MiB")
def views_are_read():
    held = full()
    assert len(held) == 16 and in_use() == 16 * MIB
    before = tasks()
    x = held[3].view(512, 512)
    assert x[0, 0].item() == 3 and held[5][-1].item() == 5
    assert torch.equal(x[5:9, 100:].cpu(), torch.full((4, 412), 3.0))
    assert torch.equal(x.t()[7].cpu(), torch.full((512,), 3.0))
    assert tasks() == before, "a read of a few runs takes no task"

@part("16MiB")
def few_numbers_of_a_full_memory():
    held = full()
    assert held[2].sum().item() == 2 * (MIB // 4)
    assert held[1][:10].norm().item() > 3

@part("16MiB")
def next_op_works():
    for elements in (MIB // 4, 100_003, MIB, 50_000):
        held = full(elements)
        assert all(x[elements // 2].item() == k for k, x in enumerate(held))
        del held[1::2]
        assert torch.ones(elements // 2, device="nntile").sum().item() == elements // 2
    assert len(held) > 1
    del held
    assert torch.ones(3 * MIB, device="nntile")[-1].item() == 1

@part("32MiB")
def backward():
    w = torch.ones(1024, 1024, device="nntile", requires_grad=True)
    x = torch.ones(64, 1024, device="nntile")
    held = full(MIB // 2)
    try:
        (x @ w).relu().sum().backward()
        raise SystemExit("a backward in no memory")
    except torch.OutOfMemoryError:
        pass
    w.grad = None
    del held
    (x @ w).relu().sum().backward()
    assert torch.equal(w.grad.cpu(), torch.full((1024, 1024), 64.0))

@part("16MiB")
def graph():
    held = full()
    nt.modes.set_mode(1)
    y = held[7] + 1
    z = y * 2
    try:
        nt.run_graph()
        raise SystemExit("a graph in no memory")
    except torch.OutOfMemoryError:
        pass
    assert nt.has_pending_graph()
    del held[8:]
    nt.run_graph()
    assert z[5].item() == 16 and y[6].item() == 8
    assert held[7][1].item() == 7

def submitted_by_the_timer():
    deadline = time.monotonic() + 20
    while nt.has_pending_graph() and time.monotonic() < deadline:
        time.sleep(0.002)
    assert not nt.has_pending_graph()

def does_not_fit(read, words=""):
    try:
        read()
    except torch.OutOfMemoryError as error:
        assert words in str(error), error
        return
    raise AssertionError("it fits")

@part("64MiB")
def error_of_the_timer():
    held = full()
    a = held[1][: MIB // 16]
    b, c = a * 2, a * 3
    d = b + c
    submitted_by_the_timer()
    line = "[<string>:"
    does_not_fit(lambda: d[0].item(), line)
    does_not_fit(lambda: b[0].item(), line)
    does_not_fit(lambda: d + 1, line)
    assert held[5][7].item() == 5 and held[6][:9].sum().item() == 54, "others are read"
    del held[4:]
    assert (d[0].item(), b[1].item(), c[2].item()) == (5, 2, 3)
    assert torch.equal((d + b).cpu(), torch.full((MIB // 16,), 7.0))

@part("64MiB")
def wait_tells_once():
    held = full()
    b = held[1][: MIB // 16] * 2
    submitted_by_the_timer()
    does_not_fit(nt.wait, "out of memory")
    nt.wait()
    del held[8:]
    before = tasks()  # it waits, so what did not fit is computed
    assert tasks() == before and b[3].item() == 2
    assert tasks() == before

@part("64MiB")
def what_was_replaced_meanwhile():
    held = full()
    x = held[1]
    b = x[: MIB // 16] * 2
    submitted_by_the_timer()
    del held[8:]
    x.add_(10)
    assert (b[0].item(), x[0].item()) == (2, 11), "b is of what x was"
    c = x * 2
    c.fill_(4)
    assert c[1].item() == 4

@part("64MiB")
def a_read_of_other_data():
    held = full()
    b = held[1][: MIB // 16] * 2
    assert nt.has_pending_graph() and held[7][3].item() == 7
    does_not_fit(lambda: b.sum().item())
    del held[8:]
    assert b[0].item() == 2

@part("32MiB")
def a_step_that_did_not_fit():
    results = []
    for device in ("cpu", "nntile"):
        w = torch.nn.Parameter(torch.ones(MIB // 2, device=device))
        w.grad = torch.full((MIB // 2,), 0.5, device=device)
        optimizer = torch.optim.Adam([w], 0.1)
        if device == "nntile":
            held = full()
            does_not_fit(optimizer.step)
            assert w[5].item() == 1, "a part of the step has happened"
            del held
        optimizer.state[w].get("step", torch.zeros(())).zero_()  # PyTorch counts on the CPU
        optimizer.step()
        results.append([optimizer.state[w][k][5].item() for k in ("exp_avg", "exp_avg_sq")])
        results[-1].append(w[5].item())
    assert all(abs(a - b) < 1e-6 for a, b in zip(*results)), results

@part("8GiB")
def ever_new_shapes():
    draw = random.Random(1)
    w = torch.randn(256, 256, device="nntile", requires_grad=True)
    for _ in range(20):
        x = torch.randn(draw.randint(64, 6000), 256).to("nntile")
        F.gelu(F.gelu(x @ w) @ w).square().mean().backward()
        w.grad[0, 0].item()
        w.grad = None
    kept, peak = torch.nntile.memory_reserved(), torch.nntile.memory_stats()["peak_bytes"]
    assert kept < 1.5 * peak + 32 * MIB, f"{kept / MIB:.0f} MiB kept, {peak / MIB:.0f} in use"

for budget, function in parts:
    nt.init_context(ncpu=2, memory=budget)
    try:
        function()
        results[function.__name__] = "passed"
    except BaseException:
        results[function.__name__] = traceback.format_exc()
    nt.modes.set_mode(0)
    nt.shutdown_context()
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def results() -> dict[str, str]:
    done = interpreter.run(PROGRAM, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
    parsed: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return parsed


def test_a_freed_tile_is_free_at_once(results: dict[str, str]) -> None:
    assert results["freed_at_once"] == "passed"


def test_a_view_is_read_when_memory_is_exactly_full(results: dict[str, str]) -> None:
    assert results["views_are_read"] == "passed"


def test_few_numbers_of_a_full_memory(results: dict[str, str]) -> None:
    assert results["few_numbers_of_a_full_memory"] == "passed"


def test_the_next_op_works(results: dict[str, str]) -> None:
    assert results["next_op_works"] == "passed"


def test_a_backward_that_did_not_fit_is_run_again(results: dict[str, str]) -> None:
    assert results["backward"] == "passed"


def test_a_graph_that_did_not_fit_stays_pending(results: dict[str, str]) -> None:
    assert results["graph"] == "passed"


@pytest.mark.parametrize(
    "name",
    [
        "error_of_the_timer",
        "wait_tells_once",
        "what_was_replaced_meanwhile",
        "a_read_of_other_data",
    ],
)
def test_an_error_belongs_to_the_data_that_it_kept_from_being_computed(
    results: dict[str, str], name: str
) -> None:
    assert results[name] == "passed"


def test_a_step_that_did_not_fit_has_not_happened(results: dict[str, str]) -> None:
    assert results["a_step_that_did_not_fit"] == "passed"


def test_idle_tiles_are_bounded_by_the_peak_in_use(results: dict[str, str]) -> None:
    assert results["ever_new_shapes"] == "passed"
