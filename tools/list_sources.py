#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""List source files for Meson, so that a new file needs no line in any list.

list_sources.py find ROOT GLOB...    prints the files below ROOT that match, relative to ROOT
list_sources.py all                  prints all that the build finds: tools/setup.sh compares it with what
                                     was found when Meson ran last, and makes it run again
list_sources.py ops FOLDER           prints NNTILE_OPS(stem) for each FOLDER/stem.cc with NNTILE_ROWS(stem)
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ALL = [
    "libnntile_c/src/**/*.cc",
    "libnntile_c/src/**/*.cu",
    "torch_nntile/csrc/**/*.cc",
    "torch_nntile/**/*.py",
    "torch_nntile/**/*.pyi",
    "torch_nntile/profiling/page.*",
    "tests/**/test_*.cc",
    "tests/**/test_*.c",
    "examples/c/*.c",
]


def find(root: Path, globs: list[str]) -> list[str]:
    files = {path for glob in globs for path in root.glob(glob) if path.is_file()}
    return sorted(path.relative_to(root).as_posix() for path in files)


def op_stems(folder: Path) -> list[str]:
    def has_rows(path: Path) -> bool:
        return f"NNTILE_ROWS({path.stem})" in path.read_text(encoding="utf-8")

    return sorted(path.stem for path in folder.glob("*.cc") if has_rows(path))


def main() -> None:
    command, *arguments = sys.argv[1:] or ["help"]
    if command == "find":
        lines = find(Path(arguments[0]), arguments[1:])
    elif command == "all":
        lines = find(ROOT, ALL)
    elif command == "ops":
        lines = [f"NNTILE_OPS({stem})" for stem in op_stems(Path(arguments[0]))]
    else:
        sys.exit(__doc__)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
