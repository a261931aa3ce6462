# SPDX-License-Identifier: BSD-3-Clause
"""What it costs to record an op, and to run a task, beside PyTorch's dispatch on tiny CPU tensors."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator

import pytest
import torch
from bench import timing
from bench.timing import Goal, Row
from parity import assert_close, runtime_mode
from torch import Tensor, nn
from torch.nn import functional

import torch_nntile

pytestmark = pytest.mark.bench

CALLS = 200  # recorded in a go
TASKS = 256
RATE = 1e-6  # small: thousands of steps must not run away
OPS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add,
    "mm": torch.mm,
    "relu": lambda x, y: torch.relu(x),
    "add_": lambda x, y: x.add_(y),
    "view": lambda x, y: x.view(16),
}


def finish() -> None:
    torch_nntile.run_graph()
    torch_nntile.wait()


@pytest.fixture
def one_worker() -> Iterator[None]:
    """A worker on the other core: the thread that submits has one for itself."""
    torch_nntile.shutdown_context()
    torch_nntile.init_context(ncpu=1)
    yield
    torch_nntile.shutdown_context()
    torch_nntile.init_context(ncpu=timing.THREADS)


def tensors(device: str) -> tuple[Tensor, Tensor]:
    return torch.eye(4, device=device), torch.full((4, 4), 0.5, device=device)


@pytest.mark.parametrize("name", OPS)
def test_record_an_op(rows: list[Row], name: str) -> None:
    op = OPS[name]
    inputs = {device: tensors(device) for device in ("nntile", "cpu")}
    after = {"nntile": finish, "cpu": None}
    with runtime_mode("graph"):
        us = timing.medians(
            {
                device: timing.loop(lambda p=pair: op(*p), CALLS, after[device])
                for device, pair in inputs.items()
            },
            timing.repeats(60),
        )
        assert_close(op(*inputs["nntile"]).cpu(), op(*inputs["cpu"]))
    rows.append(Row(f"record {name}", "us", us["nntile"], us["cpu"], goal=Goal(3)))


def step_by_hand(w1: Tensor, w2: Tensor, x: Tensor, y: Tensor) -> int:
    """The aten calls of a training step of two layers, without autograd; returns their number."""
    hidden = torch.mm(x, w1.t())
    active = torch.relu(hidden)
    logits = torch.mm(active, w2.t())
    logs = torch.log_softmax(logits, 1)
    loss = functional.nll_loss(logs, y)
    grad = torch.softmax(logits, 1)
    grad_w2 = torch.mm(grad.t(), active)
    grad_hidden = torch.mul(torch.mm(grad, w2), torch.gt(hidden, 0))
    grad_w1 = torch.mm(grad_hidden.t(), x)
    w1.add_(grad_w1, alpha=-RATE)
    w2.add_(grad_w2, alpha=-RATE)
    loss.detach()
    return 18  # with four t() and the detach()


def test_record_the_ops_of_a_step(rows: list[Row]) -> None:
    operands = {}
    for device in ("nntile", "cpu"):
        torch.manual_seed(1)
        made = (torch.rand(6, 8), torch.rand(4, 6), torch.rand(5, 8), torch.arange(5) % 4)
        operands[device] = [tensor.to(device) for tensor in made]
    count = step_by_hand(*operands["nntile"])
    step_by_hand(*operands["cpu"])
    with runtime_mode("graph"):
        us = timing.medians(
            {
                "nntile": timing.loop(lambda: step_by_hand(*operands["nntile"]), 10, finish),
                "cpu": timing.loop(lambda: step_by_hand(*operands["cpu"]), 10),
            },
            timing.repeats(60),
        )
    for ours, theirs in zip(operands["nntile"], operands["cpu"], strict=True):
        assert_close(ours.cpu(), theirs, length=64)
    rows.append(
        Row(
            "record the ops of a step, each",
            "us",
            us["nntile"] / count,
            us["cpu"] / count,
            goal=Goal(3),
        )
    )


def test_record_a_step_with_autograd(rows: list[Row]) -> None:
    """The whole of a small step: modules, autograd, optimizer. No goal: most of it is PyTorch's."""
    steps, models = {}, {}
    for device in ("nntile", "cpu"):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 4)).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
        x, y = torch.rand(5, 8).to(device), (torch.arange(5) % 4).to(device)

        def step(
            model: nn.Module = model,
            optimizer: torch.optim.Optimizer = optimizer,
            x: Tensor = x,
            y: Tensor = y,
        ) -> None:
            optimizer.zero_grad()
            functional.cross_entropy(model(x), y).backward()
            optimizer.step()

        steps[device], models[device] = step, model
    with runtime_mode("graph"):
        us = timing.medians(
            {
                "nntile": timing.loop(steps["nntile"], 10, finish),
                "cpu": timing.loop(steps["cpu"], 10),
            },
            timing.repeats(60),
        )
    pairs = zip(models["nntile"].parameters(), models["cpu"].parameters(), strict=True)
    for ours, theirs in pairs:
        assert_close(ours.detach().cpu(), theirs.detach(), length=1000)
    rows.append(Row("record a small step with autograd", "us", us["nntile"], us["cpu"]))


def test_eager_op(rows: list[Row]) -> None:
    """Recorded, plan found, submitted: what the caller pays in eager mode."""
    inputs = {device: tensors(device) for device in ("nntile", "cpu")}
    us = timing.medians(
        {
            "nntile": timing.loop(lambda: torch.add(*inputs["nntile"]), CALLS, torch_nntile.wait),
            "cpu": timing.loop(lambda: torch.add(*inputs["cpu"]), CALLS),
        },
        timing.repeats(60),
    )
    assert_close(torch.add(*inputs["nntile"]).cpu(), torch.add(*inputs["cpu"]))
    rows.append(Row("add in eager mode, submitted", "us", us["nntile"], us["cpu"]))


def adds(width: int) -> Callable[[], list[Tensor]]:
    """A graph of TASKS ops that need no other; each is a task."""
    x, y = torch.ones(width, device="nntile"), torch.full((width,), 2.0, device="nntile")
    return lambda: [torch.add(x, y) for _ in range(TASKS)]


def layers(width: int) -> Callable[[], list[Tensor]]:
    """A graph of four layers on 64 row tiles: four tasks in a chain, 64 times."""
    x = torch.full((64 * 2, width), 1 / width, device="nntile")
    w = torch.ones(width, width, device="nntile")
    torch_nntile.set_axis_group_name(x, {0: "bench_rows"})
    torch_nntile.set_axis_group_tiling("bench_rows", 2)
    return lambda: [torch.mm(torch.mm(torch.mm(torch.mm(x, w), w), w), w)]


@pytest.mark.parametrize(("made", "name"), [(adds, "256 ops"), (layers, "64 tiles an op")])
def test_lower_and_submit(
    rows: list[Row], one_worker: None, made: Callable[[int], Callable[[], list[Tensor]]], name: str
) -> None:
    # Microseconds a task: a plan that is new, then the same graph again; and to the end of the run.
    found: dict[str, list[float]] = {"new": [], "again": [], "end": []}
    with runtime_mode("graph"):
        for turn in range(timing.repeats(25)):
            record = made(3 + turn)  # another width is another plan
            for kind in ("new", "again"):
                finish()
                before = torch_nntile.stats()
                results = record()
                start = time.perf_counter()
                torch_nntile.run_graph()
                submitted = time.perf_counter()
                torch_nntile.wait()
                ended = time.perf_counter()
                after = torch_nntile.stats()
                tasks = after.tasks - before.tasks
                assert tasks >= TASKS
                assert after.lowerings - before.lowerings == (kind == "new")
                found[kind].append((submitted - start) / tasks * 1e6)
                if kind == "again":
                    found["end"].append((ended - start) / tasks * 1e6)
                for result in (results[0], results[-1]):
                    want = torch.full(result.shape, 3.0 if made is adds else (3.0 + turn) ** 3)
                    assert_close(result.cpu(), want, length=4 * (3 + turn))
    us = {kind: statistics.median(values) for kind, values in found.items()}
    rows += [
        Row(f"lower and submit, {name}, a task", "us", us["new"], goal=Goal(8)),
        Row(f"submit a known plan, {name}, a task", "us", us["again"], goal=Goal(3)),
        Row(f"run a known plan to its end, {name}, a task", "us", us["end"]),
    ]
