# SPDX-License-Identifier: BSD-3-Clause
"""Cumulative extremes, medians, searching, membership, rolling: as on the CPU, ties included."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from parity import assert_parity
from torch import Tensor

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int32, torch.uint8)
CUTS = {0: {0: (1, 4), 1: 3, 2: 2}}


pytestmark = pytest.mark.usefixtures("rows_only")


def with_ties(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randint(0, 9, shape, generator=generator).to(dtype)


CALLS: dict[str, Callable[[Tensor, int], Any]] = {
    "cummax": lambda x, d: x.cummax(d),
    "cummin": lambda x, d: x.cummin(d),
    "kthvalue": lambda x, d: x.kthvalue(2, d),
    "kthvalue kept": lambda x, d: x.kthvalue(3, d, keepdim=True),
    "topk": lambda x, d: x.topk(3, d),
    "smallest": lambda x, d: x.topk(2, d, largest=False),
    "unordered": lambda x, d: x.topk(3, d, sorted=False)[0].sort(d)[0],
    "median": lambda x, d: x.median(d),
    "median of all": lambda x, d: x.median(),
    "nanmedian": lambda x, d: x.nanmedian(d)[0],
    "argsort": lambda x, d: torch.argsort(x, dim=d, stable=True, descending=True),
    "roll": lambda x, d: x.roll(5, d),
    "roll of two": lambda x, d: x.roll((1, -2), (d, 0)),
    "roll of all": lambda x, d: x.roll(-7),
    "isin": lambda x, d: torch.isin(x, x[0, 0] % 3),
    "isin of many": lambda x, d: torch.isin(
        x, torch.arange(3, 103, device=x.device, dtype=x.dtype)
    ),
    "not in": lambda x, d: torch.isin(x, 3, invert=True),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CALLS)
def test_as_on_the_cpu(name: str, dtype: torch.dtype) -> None:
    for dim in (0, 1, -1):
        x = with_ties(5, 7, 4, dtype=dtype)
        assert_parity(lambda x, d=dim: CALLS[name](x, d), [x], cuts=CUTS, grad=False)


@pytest.mark.parametrize("name", ["cummax", "cummin", "kthvalue", "topk", "median", "nanmedian"])
def test_nan_and_infinity(name: str) -> None:
    x = with_ties(4, 9)
    x[0, 3] = x[2, 0] = x[2, 8] = torch.nan
    x[1, 2], x[3, 4] = torch.inf, -torch.inf
    for dim in (0, 1):
        assert_parity(lambda x, d=dim: CALLS[name](x, d), [x], grad=False)


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"])
def test_gradients(name: str) -> None:
    x = torch.linspace(-2, 2, 35).reshape(5, 7).sin()
    for dim in (0, 1):
        assert_parity(lambda x, d=dim: getattr(x, name)(d), [x], cuts={0: {0: 2, 1: 3}}, length=49)


def test_logcumsumexp_of_limits() -> None:
    x = torch.tensor([[-torch.inf, -torch.inf, 1.0, 1000.0], [torch.inf, 1.0, -1.0, torch.nan]])
    assert_parity(lambda x: x.logcumsumexp(1), [x], grad=False)
    assert_parity(lambda x: x.to(torch.bfloat16).logcumsumexp(0), [x], grad=False)


PICKED: dict[str, Callable[[Tensor], Tensor]] = {
    "max": lambda x: x.max(0).values,
    "max kept": lambda x: x.max(1, keepdim=True).values,
    "sort": lambda x: x.sort(1).values,
    "cummax": lambda x: x.cummax(0).values,
    "of a number": lambda x: x.sum().max(0).values,
}


@pytest.mark.parametrize("name", PICKED)
@pytest.mark.filterwarnings("error:There is a performance drop")
def test_what_was_picked_has_gradients_of_gradients(name: str) -> None:
    x = with_ties(5, 7, dtype=torch.float32)

    def gradients(device: str) -> list[Tensor]:
        leaf = x.to(device).requires_grad_()
        (first,) = torch.autograd.grad((PICKED[name](leaf) ** 3).sum(), leaf, create_graph=True)
        (second,) = torch.autograd.grad((first**2).sum(), leaf)
        batched = torch.func.vmap(torch.func.grad(lambda x: PICKED[name](x).sum()))
        return [t.detach().cpu() for t in (first, second, batched(leaf.detach().expand(2, 5, 7)))]

    torch.testing.assert_close(gradients("nntile"), gradients("cpu"))


def test_topk_of_many_takes_the_ties_of_the_cpu() -> None:
    x = with_ties(3, 4000)
    for k in (1, 3, 62, 63, 2000, 4000):
        assert_parity(lambda x, k=k: x.topk(k), [x], grad=False)
    assert_parity(lambda x: x.kthvalue(1234), [x], grad=False)


@pytest.mark.parametrize("dtype", DTYPES)
def test_searching(dtype: torch.dtype) -> None:
    sequence, x = with_ties(6, dtype=dtype).sort()[0], with_ties(5, 7, dtype=dtype)
    for right in (False, True):
        assert_parity(
            lambda s, x, r=right: torch.searchsorted(s, x, right=r),
            [sequence, x],
            cuts={0: {0: 2}, 1: {0: 2, 1: 3}},
            grad=False,
        )
        assert_parity(
            lambda s, x, r=right: torch.bucketize(x, s, right=r, out_int32=True),
            [sequence, x],
            grad=False,
        )
    rows = with_ties(5, 6, dtype=dtype)
    order = torch.argsort(rows, dim=1, stable=True)
    assert_parity(
        lambda s, x, o: torch.searchsorted(s, x, sorter=o, side="right"),
        [rows, x, order],
        cuts={0: {0: (1, 4)}, 1: {1: 3}},
        grad=False,
    )
    assert_parity(lambda s, x: torch.searchsorted(s.double(), x), [sequence, x], grad=False)
    assert_parity(lambda s, x: torch.searchsorted(s[:0], x), [sequence, x], grad=False)


@pytest.mark.parametrize("call", [lambda x: x.roll(0, 1), lambda x: x.roll((1, 2), (3, 0))])
def test_rolls_of_nothing(call: Callable[[Tensor], Tensor]) -> None:
    """The CPU does not look at dims then."""
    assert_parity(call, [torch.zeros(0)], grad=False)


REFUSED: dict[str, Callable[[Tensor], Any]] = {
    "k of topk": lambda x: x.topk(9, 1),
    "k of kthvalue": lambda x: x.kthvalue(0, 1),
    "dim": lambda x: x.cumsum(2),
    "empty median": lambda x: x[:, :0].median(1),
    "shifts": lambda x: x.roll((1, 2), (0,)),
    "dims of flip": lambda x: x.flip(0, 0),
    "boundaries": lambda x: torch.searchsorted(x[:2], x),
    "sorter": lambda x: torch.searchsorted(x[0], x, sorter=x[0].int()),
    "two dims": lambda x: torch.bucketize(x, x),
    "side": lambda x: torch.searchsorted(x[0], x, side="left", right=True),
    "bools": lambda x: torch.isin(x > 1, x > 1),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_as_on_the_cpu(name: str) -> None:
    x = with_ties(3, 4)
    with pytest.raises(Exception) as expected:  # noqa: PT011 - its class is what is compared
        REFUSED[name](x)
    with pytest.raises(expected.type):
        REFUSED[name](x.to("nntile"))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_flips_of_dims_that_lie_in_another_order(
    order: tuple[int, ...], dtype: torch.dtype
) -> None:
    """Runs of two and four elements too, and such that begin beside their alignment."""
    for sizes in ((5, 3, 7), (2, 5, 3), (5, 4, 2), (1, 2, 6), (3, 0, 2)):
        numel = torch.Size(sizes).numel()
        laid = [sizes[d] for d in order]
        for offset in (0, 1):
            x = torch.arange(numel + offset).to(dtype)[offset:].view(laid)
            x = x.permute([order.index(d) for d in range(3)])
            assert_parity(lambda x: (x.flip(0), x.flip(-1, 1), x.flip(0, 1, 2)), [x], grad=False)
            assert_parity(lambda x: x.transpose(0, 1).contiguous(), [x], grad=False)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("length", [40, 300])
def test_doubles_that_differ_late(length: int, descending: bool) -> None:
    """Sorted by their upper halves first: equal ones, and such as differ in the lower half only."""
    generator = torch.Generator().manual_seed(length)
    step = torch.randint(0, 3, (5, length), generator=generator, dtype=torch.float64)
    sign = torch.randint(0, 2, (5, length), generator=generator) * 2 - 1
    x = sign * (1 + step * 2**-50)
    x[1, ::7] = torch.nan
    x[2, ::5], x[2, 1::5] = 0.0, -0.0
    values, places = torch.sort(x, stable=True, descending=descending)
    found, at = torch.sort(x.to("nntile"), stable=True, descending=descending)
    assert torch.equal(places, at.cpu())
    torch.testing.assert_close(found.cpu(), values, rtol=0, atol=0, equal_nan=True)


RANGES = {
    torch.int64: [(0, 3), (-5, 60), (-(2**31), 2**31), (-(2**40), 2**40), (-(2**63), 2**63 - 1)],
    torch.int32: [(-(2**31), 2**31 - 1), (7, 8)],
    torch.int16: [(-(2**15), 2**15 - 1)],
    torch.uint8: [(0, 255)],
}


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("length", [1, 40, 300])
@pytest.mark.parametrize("dtype", RANGES, ids=str)
def test_integers_of_any_range(dtype: torch.dtype, length: int, descending: bool) -> None:
    generator = torch.Generator().manual_seed(length)
    for low, high in RANGES[dtype]:
        x = torch.randint(low, high, (3, length), generator=generator).to(dtype)
        x[0, ::7], x[0, ::9] = low, high - 1
        x[1, ::2] = x[1, 0].item()  # equals keep their order
        for stable in (True, None):
            values, places = x.to("nntile").sort(stable=stable, dim=1, descending=descending)
            want = x.sort(stable=True, dim=1, descending=descending)
            assert torch.equal(values.cpu(), want[0]) and torch.equal(places.cpu(), want[1])
