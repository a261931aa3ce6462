# SPDX-License-Identifier: BSD-3-Clause
"""Random numbers: of a seed, the same for every cut and mode, with the right distribution."""

from __future__ import annotations

import pytest
import torch
from parity import runtime_mode
from torch import Tensor

import torch_nntile

N = 20_000
FILLS = {
    "uniform": lambda x: x.uniform_(-1, 3),
    "normal": lambda x: x.normal_(2, 0.5),
    "bernoulli": lambda x: x.bernoulli_(0.3),
    "bernoulli of probabilities": lambda x: torch.bernoulli(torch.full_like(x, 0.3)),
    "random": lambda x: x.random_(2, 7),
    "dropout": lambda x: torch.nn.functional.dropout(x.fill_(1), 0.25),
}
# mean, standard deviation, lowest, highest
EXPECTED = {
    "uniform": (1.0, 4 / 12**0.5, -1.0, 3.0),
    "normal": (2.0, 0.5, -2.0, 6.0),
    "bernoulli": (0.3, 0.21**0.5, 0.0, 1.0),
    "bernoulli of probabilities": (0.3, 0.21**0.5, 0.0, 1.0),
    "random": (4.0, 2**0.5, 2.0, 6.0),
    "dropout": (1.0, (1 / 3) ** 0.5, 0.0, 4 / 3),
}


def fill(name: str, cut: object = None, shape: tuple[int, ...] = (N // 8, 8)) -> Tensor:
    torch.nntile.manual_seed(11)
    x = torch.zeros(shape, device="nntile")
    if cut is not None:
        group = f"random_{len(shape)}_{shape[0]}"
        torch_nntile.set_axis_group_name(x, {0: group})
        torch_nntile.set_axis_group_tiling(group, cut)
    return FILLS[name](x).cpu()


@pytest.mark.parametrize("name", FILLS)
def test_distribution(name: str) -> None:
    x = fill(name).double()
    mean, deviation, lowest, highest = EXPECTED[name]
    assert x.mean().item() == pytest.approx(mean, abs=5 * deviation / N**0.5)
    assert x.std().item() == pytest.approx(deviation, rel=0.05)
    assert x.min() >= lowest
    assert x.max() <= highest + 1e-6


@pytest.mark.parametrize("name", FILLS)
def test_cuts_and_modes_do_not_change_bits(name: str) -> None:
    whole = fill(name, shape=(13, 5))
    for cut in (1, 4, (2, 11)):
        assert torch.equal(fill(name, cut, (13, 5)), whole)
    with runtime_mode("graph"):
        assert torch.equal(fill(name, 3, (13, 5)), whole)


@pytest.mark.parametrize("name", FILLS)
def test_each_call_draws_anew(name: str) -> None:
    first = fill(name)
    second = FILLS[name](torch.zeros(N // 8, 8, device="nntile")).cpu()
    assert not torch.equal(first, second)


def test_generators_are_independent_and_can_be_restored() -> None:
    own = torch.Generator("nntile").manual_seed(3)
    x = torch.empty(8, device="nntile").uniform_(generator=own).cpu()
    torch.empty(8, device="nntile").uniform_()
    own.manual_seed(3)
    assert torch.equal(torch.empty(8, device="nntile").uniform_(generator=own).cpu(), x)
    torch.manual_seed(5)
    state = torch.nntile.get_rng_state()
    y = torch.rand(8, device="nntile").cpu()
    torch.nntile.set_rng_state(state)
    assert torch.equal(torch.rand(8, device="nntile").cpu(), y)


def test_the_generator_of_the_cpu_is_left_alone() -> None:
    state = torch.get_rng_state()
    x = torch.empty(5, 7, device="nntile")
    for fill_in in FILLS.values():
        fill_in(x)
    torch.nn.functional.dropout(x)
    torch.multinomial(x.fill_(1), 2)
    torch.randperm(5, device="nntile")
    with pytest.raises(RuntimeError, match=r"normal expects std >= 0\.0"):
        x.normal_(0, -1)
    with pytest.raises(RuntimeError, match="from"):
        x.to(torch.int32).random_(3, 2)
    x.cpu()
    assert torch.equal(torch.get_rng_state(), state)


def test_dropout_backward_uses_the_mask() -> None:
    x = torch.ones(1000, device="nntile", requires_grad=True)
    y = torch.nn.functional.dropout(x, 0.4)
    y.sum().backward()
    assert torch.equal(x.grad.cpu(), y.detach().cpu())
