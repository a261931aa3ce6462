# SPDX-License-Identifier: BSD-3-Clause
"""Models of transformers do what docs/reference/models.md says: trained, captured, compiled, generating."""

from __future__ import annotations

import copy
import json
from typing import Any

import model_table
import pytest

RESULTS: dict[str, Any] = json.loads(model_table.RESULTS.read_text())
NAMES = [name for names in model_table.KINDS.values() for name in names]
pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.filterwarnings("ignore")]


def test_one_of_them_is_as_the_table_says() -> None:
    pytest.importorskip("transformers")
    found = model_table.measure("llama")
    assert set(model_table.ways_of(found)) == set(model_table.ways_of(RESULTS["llama"]))
    assert model_table.steps_back("llama", found, RESULTS["llama"]) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_each_is_as_the_table_says(name: str) -> None:
    assert model_table.steps_back(name, model_table.measure(name), RESULTS[name]) == []


def test_a_step_back_is_seen() -> None:
    before = {"eager": "", "captured": "reads data", "greedy": "", "host": ["nonzero"]}
    assert model_table.steps_back("a", copy.deepcopy(before), before) == []
    assert model_table.steps_back("a", before | {"captured": "", "host": []}, before) == []
    assert model_table.steps_back("a", before | {"greedy": "other words"}, before) == [
        "a greedy: other words"
    ]
    assert model_table.steps_back("a", before | {"host": ["nonzero", "sort"]}, before) == [
        "a: sort on the host"
    ]


def test_a_failure_is_one_line_without_places() -> None:
    def fails() -> None:
        raise RuntimeError("no such thing\nin /some/folder/x.py at 0x7f12")

    assert model_table.attempt(fails) == "RuntimeError: no such thing in x.py at ..."
    assert model_table.attempt(lambda: None) == ""


def test_pages_are_those_of_the_results() -> None:
    """After `python -m model_table --pages` in tests/."""
    assert model_table.PAGE.read_text() == model_table.page(RESULTS)
    readme = model_table.README.read_text()
    assert readme == model_table.with_summary(readme, RESULTS)
    with pytest.raises(ValueError, match="no place"):
        model_table.with_summary("# Something else\n", RESULTS)


def test_kinds_and_classes_are_those_that_were_promised() -> None:
    assert len({RESULTS[name]["class"] for name in NAMES}) == len(NAMES) >= 20
    assert RESULTS.keys() == {*NAMES}
    assert len(model_table.KINDS) == 7
