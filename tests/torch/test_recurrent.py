# SPDX-License-Identifier: BSD-3-Clause
"""torch.nn.LSTM, GRU and RNN as one op a layer and direction: the answers of CPU PyTorch, whole and cut."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from parity import assert_parity, runtime_mode, three_derivatives
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
        with runtime_mode("graph"):  # one graph: where eager mode ends one depends on sizes
            layer(x)[0].sum().backward()
            grads = [parameter.grad for parameter in layer.parameters()]
        torch_nntile.wait()
        assert all(grad is not None for grad in grads)
        torch_nntile.wait()
        return torch_nntile.stats().tasks - before

    assert tasks(40) == tasks(4)


OTHERS: dict[str, Callable[[], nn.Module]] = {
    # PyTorch says that the CPU has no fast kernel for it.
    "projected": lambda: nn.LSTM(WIDTH, HIDDEN, proj_size=2),
    "projected, both ways": lambda: nn.LSTM(WIDTH, HIDDEN, 2, bidirectional=True, proj_size=2),
    "dropout of nothing": lambda: nn.LSTM(WIDTH, HIDDEN, 2, dropout=0.5).eval(),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_layers(name: str) -> None:
    torch.manual_seed(1)
    layer, x = OTHERS[name](), torch.randn(STEPS, BATCH, WIDTH)
    moved = copy.deepcopy(layer).to("nntile")
    torch.testing.assert_close(moved(x.to("nntile"))[0].cpu(), layer(x)[0], rtol=1e-4, atol=1e-5)


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


# ---- GRU, and plain layers

KINDS: dict[str, Callable[..., nn.Module]] = {
    "LSTM": nn.LSTM,
    "GRU": nn.GRU,
    "tanh": nn.RNN,
    "relu": lambda *sizes, **options: nn.RNN(*sizes, nonlinearity="relu", **options),
}
GATES = {"GRU": 3, "tanh": 1, "relu": 1}
FUNCTIONS = {"GRU": torch.gru, "tanh": torch.rnn_tanh, "relu": torch.rnn_relu}


def layers_of(kind: str, layers: int, bidirectional: bool, has_biases: bool) -> Callable[..., Any]:
    def call(x: Tensor, h: Tensor, *params: Tensor) -> Any:
        options = (has_biases, layers, 0.0, True, bidirectional, False)
        return FUNCTIONS[kind](x, h, list(params), *options)

    return call


def inputs_of(
    kind: str, layers: int, bidirectional: bool, bias: bool, dtype: torch.dtype
) -> list[Tensor]:
    torch.manual_seed(20)
    layer = KINDS[kind](WIDTH, HIDDEN, num_layers=layers, bidirectional=bidirectional, bias=bias)
    x, h = (
        torch.randn(STEPS, BATCH, WIDTH),
        torch.randn(layers * (1 + bidirectional), BATCH, HIDDEN),
    )
    return [t.detach().to(dtype) for t in (x, h, *layer.parameters())]


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str
)
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", GATES)
def test_others_as_on_the_cpu(
    kind: str, bias: bool, bidirectional: bool, dtype: torch.dtype
) -> None:
    inputs = inputs_of(kind, 2, bidirectional, bias, dtype)
    call = layers_of(kind, 2, bidirectional, bias)
    assert_parity(call, inputs, cuts=[{0: {1: (1, 3, 2)}}, {1: {1: 2}}], length=4096)


@pytest.mark.parametrize("kind", GATES)
def test_special_values_of_others(kind: str) -> None:
    x, *rest = inputs_of(kind, 1, False, True, torch.float32)
    x[0, 0, 0], x[1, 1, 0], x[1, 2] = float("nan"), float("inf"), 0
    call = layers_of(kind, 1, False, True)
    assert_parity(lambda *given: call(*given)[0], [x, *rest], length=4096)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_gradients_of_each(kind: str) -> None:
    def found(device: str) -> list[Tensor]:
        torch.manual_seed(0)
        layer = KINDS[kind](WIDTH, HIDDEN).double().to(device)
        x = torch.randn(STEPS, 2, WIDTH, dtype=torch.float64).to(device).requires_grad_()
        (dx,) = torch.autograd.grad(layer(x)[0].square().sum(), x, create_graph=True)
        return list(torch.autograd.grad(dx.square().sum(), [x, *layer.parameters()]))

    for expected, value in zip(found("cpu"), found("nntile"), strict=True):
        torch.testing.assert_close(value.cpu(), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_each_is_few_tasks_however_long_the_sequence_is(kind: str) -> None:
    def tasks(steps: int) -> int:
        layer = KINDS[kind](WIDTH, HIDDEN).to("nntile")
        x = torch.randn(steps, 2, WIDTH).to("nntile")
        torch_nntile.wait()
        before = torch_nntile.stats().tasks
        with runtime_mode("graph"):  # one graph: where eager mode ends one depends on sizes
            layer(x)[0].sum().backward()
            grads = [parameter.grad for parameter in layer.parameters()]
        torch_nntile.wait()
        assert all(grad is not None for grad in grads)
        torch_nntile.wait()
        return torch_nntile.stats().tasks - before

    assert tasks(40) == tasks(4)


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("wrong", [(0, 6, 4), (1, 2, 4), (1, 6, 5)])
def test_wrong_states_of_others(kind: str, wrong: tuple[int, ...]) -> None:
    x, _, *params = inputs_of(kind, 1, False, True, torch.float32)
    state = torch.ones(wrong, device="nntile")
    with pytest.raises((RuntimeError, IndexError)):
        layers_of(kind, 1, False, True)(x.to("nntile"), state, *(w.to("nntile") for w in params))


def test_wrong_operands_of_the_rows() -> None:
    x, w = torch.ones(5, 2, 12, device="nntile"), torch.ones(12, 4, device="nntile")
    h = torch.ones(2, 4, device="nntile")
    ops = torch.ops.nntile
    with pytest.raises(RuntimeError, match=r"a weight \(3 h, h\) are expected"):
        ops.gru_sequence(x, w[:8], None, h, False)
    with pytest.raises(RuntimeError, match=r"bias must have shape \(12,\)"):
        ops.gru_sequence(x, w, h[0], h, False)
    with pytest.raises(RuntimeError, match=r"hx must have shape \(2, 4\)"):
        ops.gru_sequence(x, w, None, h[:1], False)
    with pytest.raises(RuntimeError, match=r"a weight \(1 h, h\) are expected"):
        ops.rnn_sequence(x, w, h, False, 0)
    y, kept = ops.gru_sequence(x, w, None, h, False)
    with pytest.raises(RuntimeError, match="kept must have shape"):
        ops.gru_sequence_backward(y, w, h, y, kept[1:], False)


# ---- packed sequences


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("lengths", [(5, 3, 3, 1), (5, 5, 5), (1, 1), (4,)], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_packed_sequences(
    kind: str, lengths: tuple[int, ...], bidirectional: bool, dtype: torch.dtype
) -> None:
    """Values, last states, and gradients of inputs, states and weights."""

    def found(device: str) -> list[Tensor]:
        torch.manual_seed(1)
        layer = KINDS[kind](WIDTH, HIDDEN, num_layers=2, bidirectional=bidirectional)
        layer = layer.to(dtype).to(device)
        x = torch.randn(max(lengths), len(lengths), WIDTH, dtype=dtype).to(device).requires_grad_()
        first = torch.randn(2 * (1 + bidirectional), len(lengths), HIDDEN, dtype=dtype)
        state = first.to(device).requires_grad_()
        states = (state, state * 2) if kind == "LSTM" else state
        packed = rnn.pack_padded_sequence(x, torch.tensor(lengths))
        y, last = layer(packed, states)
        outputs = [y.data, *(last if kind == "LSTM" else [last])]
        loss = sum(((k + 1) * out.square()).sum() for k, out in enumerate(outputs))
        assert isinstance(loss, Tensor)
        grads = torch.autograd.grad(loss, [x, state, *layer.parameters()])
        return [t.detach().cpu() for t in (*outputs, *grads)]

    rtol = 1e-10 if dtype == torch.float64 else 1e-4
    for expected, value in zip(found("cpu"), found("nntile"), strict=True):
        torch.testing.assert_close(value, expected, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("kind", KINDS)
def test_packed_sequences_are_an_op_for_each_batch_size(kind: str) -> None:
    def tasks(lengths: list[int]) -> int:
        layer = KINDS[kind](WIDTH, HIDDEN).to("nntile")
        x = torch.randn(max(lengths), len(lengths), WIDTH).to("nntile")
        packed = rnn.pack_padded_sequence(x, torch.tensor(lengths))
        torch_nntile.wait()
        before = torch_nntile.stats().tasks
        with runtime_mode("graph"):
            y = layer(packed)[0]
        torch_nntile.wait()
        assert y.data.shape == (sum(lengths), HIDDEN)
        torch_nntile.wait()
        return torch_nntile.stats().tasks - before

    assert tasks([60, 20]) == tasks([6, 2])


def test_unsorted_sequences_are_packed() -> None:
    torch.manual_seed(1)
    layer, x = nn.GRU(WIDTH, HIDDEN), torch.randn(STEPS, 3, WIDTH)
    moved = copy.deepcopy(layer).to("nntile")
    packed = [
        rnn.pack_padded_sequence(t, torch.tensor([2, 5, 3]), enforce_sorted=False)
        for t in (x, x.to("nntile"))
    ]
    (expected, last), (found, found_last) = layer(packed[0]), moved(packed[1])
    torch.testing.assert_close(found.data.cpu(), expected.data, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found_last.cpu(), last, rtol=1e-4, atol=1e-5)


# What a step keeps of a row, in sizes of the state: of an LSTM y, the cell and four gates.
KEPT = {"LSTM": 6, "GRU": 5, "tanh": 1, "relu": 1}


@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_keeps_what_its_gradients_read(kind: str) -> None:
    layer, length = KINDS[kind](WIDTH, HIDDEN).to("nntile"), 50
    x = torch.randn(length, BATCH, WIDTH).to("nntile")
    before = torch.nntile.memory_allocated()
    result = layer(x)
    kept = torch.nntile.memory_allocated() - before
    a_state = BATCH * HIDDEN * x.element_size()
    assert 0 <= kept - length * KEPT[kind] * a_state <= 10 * a_state
    del result


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_third_derivatives(kind: str, last: bool) -> None:
    """Of y, or of the last states alone, in both directions."""
    torch.manual_seed(7)
    layer = KINDS[kind](WIDTH, HIDDEN, bidirectional=True).double()
    inputs = torch.randn(3, 2, WIDTH).double(), *torch.randn(2, 2, 2, HIDDEN).double()

    def derivatives(device: str) -> list[Tensor | None]:
        moved = copy.deepcopy(layer).to(device)
        x, h, c = (t.to(device).requires_grad_() for t in inputs)
        y, after = moved(x, (h, c) if kind == "LSTM" else h)
        leaves = [x, h, *([c] if kind == "LSTM" else []), *moved.parameters()]
        slopes = [t.pow(3) for t in ([y] if not last else after if kind == "LSTM" else [after])]
        return three_derivatives(slopes, leaves)

    for found, expected in zip(derivatives("nntile"), derivatives("cpu"), strict=True):
        if found is None or expected is None:
            assert (found is None or not found.any()) and (expected is None or not expected.any())
        else:
            torch.testing.assert_close(found.detach().cpu(), expected, rtol=1e-7, atol=1e-7)
