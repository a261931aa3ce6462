# SPDX-License-Identifier: BSD-3-Clause
"""Optimizers and models as users write them: same steps, checkpoints, names, no lowering twice."""

from __future__ import annotations

import copy
import io
import uuid
from collections.abc import Callable
from typing import Any

import pytest
import torch
from parity import assert_parity, runtime_mode
from torch import Tensor

from torch_nntile import (
    explain,
    fallback_report,
    set_axis_group_name,
    set_axis_group_tiling,
    stats,
    training,
    wait,
)
from torch_nntile.train_mnist import DeepReLU

STEPS = 4
WAYS: dict[str, dict[str, bool]] = {
    "single": {"foreach": False, "fused": False},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
}
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "sgd": ("SGD", {}),
    "sgd decay": ("SGD", {"weight_decay": 0.1}),
    "sgd momentum": ("SGD", {"momentum": 0.9, "dampening": 0.25}),
    "sgd nesterov": ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    "sgd maximize": ("SGD", {"momentum": 0.5, "maximize": True}),
    "adam": ("Adam", {}),
    "adam decay": ("Adam", {"weight_decay": 0.1, "betas": (0.8, 0.99)}),
    "adam amsgrad": ("Adam", {"amsgrad": True, "eps": 1e-4}),
    "adam maximize": ("Adam", {"maximize": True}),
    "adamw": ("AdamW", {"weight_decay": 0.1}),
    "adamw amsgrad": ("AdamW", {"amsgrad": True, "maximize": True}),
}
# Of the data of the inputs: two parameters, then their gradients. The last leaves a tile of 1.
CUTS: list[dict[int, dict[int, Any]]] = [
    {0: {0: 3, 1: 4}, 1: {0: 2}},
    {0: {0: (5, 1, 1), 1: (2, 9)}, 1: {0: (1, 4)}, 2: {1: (7, 4)}},
]


pytestmark = pytest.mark.usefixtures("rows_only")


def randn(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def fresh(name: str) -> str:
    """A group that no other test knows."""
    return f"{name}_{uuid.uuid4().hex[:8]}"


Make = Callable[[list[Tensor]], torch.optim.Optimizer]


def steps_of(make: Make) -> Callable[..., list[Any]]:
    """A call that steps with gradients that change, and returns parameters and all state."""

    def call(p: Tensor, q: Tensor, dp: Tensor, dq: Tensor) -> list[Any]:
        optimizer = make([p, q])
        for step in range(STEPS):
            p.grad, q.grad = dp * (1.0 - 0.5 * step), dq + 0.25 * step
            optimizer.step()
        states = [optimizer.state[x] for x in (p, q)]
        # PyTorch keeps the step on the CPU or on the device, as it likes.
        state = [
            x.item() if x.dim() == 0 else x for s in states for x in s.values() if x is not None
        ]
        return [p, q, *state]

    return call


def inputs() -> list[Tensor]:
    return [randn(7, 11), randn(5), randn(7, 11) + 0.1, randn(5) - 0.2]


# ---- optimizers


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", SETTINGS)
def test_optimizer_of_pytorch(name: str, way: str) -> None:
    kind, options = SETTINGS[name]
    make = steps_of(lambda p: getattr(torch.optim, kind)(p, 0.1, **options, **WAYS[way]))
    assert_parity(make, inputs(), cuts=CUTS, grad=False, length=STEPS, same_bits=True)


@pytest.mark.parametrize("name", SETTINGS)
def test_optimizer_of_training(name: str) -> None:
    kind, options = SETTINGS[name]
    make = steps_of(lambda p: getattr(training, kind)(p, 0.1, **options))
    assert_parity(make, inputs(), cuts=CUTS, grad=False, length=STEPS, same_bits=True)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW"])
def test_optimizer_in_other_dtypes(kind: str, dtype: torch.dtype) -> None:
    make = steps_of(lambda p: getattr(torch.optim, kind)(p, 0.1, foreach=True))
    # Adam divides by sqrt(v) + eps: float16 keeps v of gradients that are not small.
    args = [x.to(dtype) for x in inputs()]
    assert_parity(make, args, cuts=CUTS, grad=False, length=STEPS * STEPS)


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW"])
def test_learning_rate_may_be_a_tensor(kind: str) -> None:
    optimizer = getattr(training, kind)
    call = steps_of(lambda p: optimizer(p, torch.tensor(0.05), fused=True))
    assert_parity(call, inputs(), cuts=CUTS, grad=False, length=STEPS)


@pytest.mark.parametrize("foreach", [False, True])
def test_capturable_adam_keeps_its_step_on_the_device(foreach: bool) -> None:
    def call(p: Tensor, q: Tensor, dp: Tensor, dq: Tensor) -> list[Any]:
        options = {
            "foreach": foreach,
            "capturable": p.device.type == "nntile",
        }  # the CPU refuses it
        # 1 - beta ** step is a float32 now: it would lose three digits for beta = 0.999.
        return steps_of(lambda x: torch.optim.Adam(x, 0.1, betas=(0.5, 0.5), **options))(
            p, q, dp, dq
        )

    assert_parity(call, inputs(), cuts=CUTS, grad=False, length=STEPS)


def test_training_prefers_fused_on_the_device_only() -> None:
    host, device = torch.ones(2), torch.ones(2, device="nntile")
    for kind in (training.SGD, training.Adam, training.AdamW):
        assert kind([device]).defaults["fused"] is True
        assert kind([{"params": iter([device])}]).defaults["fused"] is True
        assert kind([("weight", device)]).defaults["fused"] is True
        assert not kind([host]).defaults["fused"]
        assert not kind([host, device]).defaults["fused"]
        assert not kind([device], foreach=True).defaults["fused"]
        assert not kind([device], fused=False).defaults["fused"]
        assert isinstance(kind([device]), getattr(torch.optim, kind.__name__))


def test_groups_with_their_own_settings() -> None:
    def make(p: list[Tensor]) -> torch.optim.Optimizer:
        groups = [{"params": [p[0]], "lr": 0.5}, {"params": [p[1]], "weight_decay": 0.5}]
        return training.AdamW(groups, 0.01)

    assert_parity(steps_of(make), inputs(), cuts=CUTS, grad=False, length=STEPS)


@pytest.mark.parametrize("options", [{}, {"lr": 0.01}, {"line_search_fn": "strong_wolfe"}], ids=str)
def test_lbfgs(options: dict[str, Any]) -> None:
    """In float64: its steps enlarge rounding so much that the CPU's own float32 is off by percents."""

    def trained(device: str) -> list[Tensor]:
        torch.manual_seed(0)
        layers = (
            torch.nn.Linear(10, 32),
            torch.nn.GELU(),
            torch.nn.LayerNorm(32),
            torch.nn.Linear(32, 4),
        )
        model = torch.nn.Sequential(*layers).double().to(device)
        x, labels = torch.randn(64, 10).double().to(device), (torch.arange(64) % 4).to(device)
        optimizer = torch.optim.LBFGS(model.parameters(), **options)

        def loss() -> Tensor:
            optimizer.zero_grad()
            value = torch.nn.functional.cross_entropy(model(x), labels)
            value.backward()
            return value

        losses = [optimizer.step(loss).detach() for _ in range(2)]
        return [x.detach().cpu() for x in (*losses, *model.parameters())]

    torch.testing.assert_close(trained("nntile"), trained("cpu"))


# ---- a model: whole, cut, checkpoints, equal steps


def batch_on(device: str) -> tuple[Tensor, Tensor]:
    return randn(12, 13).to(device), (torch.arange(12) % 4).to(device)


def trained(
    device: str,
    make: Callable[..., torch.optim.Optimizer],
    cuts: dict[str, Any] | None = None,
    steps: int = STEPS,
    batch: tuple[Tensor, Tensor] | None = None,
) -> tuple[DeepReLU, torch.optim.Optimizer, list[float]]:
    model = DeepReLU(13, 10, 4, depth=2, generator=torch.Generator().manual_seed(1)).to(device)
    x, y = batch or batch_on(device)
    if cuts:
        names = {name: fresh(name) for name in ("batch", "features", "hidden")}
        set_axis_group_name(x, {0: names["batch"], 1: names["features"]})
        for layer in list(model.layers)[:-1]:
            set_axis_group_name(layer.weight, {0: names["hidden"]})
        for name, sizes in cuts.items():
            set_axis_group_tiling(names[name], sizes)
    optimizer = make(model.parameters())
    losses = [training.train_full_batch_step(model, optimizer, x, y) for _ in range(steps)]
    return model, optimizer, losses


def assert_same(found: list[float], expected: list[float]) -> None:
    torch.testing.assert_close(torch.tensor(found), torch.tensor(expected))


@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize(
    "cuts",
    [
        None,
        {"batch": 4, "hidden": 5, "features": 13},
        {"batch": (1, 11), "hidden": (7, 3), "features": (6, 6, 1)},
        {"batch": "auto", "hidden": "auto"},
    ],
    ids=str,
)
def test_deep_relu_trains_like_on_the_cpu(cuts: dict[str, Any] | None, mode: str) -> None:
    expected, _, losses = trained("cpu", lambda p: torch.optim.SGD(p, 0.5, momentum=0.9))
    with runtime_mode(mode):
        model, _, found = trained("nntile", lambda p: training.SGD(p, 0.5, momentum=0.9), cuts)
    assert_same(found, losses)
    assert losses[-1] < losses[0]
    for f, e in zip(model.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(f.detach().cpu(), e.detach())
    assert fallback_report() == []


@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW"])
def test_an_equal_step_lowers_nothing(kind: str, way: str, mode: str) -> None:
    options = {"momentum": 0.9} if kind == "SGD" else {}
    x, y = batch_on("nntile")
    with runtime_mode(mode):
        model, optimizer, _ = trained(
            "nntile",
            lambda p: getattr(torch.optim, kind)(p, 0.1, **options, **WAYS[way]),
            {"batch": (5, 7), "hidden": 4},
            steps=2,  # the first makes the state
            batch=(x, y),
        )
        for _ in range(3):  # on a busy machine a timer may end a window early: another graph, once
            wait()
            before = stats()
            for _ in range(3):
                training.train_full_batch_step(model, optimizer, x, y)
            wait()
            after = stats()
            if after.lowerings == before.lowerings:
                break
    assert after.lowerings == before.lowerings
    assert after.plans == before.plans
    assert after.plan_hits > before.plan_hits
    assert after.host_calls == before.host_calls
    if mode == "graph":  # one graph a step, as long as nothing inside reads a number
        assert after.graphs - before.graphs == 3


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW"])
@pytest.mark.parametrize("source", ["cpu", "nntile"])
@pytest.mark.parametrize("target", ["cpu", "nntile"])
def test_checkpoints_move_between_devices(source: str, target: str, kind: str, way: str) -> None:
    options: dict[str, Any] = {"momentum": 0.9} if kind == "SGD" else {"amsgrad": True}

    def make(p: Any) -> torch.optim.Optimizer:
        optimizer: torch.optim.Optimizer = getattr(torch.optim, kind)(
            p, 0.05, **options, **WAYS[way]
        )
        return optimizer

    _, _, expected = trained("cpu", make, steps=6)
    model, optimizer, losses = trained(
        source, make, {"batch": 5} if source == "nntile" else None, 3
    )
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True, map_location=target)

    model = DeepReLU(13, 10, 4, depth=2).to(target)
    optimizer = make(model.parameters())
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    for p in model.parameters():
        state = optimizer.state[p]
        assert {x.device.type for x in state.values() if x is not None and x.dim()} == {target}
    x, y = batch_on(target)
    losses += [training.train_full_batch_step(model, optimizer, x, y) for _ in range(3)]
    assert_same(losses, expected)


def test_a_state_dict_is_a_copy_that_continues_to_the_same_bits() -> None:
    model, optimizer, _ = trained("nntile", training.Adam)
    x, y = batch_on("nntile")
    twin = copy.deepcopy(model)
    other = training.Adam(twin.parameters())
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for _ in range(2):
        training.train_full_batch_step(model, optimizer, x, y)
    for _ in range(2):  # only now: nothing of the twin moved with the first
        training.train_full_batch_step(twin, other, x, y)
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(a.detach().cpu(), b.detach().cpu())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW"])
def test_names_reach_gradients_and_state(kind: str, way: str) -> None:
    name = fresh("rows")
    p = torch.nn.Parameter(torch.ones(6, 4, device="nntile"))
    set_axis_group_name(p, {0: name})
    set_axis_group_tiling(name, (1, 5))
    options = {"momentum": 0.9} if kind == "SGD" else {"amsgrad": True}
    optimizer = getattr(torch.optim, kind)([p], 0.1, **options, **WAYS[way])
    for _ in range(2):
        optimizer.zero_grad()
        (p * p).sum().backward()
        optimizer.step()
    assert p.grad is not None
    states = [x for x in optimizer.state[p].values() if x is not None and x.dim()]
    assert len(states) == (1 if kind == "SGD" else 3)
    for tensor in (p.detach(), p.grad, *states):
        _kept = tensor.exp()
        wait()
        assert f"{name}=6" in explain("graph")
        assert explain("tiles").count("map {exp}") == 2


def test_deep_relu() -> None:
    def shapes(model: torch.nn.Module) -> list[tuple[int, ...]]:
        return [tuple(p.shape) for p in model.parameters()]

    assert shapes(DeepReLU.tiny()) == [(64, 128), (64, 64), (10, 64)]
    assert shapes(DeepReLU.mnist()) == [(256, 784), *[(256, 256)] * 3, (10, 256)]
    assert shapes(DeepReLU.mnist(hidden=8, depth=1)) == [(8, 784), (10, 8)]
    first, second = (DeepReLU.tiny(torch.Generator().manual_seed(42)) for _ in range(2))
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)
        bound = a.shape[1] ** -0.5
        assert 0.9 * bound < a.max() <= bound and -bound <= a.min() < -0.9 * bound
    with pytest.raises(ValueError, match="depth=0 must be positive"):
        DeepReLU(3, 4, 5, depth=0)
