# SPDX-License-Identifier: BSD-3-Clause
"""Storages, layouts and memory formats: values, sizes, strides, offsets and errors as on the CPU."""

from __future__ import annotations

import copy
import re
import uuid
from collections.abc import Callable
from typing import Any

import pytest
import torch
from parity import runtime_mode
from torch import Tensor, nn
from torch.utils import _pytree as pytree

import torch_nntile

BOTH = pytest.mark.parametrize("mode", ["eager", "graph"])
CUTS = pytest.mark.parametrize("cut", [None, (1, 2), (2, 2)], ids=str)


def numbers(*shape: int) -> Tensor:
    return torch.arange(1.0, torch.Size(shape).numel() + 1).reshape(shape).clone()


class Maker:
    """Makes tensors on a device; on ours their dim 0 of 3 and dim 1 of 4 are cut."""

    def __init__(self, device: str, cut: tuple[int, int] | None = None) -> None:
        self.device, self.cut = device, cut

    def __call__(self, *shape: int) -> Tensor:
        x = numbers(*shape).to(self.device)
        if self.device == "nntile" and self.cut is not None:
            unique = uuid.uuid4().hex[:8]
            for dim, size in zip(range(x.dim()), self.cut, strict=False):
                torch_nntile.set_axis_group_name(x, {dim: f"{dim}_{unique}"})
                torch_nntile.set_axis_group_tiling(f"{dim}_{unique}", size)
        return x

    def empty(self) -> Tensor:
        return torch.empty(0, device=self.device)


Case = Callable[[Maker], Any]


def set_forms(make: Maker) -> Any:
    a, found = make(3, 4), []
    for source in (
        (a,),
        (a.untyped_storage(),),
        (a.untyped_storage(), 4, (2, 3), (4, 1)),
        (a.untyped_storage(), 1, (3,), (4,)),
        (a.t(),),
        (a[1],),
    ):
        b = make.empty()
        b.set_(*source)
        assert b.is_set_to(b.view_as(b)) and not b.is_set_to(make.empty())
        assert b.untyped_storage().data_ptr() == a.untyped_storage().data_ptr()
        b.mul_(2)
        found.append(b)
    a.add_(0.5)
    c = make(3, 4)
    c.set_()
    assert c.shape == (0,)
    return a, found, c, a.is_set_to(found[0]), a.is_set_to(found[1]), a.t().is_set_to(found[4])


def set_beyond(make: Maker) -> Any:
    """Grows the storage."""
    a = make(3, 4)
    b = make.empty().set_(a.untyped_storage(), 2, (4, 4), (4, 1))
    b[3].zero_()
    b[2, 2:].zero_()
    return a, b, a.untyped_storage().nbytes(), a.data_ptr() + 8 == b.data_ptr()


def resized(make: Maker) -> Any:
    a, found = make(3, 4), []
    view = a[1]
    for shape in ((2, 3), (12,), (4, 3), (3, 4), (0,), (3, 4)):
        found.append(a.resize_(shape) + 0)
    grown = a.resize_(5, 4)
    grown[3:] = 7
    view.zero_()
    found.append(make(2, 3, 4, 4)[:, :2].contiguous().resize_(2, 2, 2, 3).clone())
    last = make(2, 3, 2, 2).resize_(1, 3, 2, 2, memory_format=torch.channels_last)
    return found, grown, view, last, make(6).resize_as_(make(2, 2))


def regrown(make: Maker) -> Any:
    """As sharded training does it: freed between uses, filled before the next."""
    a = make(3, 4)
    storage, head = a.untyped_storage(), a[:2]
    found = []
    for k in range(3):
        size = storage.nbytes()
        storage.resize_(0)
        assert storage.nbytes() == 0 and a.shape == (3, 4) and storage.size() == 0
        storage.resize_(size)
        a.copy_(make(3, 4) * k)
        found.append(head * 2)
    storage.resize_(24)
    storage.resize_(48)
    a[1, 2:] = 1
    a[2] = 2
    return found, a


def storages(make: Maker) -> Any:
    a, b = make(3, 4), make(3, 4)
    same = a.untyped_storage().data_ptr() == a[1:].untyped_storage().data_ptr()
    other = a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
    twin = a.untyped_storage().clone()
    c = make.empty().set_(twin, 0, (3, 4), (4, 1))
    a.zero_()
    b.untyped_storage().copy_(twin)
    d = make(12)
    d.untyped_storage().fill_(0)
    return same, other, c, b, d, a.untyped_storage().nbytes(), a[1:].storage_offset()


def from_host(make: Maker) -> Any:
    a = make(3, 4)
    host = a.untyped_storage().cpu()
    b = torch.empty(0).set_(host, 0, (12,), (1,)).to(make.device)
    return b, len(a.untyped_storage()), a.untyped_storage().tolist()[:8]


def memory_formats(make: Maker) -> Any:
    a = make(2, 3, 4, 5)
    last = a.to(memory_format=torch.channels_last)
    more = make(2, 2, 3, 2, 2).contiguous(memory_format=torch.channels_last_3d)
    kept = last.clone(), last.clone(memory_format=torch.contiguous_format), last * 2 + last
    last[:, 1].add_(100)
    assert last.is_contiguous(memory_format=torch.channels_last) and not last.is_contiguous()
    like = torch.zeros_like(last), torch.ones_like(a, memory_format=torch.channels_last)
    model = nn.Conv2d(3, 2, 1).to(make.device).to(memory_format=torch.channels_last)
    return (
        *(last, more, kept, like, last.contiguous(), a.clone(memory_format=torch.channels_last)),
        *(last.permute(0, 2, 3, 1).view(2, 20, 3), last.sum((2, 3)), last[:, :, 1:3, ::2] * 1),
        model.weight.stride(),
    )


def layouts_in_place(make: Maker) -> Any:
    a = make(3, 4)
    before = a.data_ptr()
    a.t_().add_(1)
    a.unsqueeze_(1).mul_(2)
    a.transpose_(0, 2)
    a.squeeze_(1).sub_(3)
    a.as_strided_((2, 2), (4, 1), 5)
    a.neg_()
    assert a.storage_offset() == 5 and a.data_ptr() == before + 20
    whole = a.as_strided((3, 4), (4, 1), 0)
    b = make(3, 4).swapdims_(0, 1).swapaxes_(0, 1).swapdims_(0, 1)
    return a, whole, b, make(1, 3, 1).squeeze_(), make(1, 3, 1).squeeze_((0,)), make(2, 3).mT


def bits_of_views(make: Maker) -> Any:
    a = make(3, 4)
    integers = a.view(torch.int32)
    bytes_ = a.view(torch.uint8)
    doubles = a.view(torch.float64)
    found = integers + 0, bytes_.clone(), doubles * 1, a[:, :2].view(torch.int64) + 0
    bytes_[0, :4] = 0
    integers[1, 1] = 1065353216
    half = a.half().view(torch.int16)
    half[2] = 0
    signs = make(5).sub_(3).view(torch.int32) < 0
    return found, a, half.view(torch.float16), signs, a[0, 0].view(torch.int32)


def strided(make: Maker) -> Any:
    a = make(3, 4)
    overlapping = a.as_strided((3, 3), (2, 1), 1)
    found = overlapping * 2, a.as_strided((2, 2), (1, 4), 2) + 1, a.as_strided((5,), (0,), 3) + 0
    a.as_strided((3,), (5,)).fill_(-1)
    patch = torch.as_strided_scatter(a, make(2, 2), (2, 2), (4, 2), 1)
    empty = torch.empty_strided((2, 3), (1, 2), device=make.device).copy_(make(2, 3))
    return a, found, patch, empty, torch.empty_permuted((2, 3), (1, 0), device=make.device).stride()


def swapped(make: Maker) -> Any:
    a, b = make(3, 4), make(2)
    ids = a.data_ptr(), b.data_ptr()
    torch.utils.swap_tensors(a, b)
    assert (b.data_ptr(), a.data_ptr()) == ids
    a.add_(1)
    p, q = nn.Parameter(make(2)), nn.Parameter(make(3))
    p.grad = make(2)
    torch.utils.swap_tensors(p, q)
    return a, b, p.detach(), q.detach(), q.grad


def tied(make: Maker) -> Any:
    model = nn.ModuleDict({"a": nn.Linear(4, 3), "b": nn.Linear(4, 3), "e": nn.Embedding(3, 4)})
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(numbers(*p.shape) / 10)
    model["b"].weight = model["a"].weight
    model["e"].weight = model["a"].weight
    model = model.to(make.device)
    assert model["b"].weight is model["a"].weight is model["e"].weight
    x = make(2, 4)
    (model["a"](x) * model["b"](x)).sum().add(model["e"](x[:, 0].long() % 3).sum()).backward()
    torch.optim.SGD(model.parameters(), 0.01).step()
    twin = copy.deepcopy(model)
    assert twin["b"].weight is twin["a"].weight
    state = model.state_dict()
    assert state["a.weight"].data_ptr() == state["e.weight"].data_ptr()
    return list(state.values()), list(twin.state_dict().values()), len(list(model.parameters()))


def copied(make: Maker) -> Any:
    a = make(3, 4)
    group = {"a": a, "t": a.t(), "row": a[1], "storage": a.untyped_storage()}
    twin = copy.deepcopy(group)
    twin["row"].zero_()
    assert twin["storage"].data_ptr() == twin["a"].untyped_storage().data_ptr() != a.data_ptr()
    shallow = copy.copy(a)
    shallow.add_(1)
    return a, twin["a"], twin["t"], shallow


def data_shared(make: Maker) -> Any:
    a = make(3, 4).requires_grad_()
    a.data.mul_(2)
    a.detach()[0].zero_()
    flat = make(6)
    parameters = [nn.Parameter(flat[:2]), nn.Parameter(flat[2:].view(2, 2))]
    (parameters[0].sum() * parameters[1].sum()).backward()
    with torch.no_grad():
        for p in parameters:
            p.sub_(p.grad)
    a.data = flat.view(2, 3)
    flat.add_(1)
    return flat, [p.detach() for p in parameters], a.detach()


CASES: dict[str, Case] = {
    case.__name__: case
    for case in (
        *(set_forms, set_beyond, resized, regrown, storages, from_host, memory_formats),
        *(layouts_in_place, bits_of_views, strided, swapped, tied, copied, data_shared),
    )
}


@BOTH
@CUTS
@pytest.mark.parametrize("name", CASES)
def test_as_on_the_cpu(name: str, cut: tuple[int, int] | None, mode: str) -> None:
    expected = pytree.tree_leaves(CASES[name](Maker("cpu")))
    with runtime_mode(mode):
        found = pytree.tree_leaves(CASES[name](Maker("nntile", cut)))
        assert len(found) == len(expected)
        for k, (f, e) in enumerate(zip(found, expected, strict=True)):
            if not isinstance(e, Tensor):
                assert f == e, f"{k}: {f}, expected {e}"
                continue
            assert (f.shape, f.dtype) == (e.shape, e.dtype), f"{k}"
            assert f.stride() == e.stride(), f"{k}: {f.stride()}, expected {e.stride()}"
            assert f.storage_offset() == e.storage_offset(), f"{k}"
            torch.testing.assert_close(f.cpu(), e, msg=lambda text, k=k: f"{k}: {text}")


# ---- errors

ERRORS: dict[str, Case] = {
    "as_strided beyond": lambda make: make(3, 4).as_strided((3, 5), (4, 1)),
    "as_strided before": lambda make: make(3, 4).as_strided((2,), (1,), -1),
    "as_strided of a negative stride": lambda make: make(3, 4).as_strided((2,), (-1,), 3),
    "as_strided of other lengths": lambda make: make(3, 4).as_strided((2,), (1, 1)),
    "view of another size": lambda make: make(3, 4).view(5),
    "view of a transpose": lambda make: make(3, 4).t().view(12),
    "view of a wider dtype": lambda make: make(3, 3).view(torch.float64),
    "view of a wider dtype, strided": lambda make: make(3, 4).t().view(torch.int64),
    "set_ of another dtype": lambda make: make(3).set_(make(3).int()),
    "set_ of a negative offset": lambda make: make(3).set_(make(3).untyped_storage(), -1, (2,)),
    "resize_ of a graph": lambda make: make(3).requires_grad_().resize_(2),
    "write into overlaps": lambda make: make(1, 4).expand(3, 4).add_(1),
    "copy into overlaps": lambda make: make(4).expand(3, 4).copy_(make(3, 4)),
    "copy of another size": lambda make: make(3, 4).copy_(make(3, 3)),
    "copy of a larger size": lambda make: make(1, 4).copy_(make(3, 4)),
    "copy of another size from the host": lambda make: make(3, 4).copy_(numbers(3, 3)),
    "transpose_ of a dim too far": lambda make: make(3, 4).transpose_(0, 2),
    "t_ of three dims": lambda make: make(2, 3, 4).t_(),
    "squeeze_ of a dim too far": lambda make: make(3).squeeze_(1),
    "channels_last of three dims": lambda make: make(2, 3, 4).to(memory_format=torch.channels_last),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_those_of_the_cpu(name: str) -> None:
    with pytest.raises(Exception) as expected:  # noqa: PT011 - the class is compared below
        ERRORS[name](Maker("cpu"))
    with pytest.raises(expected.type) as found:
        ERRORS[name](Maker("nntile")).cpu()
    assert message(found.value) == message(expected.value)


def message(error: BaseException) -> str:
    return re.sub(r"nntile:0|cpu", "", str(error).split("\n")[0])


def test_addresses_of_live_storages_differ() -> None:
    kept = [torch.empty(n, device="nntile") for n in (1, 1, 3, 1000) * 50]
    assert len({x.untyped_storage().data_ptr() for x in kept}) == len(kept)
    assert torch.empty(0, device="nntile").data_ptr() == 0


@BOTH
def test_a_freed_storage_may_be_read(mode: str) -> None:
    """Undefined values, but neither a crash nor an error that stays."""
    with runtime_mode(mode):
        a = numbers(3, 4).to("nntile")
        a.untyped_storage().resize_(0)
        a.untyped_storage().resize_(48)
        assert (a * 0).shape == a.cpu().shape == (3, 4)
        a.untyped_storage().resize_(0)
        with pytest.raises(RuntimeError):
            (a + 1).cpu()
        assert torch.equal(numbers(2).to("nntile").cpu(), numbers(2))
