# SPDX-License-Identifier: BSD-3-Clause
"""Errors of tasks and texts of graphs name the user's line; plans do not depend on it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import torch_nntile
from torch_nntile import places

NAME = os.path.relpath(__file__)
KNOWN = sys.version_info[:2] <= (3, 13)


def _line(function: Any, offset: int) -> str:
    return f"{NAME}:{function.__code__.co_firstlineno + offset}"


@pytest.fixture(autouse=True, params=[True, False], ids=["fast", "by functions"])
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    """Lines are found both ways: as in Python 3.10 to 3.13, and as in other versions."""
    assert places.start(fast=request.param) == (request.param and KNOWN)
    yield
    places.start()


def _table() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros(10, 4, device="nntile"), torch.tensor([12], device="nntile")


def _look_up(table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.embedding(index, table)


def _look_up_elsewhere(table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.embedding(index, table)


def _error(function: Any) -> str:
    result = function(*_table())
    with pytest.raises(IndexError) as caught:
        result.cpu()
    return str(caught.value)


def test_error_of_a_task_names_the_line() -> None:
    text = _error(_look_up)
    assert text == f"embedding: index 12 is out of range [0, 10) [{_line(_look_up, 1)}]"


def test_each_run_of_a_plan_has_its_own_line() -> None:
    _error(_look_up)
    torch_nntile.wait()
    before = torch_nntile.stats()
    text = _error(_look_up_elsewhere)
    torch_nntile.wait()
    after = torch_nntile.stats()
    assert after.lowerings == before.lowerings, "a place made a new plan"
    assert f"[{_line(_look_up_elsewhere, 1)}]" in text


def test_frames_of_modules_are_skipped() -> None:
    module = torch.nn.Embedding(10, 4, device="nntile")
    result = module(_table()[1])
    here = _line(test_frames_of_modules_are_skipped, 2)
    with pytest.raises(IndexError, match="12 is out of range") as caught:
        result.cpu()
    assert f"[{here}]" in str(caught.value)


def test_backward_names_the_line_of_the_forward_op() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x)

    x = torch.ones(64, device="nntile", requires_grad=True)
    y = forward(x).sum()
    with torch_nntile.profile() as p:
        y.backward()
    lines = {(t.op, t.backward): t.line for t in p.tasks}
    assert lines["tanh_backward", True] == _line(forward, 1), lines


class _Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, *dy: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return torch.tanh(dy[0] * x)


def test_backward_of_a_users_function() -> None:
    x = torch.ones(64, device="nntile", requires_grad=True)
    y = _Square.apply(x).sum()  # type: ignore[no-untyped-call]
    with torch_nntile.profile() as p:
        y.backward()
    tanh = next(t for t in p.tasks if "tanh" in t.op)
    assert tanh.backward
    assert tanh.line == _line(_Square.forward, 3)


def test_generator_recursion_and_threads() -> None:
    def deep(n: int) -> Iterator[torch.Tensor]:
        if n:
            yield from deep(n - 1)
        else:
            yield _look_up(*_table())

    (result,) = deep(50)
    with pytest.raises(IndexError) as caught:
        result.cpu()
    assert f"[{_line(_look_up, 1)}]" in str(caught.value)

    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as pool:
        texts = [future.result() for future in [pool.submit(_error, _look_up) for _ in range(1)]]
    assert f"[{_line(_look_up, 1)}]" in texts[0]


def test_code_that_is_made_again_and_again(tmp_path: Path) -> None:
    """Addresses of code objects are used again once they are freed: those that are known are kept."""
    table, index = _table()
    for k in range(50):
        name = f"made_{k}.py"
        space: dict[str, Any] = {"torch": torch, "table": table, "index": index}
        exec(  # as a cell of a notebook
            compile("\n" * k + "y = torch.nn.functional.embedding(index, table)", name, "exec"),
            space,
        )
        with pytest.raises(IndexError) as caught:
            space["y"].cpu()
        assert str(caught.value).endswith(f"[{name}:{k + 1}]")


def test_explain_shows_lines() -> None:
    x = torch.ones(7, 3, device="nntile")
    torch_nntile.wait()
    torch.sinh(x).cpu()
    here = _line(test_explain_shows_lines, 3)
    assert f"# {here}\n" in torch_nntile.explain("graph", lines=True)
    assert "#" not in torch_nntile.explain()


BLOCKING = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(10, 4)
    def forward(self, i):
        return self.words(i)
net = Net().to("nntile")
try:
    y = net(torch.tensor([12], device="nntile"))
    print("late")
except IndexError as error:
    print(error)
print((torch.ones(3, device="nntile") + 1).sum().item())
import torch_nntile
@torch_nntile.capture
def step(x):
    return x * 2 + 1
for _ in range(3):
    z = step(torch.ones(3, device="nntile"))
print(z.sum().item())
"""


@pytest.mark.parametrize("value", ["0", "1"])
def test_blocking_raises_at_the_call(value: str, tmp_path: Path) -> None:
    script = tmp_path / "model.py"
    script.write_text(BLOCKING)
    environment = {**os.environ, "NNTILE_BLOCKING": value}
    done = subprocess.run(
        [sys.executable, "model.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=value == "1",
    )
    first, *rest = done.stdout.splitlines()
    if value == "0":
        assert first == "late"
        return
    assert first == "embedding: index 12 is out of range [0, 10) [model.py:8, in Net.words]"
    assert rest == ["6.0", "9.0"]
