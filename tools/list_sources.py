#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""List source files for Meson, so that a new file needs no line in any list.

list_sources.py find ROOT GLOB...
    Prints the files below ROOT that match, one a line, relative to ROOT.
list_sources.py ops FOLDER OUT DEPFILE ROOT...
    Writes NNTILE_OPS(stem) for each FOLDER/stem.cc that has NNTILE_ROWS(stem). The depfile names every
    folder below the ROOTs: Meson then runs again when a file is added or removed anywhere there.
"""

from __future__ import annotations

import sys
from pathlib import Path


def find(root: Path, globs: list[str]) -> list[str]:
    files = {path for glob in globs for path in root.glob(glob) if path.is_file()}
    return sorted(path.relative_to(root).as_posix() for path in files)


def op_stems(folder: Path) -> list[str]:
    def has_rows(path: Path) -> bool:
        return f"NNTILE_ROWS({path.stem})" in path.read_text(encoding="utf-8")

    return sorted(path.stem for path in folder.glob("*.cc") if has_rows(path))


def folders(root: Path) -> list[Path]:
    below = [path for path in root.rglob("*") if path.is_dir() and path.name != "__pycache__"]
    return [root, *sorted(below)]


def main() -> None:
    command, *arguments = sys.argv[1:]
    if command == "find":
        root, *globs = arguments
        print("\n".join(find(Path(root), globs)))
    elif command == "ops":
        folder, out, depfile, *roots = arguments
        lines = [f"NNTILE_OPS({stem})\n" for stem in op_stems(Path(folder))]
        Path(out).write_text("".join(lines), encoding="utf-8")
        watched = [str(path) for root in roots for path in folders(Path(root))]
        Path(depfile).write_text(f"{out}: {' '.join(watched)}\n", encoding="utf-8")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
