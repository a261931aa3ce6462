# SPDX-License-Identifier: BSD-3-Clause
"""Views, writes through them, and old values that outlive a later write, in several orders."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from parity import assert_parity, runtime_mode
from torch import Tensor

import torch_nntile

BOTH = pytest.mark.parametrize("mode", ["eager", "graph"])
Step = Callable[[dict[str, Tensor]], Any]


def numbers(*shape: int) -> Tensor:
    count = torch.Size(shape).numel()
    return torch.arange(1.0, count + 1).reshape(shape).clone()


# Each writes a, or a view of it; each must leave what `old` and `derived` were computed from.
WRITES: dict[str, Step] = {
    "whole": lambda v: v["a"].mul_(2),
    "row": lambda v: v["a"][1].add_(10),
    "transposed": lambda v: v["a"].t()[0].fill_(-1),
    "steps": lambda v: v["a"][::2, 1::2].copy_(v["b"][:2, :2]),
    "view": lambda v: v["a"].view(2, 6)[:, 2].zero_(),
    "itself": lambda v: v["a"].copy_(v["a"].flip(0)),
    "out": lambda v: torch.add(v["a"], v["b"], out=v["a"]),
}


@BOTH
@pytest.mark.parametrize("order", list(itertools.permutations(["whole", "row", "steps"])), ids=str)
@pytest.mark.parametrize("cut", [None, (1, 2)], ids=["whole", "cut"])
def test_old_values_outlive_later_writes(mode: str, order: tuple[str, ...], cut: Any) -> None:
    def run(device: str) -> list[Tensor]:
        v = {"a": numbers(3, 4).to(device), "b": numbers(3, 4).to(device) * 100}
        if device == "nntile" and cut:
            torch_nntile.set_axis_group_name(v["a"], {0: "rows_of_3"})
            torch_nntile.set_axis_group_tiling("rows_of_3", cut)
        old = []
        for name in order:
            old += [v["a"].clone(), v["a"] * 3, v["a"].t().relu()]
            WRITES[name](v)
        # Last made, first read: the order of reads is not the order of the ops.
        return [x.cpu() for x in reversed([*old, v["a"]])]

    with runtime_mode(mode):
        found = run("nntile")
    for f, e in zip(found, run("cpu"), strict=True):
        assert torch.equal(f, e)


@pytest.mark.parametrize("name", WRITES)
def test_write(name: str) -> None:
    def call(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        v = {"a": a, "b": b}
        alias, before = a[1:], a + 0
        WRITES[name](v)
        return alias + 0, before, a + b

    assert_parity(
        call,
        [numbers(3, 4), numbers(3, 4) * 100],
        cuts=[{0: {0: (1, 2)}}, {0: {0: 2, 1: (3, 1)}, 1: {1: 3}}],
        grad=False,
    )


def test_read_between_writes() -> None:
    a = numbers(3, 4).to("nntile")
    seen = []
    for k in range(4):
        a[k % 3] += 1
        seen.append(a.sum().item())
    assert seen == [78 + 4 * (k + 1) for k in range(4)]


VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "transpose": lambda x: x.transpose(0, 2),
    "permute": lambda x: x.permute(2, 0, 1),
    "slice": lambda x: x[1:3, :, ::2],
    "select": lambda x: x[:, 1],
    "expand": lambda x: x[:, :1].expand(-1, 7, -1),
    "new dim": lambda x: x[:, None, ..., None],
    "view": lambda x: x.view(-1, 4),
    "reshape copies": lambda x: x.transpose(0, 1).reshape(-1),
    "unfold": lambda x: x.unfold(2, 2, 1),
    "as_strided": lambda x: x.as_strided((3, 4), (8, 2), 1),
    "diagonal": lambda x: x.diagonal(0, 1, 2),
    "chunk": lambda x: x.chunk(2, 1)[1],
    "flatten": lambda x: x.flatten(1),
    "squeeze": lambda x: x[:1].squeeze(0),
    "flip": lambda x: x.flip(1),
    "split": lambda x: x.split([1, 2, 1], 2)[1],
    "narrow of a transpose": lambda x: x.mT.narrow(1, 1, 2),
}


@pytest.mark.parametrize("name", VIEWS)
def test_view_is_read(name: str) -> None:
    view = VIEWS[name]
    assert_parity(
        lambda x: (view(x) * 2, view(x).contiguous(), view(x)),
        [numbers(4, 3, 4)],
        cuts=[{0: {0: (1, 3)}}, {0: {1: 2, 2: (1, 2, 1)}}, {0: {0: 3, 2: 3}}],
    )


WRITABLE = [n for n in VIEWS if n not in ("expand", "unfold", "reshape copies", "flip")]


@pytest.mark.parametrize("name", WRITABLE)
def test_view_is_written(name: str) -> None:
    view = VIEWS[name]
    assert_parity(
        lambda x: view(x).mul_(-1).add_(0.5),
        [numbers(4, 3, 4)],
        cuts=[{0: {0: (1, 3)}}, {0: {1: 2, 2: (1, 2, 1)}}],
        grad=False,
    )


def test_gradient_through_an_in_place_write() -> None:
    def call(x: Tensor) -> Tensor:
        y = x * 2
        y[1:, ::2] *= 3
        y.t()[0].add_(x[0, 0])
        return y

    assert_parity(call, [numbers(4, 5)], cuts={0: {0: (1, 3), 1: 2}})


def test_writes_that_overlap_themselves() -> None:
    assert_parity(lambda x: x.expand(3, 4).fill_(7), [numbers(1, 4)], grad=False)
    assert_parity(lambda x: x.unfold(0, 3, 1).add_(1), [numbers(7)], grad=False)
    x = numbers(1, 4).to("nntile")
    with pytest.raises(RuntimeError, match="single memory location"):
        x.expand(3, 4).add_(1)


@BOTH
def test_out_is_resized_or_kept(mode: str) -> None:
    a = numbers(3, 4).to("nntile")
    with runtime_mode(mode):
        empty = torch.empty(0, device="nntile")
        assert torch.add(a, a, out=empty).data_ptr() == empty.data_ptr()
        assert empty.shape == (3, 4)
        target = torch.zeros(4, 6, device="nntile")
        torch.mul(a, 2, out=target.t()[1:4, :])
        assert torch.equal(target.cpu()[:, 1:4], numbers(3, 4).t() * 2)
        assert target.cpu()[:, 0].abs().sum() == 0
        narrow = torch.empty(3, 4, dtype=torch.int32, device="nntile")
        with pytest.raises(RuntimeError, match="result type"):
            torch.add(a, a, out=narrow)


def test_set_shares_data() -> None:
    a = numbers(3, 4).to("nntile")
    b = torch.empty(0, device="nntile")
    b.set_(a.untyped_storage(), 4, (2, 3), (4, 1))
    assert torch.equal(b.cpu(), numbers(3, 4)[1:, :3])
    a.add_(1)
    b[0, 0] = -5
    assert torch.equal(b.cpu()[1], numbers(3, 4)[2, :3] + 1)
    assert a.cpu()[1, 0] == -5
    c = numbers(2).to("nntile")
    c.set_(a)
    assert c.shape == (3, 4)
    assert c.data_ptr() == a.data_ptr()


def test_resize_keeps_what_fits() -> None:
    a = numbers(6).to("nntile")
    a.resize_(2, 2)
    assert torch.equal(a.cpu(), numbers(6)[:4].reshape(2, 2))
    a.resize_(8)
    assert torch.equal(a.cpu()[:4], numbers(4))
    a.untyped_storage().resize_(0)
    assert a.untyped_storage().nbytes() == 0
    a.untyped_storage().resize_(32)
    a.copy_(numbers(8))
    assert torch.equal(a.cpu(), numbers(8))


def test_data_is_assigned_without_a_copy() -> None:
    layer = torch.nn.Linear(2, 2).to("nntile")
    new = numbers(2, 2).to("nntile")
    layer.weight.data = new
    assert layer.weight.data_ptr() == new.data_ptr()
    new.mul_(2)
    assert torch.equal(layer.weight.detach().cpu(), numbers(2, 2) * 2)


def test_version_counters_guard_saved_tensors() -> None:
    x = numbers(3).to("nntile").requires_grad_()
    y = x.exp()
    z = y * 2
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward() if z._version == y._version else y.sum().backward()


def test_bits_of_another_dtype() -> None:
    a = numbers(4)
    found = a.to("nntile").view(torch.int32)
    assert torch.equal(found.cpu(), a.view(torch.int32))
    assert torch.equal((found + 0).view(torch.float32).cpu(), a)


def test_tensors_with_one_storage_keep_it_when_copied() -> None:
    import copy

    a = numbers(4).to("nntile")
    pair = copy.deepcopy({"a": a, "head": a[:2]})
    pair["a"].zero_()
    assert pair["head"].cpu().sum() == 0
    assert a.cpu().sum() == 10


def test_undefined_data_can_be_read() -> None:
    assert torch.empty(3, 5, device="nntile").cpu().shape == (3, 5)
    assert (torch.empty(3, device="nntile") * 0).cpu().shape == (3,)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.uint8, torch.int64], ids=str)
def test_copies_between_orders_of_short_dims(dtype: torch.dtype) -> None:
    """Planes of few elements, and runs of few bytes: both sides walk another dim."""
    sizes = (2, 3, 70, 2, 4)
    x = torch.arange(torch.Size(sizes).numel()).to(dtype).view(sizes)
    for order in itertools.islice(itertools.permutations(range(5)), 0, None, 3):
        for part in (x, x[:, :, 1:68:2], x[:, 2:, ..., 1:3], x[:0]):
            y = part.permute(order)
            on_device = x.to("nntile")[: part.shape[0]]
            if part.shape[2] != 70:
                on_device = on_device[:, :, 1:68:2]
            if part.shape[1] != 3:
                on_device = on_device[:, 2:, ..., 1:3]
            assert torch.equal(on_device.permute(order).contiguous().cpu(), y.contiguous())


@pytest.mark.parametrize(
    "sizes", [(5, 0, 5, 10), (5, 3, 0, 4), (0, 3, 2, 4), (2, 3, 2, 0)], ids=str
)
def test_addbmm_of_nothing(sizes: tuple[int, int, int, int]) -> None:
    batch, rows, terms, columns = sizes
    operands = [numbers(rows, columns), numbers(batch, rows, terms), numbers(batch, terms, columns)]
    assert_parity(lambda *x: torch.addbmm(*x, beta=0.5, alpha=2), operands)
