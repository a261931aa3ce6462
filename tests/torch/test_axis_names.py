# SPDX-License-Identifier: BSD-3-Clause
"""The name of an axis and its cut stay with the data, whatever PyTorch does to the tensor."""

from __future__ import annotations

import copy
import io
import itertools
import uuid
from collections.abc import Callable

import pytest
import torch
from parity import runtime_mode
from torch import Tensor, nn

from torch_nntile import explain, run_graph, set_axis_group_name, set_axis_group_tiling

ROWS, COLUMNS = 6, 4


def named(x: Tensor) -> str:
    """Two tiles of 1 and 5 rows, under a name that no other test knows."""
    name = f"rows_{uuid.uuid4().hex[:8]}"
    set_axis_group_name(x, {0: name})
    set_axis_group_tiling(name, (1, 5))
    return name


def numbers(device: str) -> Tensor:
    return torch.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS).float().to(device)


LENGTHS = itertools.count(1)  # a graph that is new is lowered, and explain() is about it


def assert_named(x: Tensor, name: str) -> None:
    with runtime_mode("graph"):
        y, length = x.detach(), next(LENGTHS)
        for _ in range(length):
            y = y.neg()
        run_graph()
    assert f"{name}=6" in explain("graph")
    maps = [line for line in explain("tiles").splitlines() if ": map {" in line]
    assert sum(line.count("neg") for line in maps) == 2 * length and len(maps) % 2 == 0


def loaded(state: object, device: str) -> object:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, map_location=device)


def with_set(x: Tensor) -> Tensor:
    return torch.empty(0, device=x.device).set_(x)


def with_data(x: Tensor) -> Tensor:
    y = torch.zeros(2, device=x.device)
    y.data = x
    return y


NEW = {
    "clone": lambda x: x.clone(),
    "deepcopy": lambda x: copy.deepcopy(x),
    "to another dtype": lambda x: x.to(torch.float64),
    "to the same device": lambda x: x.to(x.device),
    "detach": lambda x: x.detach(),
    "data": lambda x: x.data,
    "parameter": lambda x: nn.Parameter(x),
    "deepcopy of a parameter": lambda x: copy.deepcopy(nn.Parameter(x)),
    "set_": with_set,
    "assigned data": with_data,
    "zeros_like plus": lambda x: torch.zeros_like(x) + x,
    "t": lambda x: x.t().contiguous().t(),
}

IN_PLACE = {
    "add_": lambda x: x.add_(1),
    "fill_": lambda x: x.fill_(2),
    "zero_": lambda x: x.zero_(),
    "copy_ of the host's": lambda x: x.copy_(torch.full((ROWS, COLUMNS), 3.0)),
    "copy_ of the device's": lambda x: x.copy_(torch.full_like(numbers("cpu"), 3, device=x.device)),
    "out=": lambda x: torch.mul(numbers(x.device), 2, out=x),
    "a part": lambda x: x[2:4].fill_(7)._base,
    "requires_grad_": lambda x: x.requires_grad_().detach(),
    "resize_ and back": lambda x: x.resize_(ROWS, COLUMNS),
    "constant_": lambda x: nn.init.constant_(x, 5),
}


@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize("name", [*NEW, *IN_PLACE])
def test_a_name_survives(name: str, mode: str) -> None:
    call: Callable[[Tensor], Tensor] = {**NEW, **IN_PLACE}[name]
    with runtime_mode(mode):
        x = numbers("nntile") + 0
        axis = named(x)
        if name not in NEW:
            x.add_(0)
        y = call(x)
        if name in IN_PLACE:
            y = x
        assert_named(y, axis)
        expected = call(numbers("cpu"))
        assert torch.equal(y.detach().cpu(), expected.detach())


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_names_survive_random_initialization(mode: str) -> None:
    with runtime_mode(mode):
        layer = nn.Linear(COLUMNS, ROWS, device="nntile")
        axis = named(layer.weight)
        nn.init.kaiming_uniform_(layer.weight)
        assert_named(layer.weight, axis)
        layer.reset_parameters()
        assert_named(layer.weight, axis)


@pytest.mark.parametrize("device", ["cpu", "nntile"])
@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_names_survive_state_dict(mode: str, device: str) -> None:
    """A file knows no names: data that load_state_dict() copies takes those of the model."""
    with runtime_mode(mode):
        layer, other = (nn.Linear(COLUMNS, ROWS, device="nntile") for _ in range(2))
        axis = named(layer.weight)
        assert_named(layer.state_dict()["weight"], axis)
        layer.load_state_dict(loaded(other.state_dict(), device))
        assert torch.equal(layer.weight.cpu(), other.weight.cpu())
        assert_named(layer.weight, axis)
        assert_named(copy.deepcopy(layer).weight, axis)


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_names_survive_in_the_optimizer(mode: str) -> None:
    with runtime_mode(mode):
        layer = nn.Linear(COLUMNS, ROWS, device="nntile")
        axis = named(layer.weight)
        first, second = (torch.optim.Adam(layer.parameters()) for _ in range(2))
        for optimizer in (first, second):
            layer(torch.ones(2, COLUMNS, device="nntile")).square().sum().backward()
            optimizer.step()
            if optimizer is first:
                second.load_state_dict(loaded(first.state_dict(), "nntile"))
        moments = (o.state[layer.weight]["exp_avg"] for o in (first, second))
        for tensor in (layer.weight, layer.weight.grad, *moments):
            assert_named(tensor, axis)


def test_swapped_tensors_take_their_names() -> None:
    x, y = (nn.Parameter(numbers("nntile")) for _ in range(2))
    axis = named(x)
    torch.utils.swap_tensors(x, y)
    assert_named(y, axis)


@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.arange(24.0, device="nntile").reshape(6, 4),
        lambda: torch.arange(24.0, device="nntile").to(torch.float64).view(6, 4),
        lambda: loaded(numbers("nntile"), "nntile"),
        lambda: copy.deepcopy(numbers("nntile")),
        lambda: torch.empty(24, device="nntile").view(6, 4).copy_(numbers("nntile")),
        lambda: numbers("nntile").t().contiguous().t(),
    ],
)
def test_data_of_another_shape_can_be_named(make: Callable[[], Tensor], mode: str) -> None:
    """Flat data behind a view, and bytes that a file or a copied storage gave."""
    with runtime_mode(mode):
        for wait in (lambda: None, run_graph):
            x = make()
            wait()
            axis = named(x)
            assert_named(x, axis)
            assert torch.equal(x.float().cpu(), numbers("cpu"))


def test_a_tensor_without_elements_can_be_named() -> None:
    x = torch.empty(5, 0, device="nntile")
    named_here = f"rows_{uuid.uuid4().hex[:8]}"
    set_axis_group_name(x, {0: named_here, 1: "nothing"})
    set_axis_group_tiling(named_here, (2, 3))
    assert (x @ torch.ones(0, 4, device="nntile")).tolist() == [[0.0] * 4] * 5
