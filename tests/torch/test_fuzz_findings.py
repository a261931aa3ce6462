# SPDX-License-Identifier: BSD-3-Clause
"""Programs that the fuzzer found to differ from CPU PyTorch, shrunk; one test each."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from parity import assert_parity, runtime_mode
from torch import Tensor

import torch_nntile

BOTH = pytest.mark.parametrize("mode", ["eager", "graph"])


def bools(device: str) -> Tensor:
    return torch.tensor([True, False], device=device)


# Meta kernels let these pass: the CPU must be asked.
REFUSED: dict[str, Callable[[str], Tensor]] = {
    "bool - float": lambda d: torch.tensor(True, device=d).sub(torch.tensor(1.0, device=d)),
    "int - bool": lambda d: torch.tensor([1, 2], device=d).sub(bools(d)),
    "bool -= bool": lambda d: bools(d).sub_(bools(d)),
    "bool *= number": lambda d: bools(d).mul_(0),
    "bool *= int": lambda d: bools(d).mul_(torch.tensor([1, 2], device=d)),
    "int *= float": lambda d: torch.tensor([1, 2], device=d).mul_(torch.ones(2, device=d)),
    "copy from one of its elements": lambda d: (x := torch.ones(5, device=d)).copy_(x[2]),
    "copy from the row beside": lambda d: (x := torch.ones(5, device=d))[1:].copy_(x[:-1]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_is_refused_in_the_words_of_the_cpu(name: str) -> None:
    with pytest.raises(RuntimeError) as expected:
        REFUSED[name]("cpu")
    for _ in range(2):  # a signature that is known, too
        with pytest.raises(RuntimeError) as found:
            REFUSED[name]("nntile")
        assert str(found.value) == str(expected.value)


ACCEPTED: dict[str, Callable[[str], Tensor]] = {
    "bool *= bool": lambda d: bools(d).mul_(bools(d)),
    "int //= narrower int": lambda d: torch.tensor([3, 4], device=d).floor_divide_(
        torch.tensor([2, 3], dtype=torch.int8, device=d)
    ),
    "int + 0-dim bool": lambda d: torch.tensor([1, 2], device=d).add(torch.tensor(True, device=d)),
    "copy of itself": lambda d: (x := torch.arange(5.0).to(d)).copy_(x),
    "copy of itself, overlapping": lambda d: (x := torch.ones(1, 2, device=d).expand(3, 2)).copy_(
        x.view_as(x)
    ),
    "copy of the other half": lambda d: (x := torch.arange(6.0).to(d))[3:].copy_(x[:3]),
}


@BOTH
@pytest.mark.parametrize("name", ACCEPTED)
def test_is_accepted(name: str, mode: str) -> None:
    with runtime_mode(mode):
        assert torch.equal(ACCEPTED[name]("nntile").cpu(), ACCEPTED[name]("cpu"))


@BOTH
@pytest.mark.filterwarnings("ignore:Use of masked_fill_ on expanded")
def test_masked_fill_of_an_expanded_tensor(mode: str) -> None:
    def call(device: str) -> Tensor:
        x = torch.zeros(1, 3, device=device)
        x.expand(4, 3).masked_fill_(torch.tensor([True, False, True], device=device), 5)
        return x

    with runtime_mode(mode):
        assert torch.equal(call("nntile").cpu(), call("cpu"))


def test_a_dim_of_one_that_only_a_view_has_can_be_named() -> None:
    x = torch.arange(6.0).to("nntile")
    torch_nntile.set_axis_group_name(x.view(6, 1), {0: "findings_six", 1: "findings_one"})
    torch_nntile.set_axis_group_tiling("findings_one", 1)
    torch_nntile.set_axis_group_tiling("findings_six", (2, 4))
    assert (x.view(6, 1) * 2).sum().item() == 30


@pytest.mark.parametrize("name", ["add_", "mul_", "sub_", "copy_", "sqrt_", "zero_"])
def test_an_in_place_call_on_lists_counts_versions(name: str) -> None:
    """Else a backward that needs the old value would silently use the new one."""
    versions = []
    for device in ("cpu", "nntile"):
        x, y = torch.ones(3, device=device), torch.ones(3, device=device)
        getattr(torch, f"_foreach_{name}")(*([x], [y])[: 1 if name in ("sqrt_", "zero_") else 2])
        versions.append((x._version, y._version))
    assert versions[0] == versions[1]


def test_backward_refuses_a_value_that_a_list_call_overwrote() -> None:
    x = torch.ones(3, device="nntile", requires_grad=True)
    y = x * 2
    z = y * y
    torch._foreach_add_([y], [torch.ones(3, device="nntile")])
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


@pytest.mark.parametrize("device", ["cpu", "nntile"])
def test_data_of_a_view_that_autograd_gave_up_can_be_set(device: str) -> None:
    x = torch.ones(2, device=device)
    view = x.chunk(1, 0)[0]
    x.add_(x)
    x.requires_grad_()
    view.data = view.detach() + 1
    assert view.data.tolist() == [3, 3]


def test_strides_of_a_broadcast_do_not_depend_on_earlier_calls() -> None:
    def strides(device: str) -> tuple[int, ...]:
        a = torch.ones(1, 4, 1, 1, device=device).permute(0, 2, 1, 3)
        return (a * torch.ones(1, 3, 1, 1, device=device).permute(1, 2, 3, 0)).stride()

    before = strides("nntile")
    torch.ones(2, 3, device="nntile") * torch.ones(3, device="nntile")  # now the row knows dtypes
    assert before == strides("nntile") == strides("cpu") == (1, 1, 3, 12)


def test_a_host_kernel_leaves_the_rest_of_the_storage_of_its_out_alone() -> None:
    """Strides like these may overlap, so the kernel gets all of the storage."""

    def written(device: str) -> Tensor:
        x = torch.arange(32, device=device).reshape(4, 8)
        part = x.as_strided((3, 4), (4, 5))
        part.index_copy_(1, torch.tensor([2, 1], device=device), -torch.ones_like(part)[:, :2])
        return x.cpu()

    assert torch.equal(written("nntile"), written("cpu"))


def test_the_layer_norm_of_nothing_in_half_precision() -> None:
    for device in ("cpu", "nntile"):
        x = torch.zeros(0, dtype=torch.float16, device=device, requires_grad=True)
        y = torch.nn.functional.layer_norm(x, (0,), x, x)
        y.backward(torch.zeros_like(y))
        assert x.grad is not None and x.grad.shape == (0,)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_mean_of_short_floats_is_rounded_once(dtype: torch.dtype) -> None:
    """Seven times -19.5: their sum is no bfloat16, 70,000 times 1 is no float16."""
    for x in (torch.full((7,), -19.5, dtype=dtype), torch.ones(70_000, dtype=dtype)):
        assert x.to("nntile").mean().item() == x[0].item()
        assert x.to("nntile")[None].mean(1).item() == x[0].item()


@pytest.mark.parametrize("device", ["cpu", "nntile"])
def test_backward_of_batch_norm_whose_input_got_other_data(device: str) -> None:
    x = torch.ones(2, 2, device=device).requires_grad_()
    y = torch.nn.functional.batch_norm(x, None, None, training=True)
    x.data = torch.ones(2, device=device)
    with pytest.raises(IndexError, match="Dimension out of range"):
        y.backward(torch.ones_like(y))


def test_strides_of_an_index_of_a_view_that_repeats() -> None:
    """The index was computed on a copy, which lies otherwise."""

    def strides(device: str) -> tuple[int, ...]:
        x = torch.arange(8.0, device=device).as_strided((2, 2, 1), (2, 0, 4))
        return x[:, :, torch.tensor([0], device=device)].stride()

    assert strides("nntile") == strides("cpu")


@pytest.mark.parametrize("strides", [(3, 2), (1, 2), (2, 1)])
@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put_into_elements_that_share_memory(
    strides: tuple[int, int], accumulate: bool
) -> None:
    """A layout that may overlap itself has no row, and an op of ours no kernel of the CPU."""

    def call(x: Tensor, index: Tensor, values: Tensor) -> Tensor:
        x.as_strided((3, 3), strides).index_put_((index,), values, accumulate)
        return x

    index = torch.tensor([2, 0])
    for values in (torch.tensor(5.0), torch.arange(3.0), torch.arange(6.0).view(2, 3)):
        assert_parity(call, [torch.arange(12.0), index, values], grad=False)
