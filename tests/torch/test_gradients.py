# SPDX-License-Identifier: BSD-3-Clause
"""Losses, and what users do with gradients: zero, add up, clip, scale; the helpers of training."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from parity import assert_parity, runtime_mode
from torch import Tensor, nn
from torch.nn import functional as F

from torch_nntile import explain, set_axis_group_name, training, wait
from torch_nntile.train_mnist import DeepReLU


def randn(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


INPUTS = [randn(7, 11), randn(5), randn(7, 11) + 0.1, randn(5) - 0.2]
CUTS: list[dict[int, dict[int, Any]]] = [{2: {0: 3, 1: 4}}, {2: {0: (5, 1, 1)}, 3: {0: (1, 4)}}]
WAYS = {"single": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}


REDUCTIONS = ["mean", "sum", "none"]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", [(9, 5), (2, 7, 5), (5,), (2, 3, 4, 5)], ids=str)
def test_cross_entropy(shape: tuple[int, ...], reduction: str) -> None:
    labels = torch.arange(randn(*shape).numel() // 5).reshape(shape[:-1]) % 5

    def call(x: Tensor, y: Tensor) -> Tensor:
        return training.cross_entropy(x, y, ignore_index=3, reduction=reduction)

    cuts = [{0: {0: 2}}, {0: {len(shape) - 1: (1, 4)}, 1: {}}]
    expected = assert_parity(call, [randn(*shape), labels], cuts=cuts)
    pytorch = F.cross_entropy(
        randn(*shape).reshape(-1, 5), labels.reshape(-1), ignore_index=3, reduction=reduction
    )
    assert torch.equal(expected.tensors["result 0"].reshape(pytorch.shape), pytorch)


def test_cross_entropy_with_weights() -> None:
    def call(x: Tensor, y: Tensor, w: Tensor) -> Tensor:
        return training.cross_entropy(x, y, w.detach())

    args = [randn(8, 5), torch.arange(8) % 5, randn(5).abs()]
    assert_parity(call, args, cuts={0: {0: (3, 5)}, 2: {0: 2}})


def test_cross_entropy_refuses_labels_of_another_shape() -> None:
    for device in ("cpu", "nntile"):
        x, y = torch.ones(4, 3, device=device), torch.zeros(5, dtype=torch.long, device=device)
        with pytest.raises(ValueError, match=r"logits \(4, 3\) and labels \(5,\)"):
            training.cross_entropy(x, y)


@pytest.mark.parametrize("set_to_none", [False, True])
def test_zero_grad(set_to_none: bool) -> None:
    def call(w: Tensor, x: Tensor) -> list[Tensor]:
        p = nn.Parameter(w.clone())
        optimizer = training.SGD([p], 0.1, momentum=0.9)
        seen = []
        for _ in range(3):
            optimizer.zero_grad(set_to_none=set_to_none)
            assert (p.grad is None) == (set_to_none or not seen)
            for _ in range(2):  # gradients add up
                (x @ p).square().sum().backward()
            assert p.grad is not None
            seen.append(p.grad.clone())  # zeroing must not reach it
            optimizer.step()
        return [*seen, p]

    cuts = {0: {0: (3, 4), 1: 2}, 1: {0: 2}}
    assert_parity(call, [randn(7, 3) / 9, randn(4, 7) / 9], cuts=cuts, grad=False)


@pytest.mark.parametrize("foreach", [None, False, True])
@pytest.mark.parametrize("norm", [2.0, 1.0, float("inf")])
def test_clip_grad_norm(norm: float, foreach: bool | None) -> None:
    def call(p: Tensor, q: Tensor, dp: Tensor, dq: Tensor) -> list[Tensor]:
        p.grad, q.grad = dp.clone(), dq.clone()
        total = nn.utils.clip_grad_norm_([p, q], 0.75, norm, foreach=foreach)
        return [total, p.grad, q.grad]

    assert_parity(call, INPUTS, cuts=CUTS, grad=False)


@pytest.mark.parametrize("foreach", [None, False, True])
def test_clip_grad_value(foreach: bool | None) -> None:
    def call(p: Tensor, dp: Tensor) -> Tensor:
        p.grad = dp.clone()
        nn.utils.clip_grad_value_([p], 0.3, foreach=foreach)
        return p.grad

    assert_parity(call, [randn(7, 11), randn(7, 11)], cuts={1: {0: 3}}, grad=False, same_bits=True)


@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize("way", WAYS)
def test_grad_scaler_trains_like_without(way: str, mode: str) -> None:
    def losses(device: str, scaled: bool) -> list[float]:
        scaler = torch.amp.GradScaler(device, init_scale=1024.0, growth_interval=2, enabled=scaled)
        model = DeepReLU.tiny(torch.Generator().manual_seed(2)).to(device)
        x, y = randn(6, 128).to(device), (torch.arange(6) % 4).to(device)
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, **WAYS[way])
        found = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = training.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            scaler.step(optimizer)
            scaler.update()
            found.append(loss.item())
        assert scaler.get_scale() == (4096.0 if scaled else 1.0)
        return found

    expected = losses("cpu", False)
    with runtime_mode(mode):
        found = losses("nntile", True)
    torch.testing.assert_close(torch.tensor(found), torch.tensor(expected))


def test_full_batch_step_names_axes_before_the_forward_pass() -> None:
    model = DeepReLU.tiny().to("nntile")
    x, y = randn(6, 128).to("nntile"), (torch.arange(6) % 4).to("nntile")
    name, seen = "full_batch_step", []

    def name_axes(*args: Any) -> None:
        seen.append(args)
        set_axis_group_name(x, {0: name})

    before = F.cross_entropy(model(x), y).item()
    loss = training.train_full_batch_step(
        model, training.SGD(model.parameters(), 0.1), x, y, name_axes=name_axes
    )
    assert loss == before  # of the weights before the step
    assert len(seen) == 1 and seen[0][0] is model and seen[0][1] is x and seen[0][2] is y
    assert F.cross_entropy(model(x), y).item() < before
    _kept = x.exp()
    wait()
    assert f"{name}=6" in explain("graph")
