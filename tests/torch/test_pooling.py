# SPDX-License-Identifier: BSD-3-Clause
"""Pooling as rows: values, places, gradients, layouts and errors of CPU PyTorch, whole and cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from parity import assert_parity
from torch import Tensor

from torch_nntile.fallback import set_cpu_fallback

LINES, PLANES, CUBES = (4, 3, 9), (4, 3, 7, 8), (4, 3, 4, 6, 5)


@pytest.fixture(autouse=True)
def _rows_only() -> Iterator[None]:
    set_cpu_fallback(False)
    yield
    set_cpu_fallback(True)


Case = tuple[Callable[[Tensor], Any], tuple[int, ...]]
CASES: dict[str, Case] = {
    "max 1d": (lambda x: F.max_pool1d(x, 3, 2, 1), LINES),
    "max 2d": (lambda x: F.max_pool2d(x, 3, 2, 1), PLANES),
    "max 2d with places": (lambda x: F.max_pool2d(x, (2, 3), return_indices=True), PLANES),
    "max 2d, ceil": (lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True), PLANES),
    "max 2d, windows apart": (lambda x: F.max_pool2d(x, 2, 3, dilation=2), PLANES),
    "max 2d of one image": (lambda x: F.max_pool2d(x, 2), PLANES[1:]),
    "max 3d": (lambda x: F.max_pool3d(x, 2, padding=1, return_indices=True), CUBES),
    "avg 1d": (lambda x: F.avg_pool1d(x, 4, 3, 1), LINES),
    "avg 2d": (lambda x: F.avg_pool2d(x, 3, 2, 1), PLANES),
    "avg 2d, no padding counts": (
        lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
        PLANES,
    ),
    "avg 2d, ceil": (lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), PLANES),
    "avg 2d, a window larger than the image": (
        lambda x: F.avg_pool2d(x, (9, 10), ceil_mode=True, count_include_pad=False),
        PLANES,
    ),
    "max 2d, a window larger than the image": (
        lambda x: F.max_pool2d(x, (9, 10), ceil_mode=True),
        PLANES,
    ),
    "avg 2d, divisor": (lambda x: F.avg_pool2d(x, (2, 3), divisor_override=5), PLANES),
    "avg 3d": (lambda x: F.avg_pool3d(x, 2, padding=1), CUBES),
    "adaptive 1d": (lambda x: F.adaptive_avg_pool1d(x, 4), LINES),
    "adaptive 2d": (lambda x: F.adaptive_avg_pool2d(x, (3, 5)), PLANES),
    "adaptive 2d, larger": (lambda x: F.adaptive_avg_pool2d(x, (10, 9)), PLANES),
    "adaptive 2d, mean": (lambda x: F.adaptive_avg_pool2d(x, 1), PLANES),
    "adaptive 3d": (lambda x: F.adaptive_avg_pool3d(x, (2, 4, 3)), CUBES),
}
SHORT = [torch.bfloat16, torch.float16]
DTYPES = [torch.float32, torch.float64, *SHORT]


# The CPU has no average of three dims in short floats.
PAIRS = [(n, d) for n in CASES for d in DTYPES if n != "avg 3d" or d not in SHORT]


@pytest.mark.parametrize(("name", "dtype"), PAIRS, ids=str)
def test_as_on_the_cpu(name: str, dtype: torch.dtype) -> None:
    call, shape = CASES[name]
    torch.manual_seed(19)
    x = torch.randn(shape).to(dtype)
    cuts: Any = [{0: {0: (1, 3)}}, {0: {0: 2, 1: 1}}] if len(shape) == len(PLANES) else {}
    assert_parity(call, [x], cuts=cuts, length=64)


def test_strided_images() -> None:
    x = torch.randn(4, 6, 9, 16)
    for call in (CASES["max 2d with places"][0], CASES["avg 2d"][0]):
        assert_parity(
            lambda x, call=call: call(x[1:, ::2, :, 1::2]), [x], cuts={0: {0: 2}}, length=64
        )


def test_special_values() -> None:
    x = torch.randn(2, 3, 6, 6)
    x[0, 0, 1, 1], x[0, 1], x[1, 2, 5, 5] = float("nan"), -float("inf"), float("inf")
    for call in (
        lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True),
        lambda x: F.avg_pool2d(x, 2),
    ):
        expected, found = call(x), call(x.to("nntile"))
        pairs = (
            zip(expected, found, strict=True)
            if isinstance(expected, tuple)
            else [(expected, found)]
        )
        for want, value in pairs:
            assert torch.equal(value.cpu().nan_to_num(7), want.nan_to_num(7))


def test_a_place_outside_of_the_image() -> None:
    places = torch.full((1, 1, 2, 2), 99, device="nntile")
    x, grad = torch.ones(1, 1, 4, 4, device="nntile"), torch.ones(1, 1, 2, 2, device="nntile")
    backward = torch.ops.aten.max_pool2d_with_indices_backward
    with pytest.raises(IndexError, match=r"index 99 is out of range \[0, 16\)"):
        backward(grad, x, [2, 2], [2, 2], [0, 0], [1, 1], False, places).cpu()
    assert F.max_pool2d(x, 2).cpu().tolist() == [[[[1, 1], [1, 1]]]]


ERRORS: dict[str, Callable[[Tensor], Any]] = {
    "window larger than the image": lambda x: F.max_pool2d(x, 9),
    "padding": lambda x: F.max_pool2d(x, 2, padding=2),
    "stride": lambda x: F.avg_pool2d(x, 2, stride=0),
    "divisor": lambda x: F.avg_pool2d(x, 2, divisor_override=0),
    "rank": lambda x: F.max_pool2d(x[0, 0], 2),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, (2, 3, 4)),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_those_of_the_cpu(name: str) -> None:
    x = torch.ones(1, 2, 5, 5)
    with pytest.raises((RuntimeError, ValueError)) as expected:
        ERRORS[name](x)
    with pytest.raises(expected.type):
        ERRORS[name](x.to("nntile"))
