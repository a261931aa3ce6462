# SPDX-License-Identifier: BSD-3-Clause
"""The choice of the stub by PyTorch's version, and what is said where none fits."""

from __future__ import annotations

import csv
import io
import os
import subprocess
import sys
import threading
import types
import zipfile
from collections.abc import Callable
from pathlib import Path

import build_backend
import fetch_torch
import mesonpy
import pytest
import torch

import _torch_nntile_autoload
from torch_nntile import _torch_build, diagnose, stubs

STUBS = {
    "2.9": ("2.9.0", "", 1),
    "2.10": ("2.10.0+cpu", "", 1),
    "2.11": ("2.11.0a0+gitabc", "", 1),
}


@pytest.mark.parametrize(
    ("found", "minor"),
    [
        ("2.10.0", "2.10"),
        ("2.10.3+cu128", "2.10"),
        ("2.9.0.post1", "2.9"),
        ("2.11.0a0+gitabc", "2.11"),  # the very build that the stub was compiled against
    ],
)
def test_stub_of_a_version(found: str, minor: str) -> None:
    assert stubs.choose(found, STUBS) == minor


@pytest.mark.parametrize("found", ["2.12.0", "2.1.0", "3.10.0", "1.13.1+cpu", "unknown"])
def test_versions_without_a_stub(found: str) -> None:
    with pytest.raises(ImportError) as error:
        stubs.choose(found, STUBS)
    text = str(error.value)
    assert f"has stubs for PyTorch 2.9, 2.10, 2.11, but PyTorch {found}" in text
    assert "\n" not in text


@pytest.mark.parametrize(
    "found",
    [
        "2.10.0.dev20260101+cpu",
        "2.10.0a0+git123",
        "2.10.0rc1",
        "2.11.0a0+gitdef",
        "2.10.0+gitabc",
        "2.12.0.dev2026",  # and of a version without a stub
    ],
)
def test_what_is_no_release_needs_a_stub_of_its_own(found: str) -> None:
    with pytest.raises(ImportError, match="is installed, which is no release"):
        stubs.choose(found, STUBS)


def test_the_stub_that_runs_here() -> None:
    minor = stubs.minor_of(torch.__version__)
    assert _torch_build.STUBS[minor][0] == torch.__version__
    assert f"the stub for {minor}, built with {torch.__version__}" in diagnose._version()


def test_import_torch_survives_a_device_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_nntile", None)
    monkeypatch.setattr(_torch_nntile_autoload, "cuda_is_in_use", lambda: False)
    with pytest.warns(RuntimeWarning, match="Device 'nntile' is not there: import of torch_nntile"):
        _torch_nntile_autoload.load()


@pytest.mark.filterwarnings("error")
def test_import_torch_leaves_cuda_to_pytorch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "torch_nntile", None)  # to import it is an error
    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: True)
    monkeypatch.setattr(_torch_nntile_autoload, "DRIVERS", (str(tmp_path),))
    _torch_nntile_autoload.load()


def test_diagnose_names_an_upgraded_torch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch, "__version__", "2.99.0")
    assert diagnose.main() == 1
    text = capsys.readouterr().out
    assert "pip takes it for 2." in text and "half an upgrade" in text
    assert "FAIL  torch version: ImportError: torch_nntile has stubs for PyTorch 2." in text
    assert "PyTorch 2.99.0 is installed" in text


def test_diagnose_says_once_what_many_steps_meet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> str:
        raise ImportError("libgomp.so.1: cannot open shared object file")

    steps = (("core", fails, "see ldd"), ("device", fails, "another backend?"))
    monkeypatch.setattr(diagnose, "STEPS", steps)
    assert diagnose.main() == 1
    first, advice, second, total = capsys.readouterr().out.splitlines()
    assert first.startswith("FAIL  core: ImportError: libgomp.so.1") and "ldd" in advice
    assert (second, total) == ("FAIL  device: as core", "2 of 2 steps failed")


@pytest.mark.slow
@pytest.mark.parametrize("version", ["2.99.0.dev20261101+cpu", "2.13.0+gitabc", "2.9.1"])
def test_another_torch_under_the_package(version: str, tmp_path: Path) -> None:
    """A copy of PyTorch that says so: `import torch` warns and works, ours raises, diagnose names it."""
    real, copy = Path(torch.__file__).parent, tmp_path / "torch"
    copy.mkdir()
    for path in real.iterdir():
        (copy / path.name).symlink_to(path)
    (copy / "version.py").unlink()
    text = (real / "version.py").read_text().replace(f"'{torch.__version__}'", f"'{version}'")
    (copy / "version.py").write_text(text)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *words],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(tmp_path), "TORCH_DEVICE_BACKEND_AUTOLOAD": "1"},
            cwd=tmp_path,
        )

    done = run("-c", "import torch; print(torch.__version__, torch.ones(2).sum().item())")
    assert (done.returncode, done.stdout) == (0, f"{version} 2.0\n")
    assert "Device 'nntile' is not there: torch_nntile has stubs for PyTorch" in done.stderr
    done = run("-c", "import torch_nntile")
    assert done.returncode == 1
    assert "ImportError: torch_nntile has stubs for PyTorch 2." in done.stderr
    assert f"but PyTorch {version} is installed" in done.stderr
    done = run("-m", "torch_nntile.diagnose")
    assert done.returncode == 1
    assert f"another copy, not used: {real}" in done.stdout
    assert "FAIL  torch version: ImportError: torch_nntile has stubs" in done.stdout


def test_diagnose_names_a_second_torch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = tmp_path / "torch"
    other.mkdir()
    (other / "version.py").touch()
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    assert f"another copy, not used: {other}" in diagnose._torch()


@pytest.mark.parametrize(
    ("library", "remedy"),
    [
        ("libgomp.so.1", "have it in libgomp1"),  # a build from source
        ("libhwloc.so.15", "have it in libhwloc15"),
        ("libgomp-a34b3233.so.1.0.0", "install that again"),  # what a wheel brings
        ("libhwloc-15ab0cd9.so.15.6.1", "install that again"),
        ("libdnnl.so.3", "install that again"),
        ("libscipy_openblas.so", "install that again"),
        ("libsleef.so.3", "install that again"),
        ("libunknown.so.1", "diagnose"),
    ],
)
def test_a_missing_library_is_named_with_its_remedy(
    library: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = f"{library}: cannot open shared object file: No such file or directory"

    def fails(name: str) -> None:
        raise ImportError(error)

    monkeypatch.setattr(stubs.importlib, "import_module", fails)
    with pytest.raises(ImportError, match=f"{library}.*{remedy}") as raised:
        stubs.core()
    text = str(raised.value)
    assert "\n" not in text
    assert ("Debian" in text) == ("libgomp1" in text or "libhwloc15" in text)


@pytest.mark.parametrize(
    ("isa", "text"), [("baseline", "without AVX2"), ("avx2", "AVX2"), ("avx512", "AVX-512")]
)
def test_instructions_are_those_that_the_core_found(
    isa: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An emulated processor has other ones than the host, whose /proc/cpuinfo is seen."""
    monkeypatch.setattr(diagnose.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(diagnose, "_core", lambda: f"starpu: 1.4.10\nisa: {isa}\ncontext: none")
    assert text in diagnose._processor()


def test_a_core_that_does_not_load_leaves_the_processor_to_linux(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails() -> str:
        raise ImportError("libgomp.so.1: cannot open shared object file")

    monkeypatch.setattr(diagnose, "_core", fails)
    assert diagnose._processor()


def test_another_c_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnose.platform, "libc_ver", lambda: ("", ""))
    with pytest.raises(RuntimeError, match="musl"):
        diagnose._python()


@pytest.mark.parametrize(
    ("minors", "requires"),
    [
        ([], ""),
        (["2_13"], "torch>=2.13,<2.14"),
        (["2_10", "2_9", "2_11"], "torch>=2.9,<2.12"),
        (["2_12", "2_14"], "torch>=2.12,!=2.13.*,<2.15"),
    ],
)
def test_what_a_wheel_requires(minors: list[str], requires: str) -> None:
    names = [f"torch_nntile/_stubapi_{minor}.abi3.so" for minor in minors]
    assert build_backend.served(names) == requires


def test_requirement_is_narrowed_to_the_stubs_inside(tmp_path: Path) -> None:
    wheel = tmp_path / "x-1-cp313-abi3-linux.whl"
    metadata = "Name: x\nRequires-Dist: torch>=2.10,<2.16\nRequires-Dist: torchvision\n"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("torch_nntile/_stubapi_2_13.abi3.so", b"")
        archive.writestr("x-1.dist-info/METADATA", metadata)
        archive.writestr("x-1.dist-info/WHEEL", "Tag: cp313-abi3-linux\n")
        archive.writestr("x-1.dist-info/RECORD", "x-1.dist-info/METADATA,sha256=0,1\n")
    wheel = build_backend.narrow(wheel)
    assert wheel.name == "x-1-cp310-abi3-linux.whl"
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read("x-1.dist-info/WHEEL") == b"Tag: cp310-abi3-linux\n"
        text = archive.read("x-1.dist-info/METADATA").decode()
        ((_, digest, size),) = csv.reader(
            io.StringIO(archive.read("x-1.dist-info/RECORD").decode())
        )
    assert text == metadata.replace("torch>=2.10,<2.16", "torch>=2.13,<2.14")
    assert digest != "sha256=0" and int(size) == len(text)


@pytest.fixture
def editable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """An import of an editable install, whose build notes when it compiles, and takes a moment."""
    monkeypatch.delenv("MESONPY_EDITABLE_VERBOSE", raising=False)
    monkeypatch.setenv("CCACHE_SLOPPINESS", "time_macros")
    loader = types.ModuleType("loader")
    source = Path(mesonpy.__file__).with_name("_editable.py").read_text()
    exec(source + build_backend.SAYS_SO, loader.__dict__)
    (tmp_path / "build.ninja").write_text(
        "rule touch\n command = echo compiled >> log; sleep 0.5; touch $out\nbuild made: touch\n"
    )
    for folder in ("meson-info", "meson-logs"):
        (tmp_path / folder).mkdir()
    (tmp_path / "meson-info" / "intro-install_plan.json").write_text("{}")
    ninja = str(Path(sys.executable).with_name("ninja"))

    def start() -> None:
        loader.MesonpyMetaFinder("torch_nntile", {"x"}, str(tmp_path), [ninja])._rebuild()

    return start


def test_an_import_that_compiles_says_so_in_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], editable: Callable[[], None]
) -> None:
    said = []
    for _ in range(2):
        editable()
        said.append(capfd.readouterr())
    assert (tmp_path / "made").exists()
    assert said[0].err == f"torch_nntile: compiles what has changed, in {tmp_path}\n"
    assert (said[0].out, *said[1]) == ("", "", "")


def test_two_imports_at_once_compile_once(tmp_path: Path, editable: Callable[[], None]) -> None:
    threads = [threading.Thread(target=editable) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "log").read_text() == "compiled\n"


def test_project_asks_for_the_versions_that_stubs_are_built_for() -> None:
    names = [f"torch_nntile/_stubapi_{minor.replace('.', '_')}.so" for minor in fetch_torch.TORCHES]
    project = (Path(build_backend.__file__).parents[1] / "pyproject.toml").read_text()
    assert f'"{build_backend.served(names)}",' in project
