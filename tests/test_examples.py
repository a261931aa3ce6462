# SPDX-License-Identifier: BSD-3-Clause
"""Every example and notebook runs as a reader would run it. The C examples: test_native.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
PROGRAMS = sorted(path.name for path in EXAMPLES.glob("*.py"))
NOTEBOOKS = sorted(path.name for path in (EXAMPLES / "notebooks").glob("*.ipynb"))
SECONDS = 60  # they take two or three; a hang must end


@pytest.mark.multi
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning", str(EXAMPLES / name)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{name}\n{done.stdout}\n{done.stderr}"
    assert done.stdout.strip(), "an example shows something"
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir()), "an example leaves no files behind"


@pytest.mark.multi
@pytest.mark.parametrize(
    "name", [NOTEBOOKS[0], *(pytest.param(name, marks=pytest.mark.slow) for name in NOTEBOOKS[1:])]
)
def test_notebook(name: str, tmp_path: Path) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    notebook = nbformat.read(EXAMPLES / "notebooks" / name, as_version=4)
    nbformat.validate(notebook)
    client = nbclient.NotebookClient(
        notebook, timeout=SECONDS, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()  # raises the error of a cell, with the cell
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in cells)
    assert any(cell.outputs for cell in cells)
    shown = [output.data for cell in cells for output in cell.outputs if "data" in output]
    drawn = [data for data in shown if "<svg" in data.get("text/html", "")]
    assert all("<table" in data["text/html"] for data in drawn)
    assert len(drawn) == (2 if name == "02_profile.ipynb" else 0), "profiles show themselves"


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_is_stored_without_outputs(name: str) -> None:
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(EXAMPLES / "notebooks" / name, as_version=4)
    for cell in notebook.cells:
        assert not cell.get("outputs") and not cell.get("execution_count")


def test_every_example_is_in_the_table() -> None:
    table = (EXAMPLES / "README.md").read_text()
    paths = [path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.glob("c/[0-9]*.c")]
    for path in [*PROGRAMS, *(f"notebooks/{name}" for name in NOTEBOOKS), *paths]:
        assert f"({path})" in table, f"examples/README.md does not name {path}"


def test_every_c_example_is_run_by_the_native_tests() -> None:
    import test_native

    programs = {f"examples-c-{path.stem}" for path in EXAMPLES.glob("c/[0-9]*.c")}
    assert programs and programs <= set(test_native.PROGRAMS)
