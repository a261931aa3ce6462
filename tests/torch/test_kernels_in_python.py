# SPDX-License-Identifier: BSD-3-Clause
"""Kernels in Python: values, cuts, gradients, modes."""

from __future__ import annotations

import copy as copies
import importlib
import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from parity import runtime_mode
from torch import Tensor, nn
from torch.testing import assert_close

import torch_nntile
from torch_nntile import In, Kernel, Out, Scalar, capture, index, kernel, stats, wait

pytest.importorskip("numba")

from python_kernels import (
    copy,
    mymuladd_2d,
    mymuladd_grid,
    numbered,
    scaled,
    step_of_sgd,
    swish,
    tasks_of,
)

numba: Any = importlib.import_module("numba")
A = torch.linspace(-1, 2, 49).view(7, 7)
B = A.cos()
CALLS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "copy": (lambda a, b: copy(a.flatten()), lambda a, b: a.flatten()),
    "mymuladd_2d": (lambda a, b: mymuladd_2d(a, b, 0.5), lambda a, b: a * b + 0.5),
    "mymuladd_grid": (lambda a, b: mymuladd_grid(a, b, 0.5), lambda a, b: a * b + 0.5),
    "scaled": (lambda a, b: scaled(a, 3.0), lambda a, b: a * 3),
}


@pytest.fixture
def cut_in_two() -> Callable[[Tensor], Tensor]:
    def cut(tensor: Tensor) -> Tensor:
        torch_nntile.set_axis_group_name(tensor, {0: "halves"})
        torch_nntile.set_axis_group_tiling("halves", (len(tensor) + 1) // 2)
        return tensor

    return cut


@pytest.mark.parametrize("name", CALLS)
def test_examples_run_on_cpu_in_tiles_captured_and_compiled(
    name: str, cut_in_two: Callable[[Tensor], Tensor]
) -> None:
    call, wanted = CALLS[name]
    expected = wanted(A, B)
    assert_close(call(A, B), expected)
    a, b = cut_in_two(A.to("nntile")), B.to("nntile")
    assert_close(call(a, b).cpu(), expected)
    with runtime_mode("graph"):
        assert_close(call(a, b).cpu(), expected)
    step = capture(call)
    for _ in range(4):
        assert_close(step(a, b).cpu(), expected)
    compiled = torch.compile(call, backend="nntile", fullgraph=True)
    assert_close(compiled(a, b).cpu(), expected)


def test_bits_and_indices_are_the_same_for_any_cut() -> None:
    torch.manual_seed(0)
    a, row, table = torch.randn(9, 8, 3), torch.arange(8), torch.randn(5)
    expected = numbered(a, row, table)
    y = table[torch.arange(9) % 5][:, None] + 9 + 8 + 3 + (a * row[:, None]).sum(2)
    assert_close(expected[0], y)
    assert expected[1].equal(torch.stack(torch.meshgrid(torch.arange(9), row, indexing="ij")))
    moved = [x.to("nntile") for x in (a, row, table)]
    torch_nntile.set_axis_group_name(moved[0], {0: "nb", 1: "nw"})
    for batch, width, parts in ((9, 8, 1), (5, 8, 2), (9, 3, 3), (4, 3, 9), ([1, 8], [2, 6], 4)):
        torch_nntile.set_axis_group_tiling("nb", batch)
        torch_nntile.set_axis_group_tiling("nw", width)
        found = numbered(*moved)
        assert found[0].cpu().equal(expected[0])
        assert found[1].cpu().equal(expected[1])
        assert tasks_of(lambda: numbered(*moved)) == (parts, 0)


def test_a_batch_of_two_dims_is_cut_in_ranges_only() -> None:
    """Rows 0, 1, 4, 5 of a batch 2 x 4 are one tile, but no range: they are copied first."""

    @kernel(points="a.shape", cut={"batch": 0})
    def places(a: In("f32", (None,), axes=("batch",)), y: Out("i64", "a")):
        i = index()
        y[i] = i + (0 if a[i] == i else 100)

    x = torch.arange(8.0).view(2, 4).to("nntile")
    torch_nntile.set_axis_group_name(x, {0: "outer", 1: "inner"})
    for outer, inner in ((1, 4), (2, 2), (1, 2)):
        torch_nntile.set_axis_group_tiling("outer", outer)
        torch_nntile.set_axis_group_tiling("inner", inner)
        flat = (x * 1).view(8)
        assert places(flat).cpu().equal(torch.arange(8)), (outer, inner)


def test_views_and_strides_are_taken() -> None:
    for device in ("cpu", "nntile"):
        a = A.to(device)
        for view in (a.t(), a[1:5, ::2], a[:1].expand(4, 7)):
            assert_close(scaled(view, 2.0).cpu(), view.cpu() * 2)


# ---- numbers, what is changed, what is not there


@pytest.mark.parametrize("device", ["cpu", "nntile"])
def test_a_tensor_is_changed_in_place(device: str) -> None:
    p, x = torch.arange(6.0, dtype=torch.float64).to(device), torch.ones(6, dtype=torch.float64)
    x = x.to(device)
    version = p._version
    moved = step_of_sgd(p, x, 2, True)
    assert p.cpu().tolist() == [0, 1, 1.5, 2.5, 3.5, 4.5] and p._version == version + 1
    assert moved.cpu().tolist() == [False] * 2 + [True] * 4
    even = p[::2]
    step_of_sgd(even, x[:3], n=0, half=False)
    assert p.cpu().tolist() == [-1, 1, 0.5, 2.5, 2.5, 4.5]
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        step_of_sgd(p[:1].expand(3), x[:3], 0, True)


def test_changes_in_place_are_captured_and_compiled() -> None:
    x = torch.ones(6, dtype=torch.float64, device="nntile")

    def step(p: Tensor) -> Tensor:
        step_of_sgd(p, x, 2, False)
        return p.sum()

    for make in (capture, lambda f: torch.compile(f, backend="nntile")):
        p = torch.arange(6.0, dtype=torch.float64, device="nntile")
        run = make(step)
        assert [run(p).item() for _ in range(5)] == [15 - 4 * k for k in range(1, 6)]
        assert p.cpu().tolist() == [0, 1, -3, -2, -1, 0]


@numba.njit
def halved(x):
    return x / 2 if x > 0 else 0.0


def test_functions_that_a_kernel_calls() -> None:
    @kernel(points="a.shape")
    def call(a: In("f32", (None,)), y: Out("f32", "a")):
        y[index()] = halved(a[index()]) + math.floor(2.5)

    a = torch.tensor([-1.0, 3])
    assert call(a).tolist() == call(a.to("nntile")).tolist() == [2, 3.5]


def test_numbers_are_run_time_scalars() -> None:
    a = A.to("nntile")
    first = scaled(a, 1.0)
    wait()
    before = stats()
    for s in (2.0, 3, torch.tensor(4.0).item()):
        assert_close(scaled(a, s).cpu(), A * s)
    wait()
    assert stats().lowerings == before.lowerings and first.cpu().equal(A)


def test_shapes_may_depend_on_numbers() -> None:
    @kernel(points="n")
    def fill(like: In("f32", ()), n: Scalar(int), y: Out("f32", ("n + 1",), init=-1)):
        y[index()] = like[()]

    for device in ("cpu", "nntile"):
        value = torch.tensor(2.5, device=device)
        for n in (3, 0, 5):
            assert fill(value, n).cpu().tolist() == [2.5] * n + [-1]


def test_empty_tensors() -> None:
    for device in ("cpu", "nntile"):
        assert scaled(torch.empty(0, 3, device=device), 2.0).shape == (0, 3)


# ---- an operator


def opcheck(call: Any, *arguments: Any) -> None:
    utils = ["test_schema", "test_faketensor", "test_aot_dispatch_dynamic"]
    if all(not isinstance(a, Tensor) or a.device.type == "cpu" for a in arguments):
        utils.append("test_autograd_registration")  # it knows CPU and CUDA only
    torch.library.opcheck(call.op, arguments, test_utils=utils)


@pytest.mark.parametrize("device", ["cpu", "nntile"])
def test_opcheck(device: str) -> None:
    a = torch.randn(4, 3, device=device)
    opcheck(scaled, a, 2.0)
    opcheck(swish, a.requires_grad_(), 1.5)
    d = torch.randn(4, dtype=torch.float64)
    opcheck(step_of_sgd, d.to(device), d.to(device), 1, True)
    opcheck(
        numbered, torch.randn(2, 2, 3).to(device), torch.arange(2).to(device), A[0, :5].to(device)
    )


def test_gradients_are_right() -> None:
    @kernel(points="x.shape")
    def cube(x: In("f64", (None,)), y: Out("f64", "x")):
        i = index()
        y[i] = x[i] * x[i] * x[i]

    cube.backward = lambda grad_y, x: grad_y * 3 * x**2
    x = torch.randn(5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(cube, x)
    on_device = x.detach().to("nntile").requires_grad_()
    cube(on_device).sum().backward()
    assert on_device.grad is not None
    assert_close(on_device.grad.cpu(), 3 * x.detach() ** 2)


class Net(nn.Module):
    def __init__(self, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 2)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.activation(self.first(x)))


def losses(activation: Callable[[Tensor], Tensor], device: str, how: str = "") -> list[float]:
    torch.manual_seed(0)
    x, target = torch.randn(10, 6).to(device), torch.randn(10, 2).to(device)
    model = Net(activation).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 0.05)
    if how == "cut":
        torch_nntile.set_axis_group_name(x, {0: "samples"})
        torch_nntile.set_axis_group_tiling("samples", 5)
    forward = torch.compile(model, backend="nntile", fullgraph=True) if how == "compiled" else model

    def step() -> Tensor:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(forward(x), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = capture(step) if how == "captured" else step
    return [run().item() for _ in range(8)]


@pytest.mark.parametrize("how", ["", "cut", "captured", "compiled"])
def test_an_activation_trains_to_the_losses_of_pytorchs(how: str) -> None:
    expected = losses(nn.functional.silu, "cpu")
    assert expected[-1] < expected[0] / 2
    assert losses(lambda x: swish(x, 1.0), "nntile", how) == pytest.approx(expected, rel=1e-4)


def test_models_with_kernels_are_copied_and_pickled() -> None:
    model = Net(swish)
    assert copies.deepcopy(model).activation is swish
    assert pickle.loads(pickle.dumps(swish)) is swish
    assert repr(swish) == "<kernel swish(Tensor x, float beta) -> Tensor>"


def test_kernels_of_one_name_are_two_ops() -> None:
    made: list[Kernel] = []
    for number in (1, 2):

        @kernel(points="a.shape")
        def same(a: In("f32", (None,)), y: Out("f32", "a")):
            y[index()] = a[index()] + number  # noqa: B023

        made.append(same)
    a = torch.zeros(2)
    assert [k(a.to(d))[0].item() for k in made for d in ("cpu", "nntile")] == [1, 1, 2, 2]
    assert made[0].qualified != made[1].qualified
