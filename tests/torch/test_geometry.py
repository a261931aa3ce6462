# SPDX-License-Identifier: BSD-3-Clause
"""Ranges of numbers, distances and grids: compositions, forward and backward, without the host."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from parity import assert_parity, numbers, refused
from torch import Tensor

from torch_nntile.conformance import marks

pytestmark = pytest.mark.usefixtures("rows_only")

aten = torch.ops.aten
Call = Callable[..., Any]


# ---- ranges

DTYPES = (
    *(torch.float32, torch.float64, torch.bfloat16, torch.float16),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8),
)


@pytest.mark.parametrize("dtype", DTYPES)
def test_linspace_and_logspace(dtype: torch.dtype) -> None:
    draw = random.Random(str(dtype))
    for steps in (0, 1, 2, 3, 6, 7, 50, 1001):
        start, end = draw.uniform(0, 90), draw.uniform(0, 90)
        for call in (
            lambda s, e, n, **kw: torch.linspace(s, e, n, **kw),
            lambda s, e, n, **kw: torch.logspace(s / 45, e / 45, n, **kw),
            lambda s, e, n, **kw: torch.logspace(s / 45, e / 45, n, 3, **kw),
        ):
            expected = call(start, end, steps, dtype=dtype)
            found = call(start, end, steps, dtype=dtype, device="nntile").cpu()
            exact = dtype.is_floating_point and dtype != torch.float64
            if exact and "linspace" in call.__code__.co_names:
                assert torch.equal(found, expected)
            torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    "call",
    [
        lambda d: torch.linspace(3, -4, 9, device=d),
        lambda d: torch.linspace(0, math.inf, 6, device=d),
        lambda d: torch.linspace(-3, 10, 6, dtype=torch.uint8, device=d),
        lambda d: torch.linspace(0, 10, 6, out=torch.empty(2, 3, device=d)),
        lambda d: torch.linspace(0, 10, 6, out=torch.empty(2, device=d)),
        lambda d: torch.linspace(0, 10, 6, out=torch.empty(6, dtype=torch.int64, device=d)),
        lambda d: torch.linspace(torch.tensor(1.0, device=d), torch.tensor(3), 5, device=d),
        lambda d: torch.logspace(0, 3, 4, base=-2, device=d),
        lambda d: torch.logspace(torch.tensor(1.0, device=d), 3, 5, base=2, device=d),
        lambda d: torch.logspace(0, 2, 6, out=torch.empty(6, 2, device=d)[:, 0]),
        lambda d: torch.linspace(0, 3, 1, dtype=torch.bool, device=d),
        lambda d: torch.linspace(0, 3, 0, dtype=torch.bool, device=d),
        lambda d: torch.logspace(0, 3, 0, dtype=torch.bool, device=d),
        lambda d: torch.signal.windows.hann(9, device=d),
        lambda d: torch.signal.windows.kaiser(8, sym=False, device=d),
    ],
)
def test_ranges(call: Callable[[str], Tensor]) -> None:
    expected, found = call("cpu"), call("nntile")
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    torch.testing.assert_close(found.cpu(), expected, equal_nan=True)


@pytest.mark.parametrize(
    "call",
    [
        lambda d: torch.linspace(0, 1, -1, device=d),
        lambda d: torch.logspace(0, 1, -1, device=d),
        lambda d: torch.linspace(0, 1e10, 3, dtype=torch.int32, device=d),
        lambda d: torch.linspace(0, 10, 6, dtype=torch.bool, device=d),
        lambda d: torch.logspace(0, 10, 6, dtype=torch.bool, device=d),
        lambda d: torch.linspace(0, 1j, 3, dtype=torch.float32, device=d),
        lambda d: torch.linspace(torch.ones(2, device=d), 3, 4, device=d),
    ],
)
def test_ranges_that_are_none(call: Callable[[str], Tensor]) -> None:
    with pytest.raises(Exception) as cpu:  # noqa: PT011
        call("cpu")
    with pytest.raises(cpu.type):
        call("nntile")


@pytest.mark.parametrize("name", ["linspace", "logspace"])
def test_ranges_are_made_by_tasks(name: str) -> None:
    found = {mark for _, mark, _ in marks.marks(name, torch.float32, 4, lambda case: None)}
    assert found <= {"R", "C"}


# ---- distances

NORMS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, math.inf)


@pytest.mark.parametrize("p", NORMS)
@pytest.mark.parametrize("shapes", [((6, 5), (4, 5)), ((2, 1, 6, 3), (3, 4, 3)), ((3, 0), (2, 0))])
def test_cdist(p: float, shapes: tuple[tuple[int, ...], ...]) -> None:
    a, b = numbers(*shapes[0]), numbers(*shapes[1], seed=4)
    if a.numel():
        b[..., 0, :] = a[(0,) * (a.dim() - 2)][0]  # a distance of 0
        b[..., 1, 0] = a[(0,) * (a.dim() - 2)][0, 0]
    cuts = [{0: {a.dim() - 2: (1, a.shape[-2] - 1)}}]
    assert_parity(lambda a, b: torch.cdist(a, b, p), [a, b], cuts=cuts, length=32)


@pytest.mark.parametrize("mode", ["donot_use_mm_for_euclid_dist", "use_mm_for_euclid_dist"])
def test_cdist_by_products(mode: str) -> None:
    a, b = numbers(30, 5), numbers(7, 5, seed=4)
    assert_parity(lambda a, b: torch.cdist(a, b), [a, b], length=512)
    assert_parity(lambda a, b: torch.cdist(a, b, compute_mode=mode), [a, b], length=512)


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.0])
def test_distances_of_what_is_no_number(p: float) -> None:
    a = torch.tensor([[math.nan, 1, 0], [1, 2, 3], [math.inf, 0, 0]], dtype=torch.float64)
    b = torch.tensor([[math.nan, 1, 0], [1, 2, 3], [1, 2, 9], [2, 2, 2]], dtype=torch.float64)
    for x in (a, b):
        assert_parity(lambda a, b: torch.cdist(a, b, p), [a, x], length=32)
        assert_parity(lambda a: torch.pdist(a, p), [x], length=32)


@pytest.mark.parametrize("p", NORMS)
def test_pdist(p: float) -> None:
    for shape in ((7, 3), (40, 2), (1, 4), (0, 4), (5, 0)):
        x = numbers(*shape)
        if shape[0] > 1:
            x[1] = x[0]
        # The CPU's gradient of nothing crashes.
        assert_parity(lambda x: torch.pdist(x, p), [x], length=64, grad=x.numel() > 0)
    assert_parity(lambda x: torch.pdist(x, p), [numbers(1, 4).bfloat16()], grad=False)
    nothing = numbers(0, 4).to("nntile").requires_grad_()
    torch.pdist(nothing, p).sum().backward()
    assert nothing.grad is not None
    assert nothing.grad.shape == (0, 4)


def test_distances_that_are_none() -> None:
    x, y = numbers(3, 4), numbers(5, 4)
    for call in (
        lambda x, y: torch.cdist(x, y, -1),
        lambda x, y: torch.cdist(x, y[:, :3]),
        lambda x, y: torch.cdist(x[0], y),
        lambda x, y: torch.cdist(x, y.double(), 1),
        lambda x, y: torch.cdist(x.bfloat16(), y.bfloat16()),
        lambda x, y: torch.cdist(x.long(), y.long()),
        lambda x, y: aten._cdist_forward(x, y, 2.0, 7),
        lambda x, y: torch.pdist(x.bfloat16()),
        lambda x, y: aten._pdist_forward(x.t(), 2.0),
    ):
        refused(call, x, y)


# ---- grids


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample(mode: str, padding: str, align_corners: bool) -> None:
    def call(x: Tensor, grid: Tensor) -> Tensor:
        return F.grid_sample(x, grid, mode, padding, align_corners)

    x, grid = numbers(4, 3, 5, 6), numbers(4, 3, 7, 2, seed=4) * 1.3
    assert_parity(call, [x, grid], cuts=[{0: {0: (1, 3)}, 1: {0: (1, 3)}}], length=64)
    assert_parity(call, [x[:, :, :1, :2].double(), grid.double()], length=64)
    if mode != "bicubic":
        x, grid = numbers(2, 3, 4, 5, 3), numbers(2, 2, 3, 4, 3, seed=4) * 1.3
        assert_parity(call, [x, grid], length=64)


def test_grids_at_the_rim() -> None:
    """Outside of the image, on its rim and between pixels; infinite."""
    x = numbers(1, 2, 3, 4)
    places = (-1.5, -1, -0.75, -0.5, 0, 1 / 3, 0.5, 1, 1.2, 7)
    grid = torch.tensor([[(a, b) for a in places] for b in places]).unsqueeze(0)
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            for align in (False, True):
                call = lambda x, g, m=mode, p=padding, a=align: F.grid_sample(x, g, m, p, a)  # noqa: E731
                assert_parity(call, [x, grid], length=400)
    far = torch.tensor([[math.inf, 0.0], [0.0, -math.inf], [0, 0]]).view(1, 1, 3, 2)
    assert_parity(lambda x, g: F.grid_sample(x, g, align_corners=False), [x, far], length=64)


def test_grids_of_nothing_and_errors() -> None:
    def sample(x: Tensor, grid: Tensor) -> Tensor:
        return F.grid_sample(x, grid, align_corners=False)

    x, grid = numbers(2, 3, 4, 5), numbers(2, 3, 4, 2)
    for inputs in ((x[:0], grid[:0]), (x, grid[:, :0]), (x[:, :0], grid)):
        assert_parity(sample, list(inputs))
    refused(sample, x, grid[:1])
    refused(sample, x[:, :, :0], grid)
    refused(sample, x.double(), grid)


def test_affine_grids() -> None:
    def call(x: Tensor, theta: Tensor) -> Tensor:
        return F.grid_sample(x, F.affine_grid(theta, [2, 3, 4, 4], False), align_corners=False)

    assert_parity(call, [numbers(2, 3, 5, 5), numbers(2, 2, 3)], length=128)
