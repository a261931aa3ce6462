# SPDX-License-Identifier: BSD-3-Clause
"""Ops without a row on parts of a batch: values and gradients of CPU PyTorch, a task for each part."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from parity import assert_parity, runtime_mode
from torch import Tensor

import torch_nntile

pytestmark = pytest.mark.filterwarnings("ignore:.*nntile.*:UserWarning")

Case = tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]  # shapes after the first are whole
PLANES, LINES, CUBES = (6, 2, 6, 6), (6, 2, 8), (6, 2, 4, 4, 4)


def pooled(mode: str, dims: int, shape: tuple[int, ...], **options: Any) -> Case:
    pool = getattr(F, f"{mode}_pool{dims}d")
    return lambda x: pool(x, **options), (shape,)


def unpooled(x: Tensor) -> Tensor:
    values, places = F.max_pool2d(x, 2, return_indices=True)
    return F.max_unpool2d(values, places, [2, 2])


def sampled(x: Tensor) -> Tensor:
    where = x[:, :1, :3, :4].unflatten(3, (2, 2)).squeeze(1).tanh()
    return F.grid_sample(x, where, align_corners=False)


CASES: dict[str, Case] = {
    "conv2d": (F.conv2d, (PLANES, (3, 2, 3, 3), (3,))),
    "conv2d without bias": (lambda x, w: F.conv2d(x, w, padding=1), (PLANES, (3, 2, 3, 3))),
    "conv2d in groups": (
        lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=2, dilation=2, groups=2),
        (PLANES, (4, 1, 3, 3), (4,)),
    ),
    "conv1d": (F.conv1d, (LINES, (3, 2, 3), (3,))),
    "conv3d": (F.conv3d, (CUBES, (3, 2, 2, 2, 2), (3,))),
    "conv_transpose2d": (F.conv_transpose2d, (PLANES, (2, 3, 3, 3), (3,))),
    "adaptive_max_pool2d": pooled("adaptive_max", 2, PLANES, output_size=(2, 5)),
    "adaptive_max_pool3d": pooled("adaptive_max", 3, CUBES, output_size=3),
    "max_unpool2d": (unpooled, (PLANES,)),
    "grid_sample": (sampled, (PLANES,)),
    "unfold and fold": (lambda x: F.fold(F.unfold(x, 2), 6, 2), (PLANES,)),
}


def inputs_of(name: str, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    torch.manual_seed(16)
    return [torch.randn(shape, dtype=dtype) for shape in CASES[name][1]]


@pytest.mark.parametrize("name", CASES)
def test_as_on_the_cpu(name: str) -> None:
    # Six parts: the last two of a sum are added to what the first four began.
    assert_parity(CASES[name][0], inputs_of(name), cuts=[{0: {0: 1}}, {0: {0: (1, 4, 1)}}])


@pytest.mark.parametrize("name", ["conv2d", "adaptive_max_pool2d"])
def test_a_batch_of_two_dims(name: str) -> None:
    """Each part is a set of rows that need not follow each other."""
    call, inputs = CASES[name][0], inputs_of(name)
    inputs[0] = inputs[0].unflatten(0, (2, 3)).clone()

    def flat(x: Tensor, *others: Tensor) -> Any:
        return call(x.flatten(0, 1), *others)

    assert_parity(flat, inputs, cuts=[{0: {1: (1, 2)}}, {0: {0: 1, 1: (1, 2)}}])


CUTS = {
    "of other dims": ({0: {1: 1, 2: (1, 5)}}, {0: {0: (2, 4), 3: 2}}),
    "of the weight": ({1: {0: (1, 2), 1: 1}}, {0: {0: (2, 4)}, 1: {0: (1, 2)}}),
}


@pytest.mark.parametrize("where", CUTS)
def test_cuts_of_what_a_task_has_all_of(where: str) -> None:
    assert_parity(CASES["conv2d"][0], inputs_of("conv2d"), cuts=CUTS[where])


def test_views_of_the_batch() -> None:
    def call(x: Tensor, w: Tensor, b: Tensor) -> Any:
        return F.conv2d(x[1:5, :, ::2], w, b), F.max_pool2d(x[2:], 2)

    assert_parity(call, inputs_of("conv2d"), cuts=[{0: {0: (2, 4)}}, {0: {0: 3}}])


def test_out_forms() -> None:
    def call(x: Tensor) -> Any:
        dense = x.new_zeros(6, 2, 4, 4)
        other = x.new_zeros(6, 4, 2, 4).transpose(1, 2)
        for out in (dense, other):
            torch._C._nn.adaptive_max_pool2d(x, [4, 4], out=(out, out.long()))
        return dense, other

    assert_parity(call, inputs_of("adaptive_max_pool2d"), cuts={0: {0: (1, 5)}}, grad=False)


@pytest.mark.parametrize("batch", [0, 1])
def test_small_batches(batch: int) -> None:
    x, *others = inputs_of("conv2d")
    assert_parity(CASES["conv2d"][0], [x[:batch].clone(), *others])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_dtypes(dtype: torch.dtype) -> None:
    assert_parity(CASES["conv2d"][0], inputs_of("conv2d", dtype), cuts={0: {0: (1, 5)}}, length=144)


def test_channels_last() -> None:
    x, *others = inputs_of("conv2d without bias")
    inputs = [x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2), *others]
    assert_parity(CASES["conv2d without bias"][0], inputs, cuts={0: {0: (1, 5)}})


def host_calls(name: str, cut: tuple[int, ...], dtype: torch.dtype = torch.float64) -> int:
    """Of one forward and backward; nothing but the input is cut anew."""
    inputs = [x.to("nntile").requires_grad_() for x in inputs_of(name, dtype)]
    if cut:
        axis = f"parts_{uuid.uuid4().hex[:8]}"
        torch_nntile.set_axis_group_name(inputs[0], {0: axis})
        torch_nntile.set_axis_group_tiling(axis, cut)
    torch_nntile.wait()
    before = torch_nntile.stats()
    with runtime_mode("graph"):
        results = CASES[name][0](*inputs)
        result = results[0] if isinstance(results, tuple) else results
        kept = torch.autograd.grad(result.square().sum(), inputs)
        torch_nntile.compile_graph()
        tiles = torch_nntile.explain("tiles")
        torch_nntile.run_graph()
    assert "retile" not in tiles and len(kept) == len(inputs)
    torch_nntile.wait()
    return torch_nntile.stats().host_calls - before.host_calls


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("conv")])
def test_one_task_for_each_part(name: str) -> None:
    host_calls(name, (6,))  # a first call runs at once, and shows how its results lie
    whole = host_calls(name, (6,))
    assert whole > 0
    assert host_calls(name, (1, 3, 2)) == 3 * whole
