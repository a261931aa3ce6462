# SPDX-License-Identifier: BSD-3-Clause
"""Windows of eager mode: an optimizer's step is one graph, and nobody can see that it waited."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from emulated_devices import on_cores
from parity import begins_soon, runtime_mode
from torch import Tensor, nn
from torch.testing import assert_close

from torch_nntile import has_pending_graph, profile, stats, wait

OPTIMIZERS: dict[str, Callable[[Iterable[Tensor]], torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1),
    "momentum": lambda p: torch.optim.SGD(p, 0.1, 0.9, weight_decay=0.1, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, 0.1, amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, 0.1, weight_decay=0.1),
    "adamw, one by one": lambda p: torch.optim.AdamW(p, 0.1, foreach=False),
    "maximize": lambda p: torch.optim.AdamW(p, 0.1, maximize=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 0.1, momentum=0.9),
    "adagrad": lambda p: torch.optim.Adagrad(p, 0.1),
    "adamax": lambda p: torch.optim.Adamax(p, 0.1),
    "nadam": lambda p: torch.optim.NAdam(p, 0.1),
}


def model(device: str) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.GELU(), nn.Linear(7, 3)).to(device)


def backward(module: nn.Module, device: str) -> None:
    module(torch.linspace(-1, 1, 20).view(4, 5).to(device)).square().mean().backward()


def trained(make: Callable[..., torch.optim.Optimizer], device: str) -> tuple[list[Tensor], Any]:
    """Parameters after four steps, and the counters of the last one."""
    module = model(device)
    optimizer = make(module.parameters())
    for _ in range(4):
        optimizer.zero_grad()
        backward(module, device)
        wait()
        before = stats()
        optimizer.step()
        wait()
        after = stats()
    counts = (after.graphs - before.graphs, after.tasks - before.tasks)
    return [p.detach().cpu() for p in module.parameters()], (
        *counts,
        after.lowerings - before.lowerings,
    )


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_is_one_graph(name: str) -> None:
    expected, _ = trained(OPTIMIZERS[name], "cpu")
    found, (graphs, tasks, lowerings) = trained(OPTIMIZERS[name], "nntile")
    assert_close(found, expected, rtol=1e-3, atol=1e-4)
    assert graphs == 1 and lowerings == 0
    assert tasks <= 8  # of four parameters


@pytest.mark.parametrize("name", ["sgd", "momentum", "adam", "adamw", "adamw, one by one"])
def test_a_step_is_one_task_a_parameter(name: str) -> None:
    _, (_, tasks, _) = trained(OPTIMIZERS[name], "nntile")
    assert tasks == 4


def test_more_steps_make_no_more_plans() -> None:
    module = model("nntile")
    optimizer = torch.optim.AdamW(module.parameters(), 0.1)
    counts = []
    for _ in range(8):
        optimizer.zero_grad()
        backward(module, "nntile")
        optimizer.step()
        wait()
        counts.append(stats().lowerings)
    assert counts[2:] == [counts[2]] * 6


class Doubling(torch.optim.Optimizer):
    """Adds to its parameters, and then does what a test asks for."""

    def __init__(self, parameters: Iterable[Tensor], then: Callable[[Tensor], object]) -> None:
        super().__init__(parameters, {})
        self.then = then

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        for parameter in self.param_groups[0]["params"]:
            parameter.add_(1).mul_(2)
        return self.then(self.param_groups[0]["params"][0])


def ones() -> Tensor:
    return torch.ones(3, device="nntile").requires_grad_()


def test_a_step_that_reads() -> None:
    x = ones()
    assert Doubling([x], lambda p: p.sum().item()).step() == 12
    assert Doubling([x], lambda p: p.tolist()).step() == [10, 10, 10]
    assert not has_pending_graph()


def fail(_: Tensor) -> None:
    raise KeyError("in a step")


def test_a_step_that_raises_loses_nothing() -> None:
    x = ones()
    with pytest.raises(KeyError):
        Doubling([x], fail).step()
    y = x.detach() + 1
    wait()
    assert not has_pending_graph()
    assert x.tolist() == [4, 4, 4] and y.tolist() == [5, 5, 5]
    z = x.detach() + 2
    assert z.tolist() == [6, 6, 6] and not has_pending_graph()


def test_a_step_that_raises_ends() -> None:
    """Also while somebody keeps the exception, and with it the frames of the step."""
    x, w = ones(), torch.ones(8, 8, device="nntile")
    with pytest.raises(KeyError) as caught:
        Doubling([x], fail).step()
    assert not has_pending_graph(), "what the step called is submitted at its end"
    kept = [w + k for k in range(64)]
    assert not has_pending_graph(), "64 calls are a graph again"
    y = w @ w
    assert begins_soon(), caught
    assert y[0, 0].item() == 8 and len(kept) == 64 and x.tolist() == [4, 4, 4]


def test_a_step_in_a_step() -> None:
    x, y, w = ones(), ones(), torch.ones(8, device="nntile")
    kept: list[Tensor] = []

    def inner(_: Tensor) -> None:
        with pytest.raises(KeyError):
            Doubling([y], fail).step()
        kept.extend(w + k for k in range(70))
        assert has_pending_graph(), "the outer step goes on"

    Doubling([x], inner).step()
    assert not has_pending_graph()
    assert x.tolist() == y.tolist() == [4, 4, 4] and kept[69].tolist() == [70] * 8


def test_what_a_step_looks_at_does_not_end_it() -> None:
    x, w = ones(), torch.ones(8, device="nntile")
    wait()
    before = stats()
    kept: list[Tensor] = []

    def look(_: Tensor) -> None:
        seen = stats()
        assert seen.graphs == before.graphs and seen.waiting == 2
        torch.nntile.memory_stats(), torch.nntile.mem_get_info(), torch.nntile.memory_summary()
        torch.accelerator.memory_stats()
        assert stats() == seen
        wait()  # submits, and the step goes on
        assert stats().graphs == before.graphs + 1 and not has_pending_graph()
        kept.extend(w + k for k in range(70))
        assert stats().waiting == 70

    Doubling([x], look).step()
    assert stats().graphs == before.graphs + 2
    assert x.tolist() == [4, 4, 4]


def test_bad_input_in_a_step_names_the_call() -> None:
    x = ones()
    with pytest.raises(RuntimeError, match=r"add|size"):
        Doubling([x], lambda p: p.add_(torch.ones(2, device="nntile"))).step()
    assert x.tolist() == [4, 4, 4]


def test_a_step_with_calls_on_the_host() -> None:
    def rprop(p: Iterable[Tensor]) -> torch.optim.Optimizer:
        return torch.optim.Rprop(p, 0.1)

    assert_close(trained(rprop, "nntile")[0], trained(rprop, "cpu")[0], rtol=1e-3, atol=1e-4)


def test_a_closure_runs_in_the_window() -> None:
    def fitted(device: str) -> list[Tensor]:
        module = model(device)
        optimizer = torch.optim.LBFGS(module.parameters(), 0.1, max_iter=3)

        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = module(torch.linspace(-1, 1, 20).view(4, 5).to(device)).square().mean()
            loss.backward()
            return loss

        optimizer.step(closure)
        return [p.detach().cpu() for p in module.parameters()]

    assert_close(fitted("nntile"), fitted("cpu"), rtol=1e-3, atol=1e-4)


def test_a_change_of_mode_and_graph_mode() -> None:
    x = ones()
    with runtime_mode("graph"):
        Doubling([x], lambda p: None).step()
        assert has_pending_graph()
    assert not has_pending_graph() and x.tolist() == [4, 4, 4]


def test_another_thread_in_the_meantime() -> None:
    x, found = ones(), []

    def work() -> None:
        found.append((torch.ones(3, device="nntile") + 1).tolist())

    def run(_: Tensor) -> None:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join(60)

    Doubling([x], run).step()
    assert found == [[2, 2, 2]] and x.tolist() == [4, 4, 4]


def test_a_copy_of_a_result_that_goes_is_that_result() -> None:
    def tasks(step: Callable[[Tensor], Any]) -> int:
        x = torch.ones(300, 300, device="nntile")
        wait()
        before = stats().tasks
        kept = step(x)
        wait()
        assert (x == 6).all()
        del kept
        return stats().tasks - before

    def alone(x: Tensor) -> None:
        x.copy_(x * 2 + 4)

    def both(x: Tensor) -> Tensor:
        y = x * 2 + 4
        x.copy_(y)
        z = y.clone()
        y.mul_(0)
        assert (z == 6).all()
        return y

    wait()
    assert tasks(alone) < tasks(both)


@on_cores
def test_a_little_work_is_done_by_who_waits() -> None:
    """To wake a worker, and then be woken by it, takes longer than a pass over 512 KiB."""
    x = torch.ones(256, 512, device="nntile")
    for synchronize in (wait, torch.accelerator.synchronize):
        for _ in range(2):
            x.mul_(1.0)
            synchronize()
        with profile() as profiled:
            x.mul_(1.0)
            synchronize()
        (task,) = profiled.tasks
        assert profiled.worker_names[task.worker] == "your thread"
