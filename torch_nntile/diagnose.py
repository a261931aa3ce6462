# SPDX-License-Identifier: BSD-3-Clause
"""Tell why the device does not work: python -m torch_nntile.diagnose

It tries every step separately, so it also works if a library does not load.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import platform
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

__all__ = ["main"]


def _python() -> str:
    if platform.libc_ver()[0] != "glibc":
        raise RuntimeError(f"{sys.executable} runs on another C library than glibc (musl?)")
    return f"{platform.python_version()} at {sys.executable}, {platform.platform()}"


def _processor() -> str:
    """Kernels are compiled for several instruction sets, and chosen when they run."""
    if platform.machine() != "x86_64":
        return platform.machine()
    return {
        "avx512": "AVX-512",
        "avx2": "AVX2",
        "baseline": "x86-64 without AVX2: everything runs, several times slower",
    }[_instructions()]


def _instructions() -> str:
    """What the core asked the processor for. /proc/cpuinfo, for a core that does not load, is of the
    host where the processor is emulated.
    """
    try:
        return _core().partition("isa: ")[2].split()[0]
    except Exception:  # its own step says it
        pass
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "baseline"
    flags = next((line.split() for line in text.splitlines() if line.startswith("flags")), [])
    if "avx2" not in flags:
        return "baseline"
    return "avx512" if "avx512f" in flags else "avx2"


def _others(name: str, found: Path) -> list[str]:
    """Further copies of a package on the path of this Python."""
    folders = {Path(folder or ".").resolve() for folder in sys.path}
    return sorted(
        str(folder / name)
        for folder in folders
        if (folder / name / "version.py").exists() and (folder / name).resolve() != found.resolve()
    )


def _torch() -> str:
    torch = importlib.import_module("torch")
    folder = Path(str(torch.__file__)).parent
    text = f"{torch.__version__} at {folder}"
    try:
        told = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        told = torch.__version__  # a copy that no installer knows
    if told.split("+")[0] != torch.__version__.split("+")[0]:
        text += f"\nbut pip takes it for {told}: half an upgrade? Install PyTorch again"
    for other in _others("torch", folder):
        text += f"\nanother copy, not used: {other}"
    return text


def _package() -> str:
    folder = Path(__file__).parent
    missing = [
        name
        for name in ("_capi", "_torch_build")
        if importlib.util.find_spec(f"torch_nntile.{name}") is None
    ]
    if missing:
        raise ImportError(f"{folder} lacks {', '.join(missing)}: the package was not built")
    return str(folder)


def _core() -> str:
    capi = importlib.import_module("torch_nntile.stubs").core()
    # Not through _c.py: that needs the stub, which is a later step.
    library = capi.lib
    text: bytes = capi.ffi.string(library.nntile_context_describe())
    return text.decode().strip()


def _version() -> str:
    build = importlib.import_module("torch_nntile._torch_build")
    stubs = importlib.import_module("torch_nntile.stubs")
    minor = stubs.choose(importlib.import_module("torch").__version__)
    return f"the stub for {minor}, built with {build.STUBS[minor][0]}, of {', '.join(build.STUBS)}"


def _stub() -> str:
    stubs = importlib.import_module("torch_nntile.stubs")
    module = stubs.load(importlib.import_module("torch").__version__)
    return f"loaded: {module.__name__}"


def _device() -> str:
    importlib.import_module("torch_nntile._start")
    torch = importlib.import_module("torch")
    return f"registered, {torch.nntile.device_count()} device"


def _compute() -> str:
    torch = importlib.import_module("torch")
    x = torch.arange(6.0).reshape(2, 3)
    found = (x.to("nntile") @ x.to("nntile").t()).relu().sum().item()
    if found != 83:
        raise RuntimeError(f"relu(x @ x.T).sum() is {found}, not 83")
    return "relu(x @ x.T).sum() is right"


def _runtime() -> str:
    """Workers, memory and the disk of the runtime that has just computed."""
    return _core().partition("context: active\n")[2]


def _report() -> str:
    fallback = importlib.import_module("torch_nntile.fallback")
    rows = fallback.fallback_report()
    return ", ".join(row.overload for row in rows) or "none"


# Name, step, and what to do if it fails.
STEPS: tuple[tuple[str, Callable[[], str], str], ...] = (
    ("python", _python, ""),
    ("processor", _processor, ""),
    ("package", _package, "Install it: pip install --no-build-isolation . in a clone, or a wheel."),
    ("torch", _torch, "Install PyTorch: pip install torch"),
    (
        "libnntile_c",
        _core,
        "See `ldd libnntile_c.so` in the package folder.",
    ),
    (
        "torch version",
        _version,
        "A PyTorch that was upgraded later may be newer than torch_nntile: upgrade both.",
    ),
    (
        "stub",
        _stub,
        "It needs PyTorch's C++ libraries of just that version: see the line above.",
    ),
    ("device", _device, "Another backend may have taken the name privateuse1: import only one."),
    ("compute", _compute, "Set STARPU_NCPU=1 and try again; then report this output."),
    ("runtime", _runtime, ""),
    ("ran on the host", _report, ""),
)


def main() -> int:
    """Run all steps; returns 1 if one failed."""
    os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")  # each step loads what it names
    failed = 0
    said: dict[str, str] = {}  # each error, and the step that had it first
    for name, step, advice in STEPS:
        try:
            lines = step().splitlines() or [""]
            print(f"ok    {name}: {lines[0]}")
            for line in lines[1:]:
                print(f"      {line}")
        except Exception as error:  # anything at all: this is what the tool is for
            failed += 1
            text = f"{type(error).__name__}: {error}"
            if text in said:
                print(f"FAIL  {name}: as {said[text]}")
                continue
            said[text] = name
            print(f"FAIL  {name}: {text}")
            if advice:
                print(f"      {advice}")
            if "-v" in sys.argv:
                traceback.print_exc()
    print(f"{failed} of {len(STEPS)} steps failed" if failed else "all is well")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
