#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Get what a stub is built with, for each version of PyTorch: headers, two libraries, the list of ops.

fetch_torch.py [MINOR...]     all of TORCHES without an argument; prints a folder for each

They come from PyTorch's wheels by pip: the CPU build, or where pip finds none the one of PyPI, whose
headers and CPU library serve as well. Unpacked once, into ~/.cache/torch_nntile/torch.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

# The first release of each minor version: what a later one adds, a stub must not use.
TORCHES = {
    "2.10": "2.10.0",
    "2.11": "2.11.0",
    "2.12": "2.12.0",
    "2.13": "2.13.0",
    "2.14": "2.14.0",
    "2.15": "2.15.0",
}
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
# Headers are the same for all of them; this one has wheels of every version above.
PYTHON = "311"
MACHINE = os.uname().machine
PLATFORMS = [f"manylinux_2_{glibc}_{MACHINE}" for glibc in (28, 27, 24, 17)]


def cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "torch_nntile" / "torch"


def download(version: str, target: Path) -> Path:
    """The wheel of that version in the folder, which must be empty."""
    command = [sys.executable, "-m", "pip", "download", "-qq", "--no-deps", "--only-binary=:all:"]
    command += ["--python-version", PYTHON, "--retries", "1", "-d", str(target)]
    for platform in PLATFORMS:
        command += ["--platform", platform]
    # A cap on what this machine's own programs install is none on what is only unpacked.
    env = os.environ | {"PIP_CONSTRAINT": os.devnull}
    done = subprocess.run(
        [*command, "--extra-index-url", CPU_INDEX, f"torch=={version}+cpu"],
        env=env,
        check=False,
        capture_output=True,
    )
    if done.returncode != 0:
        subprocess.run([*command, f"torch=={version}"], env=env, check=True, stdout=sys.stderr)
    (wheel,) = target.glob("*.whl")
    return wheel


def wanted(name: str) -> bool:
    return name.startswith("torch/include/") or name in (
        "torch/version.py",
        "torch/lib/libc10.so",
        "torch/lib/libtorch_cpu.so",
        "torchgen/packaged/ATen/native/native_functions.yaml",
    )


def fetch(version: str) -> Path:
    folder = cache() / f"{version}-{MACHINE}"
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    print(f"PyTorch {version}: headers and libraries into {folder}", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        unpacked = Path(work) / "unpacked"
        with zipfile.ZipFile(download(version, Path(work))) as wheel:
            wheel.extractall(unpacked, [name for name in wheel.namelist() if wanted(name)])
        unpacked.rename(folder)  # whole or not at all
    return folder


def main() -> None:
    minors = sys.argv[1:] or list(TORCHES)
    if unknown := [minor for minor in minors if minor not in TORCHES]:
        sys.exit(f"no {', '.join(unknown)} among {', '.join(TORCHES)}")
    for minor in minors:
        print(fetch(TORCHES[minor]))


if __name__ == "__main__":
    main()
