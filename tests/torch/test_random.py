# SPDX-License-Identifier: BSD-3-Clause
"""Random numbers: of a seed, the same for every cut and mode, with the right distribution."""

from __future__ import annotations

import inspect
import math
import re
from typing import Any

import pytest
import torch
from parity import runtime_mode
from torch import Tensor
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

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


def test_permutations() -> None:
    """Each of the 24 of four elements is as frequent; and each place of a long one is."""
    torch.manual_seed(0)
    count: dict[tuple[int, ...], int] = {}
    for _ in range(1200):
        order = tuple(torch.randperm(4, device="nntile").tolist())
        count[order] = count.get(order, 0) + 1
    assert len(count) == 24
    assert sum((k - 50) ** 2 / 50 for k in count.values()) < 50  # chi square of 23: p of 0.001
    long = torch.randperm(10_001, device="nntile")
    assert torch.equal(long.sort().values.cpu(), torch.arange(10_001))
    assert not torch.equal(long.cpu(), torch.randperm(10_001, device="nntile").cpu())
    generator = torch.Generator("nntile").manual_seed(5)
    first = torch.randperm(9, generator=generator, device="nntile", dtype=torch.float32)
    again = torch.randperm(9, generator=generator.manual_seed(5), device="nntile")
    assert first.tolist() == again.tolist()
    assert torch.randperm(0, device="nntile").shape == (0,)
    for n, dtype in ((-1, torch.int64), (3000, torch.float16), (300, torch.uint8), (3, torch.bool)):
        with pytest.raises(RuntimeError) as expected:
            torch.randperm(n, dtype=dtype)
        with pytest.raises(type(expected.value)) as found:
            torch.randperm(n, dtype=dtype, device="nntile")
        assert str(found.value) == str(expected.value)


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


class Noisy(torch.nn.Module):
    """Its output is its gradient, mask by mask."""

    def forward(self, x: Tensor, *others: object) -> Tensor:
        return torch.nn.functional.dropout(x, 0.5) + torch.bernoulli(torch.full_like(x, 0.5)) * x


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_checkpoint_replays_the_masks(mode: str, reentrant: bool) -> None:
    with runtime_mode(mode):
        x = torch.ones(1000, device="nntile", requires_grad=True)
        beside = torch.ones(2)  # of the CPU: its generator is kept too
        y = checkpoint(Noisy(), x, x, beside, use_reentrant=reentrant)
        after = torch.nntile.get_rng_state()
        y.sum().backward()
        assert torch.equal(x.grad.cpu(), y.detach().cpu())
        assert torch.equal(torch.nntile.get_rng_state(), after)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint_of_a_sequence(reentrant: bool) -> None:
    layers = [torch.nn.Linear(4, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 4), Noisy()]
    model = torch.nn.Sequential(*layers).to("nntile")
    x = torch.randn(64, 4, device="nntile", requires_grad=True)
    gradients = []
    for run in (model, lambda x: checkpoint_sequential(model, 2, x, use_reentrant=reentrant)):
        torch.manual_seed(8)
        run(x).square().sum().backward()
        gradients.append(x.grad.cpu())
        x.grad = None
    assert torch.equal(*gradients)


FORKS_CUDA = inspect.signature(torch.random.fork_rng).parameters["device_type"].default == "cuda"
of_the_accelerator = pytest.mark.skipif(FORKS_CUDA, reason="PyTorch forks CUDA's, up to 2.12")


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, marks=of_the_accelerator),
        {"device_type": "nntile"},
        {"device_type": "nntile", "devices": [0]},
        pytest.param({"devices": [0]}, marks=of_the_accelerator),
        {"devices": ["nntile", torch.device("nntile:0")], "device_type": "nntile"},
    ],
    ids=str,
)
def test_fork_rng(options: dict[str, Any]) -> None:
    def draw() -> tuple[Tensor, Tensor]:
        return torch.rand(8), torch.rand(8, device="nntile").cpu()

    torch.manual_seed(21)
    with torch.random.fork_rng(**options):
        inside = draw()
    after = draw()
    assert all(map(torch.equal, inside, after))
    torch.manual_seed(21)
    with torch.random.fork_rng(devices=[], device_type="nntile"):
        inside = draw()
    after = draw()
    assert [torch.equal(*pair) for pair in zip(inside, after, strict=True)] == [True, False]


WHOLE = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool)
FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
BOUNDS: list[tuple[int, ...]] = [
    (),
    (0, None),
    (-3, None),
    (2, None),
    (100,),
    (-3, 100),
    (-5, 32752),
]
BOUNDS += [(0, 2**24 + 3), (-(2**63), None), (3, 2), (-(2**40), 2**62)]


@pytest.mark.parametrize("dtype", [*WHOLE, *FLOATING], ids=str)
@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
def test_random_integers_fill_the_range_of_the_cpu(dtype: torch.dtype, bounds: Any) -> None:
    """Or are refused in the CPU's words: the largest number of a small dtype, precision of a float."""
    n = 20_000
    try:
        expected = torch.empty(n, dtype=dtype).random_(*bounds).double()
    except RuntimeError as error:
        with pytest.raises(type(error), match=re.escape(str(error))):
            torch.empty(n, dtype=dtype, device="nntile").random_(*bounds)
        return
    found = torch.empty(n, dtype=dtype, device="nntile").random_(*bounds).cpu().double()
    slack = (expected.max() - expected.min()).item() / 500
    assert abs(found.min() - expected.min()).item() <= slack
    assert abs(found.max() - expected.max()).item() <= slack
    assert abs(found.mean() - expected.mean()).item() <= 10 * slack


def test_normal_of_a_mean_alone() -> None:
    found = torch.normal(torch.full((20_000,), 3.0, device="nntile")).cpu()
    assert abs(found.mean().item() - 3) < 0.05
    assert abs(found.std().item() - 1) < 0.05


@pytest.mark.parametrize("size", [5, 5000])
@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf, None])
def test_no_distribution(size: int, bad: float | None) -> None:
    """Few numbers are looked at by the host, many by the device; of one row of two, too."""
    p = torch.zeros(size)
    if bad is not None:
        p.fill_(1)[2] = bad
    for given in (p, torch.stack([torch.ones(size), p])):
        with pytest.raises(RuntimeError) as of_cpu:
            given.multinomial(1)
        with pytest.raises(RuntimeError, match=re.escape(str(of_cpu.value))):
            given.to("nntile").multinomial(1)
    one = torch.zeros(size)
    one[3] = 0.5
    assert one.to("nntile").multinomial(1).item() == 3


def test_nothing_of_probability_zero_is_drawn() -> None:
    """Of a million uniform numbers of this seed one is 0, of which an exponential one is the logarithm."""
    count = 2**20
    torch.manual_seed(33)
    none = int(torch.empty(count, device="nntile").uniform_().argmin())
    torch.manual_seed(33)
    assert torch.empty(count, device="nntile").uniform_()[none].item() == 0
    torch.manual_seed(33)
    assert torch.empty(count, device="nntile").exponential_().min().item() > 0
    p = torch.zeros(count)
    p[0 if none else 1] = 1
    for samples in (1, 2):
        p[2 * samples] = 1
        torch.manual_seed(33)
        drawn = p.to("nntile").multinomial(samples)
        assert none not in drawn.tolist()


@pytest.mark.parametrize("size", [3, 5000])
def test_shares_of_few_and_of_many(size: int) -> None:
    p = torch.zeros(size)
    p[:3] = torch.tensor([0.1, 0.3, 0.6])
    drawn = p.expand(2000, size).to("nntile").multinomial(1).cpu().view(-1)
    one_by_one = torch.stack([p.to("nntile").multinomial(1) for _ in range(1000)]).cpu().view(-1)
    for found in (drawn, one_by_one):
        shares = torch.bincount(found, minlength=size).double() / len(found)
        assert (shares[:3] - p[:3]).abs().max() < 0.05
        assert shares[3:].sum() == 0


def test_small_exponential_numbers_are_as_fine_as_their_dtype() -> None:
    """Else what has a probability of 1e-8 would hardly be drawn."""
    torch.manual_seed(0)
    drawn = torch.empty(2**24, device="nntile").exponential_().cpu().double() * 2**24
    small = drawn[drawn < 16]
    assert len(small) > 4
    assert ((small - small.round()).abs() > 1e-3).any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 1.0), (1.0, 2.0), (1000.0, 1001.0), (-1.0, 1.0), (-2.0, 0.0), (0, 0.1)]
)
def test_uniform_numbers_stay_below_their_bound(
    dtype: torch.dtype, low: float, high: float
) -> None:
    torch.manual_seed(0)
    count = 2**20
    drawn = torch.empty(count, dtype=dtype, device="nntile").uniform_(low, high).cpu()
    bound = torch.tensor(high, dtype=dtype)
    assert drawn.min() >= torch.tensor(low, dtype=dtype)
    assert drawn.max() < bound or bound == torch.tensor(low, dtype=dtype)
    if high - low >= 1 and low < 1000:
        middle, width = (low + high) / 2, high - low
        step = torch.finfo(dtype).eps * max(abs(low), abs(high))  # of 16 bits, by rounding
        assert abs(drawn.double().mean() - middle) < width / 300 + step / 2
        assert (drawn == low).sum() < count * max(2.0**-20, 1.5 * step / width) + 10


@pytest.mark.parametrize("p", [0.999, 0.9, 0.001])
def test_chances_of_short_floats_are_not_rounded(p: float) -> None:
    torch.manual_seed(0)
    drawn = torch.empty(2**20, dtype=torch.bfloat16, device="nntile").bernoulli_(p)
    apart = 4 * math.sqrt(p * (1 - p) / drawn.numel())
    assert drawn.cpu().double().mean().item() == pytest.approx(p, abs=apart)


def test_dropout_scales_as_its_gradient_does() -> None:
    torch.manual_seed(0)
    x = torch.ones(2**14, device="nntile", requires_grad=True)
    y = torch.nn.functional.dropout(x, 0.999)
    y.sum().backward()
    assert x.grad is not None
    assert y.max().item() == x.grad.max().item()
    assert y.max().item() == pytest.approx(1000, rel=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("samples", [1, 7])
def test_draws_do_not_depend_on_cuts(dtype: torch.dtype, samples: int) -> None:
    p = torch.rand(12, 700).to(dtype)

    def drawn(*, cut: bool) -> Tensor:
        x = p.to("nntile")
        if cut:
            torch_nntile.set_axis_group_name(x, {0: "rows"})
            torch_nntile.set_axis_group_tiling("rows", 5)
        torch.manual_seed(5)
        return x.multinomial(samples, replacement=True).cpu()

    whole = drawn(cut=False)
    assert whole.shape == (12, samples)
    assert len(whole.unique()) > 10
    torch.testing.assert_close(drawn(cut=True), whole, rtol=0, atol=0)


@pytest.mark.parametrize("layout", ["transposed", "strided", "one dim"])
def test_draws_follow_the_distribution(layout: str) -> None:
    """Of every element, behind blocks and within them, and never of a probability of 0."""
    size, count = 1000, 200_000
    p = torch.rand(2, size) * (torch.rand(2, size) > 0.5)
    p[:, 256:520] = 0
    x = p.to("nntile")
    if layout == "transposed":
        x = p.t().contiguous().to("nntile").t()
    elif layout == "strided":
        x = p.repeat_interleave(2, 1).to("nntile")[:, ::2]
    elif layout == "one dim":
        x, p = x[1], p[1:]
    found = x.multinomial(count, replacement=True).cpu().view(-1, count)
    for row, chances in zip(found, p, strict=True):
        shares = torch.bincount(row, minlength=size).double()
        expected = chances.double() / chances.double().sum() * count
        assert shares[chances == 0].sum() == 0
        likely = expected > 50
        apart = (shares - expected)[likely] / expected[likely].sqrt()
        assert apart.abs().max() < 6
        assert apart.std() < 1.2


def test_a_captured_function_draws_tokens() -> None:
    p = torch.tensor([0.2, 0.0, 0.8]).to("nntile")

    @torch_nntile.capture
    def token(p: Tensor) -> Tensor:
        return p.multinomial(1) * 10

    torch.manual_seed(3)
    found = [token(p).item() for _ in range(60)]
    torch.manual_seed(3)
    assert found == [p.multinomial(1).item() * 10 for _ in range(60)]
    assert set(found) == {0, 20}
    with pytest.raises(RuntimeError, match="inf"):
        token(torch.tensor([1, math.inf, 1]).to("nntile")).item()
    assert token(p).item() in (0, 20)
