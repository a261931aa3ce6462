# SPDX-License-Identifier: BSD-3-Clause
"""torch_nntile.capture: what is replayed gives the bits of what is called, and leaves the same behind.

A program gets `capture` or something that does nothing, and returns what it has seen.
"""

from __future__ import annotations

import copy
import gc
import io
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from parity import runtime_mode
from torch import Tensor, nn

import torch_nntile
from torch_nntile import stats

DEVICE = "nntile"
Capture = Callable[[Callable[..., Any]], Any]


def model() -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(8, 16), nn.Tanh(), nn.BatchNorm1d(16), nn.Dropout(0.3), nn.Linear(16, 4)
    ).to(DEVICE)


def batch(rows: int = 6) -> tuple[Tensor, Tensor]:
    return torch.randn(rows, 8).to(DEVICE), torch.randn(rows, 4).to(DEVICE)


def left_by(*things: nn.Module | torch.optim.Optimizer) -> list[Any]:
    """Numbers of all tensors in their states."""
    tensors: list[Tensor] = []
    for thing in things:
        if isinstance(thing, nn.Module):
            tensors += thing.state_dict().values()
            tensors += [p.grad for p in thing.parameters() if p.grad is not None]
        else:
            for state in thing.state_dict()["state"].values():
                tensors += [v for v in state.values() if isinstance(v, Tensor)]
    return [tensor.tolist() for tensor in tensors]


def stepper(module: nn.Module, optimizer: torch.optim.Optimizer) -> Callable[..., Tensor]:
    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(module(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


# ---- programs


def accumulated(capture: Capture) -> tuple[list[Any], Any]:
    """Gradients of two calls, zero_grad() outside."""
    module = model()
    optimizer = torch.optim.SGD(module.parameters(), 0.1)

    @capture
    def backward(x: Tensor, y: Tensor) -> Tensor:
        loss = F.mse_loss(module(x), y)
        loss.backward()
        return loss

    seen = []
    for k in range(14):
        seen.append(backward(*batch()).item())
        if k % 2:
            optimizer.step()
            optimizer.zero_grad()
    return seen + left_by(module), backward


def clipped(capture: Capture) -> tuple[list[Any], Any]:
    module = model()
    optimizer = torch.optim.AdamW(module.parameters(), 0.01)

    @capture
    def step(x: Tensor, y: Tensor) -> dict[str, Tensor]:
        optimizer.zero_grad(set_to_none=False)
        loss = F.mse_loss(module(x), y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(module.parameters(), 0.1)
        optimizer.step()
        return {"loss": loss, "norm": norm}

    seen = []
    for _ in range(8):
        found = step(*batch())
        seen += [found["loss"].item(), found["norm"].item()]
    return seen + left_by(module, optimizer), step


def shapes_and_flags(capture: Capture) -> tuple[list[Any], Any]:
    module = model()
    predict = capture(lambda x: module(x))
    seen = []
    for k in range(16):
        module.train(k % 4 != 0)
        seen.append(predict(batch(4 + k % 2)[0]).tolist())
    return seen + left_by(module), predict


def loaded(capture: Capture) -> tuple[list[Any], Any]:
    """state_dict() and load_state_dict() between replays."""
    module = model()
    optimizer = torch.optim.Adam(module.parameters(), 0.01)
    step = capture(stepper(module, optimizer))
    seen, saved = [], None
    for k in range(16):
        seen.append(step(*batch()).item())
        if k == 6:
            saved = copy.deepcopy((module.state_dict(), optimizer.state_dict()))
        if k == 9:
            assert saved
            module.load_state_dict(saved[0])
            optimizer.load_state_dict(saved[1])
    return seen + left_by(module, optimizer), step


def written_and_viewed(capture: Capture) -> tuple[list[Any], Any]:
    """Arguments that change, results that share storage, and results that are no tensors."""

    @capture
    def function(x: Tensor, y: Tensor, k: int = 2) -> Any:
        x.add_(1)
        z = x * y.sum()
        return z, z[1:], x, z.t(), None, [k, "word"]

    x, seen = torch.randn(3, 3).to(DEVICE), []
    for k in range(7):
        target = x if k % 2 else torch.randn(3, 3).to(DEVICE)
        z, rows, same, turned, nothing, rest = function(target, torch.randn(3).to(DEVICE))
        assert same is target
        assert nothing is None
        z[2, 0] = 7  # results are one storage
        seen += [z.tolist(), rows.tolist(), turned.tolist(), target.tolist(), rest]
        seen += [turned.stride(), rows.storage_offset()]
    return seen, function


def random(capture: Capture) -> tuple[list[Any], Any]:
    """The generator is where it would be."""
    function = capture(lambda x: F.dropout(x, 0.5) + torch.rand(4, device=DEVICE))
    seen = []
    for k in range(7):
        seen.append(function(torch.ones(4, device=DEVICE)).tolist())
        seen.append(torch.rand(2, device=DEVICE).tolist())
        if k == 4:
            torch.manual_seed(7)
    return seen, function


def in_turn(capture: Capture) -> tuple[list[Any], Any]:
    modules = [model(), model()]
    optimizers = [torch.optim.Adam(module.parameters(), 0.01) for module in modules]
    steps = [capture(stepper(*pair)) for pair in zip(modules, optimizers, strict=True)]
    return [steps[k % 2](*batch()).item() for k in range(12)] + left_by(*modules), steps[1]


def one_in_another(capture: Capture) -> tuple[list[Any], Any]:
    module = model()
    inner = capture(lambda x: module(x).relu())
    outer = capture(lambda x: inner(x) * 2)
    return [outer(batch()[0]).tolist() for _ in range(6)] + [inner(batch()[0]).tolist()], outer


def raising(capture: Capture) -> tuple[list[Any], Any]:
    """An exception while it is recorded, one in a task of a replay: what comes next is right."""
    embedding = nn.Embedding(10, 4).to(DEVICE)
    optimizer = torch.optim.SGD(embedding.parameters(), 0.1)
    raises = False

    @capture
    def step(index: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = embedding(index).square().sum()
        loss.backward()
        if raises:
            raise KeyError("mine")
        optimizer.step()
        return loss

    seen: list[Any] = []
    for k in range(9):
        raises = k == 1
        index = torch.tensor([1, 2, 12 if k == 6 else 3]).to(DEVICE)
        try:
            seen.append(step(index).item())
        except (KeyError, RuntimeError, IndexError) as error:
            seen.append(type(error).__name__)
        seen.append(embedding.weight.tolist())  # of a failed step: as before
    assert seen[2] == "KeyError"
    assert seen[12] == "IndexError"
    assert seen[11] == seen[13]
    return seen, step


def cast(capture: Capture) -> tuple[list[Any], Any]:
    module = model()
    optimizer = torch.optim.SGD(module.parameters(), 0.1)

    @capture
    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = F.mse_loss(module(x).float(), y)
        loss.backward()
        optimizer.step()
        return loss

    return [step(*batch()).item() for _ in range(7)] + left_by(module), step


def moved(capture: Capture) -> tuple[list[Any], Any]:
    """Arguments on the CPU."""
    module = model()
    predict = capture(lambda x: module(x.to(DEVICE)))
    return [predict(torch.randn(5, 8)).tolist() for _ in range(6)], predict


def frozen(capture: Capture) -> tuple[list[Any], Any]:
    module = model()
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    step = capture(stepper(module, optimizer))
    seen = []
    for k in range(12):
        if k == 5:
            module[0].weight.requires_grad_(False)
        seen.append(step(*batch()).item())
    return seen + left_by(module), step


def replaced(capture: Capture) -> tuple[list[Any], Any]:
    module = model()
    predict = capture(lambda x: module(x))
    seen = []
    for k in range(12):
        if k == 5:
            module[4] = nn.Linear(16, 4).to(DEVICE)
        if k == 8:
            module[4].weight.data = torch.ones(4, 16).to(DEVICE)
        seen.append(predict(batch()[0]).tolist())
    return seen, predict


def gradient_of_argument(capture: Capture) -> tuple[list[Any], Any]:
    @capture
    def backward(x: Tensor) -> Tensor:
        y = x.square().sum()
        y.backward()
        return y

    seen = []
    for _ in range(6):
        x = torch.randn(3).to(DEVICE).requires_grad_()
        seen.append(backward(x).item())
        assert x.grad is not None
        seen.append(x.grad.tolist())
    return seen, backward


def aliased(capture: Capture) -> tuple[list[Any], Any]:
    """The same tensor twice, then two; and one that the function also finds by itself."""
    own = torch.ones(3, device=DEVICE)
    function = capture(lambda x, y: (x.mul_(2), y + own)[1])
    seen = []
    for k in range(12):
        x = torch.randn(3).to(DEVICE)
        y = own if k == 9 else x if k % 2 else torch.randn(3).to(DEVICE)
        seen.append(function(x, y).tolist())
    return seen, function


PROGRAMS = [
    accumulated, clipped, shapes_and_flags, loaded, written_and_viewed, random, in_turn,
    one_in_another, raising, cast, moved, frozen, replaced, gradient_of_argument, aliased,
]  # fmt: skip


@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_program(program: Callable[[Capture], tuple[list[Any], Any]], mode: str) -> None:
    with runtime_mode(mode):
        torch.manual_seed(0)
        expected, _ = program(lambda function: function)
        torch.manual_seed(0)
        found, captured = program(torch_nntile.capture)
    assert found == expected
    assert captured.replays >= 3, (captured.recordings, captured.replays)


# ---- what a replay costs and keeps


def test_a_replay_records_nothing_and_lowers_nothing() -> None:
    module = model()
    step = torch_nntile.capture(stepper(module, torch.optim.AdamW(module.parameters())))
    for _ in range(4):
        step(*batch())
    assert step.replays == 1
    data = [batch() for _ in range(5)]
    calls, before = step.recordings, stats()
    for x, y in data:
        step(x, y)
    after = stats()
    assert step.recordings == calls
    assert after.ops == before.ops
    assert after.lowerings == before.lowerings
    assert after.graphs - before.graphs == 5


def test_results_are_tensors_of_their_own() -> None:
    function = torch_nntile.capture(lambda x: x + 1)
    found = [function(torch.full((2,), float(k)).to(DEVICE)) for k in range(6)]
    assert [t.tolist() for t in found] == [[k + 1.0] * 2 for k in range(6)]
    assert not any(t.requires_grad for t in found)


def test_cuts_may_change() -> None:
    weight = torch.randn(8, 8).to(DEVICE)
    function = torch_nntile.capture(lambda x: (x @ weight).relu())
    x = torch.randn(12, 8).to(DEVICE)
    torch_nntile.set_axis_group_name(x, {0: "captured_rows"})
    expected = function(x).cpu()
    function(x)
    for size in (12, 5, 1):
        torch_nntile.set_axis_group_tiling("captured_rows", size)
        before = function.replays
        torch.testing.assert_close(function(x).cpu(), expected, rtol=1e-5, atol=1e-5)
        assert function.replays == before + 1


@pytest.mark.filterwarnings("ignore:capture")
def test_signatures_are_bounded() -> None:
    function = torch_nntile.capture(signatures=2)(lambda x: x * 2)
    for rows in (1, 2, 3, 4) * 3:
        assert function(torch.ones(rows, device=DEVICE)).tolist() == [2.0] * rows
    assert len(function._entries) <= 2


def test_a_capture_goes_away() -> None:
    """Its buffers end with it, and what it knows may end before."""
    gc.collect()
    module = nn.Linear(100, 100).to(DEVICE)
    weight = module.weight
    function = torch_nntile.capture(partial(F.linear, weight=weight))
    x = torch.ones(2, 100, device=DEVICE)
    for _ in range(4):
        function(x)
    assert function.replays == 2
    before = torch.nntile.memory_allocated()
    module.weight.data = torch.ones(
        100, 100, device=DEVICE
    )  # what it has recorded reads the old one
    assert function(x).isfinite().all()
    assert function.recordings == 3
    gc.collect()
    assert torch.nntile.memory_allocated() <= before + 1000
    del function, module, weight
    gc.collect()
    assert torch.nntile.memory_allocated() <= before - 100 * 100 * 4
    assert (x + 1).sum().item() == 400


def test_libraries_can_ask() -> None:
    """transformers looks at data to warn and to save work, but not while a stream is captured."""

    @torch_nntile.capture
    def function(x: Tensor) -> tuple[Tensor, bool]:
        return x + 1, torch.cuda.is_current_stream_capturing()

    assert function(torch.ones(2, device=DEVICE))[1] is True
    assert not torch.cuda.is_available() or not torch.cuda.is_current_stream_capturing()


def test_optimizers_step_where_pytorch_has_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    model = nn.Linear(3, 2).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters())

    @torch_nntile.capture
    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    losses = [step(torch.ones(4, 3, device=DEVICE)).item() for _ in range(5)]
    assert losses == sorted(losses, reverse=True) and step.replays > 0


def test_leaves_without_elements_are_made_anew() -> None:
    @torch_nntile.capture
    def function() -> list[Tensor]:
        leaf = torch.zeros(0).to(DEVICE).requires_grad_()
        twice = leaf.add(leaf)
        return [leaf.data, twice.data, twice.mul_(twice).data]

    for _ in range(4):
        assert [x.shape for x in function()] == [(0,)] * 3
    assert (function.recordings, function.replays) == (2, 2)


def test_a_file_is_loaded_inside() -> None:
    """torch.load makes tensors without dispatch keys, which no op takes."""
    file = io.BytesIO()
    torch.save(torch.zeros(0, device=DEVICE), file)

    @torch_nntile.capture
    def function() -> Tensor:
        file.seek(0)
        return torch.load(file).clone()

    for _ in range(3):
        assert function().shape == (0,)
