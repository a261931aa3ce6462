# SPDX-License-Identifier: BSD-3-Clause
"""torch.nn.LSTMCell and GRUCell: the answers of CPU PyTorch, whole and cut, and what autograd keeps."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from parity import assert_parity, three_derivatives
from torch import Tensor, nn

import torch_nntile

STEPS, BATCH, WIDTH, HIDDEN = 5, 6, 3, 4
CELLS = {"LSTMCell": (torch.lstm_cell, 4), "GRUCell": (torch.gru_cell, 3)}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("used", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("kind", CELLS)
def test_cells_as_on_the_cpu(
    kind: str, used: tuple[int, ...], bias: bool, dtype: torch.dtype
) -> None:
    function, gates = CELLS[kind]
    torch.manual_seed(5)
    shapes = [(gates * HIDDEN, WIDTH), (gates * HIDDEN, HIDDEN), *[(gates * HIDDEN,)] * 2 * bias]
    params = [torch.randn(shape).to(dtype) for shape in shapes]
    x, h, c = (torch.randn(BATCH, n).to(dtype) for n in (WIDTH, HIDDEN, HIDDEN))

    def call(x: Tensor, h: Tensor, c: Tensor, *params: Tensor) -> Any:
        if kind == "GRUCell":
            return function(x, h, *params)
        found = function(x, (h, c), *params)
        return [found[k] for k in used]

    inputs = [x, h, c, *params]
    assert_parity(call, inputs, cuts=[{0: {0: (1, 3, 2)}}, {1: {0: 2}}], length=4096)


@pytest.mark.parametrize("kind", CELLS)
def test_a_cell_is_two_products_and_one_op(kind: str) -> None:
    cell = getattr(nn, kind)(WIDTH, HIDDEN).to("nntile")
    x = torch.randn(BATCH, WIDTH).to("nntile")
    before = torch_nntile.stats().ops
    found = cell(x)
    assert torch_nntile.stats().ops - before == 4, "with the zeros of the state"
    loss = found.sum() if kind == "GRUCell" else found[0].sum()
    before = torch_nntile.stats().ops
    loss.backward()
    assert torch_nntile.stats().ops - before <= 7 + (kind == "GRUCell")


@pytest.mark.parametrize("kind", CELLS)
def test_a_loop_of_cells_keeps_what_its_gradients_read(kind: str) -> None:
    """Not the two products that the gates are sums of, which only a second derivative would read."""
    cell = getattr(nn, kind)(WIDTH, HIDDEN).to("nntile")
    x = torch.randn(BATCH, WIDTH).to("nntile")
    state = cell(x)
    before = torch.nntile.memory_allocated()
    for _ in range(STEPS):
        state = cell(x, state)
    kept = torch.nntile.memory_allocated() - before
    # What the functions of the gates gave; of an LSTM two states, of a GRU one, what the state added
    # to n, and the state again: 6 of the size of a state.
    assert kept == STEPS * 6 * BATCH * HIDDEN * x.element_size()


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("kind", "used"),
    [("GRUCell", (0,)), *(("LSTMCell", used) for used in ((0,), (1,), (0, 1)))],
)
def test_third_derivatives_of_cells(kind: str, used: tuple[int, ...], bias: bool) -> None:
    """PyTorch's fused cells have any; ours come from what the functions of the gates gave."""
    torch.manual_seed(6)
    cell = getattr(nn, kind)(WIDTH, HIDDEN, bias=bias).double()
    inputs = [torch.randn(BATCH, n).double() for n in (WIDTH, HIDDEN, HIDDEN)]

    def derivatives(device: str) -> list[Tensor | None]:
        moved = copy.deepcopy(cell).to(device)
        x, h, c = (t.to(device).requires_grad_() for t in inputs)
        if kind == "LSTMCell":
            leaves, results = [x, h, c, *moved.parameters()], moved(x, (h, c))
        else:
            leaves, results = [x, h, *moved.parameters()], [moved(x, h)]
        return three_derivatives([results[k].pow(3) for k in used], leaves)

    for found, expected in zip(derivatives("nntile"), derivatives("cpu"), strict=True):
        assert (found is None) == (expected is None)
        if found is not None:
            torch.testing.assert_close(found.detach().cpu(), expected, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("kind", CELLS)
def test_cells_in_transforms(kind: str) -> None:
    cell = getattr(nn, kind)(WIDTH, HIDDEN)
    moved = copy.deepcopy(cell).to("nntile")
    x = torch.randn(BATCH, WIDTH)

    def loss(parameters: dict[str, Tensor], cell: nn.Module, x: Tensor) -> Tensor:
        result = torch.func.functional_call(cell, parameters, (x,))
        return (result if isinstance(result, Tensor) else result[0]).square().sum()

    expected = torch.func.grad(loss)(dict(cell.named_parameters()), cell, x)
    parameters = dict(moved.named_parameters())
    for name, slope in torch.func.grad(loss)(parameters, moved, x.to("nntile")).items():
        torch.testing.assert_close(slope.cpu(), expected[name], rtol=1e-4, atol=1e-5)
    with pytest.raises(NotImplementedError, match="forward AD with _thnn_fused"):
        torch.func.jvp(lambda p: loss(p, moved, x.to("nntile")), (parameters,), (parameters,))
