# SPDX-License-Identifier: BSD-3-Clause
"""Windows of images, margins, random slopes: compositions, forward and backward, without the host."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from parity import assert_parity, numbers, refused
from torch import Tensor

pytestmark = pytest.mark.usefixtures("rows_only")

aten = torch.ops.aten
Call = Callable[..., Any]


# ---- windows

IMAGE, VOLUME = (4, 3, 7, 9), (2, 3, 4, 5, 7)


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        *((IMAGE, s) for s in ((3, 4), (7, 3), (1, 1), (9, 11), (0, 2), (7, 9))),
        *((VOLUME, s) for s in ((3, 2, 4), (1, 1, 1), (2, 5, 7), (5, 6, 8))),
        *(((3, 7, 9), (3, 4)), ((3, 4, 5, 7), (3, 2, 4)), ((0, 3, 7, 9), (3, 4))),
    ],
)
def test_adaptive_max_pool(shape: tuple[int, ...], size: tuple[int, ...]) -> None:
    x = numbers(*shape)
    cuts = [{0: {0: (1, shape[0] - 1)}}] if shape[0] > 1 and 0 not in size else None
    pool = F.adaptive_max_pool2d if len(size) == 2 else F.adaptive_max_pool3d
    for dtype in (torch.float32, torch.bfloat16):
        y = x.to(dtype)
        assert_parity(
            lambda x: pool(x, size, return_indices=True), [y], cuts=cuts, grad=0 not in size
        )
    if len(shape) == 4 and len(size) == 2:
        last = numbers(4, 7, 9, 3).permute(0, 3, 1, 2)
        assert_parity(lambda x: pool(x, size), [last], grad=0 not in size)


def test_adaptive_maxima_that_are_several_or_none() -> None:
    x = numbers(2, 2, 5, 7).round().clamp(-1, 1)
    x[0, 0, :2], x[1, 0] = math.nan, -math.inf
    for size in ((3, 4), (2, 2), (1, 1)):
        assert_parity(
            lambda x, s=size: F.adaptive_max_pool2d(x, s, return_indices=True), [x], grad=False
        )
    assert_parity(lambda x: F.adaptive_max_pool1d(x, 3, return_indices=True), [numbers(2, 3, 7)])
    refused(lambda x: F.adaptive_max_pool2d(x, 2), x[:, :, :0])
    refused(lambda x: F.adaptive_max_pool2d(x, 2), x.nan_to_num().long())


@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_max_unpool(spatial: int) -> None:
    pool, unpool = (getattr(F, f"max_{name}{spatial}d") for name in ("pool", "unpool"))

    def call(x: Tensor) -> Tensor:
        values, places = pool(x, 2, return_indices=True)
        return unpool(values, places, 2, output_size=x.shape)

    shape = (4, 3, 5, 6, 7)[: spatial + 2]
    for dtype in (torch.float32, torch.bfloat16):
        assert_parity(call, [numbers(*shape, dtype=dtype)], cuts=[{0: {0: (1, 3)}}])
    if spatial == 2:
        assert_parity(call, [numbers(4, 5, 6, 3).permute(0, 3, 1, 2)])
        values, places = numbers(2, 3, 2, 2), torch.zeros(2, 3, 2, 2, dtype=torch.int64)
        assert_parity(lambda v, p: F.max_unpool2d(v, p, 2), [values[:0], places[:0]])
        for bad in (99, -1):
            refused(lambda v, p: F.max_unpool2d(v, p, 2), values, places + bad)
        refused(lambda v, p: F.max_unpool2d(v, p, 2), values, places.int())
        refused(lambda v, p: F.max_unpool2d(v, p, 2), values, places[:1])
        refused(lambda v, p: F.max_unpool2d(v, p, 2), values.long(), places)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize(
    "how",
    [
        {"kernel_size": 2},
        {"kernel_size": (2, 3), "stride": 2},
        {"kernel_size": (7, 2), "stride": (7, 2)},
        {"kernel_size": (3, 2), "stride": (3, 2), "padding": (1, 0)},
        {"kernel_size": 3, "padding": (1, 2), "dilation": 2, "stride": (1, 2)},
    ],
)
def test_unfold_and_fold(how: dict[str, Any], dtype: torch.dtype) -> None:
    x = numbers(4, 3, 7, 8, dtype=dtype)
    assert_parity(lambda x: F.unfold(x, **how), [x], cuts=[{0: {0: (1, 3)}}], length=16)
    assert_parity(lambda x: F.unfold(x, **how), [x[0]], length=16)
    assert_parity(lambda x: F.unfold(x, **how), [x[:0]])
    columns = F.unfold(x, **how)
    assert_parity(lambda c: F.fold(c, (7, 8), **how), [columns], length=16)
    assert_parity(lambda c: F.fold(c, (7, 8), **how), [columns[:0]])


def test_a_fold_of_windows_beside_each_other_has_no_zero_below_zero() -> None:
    columns = torch.full((1, 4, 4), -0.0)
    cpu, ours = (F.fold(x, (4, 4), 2, stride=2) for x in (columns, columns.to("nntile")))
    assert torch.equal(torch.signbit(ours.cpu()), torch.signbit(cpu))


def test_unfold_refuses() -> None:
    x = numbers(2, 3, 4, 5)
    for how in ({"kernel_size": 9}, {"kernel_size": 2, "padding": -1}, {"kernel_size": 0}):
        refused(lambda x, how=how: F.unfold(x, **how), x)
    refused(lambda x: F.unfold(x, 2), x[0, 0])
    refused(lambda x: F.fold(x, (3, 3), 2), numbers(2, 12, 5))
    refused(lambda x: F.fold(x, (3, 3), 2), torch.ones(2, 12, 4, dtype=torch.int64))


def test_channel_shuffle() -> None:
    for x in (numbers(4, 6, 2, 3), numbers(2, 6, 5), numbers(2, 6, 1, 2, 2), numbers(0, 6, 2, 2)):
        assert_parity(lambda x: torch.channel_shuffle(x, 3), [x])
        assert_parity(lambda x: torch.channel_shuffle(x, 2), [x.to(torch.int32)], grad=False)
    last = numbers(4, 2, 3, 6).permute(0, 3, 1, 2)
    assert_parity(lambda x: torch.channel_shuffle(x, 2), [last])
    refused(lambda x: torch.channel_shuffle(x, 4), last)
    refused(lambda x: torch.channel_shuffle(x, 2), last[0, 0])


def test_renorm() -> None:
    x = numbers(4, 3, 5)
    for p, dim in ((1, 0), (2, 1), (3, -1), (0.5, 0)):
        assert_parity(lambda x, p=p, d=dim: torch.renorm(x, p, d, 1.5), [x], length=16)
        short = x.bfloat16()
        assert_parity(lambda x, p=p, d=dim: torch.renorm(x, p, d, 1.5), [short], grad=False)
    refused(lambda x: torch.renorm(x, -1, 0, 1), x)
    refused(lambda x: torch.renorm(x, 1, 0, -1), x)
    refused(lambda x: torch.renorm(x, 1, 0, 1), x[0, 0])


# ---- margins

REDUCTIONS = ("none", "mean", "sum")


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_multi_margin_loss(reduction: str) -> None:
    x, target, weight = numbers(6, 5), torch.tensor([0, 4, 2, 2, 1, 3]), numbers(5).abs()
    x[1] = math.nan
    for p in (1, 2):
        for w in (None, weight):
            for margin in (1, 0.5):

                def call(x: Tensor, t: Tensor, p: int = p, m: float = margin, w: Any = w) -> Tensor:
                    w = None if w is None else w.to(x.device)
                    return F.multi_margin_loss(x, t, p, m, w, reduction=reduction)

                assert_parity(call, [x, target], cuts=[{0: {0: (2, 4)}}], length=32)
                assert_parity(call, [x[0].double(), target[0]], length=32) if w is None else None
                assert_parity(call, [x[:1], target[:1]], length=32)
                if reduction == "none":  # a sum of no rows is what the CPU's memory was
                    assert_parity(call, [x[:0], target[:0]])


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_multilabel_margin_loss(reduction: str) -> None:
    def call(x: Tensor, t: Tensor) -> Tensor:
        return F.multilabel_margin_loss(x, t, reduction=reduction)

    x = numbers(4, 5)
    target = torch.tensor([[3, 0, -1, 1, 2], [2, 2, 1, -1, 0], [-1, 4, 4, 4, 4], [0, 1, 2, 3, 4]])
    assert_parity(call, [x, target], cuts=[{0: {0: (1, 3)}}], length=64)
    assert_parity(call, [x[0].double(), target[0]], length=64)
    assert_parity(
        lambda x, t: aten.multilabel_margin_loss_forward(x, t, 1), [x, target], grad=False
    )


def test_margins_refuse() -> None:
    x, target = numbers(3, 4), torch.tensor([0, 3, 1])
    labels = torch.tensor([[0, 1, -1, 0]] * 3)
    for call in (
        lambda x, t: F.multi_margin_loss(x, t + 9),
        lambda x, t: F.multi_margin_loss(x, t - 9),
        lambda x, t: aten.multi_margin_loss(x, t, 3),
        lambda x, t: F.multi_margin_loss(x, t, weight=x[0, :2]),
        lambda x, t: F.multi_margin_loss(x, t.int()),
        lambda x, t: F.multi_margin_loss(x, t[:2]),
        lambda x, t: F.multi_margin_loss(x[None], t),
        lambda x, t: F.multi_margin_loss(x[:, :0], t),
        lambda x, t: F.multi_margin_loss(x.bfloat16(), t),
    ):
        refused(call, x, target)
    for call in (
        lambda x, t: F.multilabel_margin_loss(x, t + 9),
        lambda x, t: F.multilabel_margin_loss(x, t.int()),
        lambda x, t: F.multilabel_margin_loss(x, t[:2]),
        lambda x, t: F.multilabel_margin_loss(x.bfloat16(), t),
        lambda x, t: F.multilabel_margin_loss(x[:, :0], t[:, :0]),
    ):
        refused(call, x, labels)


# ---- random slopes


def test_rrelu() -> None:
    x = numbers(4, 3, 5)
    assert_parity(lambda x: F.rrelu(x, 0.1, 0.3), [x])
    assert_parity(lambda x: F.rrelu(x.bfloat16(), 0.1, 0.3), [x], grad=False)
    ours = x.to("nntile").requires_grad_()
    y = F.rrelu(ours, 0.1, 0.3, training=True)
    y.sum().backward()
    assert ours.grad is not None
    slope, y = ours.grad.cpu(), y.detach().cpu()
    torch.testing.assert_close(y, x * slope)
    assert bool((slope[x > 0] == 1).all())
    below = slope[x <= 0]
    assert bool(((below >= 0.1) & (below <= 0.3)).all())
    assert len(below.unique()) > 1
    z = x.to("nntile")
    assert F.rrelu(z, 0.2, 0.2, training=True, inplace=True) is z
    torch.testing.assert_close(z.cpu(), F.leaky_relu(x, 0.2))


def test_rrelu_refuses() -> None:
    x = -numbers(3).abs()
    refused(lambda x: aten.rrelu_with_noise(x, x[:2].clone(), 0.1, 0.3, True), x)
    refused(lambda x: aten.rrelu_with_noise(x, x.double(), 0.1, 0.3, True), x)
    refused(lambda x: aten.rrelu_with_noise(x, x.clone(), 0.5, 0.3, True), x)
    refused(lambda x: aten.rrelu_with_noise(x, x.clone(), 0.1, 0.3, True), x.long())
