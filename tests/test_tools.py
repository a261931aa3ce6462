# SPDX-License-Identifier: BSD-3-Clause
"""The tools of the build say no when they should."""

from __future__ import annotations

from pathlib import Path

import check_layers
import fetch_starpu
import list_sources
import list_symbols
import pytest
import release
import way_of_call
import wheel_matrix


def problems(files: dict[str, list[str]]) -> list[str]:
    return list(check_layers.problems(check_layers.CORE, files))


@pytest.mark.parametrize("house", [check_layers.CORE, check_layers.STUB], ids=["core", "stub"])
def test_layers_of_this_tree(house: check_layers.House) -> None:
    files = check_layers.tree(house)
    assert len(files) > 20 and any(files.values())
    assert list(check_layers.problems(house, files)) == []
    assert list(check_layers.circle(check_layers.units(files))) == []


def test_imports_of_this_tree() -> None:
    modules = check_layers.imports()
    assert "torch_nntile.compositions.registry" in modules["torch_nntile.dispatch"]
    assert list(check_layers.python_problems(modules)) == []


def test_layers_see_a_module_that_imports_upwards() -> None:
    up = {"torch_nntile.modes": ["torch_nntile.device"], "torch_nntile.device": []}
    up |= {"torch_nntile.cost": ["torch_nntile.axes"], "torch_nntile.attic": []}
    assert list(check_layers.python_problems(up)) == [
        "torch_nntile.modes: modes may not import device (torch_nntile.device)",
        "torch_nntile.cost: cost may not import axes (torch_nntile.axes)",
        "torch_nntile.attic: attic stands on no floor (tools/check_layers.py)",
    ]
    down = {"torch_nntile.device": ["torch_nntile.integrations.compiler"]}
    assert list(check_layers.python_problems(down)) == []


def test_layers_see_an_arrow_up() -> None:
    files = {"tile/a.hh": [], "graph/b.cc": ["tile/a.hh"]}
    assert problems(files) == ["graph/b.cc: graph may not include tile (tile/a.hh)"]


def test_layers_see_a_header_that_needs_who_uses_its_source() -> None:
    files = {"tile/a.hh": [], "tile/a.cc": ["tile/b.hh"], "tile/b.hh": ["tile/a.hh"]}
    assert problems(files) == []
    assert next(check_layers.circle(check_layers.units(files))).startswith("circle: ")


def test_layers_see_neighbours_and_lost_folders() -> None:
    files = {"record/a.hh": [], "tile/b.cc": ["record/a.hh"], "misc/c.cc": []}
    assert [line.split(":")[0] for line in problems(files)] == [
        "tile/b.cc",
        "misc/c.cc",
    ]


def test_layers_see_a_circle() -> None:
    files = {"tile/a.hh": ["tile/b.hh"], "tile/b.hh": ["tile/a.hh"]}
    assert problems(files)[0].startswith("circle: ")


@pytest.mark.multi
def test_files_on_the_way_of_a_call() -> None:
    try:
        way = way_of_call.way()
    except OSError as error:
        pytest.skip(f"no process may step another here: {error}")
    core, stub = "libnntile_c/src", "torch_nntile/csrc"
    assert {f"{stub}/rows/row_call", f"{core}/record/recorder", f"{core}/kernels/map"} <= set(way)
    assert not {f"{core}/kernels/gemm", f"{core}/tile/lower", f"{stub}/host/host"} & set(way)


def test_wrong_tarball_is_refused(tmp_path: Path) -> None:
    found, target = tmp_path / "found.tar.gz", tmp_path / "cache" / "starpu.tar.gz"
    found.write_bytes(b"not StarPU")
    assert not fetch_starpu.keep(found, target, fetch_starpu.wrap("starpu")["source_hash"])
    assert not target.exists()


def test_op_files_are_found(tmp_path: Path) -> None:
    (tmp_path / "reduce.cc").write_text("NNTILE_ROWS(reduce) { return {}; }")
    (tmp_path / "table.cc").write_text("std::span<const OpRow> op_rows();")
    assert list_sources.op_stems(tmp_path) == ["reduce"]


def test_only_the_cffi_section_counts(tmp_path: Path) -> None:
    header = tmp_path / "x.h"
    header.write_text(
        "void nntile_outside(void);\n/* CFFI-BEGIN */\n/** See nntile_other(). */\n"
        "typedef int (*nntile_function)(int);\ntypedef struct nntile_a { int b; } nntile_a;\n"
        "int nntile_inside(nntile_function f);\n/* CFFI-END */\n"
    )
    assert list_symbols.declared(header) == {"nntile_inside"}


READY = ("0.2.0", "# Changelog\n\n## 0.2.0, 2026-12-01\n", "0.2.0", ["v0.1.0"], "")


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (0, "0.2", "is no version"),
        (1, "## 0.2.0, not yet released\n", "CHANGELOG.md does not begin"),
        (1, "", "CHANGELOG.md does not begin"),
        (2, "0.1.0", "VERSION says 0.1.0"),
        (3, ["v0.2.0"], "there is a tag v0.2.0"),
        (4, " M README.md", "not committed"),
    ],
)
def test_release_says_what_is_missing(place: int, value: object, said: str) -> None:
    assert release.texts(*READY) == []
    changed = [*READY]
    changed[place] = value
    assert said in "\n".join(release.texts(*changed))


def test_release_writes_the_version_where_it_stands() -> None:
    header = "#define NNTILE_VERSIONS\n#define NNTILE_VERSION 1000\n"
    changes = "# Changelog\n\n## 1.2.3, not yet released\n\n## 0.1.0, 2026-01-01\n"
    header, changes = release.written("1.2.3", header, changes, "2026-12-01")
    assert header == "#define NNTILE_VERSIONS\n#define NNTILE_VERSION 1002003\n"
    assert changes == "# Changelog\n\n## 1.2.3, 2026-12-01\n\n## 0.1.0, 2026-01-01\n"
    assert release.texts("1.2.3", changes, "1.2.3", [], "") == []


def result(commit: str, **files: list[object]) -> dict[str, object]:
    tests = [f"tests/torch/test_{name}.py" for name in files]
    ran = {"wheel": "x-0.2.0-any.whl", "sha256": "00", "date": "2026-01-02", "tests": tests}
    return {
        "torch": "2.13.0+cu130",
        "nvidia": "stand-ins",
        "system": "Debian",
        "runs": [{**ran, "commit": commit}],
        "files": files,
    }


def test_matrix_counts_by_file(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        """<testsuites><testsuite>
        <testcase file="tests/torch/test_a.py" name="one" />
        <testcase file="tests/torch/test_a.py" name="two"><skipped /></testcase>
        <testcase file="tests/torch/test_b.py" name="one[x]"><failure /></testcase>
        <testcase file="tests/torch/test_b.py" name="one[x]"><error /></testcase>
        <testcase name="tests.torch.test_c"><error /></testcase>
        </testsuite></testsuites>"""
    )
    assert wheel_matrix.counts(report) == {
        "a": [1, 1, []],
        "b": [0, 0, ["one[x]"]],
        "c": [0, 0, ["tests.torch.test_c"]],
    }


def test_matrix_keeps_what_did_not_run_again() -> None:
    before, again = result("c0", a=[5, 1, []], b=[7, 0, ["one"]]), result("c1", b=[8, 0, []])
    pair = wheel_matrix.merged(before, again)
    assert wheel_matrix.totals(pair) == (13, 1, 0)
    text = wheel_matrix.page({"3.11-2.13.0": pair, "3.9-2.13.0": before})
    rows = [line for line in text.splitlines() if line.startswith("| 3.")]
    assert [row.split(" | ")[4:7] for row in rows] == [["12", "1", "1"], ["13", "1", "0"]]
    assert "tests of `c0`; a, b: all." in text
    assert "tests of `c1`; once more: b: 3.11 with 2.13.0+cu130." in text
    assert "* `tests/torch/test_b.py::one`" in text
    assert "stand-ins" in text
