# SPDX-License-Identifier: BSD-3-Clause
"""interpolate() and pad() by what is there are one row, forward and backward, without the host."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from parity import assert_parity
from torch import Tensor

pytestmark = pytest.mark.usefixtures("rows_only")

LINE, PLANE, CUBE = (4, 3, 9), (4, 3, 6, 7), (2, 3, 4, 5, 6)
SHAPES = {1: LINE, 2: PLANE, 3: CUBE}
LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}
CUTS = [{0: {0: (1, 3)}}, {0: {1: (1, 2), 2: (2, 4)}}]


def scaled(**options: object) -> Callable[[Tensor], Tensor]:
    return lambda x: F.interpolate(x, **options)


CALLS: dict[str, tuple[Callable[[Tensor], Tensor], tuple[int, ...]]] = {
    **{
        f"{mode} {n}D {name}": (scaled(mode=mode, **to), SHAPES[n])
        for n in (1, 2, 3)
        for mode in ("nearest", "nearest-exact", LINEAR[n])
        for name, to in {
            "up": {"scale_factor": 2},
            "odd": {"scale_factor": 1.7},
            "down": {"size": (4, 3, 2)[:n]},
        }.items()
    },
    **{
        f"aligned {n}D": (
            scaled(size=(7, 5, 8)[:n], mode=LINEAR[n], align_corners=True),
            SHAPES[n],
        )
        for n in (1, 2, 3)
    },
    "to one": (scaled(size=(1, 1), mode="bilinear", align_corners=True), PLANE),
    "same size": (scaled(size=(6, 7), mode="bilinear"), PLANE),
    "bicubic": (scaled(size=(9, 5), mode="bicubic"), PLANE),
    "bicubic aligned": (scaled(scale_factor=2.5, mode="bicubic", align_corners=True), PLANE),
    "antialiased": (scaled(size=(4, 9), mode="bilinear", antialias=True), PLANE),
    "antialiased cubic": (scaled(size=(4, 3), mode="bicubic", antialias=True), PLANE),
    "factor as given": (
        scaled(scale_factor=(1.3, 0.6), mode="bilinear", recompute_scale_factor=False),
        PLANE,
    ),
    **{
        f"{mode} {n}D {padding}": (
            lambda x, p=padding, m=mode: F.pad(x, p, m),
            SHAPES[n],
        )
        for mode in ("reflect", "replicate")
        for n, padding in (
            (1, (2, 1)),
            (2, (1, 0, 3, 2)),
            (2, (-1, 2, 0, -2)),
            (3, (1, 1, 2, 0, 1, 1)),
        )
    },
    "reflect without a batch": (lambda x: F.pad(x, (1, 2), "reflect"), LINE[1:]),
    "replicate more than there is": (lambda x: F.pad(x, (12, 9), "replicate"), LINE),
}


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(3)).to(dtype)


@pytest.mark.parametrize("name", CALLS)
def test_as_on_the_cpu(name: str) -> None:
    call, shape = CALLS[name]
    cuts = CUTS if len(shape) == 4 else [{0: {0: (1, shape[0] - 1)}}]
    assert_parity(call, [numbers(*shape)], cuts=cuts, length=16, same_bits=True)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    "name", ["bilinear 2D odd", "nearest 2D up", "reflect 2D (1, 0, 3, 2)", "linear 1D down"]
)
def test_dtypes(name: str, dtype: torch.dtype) -> None:
    call, shape = CALLS[name]
    grad = dtype == torch.float64 or "linear" not in name  # the CPU rounds each part of such a sum
    assert_parity(call, [numbers(*shape, dtype=dtype)], length=16, grad=grad)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64])
def test_integers_are_moved(dtype: torch.dtype) -> None:
    x = (numbers(*PLANE) * 9).abs().to(dtype)
    assert_parity(lambda x: F.pad(x, (1, 1, 2, 0), "replicate"), [x], grad=False)
    if dtype == torch.uint8:  # the CPU interpolates no other integers
        assert_parity(lambda x: F.interpolate(x, scale_factor=2), [x], grad=False)


@pytest.mark.parametrize(
    "same", [lambda x: F.interpolate(x, size=(6, 7)), lambda x: F.pad(x, (0, 0, 0, 0), "replicate")]
)
def test_a_result_is_never_its_operand(same: Callable[[Tensor], Tensor]) -> None:
    def call(x: Tensor) -> tuple[Tensor, Tensor]:
        y = same(x)
        return x, y.add_(1)

    assert_parity(call, [numbers(*PLANE)], grad=False)


def test_channels_last() -> None:
    x = numbers(4, 6, 7, 3).permute(0, 3, 1, 2)
    for name in ("bilinear 2D odd", "nearest 2D up", "bicubic", "reflect 2D (1, 0, 3, 2)"):
        assert_parity(
            CALLS[name][0], [x], cuts=[{0: {0: (1, 3)}}, {0: {1: 3, 3: (1, 2)}}], length=16
        )


def test_operands_that_are_views() -> None:
    x = numbers(7, 6, 4, 3).transpose(0, 3)
    assert_parity(CALLS["bilinear 2D odd"][0], [x], length=16)
    assert_parity(lambda x: F.pad(x[1:, :, ::2], (2, 2, 0, 1), "replicate"), [x], length=16)


def test_out_and_no_rows() -> None:
    def into(x: Tensor) -> Tensor:
        out = x.new_zeros(4, 3, 5, 5)
        return torch._C._nn.upsample_bilinear2d(x, [5, 5], False, None, None, out=out)

    assert_parity(into, [numbers(*PLANE)], grad=False, length=16)
    assert_parity(CALLS["nearest 2D up"][0], [numbers(0, 3, 6, 7)])


@pytest.mark.parametrize(
    "call",
    {
        "no size": lambda x: F.interpolate(x, size=(0, 3), mode="bilinear"),
        "no pixels": lambda x: F.interpolate(x[:, :, :0], size=(2, 3), mode="bilinear"),
        "no channels": lambda x: F.interpolate(x[:, :0], scale_factor=2),
        "more than there is": lambda x: F.pad(x, (7, 0), "reflect"),
        "nothing is left": lambda x: F.pad(x, (-4, -3), "replicate"),
        "three dims": lambda x: torch.ops.aten.upsample_nearest2d(x[0], [2, 2]),
    }.items(),
    ids=lambda item: item[0],
)
def test_bad_input(call: tuple[str, Callable[[Tensor], Tensor]]) -> None:
    with pytest.raises(RuntimeError):
        call[1](numbers(*PLANE))
    with pytest.raises(RuntimeError):
        call[1](numbers(*PLANE).to("nntile"))


def test_long_lines() -> None:
    """What a line's outputs are made of is kept between calls, up to a million of them in all."""
    for extent in (300_000, 400_000, 500_000, 300_000, 1_200_000, 400_000):
        x = torch.arange(extent, dtype=torch.float32)[None, None]
        for call in (
            lambda x: F.pad(x, (200, 100), mode="reflect"),
            lambda x: F.interpolate(x, scale_factor=1.5, mode="linear"),
        ):
            torch.testing.assert_close(call(x.to("nntile")).cpu(), call(x), rtol=1e-6, atol=0)
