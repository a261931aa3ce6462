# SPDX-License-Identifier: BSD-3-Clause
"""docs/reference/op_support.md: no entry of it is worse today, and a step back would be seen."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from torch_nntile.conformance import __main__ as command_line
from torch_nntile.conformance import cases, marks, page, runner

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "op_support.md"
# Of each kind some: element by element, reductions, products, layers, indexing, the host, and what is no use.
SAMPLE = (
    *("add", "abs", "where", "clamp", "sum", "amax", "std", "softmax", "cumsum", "mm", "addmm"),
    *("linalg.vector_norm", "nn.functional.layer_norm", "nn.functional.conv2d", "cat", "gather"),
    *("nn.functional.cross_entropy", "nn.functional.embedding", "nn.functional.gelu", "sort"),
    *("nn.functional.scaled_dot_product_attention", "index_select", "linalg.det", "expand"),
    *("bernoulli", "jiterator_unary"),
)


def lines_of(names: Iterable[str], dtypes: Iterable[torch.dtype]) -> list[str]:
    def found(name: str, dtype: torch.dtype) -> Iterator[str]:
        for case, mark, text in marks.marks(name, dtype, 1, lambda case: None):
            yield f"{name}\t{case}\t{mark}\t{' '.join(text.split())}"

    return [line for name in names for dtype in dtypes for line in found(name, dtype)]


@pytest.mark.filterwarnings("ignore")
def test_a_sample_is_as_good_as_the_page_says() -> None:
    """In this process: the others are named where one crashes."""
    found = page.table_of(lines_of(SAMPLE, (torch.float32, torch.int64)), ())
    assert found.keys() == {*SAMPLE}
    assert {"R", "C", "H"} <= {mark for entry in found.values() for mark in entry.marks.values()}
    assert page.steps_back(found, page.parse(PAGE.read_text())) == []


@pytest.mark.slow
def test_all_is_as_good_as_the_page_says() -> None:
    command = [sys.executable, "-m", "torch_nntile.conformance", "--check", str(PAGE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_says_what_was_written_and_nothing_by_hand() -> None:
    table = page.parse(PAGE.read_text())
    assert len(table) > 650
    assert page.render(table) == PAGE.read_text()


@pytest.mark.parametrize(
    ("before", "now", "found"),
    [("R", "C", 1), ("C", "H", 1), ("H", "U", 1), ("U", "X", 1), ("C", "R", 0), ("X", "H", 0)],
)
def test_a_worsened_line_is_seen(before: str, now: str, found: int) -> None:
    key = ("float32", "backward")
    table = {
        "abs": page.Entry({key: before, ("int64", "forward"): "R"}),
        "mm": page.Entry({key: "R"}),
    }
    read = page.parse(page.render(table))
    assert read == table
    worse = copy.deepcopy(table)
    worse["abs"].marks[key] = now
    steps = page.steps_back(worse, read)
    assert len(steps) == found
    assert all(step.startswith(f"abs float32 backward: {now}, was {before}") for step in steps)


@pytest.mark.filterwarnings("ignore")
def test_check_ends_with_one_for_a_worsened_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_all(entries: list[tuple[str, str]], log: runner.Log, *_: Any, **__: Any) -> None:
        for line in lines_of([name for name, _ in entries], [torch.float32]):
            log.add(line)

    monkeypatch.setattr(runner, "run_all", run_all)
    wrong, arguments = tmp_path / "page.md", ["--ops", "linalg.det", "--dtypes", "float32"]
    ends = []
    for mark in "RH":
        wrong.write_text(page.render({"linalg.det": page.Entry({("float32", "forward"): mark})}))
        monkeypatch.setattr(sys, "argv", ["conformance", *arguments, "--check", str(wrong)])
        ends.append(command_line.main())
    assert ends == [1, 0]
    step = "linalg.det float32 forward: H, was R: host: `linalg_lu_factor_ex.out`"
    assert capsys.readouterr().out.splitlines()[0] == step


def test_shards_are_all_entries_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(
        runner, "run_all", lambda entries, *_, **__: asked.extend(name for name, _ in entries)
    )
    for shard in ("1/3", "2/3", "3/3"):
        arguments = ["--shard", shard, "--dtypes", "int64"]
        monkeypatch.setattr(sys, "argv", ["conformance", *arguments])
        assert command_line.main() == 0
    assert sorted(asked) == sorted(cases.entries())
    for arguments, why in (
        (["--shard", "4/3"], "--shard 4/3"),
        (["--ops", "ad"], "op_db has no ad"),
    ):
        monkeypatch.setattr(sys, "argv", ["conformance", *arguments])
        with pytest.raises(SystemExit):
            command_line.main()
        assert why in capsys.readouterr().err


def test_lines_of_a_log_become_a_table() -> None:
    lines = [
        "abs\tfloat32 forward 0\tR\t",
        "abs\tfloat32 forward 1\tH\tabs, neg",
        "abs\tfloat32 backward 0\tU\tRuntimeError: of | <this> at 0x12ab and /some/folder/x.py",
        "neg\tint64: int64 forward 1\tcrash\tstatus -11",
    ]
    table = page.table_of(lines, {("abs", "float32"), ("neg", "int64"), ("mm", "bool")})
    assert table["abs"].marks == {("float32", "forward"): "H", ("float32", "backward"): "U"}
    reason = "U float32 backward: RuntimeError: of / this at ... and ..."
    assert table["abs"].notes == f"host: `abs`, `neg`; {reason}"
    assert table["neg"].marks == {("int64", "forward"): "X"}
    assert table["mm"] == page.Entry()
    assert page.parse(page.render(table)) == table


def test_a_log_is_taken_up_where_it_ends(tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "log"
    path.write_text(
        "abs\tfloat32 forward 0\tR\t\nabs\tfloat32\tdone\t\nmm\tfloat32 forward 0\tR\t\nmm\tfl"
    )
    log = runner.Log(path, resume=True)
    assert log.done == {("abs", "float32")} and log.lines == ["abs\tfloat32 forward 0\tR\t"]
    started: list[Any] = []

    def process(todo: Any, *_: Any) -> None:
        started.extend(todo)
        todo.clear()

    monkeypatch.setattr(runner, "one_process", process)
    runner.run_all([("abs", "float32"), ("mm", "float32")], log, samples=1, jobs=1, what="marks")
    assert started == [("mm", "float32")]


def test_no_page_is_an_error() -> None:
    with pytest.raises(ValueError, match="no table of ops"):
        page.parse("# Something else\n")
    with pytest.raises(ValueError, match="no line of a table"):
        page.parse(page.render({"abs": page.Entry()}).replace("| ·· |", "| ?? |", 1))


def test_marks_are_in_order() -> None:
    assert [marks.worse(b, a) for a, b in zip("RCHUX", "CHUX–", strict=True)] == [True] * 5
    assert not marks.worse(marks.NONE, "R") and not marks.worse("X", marks.NONE)


DEVICE_TESTS = """
import os, unittest, torch
from torch.testing._internal.common_cuda import no_longer_there
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase

class TestSmall(TestCase):
    @no_longer_there(0.1)
    def test_passes(self, device):
        self.assertEqual(torch.ones(2, device=device).sum(), 2)
    def test_fails_on_the_device(self, device):
        self.assertEqual(torch.device(device).type, "cpu")
    def test_dies_on_the_device(self, device):
        if device != "cpu":
            os._exit(9)
    def test_fails_everywhere(self, device):
        raise RuntimeError("in both")
    def test_of_a_large_tensor(self, device):
        raise MemoryError
    def test_is_skipped(self, device):
        raise unittest.SkipTest("no")
    def test_comes_after(self, device):
        pass

instantiate_device_type_tests(TestSmall, globals())
"""


@pytest.mark.slow
def test_device_tests_of_pytorch(tmp_path: Path) -> None:
    """What only the CPU passes is named, what kills its process as well; the others go on."""
    (tmp_path / "test_small.py").write_text(DEVICE_TESTS)
    command = [sys.executable, "-m", "torch_nntile.conformance.device_tests", str(tmp_path)]
    done = subprocess.run([*command, "test_small"], capture_output=True, text=True, check=True)
    assert "| test_small | 5 | 4 | 2 |" in done.stdout, done.stdout + done.stderr
    name = "test_small.py::TestSmallPRIVATEUSE1"
    assert f"died\t{name}::test_dies_on_the_device_nntile" in done.stdout
    assert f"failed\t{name}::test_fails_on_the_device_nntile\t" in done.stdout
    assert "String comparison failed" in done.stdout
