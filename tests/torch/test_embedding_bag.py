# SPDX-License-Identifier: BSD-3-Clause
"""embedding_bag(): values, gradients, and what PyTorch gives beside the result; nothing runs on the host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from emulated_devices import GPUS
from parity import assert_parity, runtime_mode
from torch import Tensor
from torch.nn import functional as F

import torch_nntile
from torch_nntile import fallback, wait

ROWS, WIDTH = 7, 6
INDICES = torch.tensor([3, 1, 4, 1, 5, 2, 6, 5, 3, 0])
OFFSETS = torch.tensor([0, 2, 2, 5, 9])  # an empty bag, and one of one index
WITH_LAST = torch.tensor([0, 2, 2, 5, 9, 10])
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "padding": {"padding_idx": 1},
    "negative padding": {"padding_idx": -2},
    "last offset": {"include_last_offset": True},
    "by frequency": {"scale_grad_by_freq": True},
    "padding and last offset": {"padding_idx": 5, "include_last_offset": True},
}


@pytest.fixture(autouse=True)
def rows_only(request: pytest.FixtureRequest) -> Iterator[None]:
    """But for gradients by frequency, a task of the host as of embedding()."""
    before = fallback.cpu_fallback()
    fallback.set_cpu_fallback("by frequency" in request.node.name)
    yield
    fallback.set_cpu_fallback(before)


def table(dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(ROWS, WIDTH, generator=generator, dtype=torch.float64).to(dtype)


def offsets_for(options: dict[str, Any]) -> Tensor:
    return WITH_LAST if options.get("include_last_offset") else OFFSETS


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("name", OPTIONS)
def test_values_and_gradients(name: str, mode: str, dtype: torch.dtype) -> None:
    options = OPTIONS[name]
    if mode == "max" and "scale_grad_by_freq" in options:
        pytest.skip("PyTorch refuses it")
    inputs = [table(dtype), INDICES, offsets_for(options)]

    def call(weight: Tensor, indices: Tensor, offsets: Tensor) -> Tensor:
        return F.embedding_bag(indices, weight, offsets, mode=mode, **options)

    assert_parity(call, inputs, cuts=({0: {1: 4}}, {0: {0: 3}}, {1: {0: 4}}), length=16)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_wide_rows(dtype: torch.dtype) -> None:
    """Rows of several vectors, of one, and of the elements that are left."""
    rows = torch.linspace(-2, 3, ROWS * 101).reshape(ROWS, 101).clone().to(dtype)
    weights = torch.linspace(-1, 2, INDICES.numel()).to(dtype)

    def call(weight: Tensor, of_samples: Tensor, indices: Tensor, offsets: Tensor) -> Tensor:
        mean = F.embedding_bag(indices, weight, offsets, mode="mean")
        weighted = F.embedding_bag(
            indices, weight, offsets, mode="sum", per_sample_weights=of_samples
        )
        return mean + weighted

    assert_parity(call, [rows, weights, INDICES, OFFSETS], cuts=({0: {1: 4}},), length=16)


@pytest.mark.parametrize("name", [n for n in OPTIONS if n != "by frequency"])
def test_weights_of_samples(name: str) -> None:
    options = OPTIONS[name]
    weights = torch.linspace(-1, 2, INDICES.numel())

    def call(weight: Tensor, of_samples: Tensor, indices: Tensor, offsets: Tensor) -> Tensor:
        return F.embedding_bag(
            indices, weight, offsets, mode="sum", per_sample_weights=of_samples, **options
        )

    inputs = [table(), weights, INDICES, offsets_for(options)]
    assert_parity(call, inputs, cuts={0: {1: (2, 4)}}, length=16)


@pytest.mark.parametrize("shape", [(2, 5), (5, 2), (10, 1), (0, 3)])
def test_two_dims(shape: tuple[int, int]) -> None:
    indices = INDICES[: shape[0] * shape[1]].view(shape)
    for mode in ("sum", "mean", "max"):
        assert_parity(
            lambda w, i, m=mode: F.embedding_bag(i, w, mode=m), [table(), indices], length=16
        )


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("name", OPTIONS)
def test_what_is_beside_the_result(name: str, mode: int, learned: bool) -> None:
    options = OPTIONS[name]
    last, padding = options.get("include_last_offset", False), options.get("padding_idx")
    for dtype in (torch.int64, torch.int32):
        given = [x.to(dtype) for x in (INDICES, offsets_for(options))]

        def results(device: str, given: list[Tensor] = given) -> tuple[Tensor, ...]:
            weight = table().to(device).requires_grad_(learned)
            both = [x.to(device) for x in given]
            return torch.embedding_bag(weight, *both, False, mode, False, None, last, padding)

        for found, expected in zip(results("nntile"), results("cpu"), strict=True):
            torch.testing.assert_close(found.cpu(), expected)


def test_errors() -> None:
    weight = table().to("nntile")
    given = [weight, INDICES.to("nntile"), OFFSETS.to("nntile"), False, 1, False]
    with pytest.raises(RuntimeError, match="only supported with mode='sum'"):
        torch.embedding_bag(*given, torch.ones(10, device="nntile"), False, None)
    for indices, offsets, text in (
        (INDICES + 1, OFFSETS, r"index 7 is out of range \[0, 7\)"),
        (INDICES, OFFSETS + 1, r"offsets\[0\] is 1, expected just 0"),
        # A GPU names one of those that are wrong, cores the first of them.
        (INDICES, OFFSETS.flip(0), r"offsets\[\d\] is" if GPUS else r"offsets\[0\] is 9"),
        (INDICES[:8], OFFSETS, r"offsets\[4\] is 9, expected at least 5 and at most 8"),
    ):
        with pytest.raises((RuntimeError, IndexError), match=text):
            F.embedding_bag(indices.to("nntile"), weight, offsets.to("nntile"), mode="sum").cpu()


def test_nothing_waits_for_the_host() -> None:
    """A step of training is recorded at once: no op of it reads data."""
    bag = torch.nn.EmbeddingBag(ROWS, WIDTH, mode="sum").to("nntile")
    indices, offsets = INDICES.to("nntile"), OFFSETS.to("nntile")
    bag(indices, offsets).sum().backward()
    wait()
    before = torch_nntile.stats().host_calls
    with runtime_mode("graph"):
        loss = bag(indices, offsets).square().sum()
        loss.backward()
        torch_nntile.wait()
        assert torch_nntile.stats().host_calls == before
    assert torch.isfinite(loss.cpu())
    torch_nntile.wait()
    assert torch_nntile.stats().host_calls == before


def test_sparse_gradients() -> None:
    fallback.set_cpu_fallback(True)

    def gradient(device: str) -> Tensor:
        bag = torch.nn.EmbeddingBag.from_pretrained(table(), False, mode="sum", sparse=True)
        bag = bag.to(device)
        bag(INDICES.to(device), OFFSETS.to(device)).sum().backward()
        assert bag.weight.grad is not None and bag.weight.grad.is_sparse
        return bag.weight.grad.cpu().to_dense()

    torch.testing.assert_close(gradient("nntile"), gradient("cpu"))
