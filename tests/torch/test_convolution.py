# SPDX-License-Identifier: BSD-3-Clause
"""Convolutions as rows: values, gradients, layouts and errors of CPU PyTorch, whole and cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from parity import assert_parity, runtime_mode
from torch import Tensor, nn

import torch_nntile
from torch_nntile.fallback import set_cpu_fallback

FLOATS = [torch.float32, torch.bfloat16, torch.float16]


@pytest.fixture(autouse=True)
def _rows_only() -> Iterator[None]:
    set_cpu_fallback(False)
    yield
    set_cpu_fallback(True)


def drawn(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> list[Tensor]:
    torch.manual_seed(14)
    return [torch.randn(shape).to(dtype) for shape in shapes]


Call = Callable[..., Any]
# shapes of image, weight, bias; what is summed for one element of a result or gradient
CASES: dict[str, tuple[Call, list[tuple[int, ...]]]] = {
    "1d": (F.conv1d, [(4, 3, 11), (5, 3, 3), (5,)]),
    "2d": (F.conv2d, [(4, 3, 9, 8), (5, 3, 3, 2), (5,)]),
    "3d": (F.conv3d, [(4, 2, 5, 6, 4), (3, 2, 2, 3, 2), (3,)]),
    "strided": (
        lambda x, w, b: F.conv2d(x, w, b, stride=(2, 3), padding=(1, 2)),
        [(4, 16, 9, 10), (32, 16, 3, 3), (32,)],
    ),
    "dilated": (
        lambda x, w: F.conv2d(x, w, dilation=(2, 3), padding=2),
        [(4, 4, 9, 10), (6, 4, 3, 2)],
    ),
    "pixels": (F.conv2d, [(4, 32, 7, 7), (64, 32, 1, 1), (64,)]),
    "groups": (
        lambda x, w, b: F.conv2d(x, w, b, groups=3, padding=1),
        [(4, 6, 8, 8), (9, 2, 3, 3), (9,)],
    ),
    "depthwise": (
        lambda x, w: F.conv2d(x, w, groups=16, padding=1, stride=2),
        [(4, 16, 9, 9), (16, 1, 3, 3)],
    ),
    "padded by name": (lambda x, w: F.conv2d(x, w, padding="same"), [(4, 3, 6, 7), (2, 3, 4, 3)]),
    "a map of one pixel": (
        lambda x, w, b: F.conv2d(x, w, b, padding=1),
        [(4, 24, 1, 1), (16, 24, 3, 3), (16,)],
    ),
    "a small map": (
        lambda x, w, b: F.conv2d(x, w, b, padding=2, stride=2, dilation=2),
        [(4, 8, 2, 1), (16, 8, 3, 3), (16,)],
    ),
    "a row beyond the last window": (
        lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1, dilation=(2, 3)),
        [(4, 4, 5, 5), (1, 4, 2, 3), (1,)],
    ),
    "windows side by side": (
        lambda x, w, b: F.conv2d(x, w, b, stride=4).flatten(2).transpose(1, 2),
        [(4, 3, 9, 8), (16, 3, 4, 4), (16,)],
    ),
    "one image": (F.conv2d, [(3, 9, 8), (5, 3, 3, 2), (5,)]),
    "transposed": (F.conv_transpose2d, [(4, 5, 6, 7), (5, 3, 3, 2), (3,)]),
    "transposed 1d": (
        lambda x, w, b: F.conv_transpose1d(x, w, b, stride=3, output_padding=2, padding=1),
        [(4, 5, 6), (5, 3, 4), (3,)],
    ),
    "transposed in groups": (
        lambda x, w: F.conv_transpose2d(x, w, stride=2, groups=2, dilation=2, output_padding=1),
        [(4, 4, 5, 5), (4, 3, 3, 3)],
    ),
    "transposed 3d": (F.conv_transpose3d, [(4, 3, 3, 4, 2), (3, 2, 2, 2, 3), (2,)]),
}


@pytest.mark.parametrize("name", CASES)
def test_as_on_the_cpu(name: str) -> None:
    call, shapes = CASES[name]
    cuts: list[Any] = [{}]
    if shapes[0][0] == 4:
        # Six parts of a sum would be four lanes and two later ones; of four each is a lane.
        cuts = [{0: {0: (1, 3)}}, {0: {0: 1}, 1: {0: 2}}]
    assert_parity(call, drawn(*shapes), cuts=cuts, length=512)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["2d", "groups", "transposed"])
def test_dtypes(name: str, dtype: torch.dtype) -> None:
    call, shapes = CASES[name]
    assert_parity(call, drawn(*shapes, dtype=dtype), cuts={0: {0: (1, 3)}}, length=512)


def test_later_parts_of_a_sum_are_added() -> None:
    """Ten parts of a batch: the gradient of the weight has four lanes of several parts each."""
    inputs = drawn((10, 3, 6, 6), (4, 3, 3, 3))
    assert_parity(F.conv2d, inputs, cuts={0: {0: 1}}, length=1024)
    short = [x.bfloat16() for x in inputs]
    assert_parity(F.conv2d, short, cuts={0: {0: 1}}, length=1024)


@pytest.mark.parametrize("name", ["2d", "3d"])
def test_transposed_and_padded_by_a_whole_step(name: str) -> None:
    """The last window of the gradient would have no element of x: it runs on the host."""
    set_cpu_fallback(True)

    def planes(x: Tensor, w: Tensor) -> Tensor:
        return F.conv_transpose2d(
            x, w, stride=(3, 2), padding=(1, 2), output_padding=(2, 3), dilation=(4, 4), groups=2
        )

    def volumes(x: Tensor, w: Tensor) -> Tensor:
        return F.conv_transpose3d(x, w, stride=1, output_padding=1, dilation=2)

    if name == "2d":
        assert_parity(planes, drawn((2, 4, 4, 4), (4, 3, 3, 3)), length=512)
    else:
        assert_parity(volumes, drawn((2, 4, 3, 4, 3), (4, 2, 2, 2, 2)), length=512)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_other_dims_may_be_cut(dim: int) -> None:
    """Channels and pixels of the image: the kernel gets them whole."""
    inputs = drawn((2, 4, 6, 6), (5, 4, 3, 3), (5,))
    assert_parity(F.conv2d, inputs, cuts={0: {dim: (1, 3, 2)[: 2 + (dim > 1)]}}, length=256)


def test_strided_operands() -> None:
    def call(x: Tensor, w: Tensor, b: Tensor) -> Any:
        return F.conv2d(x[1:, ::2, :, 1::2], w.transpose(2, 3), b.expand(5))

    assert_parity(call, drawn((4, 6, 9, 16), (5, 3, 2, 3), (1,)), cuts={0: {0: (1, 3)}}, length=512)


def test_elements_that_are_shared() -> None:
    """Windows that overlap, and dims that repeat."""

    def call(x: Tensor, w: Tensor) -> Any:
        windows = x.as_strided((2, 3, 5), (8, 2, 1))
        return F.conv1d(windows, w), F.conv1d(x.view(1, 3, 8)[:, :1].expand(2, 3, 8), w)

    assert_parity(call, drawn((24,), (4, 3, 2)), grad=False, length=256)


@pytest.mark.parametrize("shape", [(2, 8, 9, 7), (2, 3, 9, 7)])
def test_channels_last(shape: tuple[int, ...]) -> None:
    x, w, b = drawn(shape, (6, shape[1], 3, 3), (6,))

    def last(t: Tensor) -> Tensor:
        return t.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)

    for image, weight in [(last(x), w), (x, last(w))]:
        assert_parity(F.conv2d, [image, weight, b], cuts={0: {0: 1}}, length=512)


def test_special_values() -> None:
    x, w, b = drawn((2, 3, 8, 8), (4, 3, 3, 3), (4,))
    x[0, 1, 3, 3], x[1, 0, 7, 7], x[1, 2, 0, 0] = float("nan"), float("inf"), -float("inf")
    expected, found = F.conv2d(x, w, b), F.conv2d(*(t.to("nntile") for t in (x, w, b))).cpu()
    assert torch.equal(expected.isnan(), found.isnan())
    assert torch.equal(expected.isinf(), found.isinf())
    finite = expected.isfinite()
    torch.testing.assert_close(found[finite], expected[finite], rtol=1e-4, atol=1e-4)


ERRORS: dict[str, Callable[[str], Any]] = {
    "window larger than the image": lambda d: F.conv2d(
        torch.ones(1, 2, 3, 3, device=d), torch.ones(2, 2, 5, 5, device=d)
    ),
    "channels": lambda d: F.conv2d(
        torch.ones(1, 3, 5, 5, device=d), torch.ones(2, 2, 3, 3, device=d)
    ),
    "groups": lambda d: F.conv2d(
        torch.ones(1, 4, 5, 5, device=d), torch.ones(3, 2, 3, 3, device=d), groups=2
    ),
    "bias": lambda d: F.conv2d(
        *(torch.ones(s, device=d) for s in [(1, 2, 5, 5), (3, 2, 3, 3), (2,)])
    ),
    "stride": lambda d: F.conv2d(
        torch.ones(1, 2, 5, 5, device=d), torch.ones(3, 2, 3, 3, device=d), stride=0
    ),
    "padding": lambda d: F.conv2d(
        torch.ones(1, 2, 5, 5, device=d), torch.ones(3, 2, 3, 3, device=d), padding=-1
    ),
    "dtypes": lambda d: F.conv2d(
        torch.ones(1, 2, 5, 5, device=d), torch.ones(3, 2, 3, 3, device=d).bfloat16()
    ),
    "output padding": lambda d: F.conv_transpose2d(
        torch.ones(1, 2, 5, 5, device=d), torch.ones(2, 2, 3, 3, device=d), output_padding=1
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_those_of_the_cpu(name: str) -> None:
    with pytest.raises((RuntimeError, ValueError)) as expected:
        ERRORS[name]("cpu")
    with pytest.raises(expected.type):
        ERRORS[name]("nntile")
    x = torch.ones(2, device="nntile")
    assert (x + 1).cpu().tolist() == [2, 2]


def test_a_network_learns_as_on_the_cpu() -> None:
    """Ten steps of a small network with all kinds of layers, its batch cut raggedly."""

    def losses(device: str) -> list[float]:
        torch.manual_seed(3)
        model = nn.Sequential(
            *(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()),
            *(nn.Conv2d(8, 8, 3, groups=8, stride=2), nn.GELU(), nn.ConvTranspose2d(8, 4, 2)),
            *(nn.Flatten(), nn.LazyLinear(5)),
        )
        model(torch.zeros(2, 3, 9, 9))
        model.to(device)
        x, y = torch.randn(6, 3, 9, 9).to(device), torch.arange(6).remainder(5).to(device)
        if device == "nntile":
            torch_nntile.set_axis_group_name(x, {0: "images_of_convolution"})
            torch_nntile.set_axis_group_tiling("images_of_convolution", (1, 3, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        found = []
        for _ in range(10):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            found.append(loss.detach())
        return [loss.item() for loss in found]

    expected = losses("cpu")
    for mode in ("eager", "graph"):
        with runtime_mode(mode):
            torch.testing.assert_close(losses("nntile"), expected, rtol=2e-4, atol=2e-5)
