# SPDX-License-Identifier: BSD-3-Clause
"""The C and C++ tests and the C examples, built and run (tests/meson.build); also with sanitizers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import list_sources
import pytest
from turns import turn

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "dev"
NINJA = str(Path(sys.executable).with_name("ninja"))
PATTERNS = ["tests/**/test_*.cc", "tests/**/test_*.c", "examples/c/[0-9]*.c"]
PROGRAMS = [file.rsplit(".", 1)[0].replace("/", "-") for file in list_sources.find(ROOT, PATTERNS)]


def run(*command: str, **settings: str) -> None:
    done = subprocess.run(
        command,
        cwd=ROOT,
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=os.environ | settings,
    )
    if done.returncode != 0:
        pytest.fail(
            f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}", pytrace=False
        )


@pytest.fixture(scope="session")
def programs() -> Path:
    """The folder with all programs, built."""
    with turn("dev"):
        run(NINJA, "-C", str(BUILD), *(f"tests/{name}" for name in PROGRAMS))
    return BUILD / "tests"


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(programs: Path, name: str) -> None:
    run(str(programs / name))


def test_convolutions_without_avx512(programs: Path) -> None:
    """oneDNN has other code there, which reads and writes other layouts."""
    run(str(programs / "tests-kernels-test_convolution"), ONEDNN_MAX_CPU_ISA="AVX2")


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_sanitizer(sanitizer: str) -> None:
    run("sh", "tools/sanitize.sh", sanitizer)
