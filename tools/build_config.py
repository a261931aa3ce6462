#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Print what Meson needs to know about an installed package, one "key=value" a line.

build_config.py torch [FOLDER] | openblas | onednn

FOLDER holds torch and torchgen, where they are not those of this Python. Packages are located, never
imported: `import torch` would load the device that is being built.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import sys
from pathlib import Path


def package_dir(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        sys.exit(f"{name} is not installed for {sys.executable}")
    return Path(spec.submodule_search_locations[0])


def first_match(pattern: str, path: Path) -> str:
    found = re.search(pattern, path.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        sys.exit(f"{path}: no line matches {pattern}")
    return found[1]


def torch(folder: str = "") -> dict[str, str]:
    root, torchgen = (
        Path(folder).resolve() / name if folder else package_dir(name)
        for name in ("torch", "torchgen")
    )
    include = root / "include"
    version = root / "version.py"
    # Names of std::string in the new ABI of libstdc++ are in std::__cxx11.
    new_abi = b"__cxx11" in (root / "lib" / "libc10.so").read_bytes()
    number = first_match(r"^__version__ = '(.+)'", version)
    if folder:  # where one machine finds a build for CPUs, another finds one for CUDA: their stubs are equal
        number = number.split("+")[0]
    return {
        "version": number,
        "minor": "_".join(number.split(".")[:2]),
        "git": first_match(r"^git_version = '(.+)'", version),
        "cxx11_abi": str(int(new_abi)),
        "include": f"{include}:{include / 'torch' / 'csrc' / 'api' / 'include'}",
        "lib": str(root / "lib"),
        "functions": str(torchgen / "packaged" / "ATen" / "native" / "native_functions.yaml"),
    }


def openblas() -> dict[str, str]:
    root = package_dir("scipy_openblas32")
    return {
        "version": importlib.metadata.version("scipy-openblas32"),
        "include": str(root / "include"),
        "lib": str(root / "lib"),
        "file": "libscipy_openblas.so",
    }


def onednn() -> dict[str, str]:
    """Nothing where it is not installed: there are packages for x86-64 only."""
    try:
        library = importlib.metadata.distribution("onednn-cpu-gomp")
        headers = importlib.metadata.distribution("onednn-devel-cpu-gomp")
    except importlib.metadata.PackageNotFoundError:
        return {}

    def found(package: importlib.metadata.Distribution, name: str) -> Path:
        files = [file for file in package.files or [] if f"/{file}".endswith(f"/{name}")]
        if not files:
            sys.exit(f"{package.metadata['Name']} has no {name}")
        return Path(str(files[0].locate())).resolve()

    header = found(headers, "include/oneapi/dnnl/dnnl.hpp")
    return {
        "version": importlib.metadata.version("onednn-cpu-gomp"),
        "include": str(header.parents[2]),
        "lib": str(found(library, "libdnnl.so.3").parent),
        "file": "libdnnl.so.3",
    }


def main() -> None:
    packages = {"torch": torch, "openblas": openblas, "onednn": onednn}
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in packages:
        sys.exit(__doc__)
    found = torch(*sys.argv[2:]) if sys.argv[1] == "torch" else packages[sys.argv[1]]()
    for key, value in found.items():
        print(f"{key}={value}")


if __name__ == "__main__":
    main()
