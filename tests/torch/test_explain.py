# SPDX-License-Identifier: BSD-3-Clause
"""explain(summary=True) is one screen, explain(why=True) gives reasons."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import torch_nntile
from torch_nntile.errors import InvalidArgumentError


@pytest.fixture(autouse=True)
def one_call_a_graph() -> Iterator[None]:
    torch_nntile.wait()
    yield
    torch_nntile.wait()


def _planned(name: str) -> list[str]:
    """Lines about graphs whose last op is this one."""
    return [line for line in torch_nntile.explain(why=True).splitlines() if f": {name}: " in line]


def _erfinv(x: torch.Tensor) -> torch.Tensor:
    torch_nntile.wait()  # a graph of its own
    y = torch.erfinv(x)
    torch_nntile.wait()
    return y


def test_why_a_graph_was_planned_again() -> None:
    here = f"test_explain.py:{_erfinv.__code__.co_firstlineno + 2}: erfinv: "
    _erfinv(torch.zeros(5, 3, device="nntile"))
    first = _planned("erfinv")[-1]
    assert first.endswith(f"{here}planned for the first time")
    _erfinv(torch.zeros(5, 3, device="nntile"))
    assert _planned("erfinv")[-1] == first, "a plan that was found is no lowering"
    _erfinv(torch.zeros(7, 3, device="nntile"))
    shape = "planned again: input 0 has shape (7, 3), it had (5, 3)"
    assert _planned("erfinv")[-1].endswith(here + shape)
    _erfinv(torch.zeros(7, 3, device="nntile", dtype=torch.float64))
    assert _planned("erfinv")[-1].endswith("planned again: input 0 is f64, it was f32")


def test_why_names_the_first_op_that_differs() -> None:
    x = torch.zeros(5, 3, device="nntile")

    def followed(by: Callable[[torch.Tensor], torch.Tensor]) -> str:
        torch_nntile.wait()
        y = by(x.sin()).cumsum(0)
        torch_nntile.wait()
        assert y.shape == (5, 3)
        return _planned("cumsum and 2 before it")[-1]

    followed(torch.exp)
    line = f"test_explain.py:{followed.__code__.co_firstlineno + 2}"
    assert re.search(
        rf"planned again: op 2 is tanh \(.*{line}\), it was exp \(.*{line}\)$", followed(torch.tanh)
    )


def test_why_after_other_cuts() -> None:
    x = torch.zeros(12, 4, device="nntile")
    torch_nntile.set_axis_group_name(x, {0: "why_rows"})
    _erfinv(x)
    torch_nntile.set_axis_group_tiling("why_rows", 4)
    _erfinv(x)
    assert _planned("erfinv")[-1].endswith("planned again: named axes are cut otherwise")


def test_what_ran_on_the_host_and_from_where() -> None:
    x = torch.eye(4, device="nntile")
    with torch_nntile.profile():
        y = torch.linalg.matrix_exp(x)
    assert y.shape == x.shape
    text = torch_nntile.explain(why=True)
    host = text.partition("What ran on the host")[2]
    assert re.search(r"test_explain\.py:\d+: aten::linalg_matrix_exp: 1 tasks", host), host


def test_what_was_copied() -> None:
    x = torch.randn(12, 12, device="nntile")
    torch_nntile.set_axis_group_name(x, {0: "copied_rows"})
    torch_nntile.set_axis_group_tiling("copied_rows", 4)
    torch.tanh(x)
    with torch_nntile.profile() as p:
        kept = torch.flip(x, (0,)), torch.tanh(x.reshape(8, 18))
    assert len(kept) == 2
    text = torch_nntile.explain(why=True)
    copied = text.partition("What was copied")[2].partition("What ran on the host")[0]
    expected = [t for t in p.tasks if t.kernel == "copy" and t.op != "copy"]
    assert bool(expected) == ("tasks" in copied), copied
    assert expected, {(t.op, t.kernel) for t in p.tasks}
    assert "test_explain.py" in copied


def test_summary_is_one_screen() -> None:
    model = torch.nn.Sequential(
        *(layer for _ in range(12) for layer in (torch.nn.Linear(8, 8), torch.nn.Tanh()))
    ).to("nntile")
    x = torch.randn(4, 8, device="nntile")
    with torch_nntile.profile() as p:
        model(x).sum().backward()
    text = torch_nntile.explain(summary=True)
    lines = text.splitlines()
    assert len(lines) <= 45
    assert max(map(len, lines)) <= 140
    assert re.search(r"Sequential\.\d+ +\d", text)
    assert f"{p.stats.ops} ops recorded in {p.stats.graphs} graphs, {p.stats.tasks} tasks" in text
    assert p.stats.tasks == len(p.tasks)
    assert "memory of tensors" in text


@pytest.mark.parametrize(
    "given", [{"stage": "graph", "summary": True}, {"summary": True, "why": True}]
)
def test_two_questions_at_once(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match="explain: one of stage, summary and why"):
        torch_nntile.explain(**given)


def test_unknown_stage() -> None:
    torch_nntile.wait()
    torch.ones(2, device="nntile").cpu()
    with pytest.raises(InvalidArgumentError, match="got 'grpah'"):
        torch_nntile.explain("grpah")  # type: ignore[arg-type]
