# SPDX-License-Identifier: BSD-3-Clause
"""`import torch_nntile` shows what a user calls and nothing else; old names warn for a version."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import torch_nntile
from torch_nntile import old_names

ROOT = Path(__file__).resolve().parent.parent
NAMES = """
Captured Estimate Fallback In InMut Kernel NntileError Out Scalar Stats Unused __version__
axis_groups capture compile_graph cost_text estimate estimate_only explain expression
fallback_report has_pending_graph index init_context kernel load_cost load_cuts profile
reset_fallback_report restrict_workers run_graph runtime_mode save_cuts set_axis_group_name
set_axis_group_tiling show_config shutdown_context stats training wait
"""


def test_names_that_a_user_sees() -> None:
    assert dir(torch_nntile) == sorted(NAMES.split())
    assert all(hasattr(torch_nntile, name) for name in dir(torch_nntile))
    texts = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.py"), ROOT / "README.md"]
    said = "".join(path.read_text(encoding="utf-8") for path in texts)
    assert [name for name in torch_nntile.__all__ if name not in said] == []


@pytest.mark.parametrize("name", old_names.OLD)
def test_old_names_warn_at_the_line_of_the_user(name: str) -> None:
    with pytest.warns(DeprecationWarning, match="goes with version 0.2: write ") as seen:
        function = getattr(torch_nntile, name)
    assert seen[0].filename == __file__ and callable(function)
    assert not inspect.signature(function).parameters
    new = str(seen[0].message).rpartition("torch_nntile.")[2].partition("(")[0]
    assert new in torch_nntile.__all__ and name not in dir(torch_nntile)


def test_old_names_do_what_they_did(capsys: pytest.CaptureFixture[str], runtime: None) -> None:
    with pytest.warns(DeprecationWarning, match="print_axis_groups goes"):
        torch_nntile.print_axis_groups()
    assert capsys.readouterr().out.rstrip() == torch_nntile.axis_groups().rstrip()
    with pytest.warns(DeprecationWarning, match="config goes"):
        assert torch_nntile.config() == torch_nntile.show_config("dicts")
    torch_nntile.show_config()
    assert f"torch_nntile: {torch_nntile.__version__}\n" in capsys.readouterr().out


@pytest.mark.multi
def test_import_loads_no_command_and_no_example() -> None:
    code = """
import sys, torch
before = set(sys.modules)
import torch_nntile
print(*set(sys.modules) - before)
"""
    env = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    loaded, folder = set(done.stdout.split()), ROOT / "torch_nntile"
    assert "torch_nntile.dispatch" in loaded
    commands = {"calibrate", "conformance", "diagnose", "models", "train_mnist"}
    assert not {name for name in loaded if name.split(".")[:2][-1] in commands}
    assert not {"tqdm", "numba", "sklearn", "matplotlib", "lightning", "transformers"} & loaded
    assert all((folder / name).exists() or (folder / f"{name}.py").exists() for name in commands)


@pytest.mark.multi
def test_the_old_place_of_the_model() -> None:
    code = """
import warnings, torch_nntile
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    from torch_nntile.models import DeepReLU
assert "write torch_nntile.train_mnist" in str(seen[0].message), seen
assert torch_nntile.models.DeepReLU is DeepReLU
from torch_nntile import train_mnist
assert train_mnist.DeepReLU is DeepReLU
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    early = [sys.executable, "-c", "import torch_nntile; torch_nntile.models.DeepReLU"]
    subprocess.run(early, check=True)


def test_a_name_that_is_none() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'fly'"):
        torch_nntile.fly  # noqa: B018
    with pytest.raises(ValueError, match="'stdout' or 'dicts', got 'yaml'"):
        torch_nntile.show_config("yaml")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="'cpu', 'cuda' or 'any', got 'gpu'"):
        torch_nntile.restrict_workers("gpu")  # type: ignore[arg-type]


@pytest.mark.multi
def test_the_package_lists_its_commands() -> None:
    command = [sys.executable, "-m", "torch_nntile"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    folder = ROOT / "torch_nntile"
    listed = {line.split()[0] for line in done.stdout.splitlines()[1:] if line}
    runs = {
        ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__main__")
        for path in folder.rglob("*.py")
        if '__name__ == "__main__"' in path.read_text(encoding="utf-8")
    }
    assert listed == runs - {"__main__", "_cffi_build"}
