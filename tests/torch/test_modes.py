# SPDX-License-Identifier: BSD-3-Clause
"""Eager and graph mode: when things run, and that equal steps use one plan."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from parity import runtime_mode
from torch import Tensor

import torch_nntile
from torch_nntile import stats
from torch_nntile.train_mnist import DeepReLU


def ones(*shape: int) -> Tensor:
    return torch.ones(shape, device="nntile")


def test_graph_mode_waits_for_run() -> None:
    a = ones(3)
    torch_nntile.wait()
    with runtime_mode("graph"):
        assert not torch_nntile.has_pending_graph()
        before = stats()
        b = a * 2 + 1
        assert torch_nntile.has_pending_graph()
        assert "mul" in torch_nntile.explain("pending")
        assert stats().graphs == before.graphs
        torch_nntile.compile_graph()
        assert torch_nntile.has_pending_graph()
        assert stats().graphs == before.graphs
        torch_nntile.run_graph()
        assert not torch_nntile.has_pending_graph()
        assert stats().graphs == before.graphs + 1
        torch_nntile.wait()
        assert b.tolist() == [3.0] * 3
        assert stats().graphs == before.graphs + 1


@pytest.mark.parametrize(
    "read",
    [Tensor.item, Tensor.cpu, Tensor.tolist, float, bool, repr, lambda x: x.to("cpu")],
    ids=["item", "cpu", "tolist", "float", "bool", "repr", "to"],
)
def test_a_host_read_runs_what_is_pending(read: Callable[[Tensor], object]) -> None:
    with runtime_mode("graph"):
        x = ones(1) + 1
        assert torch_nntile.has_pending_graph()
        read(x)
        assert not torch_nntile.has_pending_graph()
        assert x.item() == 2


def test_an_index_of_integers_reads_nothing_and_a_mask_does() -> None:
    rows = torch.tensor([2, 0], device="nntile")
    with runtime_mode("graph"):
        x = ones(3, 2).cumsum(0)
        y = x[rows, 1]
        assert torch_nntile.has_pending_graph()
        assert y.tolist() == [3, 1]
        before = stats().graphs
        z = x[x > 2]
        assert stats().graphs == before + 1 and z.shape == (2,)
        assert z.tolist() == [3, 3]


def test_run_and_compile_with_nothing_pending() -> None:
    with runtime_mode("graph"):
        torch_nntile.compile_graph()
        torch_nntile.run_graph()
        torch_nntile.wait()
    torch_nntile.compile_graph()
    torch_nntile.run_graph()


def test_leaving_graph_mode_runs_what_is_pending() -> None:
    with runtime_mode("graph"):
        x = ones(2) + 4
    assert not torch_nntile.has_pending_graph()
    assert x.tolist() == [5.0, 5.0]


def test_a_dropped_result_is_not_computed() -> None:
    a = ones(4)
    with runtime_mode("graph"):
        kept = a + 1
        dropped = a.exp()
        del dropped
        torch_nntile.compile_graph()
        assert "exp" not in torch_nntile.explain("graph")
        assert kept.tolist() == [2.0] * 4


def step(model: torch.nn.Module, x: Tensor, y: Tensor, lr: float) -> Tensor:
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    with torch.no_grad():
        for p in model.parameters():
            p.sub_(p.grad * lr)
            p.grad = None
    return loss


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_an_equal_step_lowers_nothing(mode: str) -> None:
    torch.manual_seed(0)
    model = DeepReLU(6, 5, 3, depth=2).to("nntile")
    x, y = torch.randn(8, 6).to("nntile"), torch.randint(3, (8,)).to("nntile")
    with runtime_mode(mode):
        losses = [step(model, x, y, 0.1).item() for _ in range(3)]
        before = stats()
        losses += [step(model, x, y, 0.1).item() for _ in range(3)]
        after = stats()
    assert after.lowerings == before.lowerings
    assert after.plan_hits > before.plan_hits
    assert after.graphs - before.graphs == (3 if mode == "graph" else after.graphs - before.graphs)
    assert losses == sorted(losses, reverse=True)


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_numbers_do_not_make_new_plans(mode: str) -> None:
    a = ones(5)
    with runtime_mode(mode):
        results = []
        for k, lr in enumerate((0.5, 0.25, 0.125, 1e-3)):
            results.append(torch.add(a * lr, a, alpha=lr).cpu())
            if k == 1:
                before = stats().lowerings
        assert stats().lowerings == before
    assert [r[0].item() for r in results] == pytest.approx([1.0, 0.5, 0.25, 2e-3])


@pytest.mark.parametrize("fused", [True, False])
def test_learning_rate_schedule_uses_one_plan(fused: bool) -> None:
    p = torch.nn.Parameter(ones(4))
    options = {"fused": True} if fused else {"foreach": True}
    optimizer = torch.optim.Adam([p], lr=0.1, **options)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    with runtime_mode("graph"):
        for k in range(6):
            optimizer.zero_grad()
            (p * p).sum().backward()
            optimizer.step()
            schedule.step()
            p.detach().cpu()
            if k == 2:
                before = stats().lowerings
        assert stats().lowerings == before


def test_another_shape_is_another_plan() -> None:
    with runtime_mode("graph"):
        (ones(5) * 3 - 1).cpu()
        before = stats().lowerings
        (ones(6) * 3 - 1).cpu()
        assert stats().lowerings > before


def test_modes_agree_on_random_numbers() -> None:
    found = []
    for mode in ("eager", "graph"):
        torch.nntile.manual_seed(7)
        with runtime_mode(mode):
            x = torch.empty(100, device="nntile").uniform_()
            found.append((x, torch.nn.functional.dropout(x + 1, 0.3)))
    for eager, graph in zip(*found, strict=True):
        assert torch.equal(eager.cpu(), graph.cpu())


def test_capture_of_stats_counts_ops_once() -> None:
    a = ones(3)
    before = stats()
    a + a
    assert stats().ops == before.ops + 1


def test_unknown_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="'eager' or 'graph', got 'lazy'"):
        torch_nntile.modes.number_of("lazy")
