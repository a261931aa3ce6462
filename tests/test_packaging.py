# SPDX-License-Identifier: BSD-3-Clause
"""What a user installs: headers, exported symbols, and the wheel in a venv of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import list_symbols
import pytest
import torch
from turns import turn

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = ROOT / "libnntile_c" / "include"
HEADERS = sorted(INCLUDE.glob("nntile/*.h"))
STUB_HEADER = ROOT / "torch_nntile" / "csrc" / "contract" / "stub.h"
BUILD = ROOT / "build" / "dev"
WHEEL_BUILD = ROOT / "build" / "wheel"
MINOR = "_".join(torch.__version__.split(".")[:2])
CPU_INDEX = "https://download.pytorch.org/whl/cpu"


def output(*command: str | Path, **options: object) -> str:
    done = subprocess.run(
        [str(word) for word in command], check=False, capture_output=True, text=True, **options
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("header", [*HEADERS, STUB_HEADER], ids=lambda path: path.name)
@pytest.mark.parametrize("language", ["c", "c++"])
def test_header_compiles_alone(header: Path, language: str) -> None:
    compiler, standard = ("cc", "c11") if language == "c" else ("c++", "c++20")
    flags = ["-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    output(
        compiler,
        "-x",
        language,
        f"-std={standard}",
        *flags,
        "-I",
        INCLUDE,
        "-include",
        header,
        "/dev/null",
    )


def test_umbrella_includes_all() -> None:
    named = set(
        re.findall(r'#include "nntile/(\w+\.h)"', (INCLUDE / "nntile" / "nntile.h").read_text())
    )
    assert named == {header.name for header in HEADERS} - {"nntile.h"}


@pytest.mark.parametrize(
    ("headers", "library"),
    [
        (HEADERS, BUILD / "libnntile_c" / "libnntile_c.so"),
        ([STUB_HEADER], BUILD / "torch_nntile" / f"libtorch_nntile_stub_{MINOR}.so"),
    ],
    ids=["libnntile_c", "stub"],
)
def test_library_exports_what_headers_declare(headers: list[Path], library: Path) -> None:
    declared = set().union(*(list_symbols.declared(header) for header in headers))
    assert list_symbols.exported(library) == declared


def test_notice_names_each_licence() -> None:
    named = set(re.findall(r"licenses/([\w.-]+\.txt)", (ROOT / "NOTICE").read_text()))
    assert named == {path.name for path in (ROOT / "licenses").iterdir()}


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of this tree, from a copy of the set-up's build: that has debug information in addition."""
    folder = tmp_path_factory.mktemp("wheel")
    starpu = [str(path) for path in ROOT.glob("build/starpu-*/lib/pkgconfig")]
    tools = str(Path(sys.executable).parent)
    env = os.environ | {
        "PATH": os.pathsep.join([tools, os.environ["PATH"]]),
        "PKG_CONFIG_PATH": os.pathsep.join([*starpu, os.environ.get("PKG_CONFIG_PATH", "")]),
    }
    build = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps"]
    stripped = [f"-Cbuild-dir={WHEEL_BUILD.relative_to(ROOT)}", "-Cinstall-args=--strip"]
    with turn("wheel"):
        if not WHEEL_BUILD.exists():  # with times, so that nothing is compiled again
            shutil.copytree(BUILD, WHEEL_BUILD, symlinks=True)
        output(*build, *stripped, "-w", folder, ROOT, env=env, cwd=ROOT)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def contents(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("contents")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


@pytest.mark.slow
def test_wheel_holds_the_libraries_and_their_notices(contents: Path) -> None:
    libraries = {path.relative_to(contents).as_posix() for path in contents.rglob("*.so*")}
    assert libraries == {
        "torch_nntile/_capi.abi3.so",
        f"torch_nntile/_stubapi_{MINOR}.abi3.so",
        "torch_nntile/libnntile_c.so",
        "torch_nntile/libdnnl.so.3",
        "torch_nntile/libscipy_openblas.so",
        "torch_nntile/libsleef.so.3",
        f"torch_nntile/libtorch_nntile_stub_{MINOR}.so",
    }
    notices = {path.name for path in contents.glob("*.dist-info/licenses/**/*") if path.is_file()}
    assert {
        "LICENSE",
        "NOTICE",
        "StarPU-LGPL-2.1.txt",
        "SLEEF.txt",
        "oneDNN.txt",
        "scipy-openblas32.txt",
    } <= notices
    for kind in ("*.py", "page.*"):
        sources = {path.name for path in (ROOT / "torch_nntile").rglob(kind)}
        assert sources <= {path.name for path in contents.rglob(kind)}


@pytest.mark.slow
def test_wheel_runs_on_any_python_from_its_own_on(wheel: Path) -> None:
    assert re.search(r"-cp310-abi3-linux_\w+\.whl$", wheel.name)


@pytest.mark.slow
def test_wheel_finds_its_libraries_by_origin_only(contents: Path) -> None:
    for library in contents.rglob("*.so"):
        dynamic = output("readelf", "--dynamic", "--wide", library)
        paths = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic)
        assert paths in ([], ["$ORIGIN"]), library.name
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
        assert not {name for name in needed if "torch_python" in name or "starpu" in name}


@pytest.mark.slow
def test_starpu_does_not_look_for_its_installation(contents: Path) -> None:
    """There is none where a wheel runs, and it would warn of that."""
    texts = output("strings", "--data", contents / "torch_nntile" / "libnntile_c.so")
    assert "perfmodels/sampling" not in texts


@pytest.mark.slow
# Not SLEEF, which set-up installs: the system's takes its place.
@pytest.mark.parametrize("library", ["libdnnl.so.3", "libscipy_openblas.so"])
def test_a_library_that_is_gone(library: str, contents: Path, tmp_path: Path) -> None:
    """`import torch` warns and goes on, ours says what to do, diagnose too."""
    shutil.copytree(contents, tmp_path / "site", ignore=shutil.ignore_patterns(library))
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    env["PYTHONPATH"] = os.pathsep.join([str(tmp_path / "site"), sysconfig.get_paths()["purelib"]])
    env["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "1"

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [
            sys.executable,
            "-S",
            *words,
        ]  # without .pth files, so the package is not this tree's
        return subprocess.run(
            command, capture_output=True, text=True, env=env, cwd=tmp_path, check=False
        )

    remedy = f"{library}: cannot open shared object file.*please install that again"
    done = run("-c", "import torch; print(torch.ones(2).sum().item())")
    assert (done.returncode, done.stdout) == (0, "2.0\n")
    assert re.search(f"Device 'nntile' is not there: .*{remedy}", done.stderr)
    done = run("-c", "import torch_nntile")
    assert done.returncode == 1 and re.search(f"ImportError: .*{remedy}", done.stderr)
    done = run("-m", "torch_nntile.diagnose")
    assert done.returncode == 1 and re.search(
        f"FAIL  libnntile_c: ImportError: .*{remedy}", done.stdout
    )


@pytest.mark.slow
def test_wheel_in_a_clean_venv(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    same_torch = f"torch=={torch.__version__}"
    output(
        python,
        "-m",
        "pip",
        "install",
        "--retries",
        "1",
        "--extra-index-url",
        CPU_INDEX,
        same_torch,
        wheel,
    )
    script = """
import sys
import torch
x = torch.ones(2, device="nntile")
assert x.device.type == "nntile" and x.tolist() == [1.0, 1.0]
w = torch.full((2, 3), 0.5, device="nntile", requires_grad=True)
(x @ w).sum().backward()
assert w.grad.cpu().tolist() == [[1.0] * 3] * 2
print(sys.modules["torch_nntile"].__file__)
"""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    where = output(python, "-c", script, cwd=tmp_path, env=env).strip()
    assert Path(where).is_relative_to(tmp_path)
