# SPDX-License-Identifier: BSD-3-Clause
"""Many operations, many tensors, sizes beyond all numbers: they work, or end with a clear error."""

from __future__ import annotations

import pytest
import torch
from emulated_devices import on_cores
from parity import runtime_mode

import torch_nntile


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_twenty_thousand_operations_without_a_read(mode: str) -> None:
    with runtime_mode(mode):
        x = torch.zeros(4, device="nntile")
        y = torch.ones(4, device="nntile")
        for _ in range(10_000):
            x.add_(y)
            y = y * 1
        assert x.tolist() == [10_000.0] * 4


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_a_hundred_thousand_tiny_tensors(mode: str) -> None:
    with runtime_mode(mode):
        one = torch.ones(2, device="nntile")
        found = [one + k for k in range(100_000)]
        torch_nntile.wait()
        for k in (0, 1, 54_321, 99_999):
            assert found[k].tolist() == [k + 1.0] * 2


@pytest.mark.parametrize("sizes", [(2**62, 4), (2**40, 2**40), (2**31, 2**31, 2**31)], ids=str)
def test_more_elements_than_a_number_holds(sizes: tuple[int, ...]) -> None:
    """In the CPU's words."""
    errors = []
    for device in ("cpu", "nntile"):
        with pytest.raises(RuntimeError) as caught:
            torch.empty(sizes, device=device)
        errors.append(str(caught.value).splitlines()[0])
        with pytest.raises(RuntimeError) as caught:
            torch.ones(1, device=device).expand(sizes).contiguous()
        errors.append(type(caught.value).__name__)
    assert errors[0] == errors[2]


def test_more_memory_than_there_is() -> None:
    """An error of PyTorch's class; nothing is lost, and the next call works."""
    kept = torch.arange(3, device="nntile")
    with pytest.raises(torch.OutOfMemoryError):
        torch.ones(2**45, device="nntile").sum().item()
    assert (kept + 1).tolist() == [1, 2, 3]
    whole = torch.ones(1, device="nntile").expand(2**40)
    assert whole.shape == (2**40,)  # a view costs nothing


@on_cores  # beside GPUs main memory is pinned by regions, which go back as wholes
@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_memory_of_a_deleted_tensor_goes_back(mode: str) -> None:
    """Neither the plan nor the texts of the graph that read it hold the data."""
    nbytes = 2**26
    torch.nntile.empty_cache()
    before = torch.nntile.memory_reserved()
    with runtime_mode(mode):
        x = torch.ones(nbytes // 4, device="nntile")
        total = (x * 2).sum()
        assert total.item() == nbytes // 2
        assert torch.nntile.memory_reserved() - before >= nbytes
        text = torch_nntile.explain("tiles")
        del x
        torch_nntile.wait()
        torch.nntile.empty_cache()
    assert torch.nntile.memory_reserved() - before < nbytes // 16
    assert torch_nntile.explain("tiles") == text
