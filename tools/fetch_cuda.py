#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Get NVIDIA's compiler and headers from PyPI into build/cuda-KEY, without root, and print the folder.

A build needs no GPU, no driver and no library of CUDA: those are looked for when a program asks for
CUDA workers. The versions are those of PyTorch's line for CUDA 13.0. Of cuBLAS and cuDNN, whose
wheels hold 420 and 350 MB of libraries, only the headers are kept.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STUBS = ROOT / "subprojects" / "packagefiles" / "starpu-cuda"
PACKAGES = [
    "nvidia-cuda-nvcc==13.0.88",
    "nvidia-nvvm==13.0.88",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-cuda-runtime==13.0.96",
    "nvidia-cuda-cccl==13.0.85",
    "nvidia-cuda-nvrtc==13.0.88",  # for tests: whether it compiles what is written at run time
]
HEADERS_OF = ["nvidia-cublas==13.1.1.3", "nvidia-cudnn-cu13==9.13.0.50"]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-qq"]


def pip(*arguments: str) -> None:
    subprocess.run([*PIP, *arguments], check=True, stdout=sys.stderr)


def install(target: Path) -> None:
    """All of it in `target`, as one toolkit: bin, include, lib."""
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        work = Path(scratch)
        pip("install", "--no-deps", "--target", str(work / "packages"), *PACKAGES)
        toolkit = work / "packages" / "nvidia" / "cu13"
        pip("download", "--no-deps", "--dest", str(work / "wheels"), *HEADERS_OF)
        for wheel in (work / "wheels").glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                headers = [n for n in archive.namelist() if "/include/" in n]
                archive.extractall(work / "packages", headers)
        for header in (work / "packages" / "nvidia" / "cudnn" / "include").glob("*.h"):
            shutil.copy(header, toolkit / "include")
        for header in STUBS.glob("*.h"):
            shutil.copy(header, toolkit / "include")
        for unused in (toolkit / "lib").glob("*nvrtc*.alt.so*"):
            unused.unlink()
        link_libraries(toolkit / "lib")
        # A folder that is there is whole.
        shutil.move(toolkit, target)


def link_libraries(folder: Path) -> None:
    """What StarPU's build wants to link its own programs with, which nobody runs."""
    (folder / "libcudart.so").symlink_to("libcudart.so.13")
    stub = STUBS / "cublas.c"
    subprocess.run(["cc", "-c", "-o", folder / "cublas.o", stub], check=True)
    subprocess.run(["ar", "rcs", folder / "libcublas.a", folder / "cublas.o"], check=True)


def main() -> None:
    key = hashlib.sha256(Path(__file__).read_bytes())
    for stub in sorted(STUBS.iterdir()):
        key.update(stub.read_bytes())
    target = ROOT / "build" / f"cuda-{key.hexdigest()[:12]}"
    if not target.is_dir():
        target.parent.mkdir(exist_ok=True)
        install(target)
    print(target)


if __name__ == "__main__":
    main()
