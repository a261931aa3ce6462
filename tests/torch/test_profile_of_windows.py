# SPDX-License-Identifier: BSD-3-Clause
"""A profile records the plans that a step runs without it, and whose each of their tasks is."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import torch_nntile
from torch_nntile import stats, wait

DEVICE = "nntile"


def line_of(function: Callable[..., Any], text: str) -> str:
    """ "test_profile_of_windows.py:14", where the text stands in the function."""
    lines, first = inspect.getsourcelines(function)
    (k,) = (k for k, line in enumerate(lines) if text in line)
    return f"{__file__.rpartition('/')[2]}:{first + k}"


def line(task: Any) -> str:
    return str(task.line).rpartition("/")[2]


class Feed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(48)
        self.wide, self.back = nn.Linear(48, 96), nn.Linear(96, 48)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.wide(self.norm(x)))
        return x + self.back(h)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.all, self.out = nn.Linear(48, 144), nn.Linear(48, 48)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.all(x).reshape(2, 32, 3, 4, 12).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(seen.transpose(1, 2).reshape(2, 32, 48))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention, self.feed = Attention(), Feed()

    def forward(self, x: Tensor) -> Tensor:
        return self.feed(torch.tanh(self.attention(x)))


class Training:
    def __init__(self) -> None:
        torch.manual_seed(0)
        self.net = Block().to(DEVICE)
        self.optimizer = torch.optim.AdamW(self.net.parameters())
        self.x = torch.randn(2, 32, 48, device=DEVICE)

    def step(self) -> None:
        self.optimizer.zero_grad()
        self.net(self.x).square().mean().backward()
        self.optimizer.step()


@pytest.fixture(scope="module")
def trained(runtime: None) -> Any:
    training = Training()
    for _ in range(3):
        training.step()
    with torch_nntile.profile() as p:
        training.step()
    return p


def element_wise() -> Callable[[], Any]:
    x = torch.randn(300, 40, device=DEVICE)
    return lambda: torch.tanh(x * 2 + 1).sum(0)


def layers() -> Callable[[], Any]:
    net, x = Feed().to(DEVICE), torch.randn(64, 48, device=DEVICE)
    return lambda: net(x)


def small() -> Callable[[], Any]:
    x = torch.randn(4, 3, device=DEVICE)
    return lambda: [(x + k).relu() for k in range(40)]


def captured() -> Callable[[], Any]:
    return torch_nntile.capture(Training().step)


def compiled() -> Callable[[], Any]:
    net, x = Feed().to(DEVICE), torch.randn(64, 48, device=DEVICE)
    forward = torch.compile(lambda x: net(x), backend="nntile")

    def step() -> None:
        net.zero_grad()
        forward(x).square().mean().backward()

    return step


def counted(call: Callable[[], Any]) -> tuple[int, int, int]:
    """Graphs, tasks and lowerings of a call."""
    wait()
    before = stats()
    kept = call()  # what nobody holds is not computed
    wait()
    after = stats()
    del kept
    return (
        after.graphs - before.graphs,
        after.tasks - before.tasks,
        after.lowerings - before.lowerings,
    )


@pytest.mark.parametrize(
    "program",
    [element_wise, layers, small, lambda: Training().step, captured, compiled],
    ids=["element-wise", "layers", "small calls", "training", "captured", "compiled"],
)
def test_a_step_runs_the_same_plans(program: Callable[[], Callable[[], Any]]) -> None:
    step = program()
    for _ in range(4):
        counted(step)

    def profiled() -> tuple[int, int, int]:
        with torch_nntile.profile() as p:
            found = counted(step)
        assert len(p.tasks) == found[1] == p.stats.tasks
        return found

    # A thread that is held up for long has its graph ended: not each time.
    pairs = [(counted(step), profiled()) for _ in range(3)]
    assert any(alone == seen and seen[2] == 0 for alone, seen in pairs), pairs


def test_results_have_the_same_bits() -> None:
    def loss_of(step: Callable[[Training], None]) -> list[Tensor]:
        training = Training()
        for _ in range(2):
            step(training)
        return [p.detach().cpu() for p in training.net.parameters()]

    def profiled(training: Training) -> None:
        with torch_nntile.profile():
            training.step()

    for a, b in zip(loss_of(Training.step), loss_of(profiled), strict=True):
        assert torch.equal(a, b)


def test_each_task_has_its_call(trained: Any) -> None:
    assert trained.stats.lowerings == 0
    for task in trained.tasks:
        call = trained.calls[task.call]
        assert task.call >= 0
        assert not call.waits
        assert (task.line, task.module, task.backward) == (call.line, call.module, call.backward)
        assert call.start <= task.start


def test_a_product_is_its_layers_with_all_that_is_fused_into_it() -> None:
    net, x = Feed().to(DEVICE), torch.randn(64, 48, device=DEVICE)
    with torch_nntile.profile() as p:
        y = net(x)
    rows = [(t.op, t.module, line(t), p.calls[t.call].op) for t in p.tasks if t.kernel == "gemm"]
    assert rows == [
        ("addmm+relu", "Feed.wide", line_of(Feed.forward, "self.wide("), "aten::addmm"),
        ("addmm+add", "Feed.back", line_of(Feed.forward, "self.back("), "aten::addmm"),
    ]
    assert y.shape == x.shape


def test_a_gradient_is_its_layers_too() -> None:
    """What follows it, of the layer before, is fused into it."""
    net = nn.Sequential(nn.Linear(48, 64), nn.Tanh(), nn.Linear(64, 48)).to(DEVICE)
    x = torch.randn(64, 48, device=DEVICE)
    with torch_nntile.profile() as p:
        (gradient,) = torch.autograd.grad(net(x).sum(), net[0].bias)
    rows = {(t.op, t.module, t.backward) for t in p.tasks if "tanh_backward" in t.op}
    assert rows == {("matmul+tanh_backward", "Sequential.2", True)}
    assert gradient.shape == (64,)


def test_rows_of_backward_products(trained: Any) -> None:
    """A gradient of a layer is that layer's, though the derivative of what follows is fused."""
    flops: dict[str, int] = {}
    for t in trained.tasks:
        if t.kernel == "gemm" and t.backward:
            flops[t.module] = flops.get(t.module, 0) + t.flops
    rows = 2 * 64
    least = {
        "Block.feed.back": 2 * rows * 96 * 48,
        "Block.feed.wide": 2 * rows * 48 * 96,
        "Block.attention.out": 2 * rows * 48 * 48,
        "Block.attention.all": rows * 48 * 144,
    }
    assert flops.keys() == least.keys()
    for module, own in least.items():
        assert own <= flops[module] < 1.2 * own, module


def test_rows_of_attention_norms_and_optimizers(trained: Any) -> None:
    def places(word: str, backward: bool) -> set[tuple[str, str]]:
        return {
            (t.module, line(t))
            for t in trained.tasks
            if word in t.op and t.backward == backward and t.kernel != "copy"
        }

    attends = ("Block.attention", line_of(Attention.forward, "F.scaled_dot"))
    norms = ("Block.feed.norm", line_of(Feed.forward, "self.norm("))
    for backward in (False, True):
        assert places("attention", backward) == {attends}
        assert places("layer_norm", backward) == {norms}
    steps = line_of(Training.step, "self.optimizer.step()")
    own = [t for t in trained.tasks if line(t) == steps]
    assert own
    assert {t.module for t in own} == {""}
    assert {t.kernel for t in own} == {"map"}, "all of a step is element-wise"


def test_one_of_the_maps_that_are_fused_has_the_most_work() -> None:
    x = torch.randn(300, 40, device=DEVICE)

    def chain() -> Tensor:
        y = x * 2
        y = torch.tanh(y)
        return y + 1

    with torch_nntile.profile() as p:
        y = chain()
    (task,) = p.tasks
    assert task.op == "mul+tanh+add"
    assert line(task) == line_of(chain, "torch.tanh(")
    assert p.calls[task.call].op == "aten::tanh"
    assert y.shape == x.shape
