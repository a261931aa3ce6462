# SPDX-License-Identifier: BSD-3-Clause
"""torch.nn.LSTM as one op a layer and direction: values and gradients of CPU PyTorch, whole and cut."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from parity import assert_parity, runtime_mode
from torch import Tensor, nn
from torch.nn.utils import rnn

import torch_nntile

STEPS, BATCH, WIDTH, HIDDEN = 5, 6, 3, 4
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*nntile.*:UserWarning"),
    pytest.mark.filterwarnings("ignore:LSTM with projections:UserWarning"),
]


def weights(layers: int = 1, bidirectional: bool = False, bias: bool = True) -> list[Tensor]:
    torch.manual_seed(18)
    layer = nn.LSTM(WIDTH, HIDDEN, layers, bidirectional=bidirectional, bias=bias)
    return [parameter.detach().clone() for parameter in layer.parameters()]


def lstm(**options: Any) -> Callable[..., Any]:
    settings = {
        "has_biases": True,
        "num_layers": 1,
        "dropout": 0.0,
        "train": True,
        "bidirectional": False,
        "batch_first": False,
    } | options

    def call(x: Tensor, h: Tensor, c: Tensor, *params: Tensor) -> Any:
        return torch.lstm(x, (h, c), list(params), *settings.values())

    return call


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("layers", "bidirectional", "bias"),
    list(itertools.product((1, 2), (False, True), (False, True))),
)
def test_as_on_the_cpu(layers: int, bidirectional: bool, bias: bool, dtype: torch.dtype) -> None:
    states = layers * (2 if bidirectional else 1)
    params = [w.to(dtype) for w in weights(layers, bidirectional, bias)]
    x = torch.randn(STEPS, BATCH, WIDTH).to(dtype)
    h, c = (torch.randn(states, BATCH, HIDDEN).to(dtype) for _ in range(2))
    call = lstm(num_layers=layers, bidirectional=bidirectional, has_biases=bias)
    assert_parity(call, [x, h, c, *params], cuts=[{0: {1: (1, 3, 2)}}, {1: {1: 2}}], length=4096)


def test_the_batch_may_come_first() -> None:
    x, h, c = torch.randn(BATCH, STEPS, WIDTH), *torch.randn(2, 1, BATCH, HIDDEN).unbind()
    inputs = [x, h.clone(), c.clone(), *weights()]
    assert_parity(lstm(batch_first=True), inputs, cuts={0: {0: (1, 5)}}, length=4096)


@pytest.mark.parametrize("of", ["y", "h", "c"])
def test_gradients_of_one_result(of: str) -> None:
    layer = lstm()

    def call(*inputs: Tensor) -> Any:
        y, h, c = layer(*inputs)
        return {"y": y, "h": h, "c": c}[of]

    x = torch.randn(STEPS, BATCH, WIDTH)
    h, c = torch.randn(1, BATCH, HIDDEN), torch.randn(1, BATCH, HIDDEN)
    assert_parity(call, [x, h, c, *weights()], cuts={0: {1: 4}}, length=4096)


def test_a_sequence_of_one_step() -> None:
    x, h, c = torch.randn(1, 2, WIDTH), torch.randn(1, 2, HIDDEN), torch.randn(1, 2, HIDDEN)
    assert_parity(lstm(), [x, h, c, *weights()], length=4096)


def test_gradients_of_gradients() -> None:
    def found(device: str) -> list[Tensor]:
        torch.manual_seed(0)
        layer = nn.LSTM(WIDTH, HIDDEN, bidirectional=True).to(device)
        x = torch.randn(STEPS, 2, WIDTH).to(device).requires_grad_()
        (dx,) = torch.autograd.grad(layer(x)[0].square().sum(), x, create_graph=True)
        return list(torch.autograd.grad(dx.square().sum(), [x, *layer.parameters()]))

    for expected, value in zip(found("cpu"), found("nntile"), strict=True):
        torch.testing.assert_close(value.cpu(), expected, rtol=1e-4, atol=1e-6)


def test_a_model_is_few_tasks_however_long_the_sequence_is() -> None:
    def tasks(steps: int) -> int:
        layer = nn.LSTM(WIDTH, HIDDEN).to("nntile")
        x = torch.randn(steps, 2, WIDTH).to("nntile")
        torch_nntile.wait()
        before = torch_nntile.stats().tasks
        layer(x)[0].sum().backward()
        grads = [parameter.grad for parameter in layer.parameters()]
        torch_nntile.wait()
        assert all(grad is not None for grad in grads)
        return torch_nntile.stats().tasks - before

    assert tasks(40) == tasks(4)


OTHERS: dict[str, Callable[[], nn.Module]] = {
    # PyTorch says that the CPU has no fast kernel for it.
    "projected": lambda: nn.LSTM(WIDTH, HIDDEN, proj_size=2),
    "gru": lambda: nn.GRU(WIDTH, HIDDEN, 2),
    "dropout of nothing": lambda: nn.LSTM(WIDTH, HIDDEN, 2, dropout=0.5).eval(),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_layers(name: str) -> None:
    torch.manual_seed(1)
    layer, x = OTHERS[name](), torch.randn(STEPS, BATCH, WIDTH)
    moved = copy.deepcopy(layer).to("nntile")
    torch.testing.assert_close(moved(x.to("nntile"))[0].cpu(), layer(x)[0], rtol=1e-4, atol=1e-5)


def test_packed_sequences() -> None:
    torch.manual_seed(1)
    layer, x = nn.LSTM(WIDTH, HIDDEN), torch.randn(STEPS, 3, WIDTH)
    lengths = torch.tensor([5, 3, 2])
    moved = copy.deepcopy(layer).to("nntile")
    expected, _ = layer(rnn.pack_padded_sequence(x, lengths))
    found, _ = moved(rnn.pack_padded_sequence(x.to("nntile"), lengths))
    torch.testing.assert_close(found.data.cpu(), expected.data, rtol=1e-4, atol=1e-5)


def test_dropout_between_layers_is_drawn_anew() -> None:
    layer = nn.LSTM(WIDTH, HIDDEN, 2, dropout=0.5).to("nntile")
    x = torch.randn(STEPS, 2, WIDTH).to("nntile")
    torch.manual_seed(3)
    first, second = layer(x)[0].cpu(), layer(x)[0].cpu()
    torch.manual_seed(3)
    again = layer(x)[0].cpu()
    assert torch.equal(first, again) and not torch.equal(first, second)


@pytest.mark.parametrize(
    "shapes",
    [
        [(5, 2, 4), (1, 2, 4), (1, 2, 4)],
        [(5, 2, 3), (1, 2, 5), (1, 2, 5)],
        [(5, 2, 3), (1, 3, 4), (1, 3, 4)],
    ],
)
def test_wrong_shapes(shapes: list[tuple[int, ...]]) -> None:
    """torch.nn.LSTM checks them; the function below it does not on the CPU, and reads what is not there."""
    x, h, c = (torch.ones(shape, device="nntile") for shape in shapes)
    with pytest.raises(RuntimeError):
        nn.LSTM(WIDTH, HIDDEN).to("nntile")(x, (h, c))
    with pytest.raises(RuntimeError):
        lstm()(x, h, c, *(w.to("nntile") for w in weights()))


def test_training_in_both_modes_with_a_ragged_batch() -> None:
    def losses(device: str) -> list[float]:
        torch.manual_seed(5)
        layer, head = nn.LSTM(WIDTH, 8, 2).to(device), nn.Linear(8, 2).to(device)
        x, y = torch.randn(STEPS, 6, WIDTH).to(device), torch.arange(6).remainder(2).to(device)
        if device == "nntile":
            torch_nntile.set_axis_group_name(x, {1: "sequences_of_lstm"})
            torch_nntile.set_axis_group_tiling("sequences_of_lstm", (1, 3, 2))
        optimizer = torch.optim.Adam([*layer.parameters(), *head.parameters()], lr=0.02)
        found = []
        for _ in range(10):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(head(layer(x)[0][-1]), y)
            loss.backward()
            optimizer.step()
            found.append(loss.detach())
        return [loss.item() for loss in found]

    expected = losses("cpu")
    for mode in ("eager", "graph"):
        with runtime_mode(mode):
            torch.testing.assert_close(losses("nntile"), expected, rtol=1e-4, atol=1e-5)
