# SPDX-License-Identifier: BSD-3-Clause
"""Ops on images in channels_last and other orders of dims: results and strides are the CPU's."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from parity import assert_parity, runtime_mode
from torch import Tensor, nn
from torch.nn import functional as F

import torch_nntile

pytestmark = pytest.mark.filterwarnings("ignore:.*nntile.*:UserWarning")

# Orders of the dims of a batch of images in memory, batch first; "step" is every other column.
LAYOUTS = ("nchw", "nhwc", "hwnc", "step")
RANKS = {"1d": 1, "2d": 2, "3d": 3}


def images(layout: str, rank: int, batch: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(rank)
    spatial = list(range(2, rank + 2))
    order = {"nhwc": [0, *spatial, 1], "hwnc": [*spatial, 0, 1]}.get(layout, [0, 1, *spatial])
    sizes = [batch, 4, *[4] * rank]
    data = torch.rand([sizes[d] for d in order], generator=generator)
    if layout == "step":
        return data.repeat_interleave(2, -1)[..., ::2]
    return data.permute([order.index(d) for d in range(rank + 2)])


def weight(x: Tensor, *sizes: int) -> Tensor:
    count = torch.Size(sizes).numel()
    return (torch.arange(count, dtype=x.dtype, device=x.device) % 7 - 3).reshape(sizes)


def convolution(transposed: bool, groups: int, last: bool) -> Callable[[Tensor], Tensor]:
    def call(x: Tensor) -> Tensor:
        rank = x.dim() - 2
        w = weight(x, 4, 4 // groups, *[2] * rank)
        if last and rank > 1:
            formats = {2: torch.channels_last, 3: torch.channels_last_3d}
            w = w.contiguous(memory_format=formats[rank])
        name = ("conv_transpose" if transposed else "conv") + f"{rank}d"
        result: Tensor = getattr(F, name)(x, w, groups=groups)
        return result

    return call


def pool(kind: str) -> Callable[[Tensor], Any]:
    return lambda x: getattr(F, f"{kind}_pool{x.dim() - 2}d")(x, 2)


OPS: dict[str, Callable[[Tensor], Any]] = {
    **{
        f"conv transposed={t} groups={g} last={w}": convolution(t, g, w)
        for t in (False, True)
        for g in (1, 2, 4)
        for w in (False, True)
    },
    **{kind: pool(kind) for kind in ("avg", "max", "adaptive_avg", "adaptive_max")},
    **{
        f"pad {mode}": lambda x, mode=mode: F.pad(x, [1] * (2 * (x.dim() - 2)), mode)  # type: ignore[misc]
        for mode in ("reflect", "replicate", "circular", "constant")
    },
    "group_norm": lambda x: F.group_norm(x, 2),
    "group_norm affine": lambda x: F.group_norm(x, 2, weight(x, 4), weight(x, 4)),
    "instance_norm": F.instance_norm,
    "batch_norm": lambda x: F.batch_norm(x, weight(x, 4), weight(x, 4).square()),
    "batch_norm training": lambda x: F.batch_norm(x, None, None, weight(x, 4), training=True),
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2) if x.dim() == 4 else x,
    "pixel_shuffle by 1": lambda x: F.pixel_shuffle(x, 1).mul_(2) if x.dim() == 4 else x,
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 2) if x.dim() == 4 else x,
    "channel_shuffle": lambda x: F.channel_shuffle(x, 2) if x.dim() > 3 else x,
    "roll": lambda x: x.roll(1, 1),
    "log_sigmoid": F.logsigmoid,
    "unpool": lambda x: (
        F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2) if x.dim() == 4 else x
    ),
}
# CPU PyTorch computes a wrong gradient where one image lies as [h, w, 1, c]: is_contiguous() says
# channels_last of it, suggest_memory_format() does not.
WRONG_ON_THE_CPU = {("batch_norm", "hwnc", 1), ("batch_norm training", "hwnc", 1)}
WITHOUT_GRADIENT = {"channel_shuffle"}  # PyTorch has none for it


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("name", OPS)
def test_layouts(name: str, rank: str) -> None:
    for layout in LAYOUTS:
        for batch in (1, 2):
            x = images(layout, RANKS[rank], batch)
            grad = name not in WITHOUT_GRADIENT and (name, layout, batch) not in WRONG_ON_THE_CPU
            assert_parity(OPS[name], [x], grad=grad)


def test_pooling_without_gradients() -> None:
    """max_pool1d() has another kernel on the CPU then: values only."""
    x = images("nhwc", 1)
    assert torch.equal(F.max_pool1d(x.to("nntile"), 2).cpu(), F.max_pool1d(x, 2))


def test_a_network_stays_in_channels_last() -> None:
    """Every result is channels_last, and no task copies it into another order."""
    model = nn.Sequential(
        *(nn.Conv2d(4, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3)),
        *(nn.GroupNorm(2, 8), nn.ReLU(), nn.MaxPool2d(2)),
    ).to("nntile", memory_format=torch.channels_last)
    x = torch.rand(4, 4, 8, 8).to("nntile", memory_format=torch.channels_last)
    with runtime_mode("graph"):
        for layer in model:
            x = layer(x)
            assert x.is_contiguous(memory_format=torch.channels_last), layer
        x.sum().cpu()
        text = str(torch_nntile.explain())
    assert text.count("= convolution_rows(") == 2
    # Statistics of eight channels change their dtype; images stay where they are.
    assert not re.search(r"f32\[4, \d+, \d+, \d+\] += (copy|view_write)", text)


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8, torch.complex64], ids=str)
@pytest.mark.parametrize("there", LAYOUTS)
@pytest.mark.parametrize("here", LAYOUTS)
def test_copies_between_layouts(here: str, there: str, dtype: torch.dtype) -> None:
    host, other = (10 * images(layout, 2) for layout in (here, there))
    host, other = (x.to(dtype) * (1 + 2j if dtype.is_complex else 1) for x in (host, other))
    if here == "step":  # both made new tensors
        host = host.repeat_interleave(2, -1)[..., ::2]
    moved = host.to("nntile")
    assert moved.stride() == host.to("meta").stride()
    assert torch.equal(moved.cpu(), host) and moved.cpu().stride() == moved.stride()
    assert torch.equal(other.to("nntile").copy_(host).cpu(), host)
    assert torch.equal(torch.empty_like(other).copy_(moved), host)
    wide = other.to("nntile").copy_(host[:1, :1]).cpu()  # each element to many places
    assert torch.equal(wide, host[:1, :1].expand(other.shape))
    if dtype.is_complex:
        assert torch.equal(host.to("nntile").conj().cpu(), host.conj())
        assert torch.equal(other.to("nntile").copy_(host.conj()).cpu(), host.conj())
        assert torch.equal(other.to("nntile").conj().copy_(host.conj()).cpu(), host.conj())
        assert torch.equal(other.to("nntile").conj().copy_(host).cpu(), host)


@pytest.mark.parametrize("layout", ["nhwc", "hwnc"])
def test_the_host_rearranges_nothing(layout: str) -> None:
    """A batch of images, as data loaders have it: its memory is copied as it lies."""
    host = images(layout, 2)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        moved = host.to("nntile")
        back = moved.cpu()
        back.copy_(moved)
    assert torch.equal(back, host)
    names = [event.name for event in profile.events()]
    assert names.count("aten::copy_") == 3, names
    assert not {"aten::clone", "aten::contiguous"} & set(names), names
