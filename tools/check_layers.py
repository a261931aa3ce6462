#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Check that includes in libnntile_c go one way: down the floors, and never in a circle."""

from __future__ import annotations

import re
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

# From the ground up. A folder may include itself and what stands below; not its neighbours on a floor.
FLOORS = [
    {"base"},
    {"kernels"},
    {"schema"},
    {"ops"},
    {"graph"},
    {"record", "tile"},
    {"runtime"},
    {"pipeline"},
    {"executor"},
    {"abi"},
]
HEIGHT = {folder: height for height, floor in enumerate(FLOORS) for folder in floor}
GENERATED = {"all_ops.inc"}
SOURCE = Path(__file__).resolve().parent.parent / "libnntile_c" / "src"


def folder_of(file: str) -> str:
    """The floor of a file: its folder; pipeline.* and executor.* stand alone."""
    return file.split("/")[0] if "/" in file else Path(file).stem


def includes(path: Path) -> list[str]:
    found = re.findall(r'^\s*#\s*include\s+"([^"]+)"', path.read_text(encoding="utf-8"), re.M)
    return [name for name in found if name not in GENERATED and not name.startswith("nntile/")]


def problems(files: dict[str, list[str]]) -> list[str]:
    found = []
    for file, names in files.items():
        own = folder_of(file)
        if own not in HEIGHT:
            found.append(f"{file}: its folder stands on no floor (tools/check_layers.py)")
            continue
        for name in names:
            other = folder_of(name)
            if name not in files:
                found.append(f'{file}: "{name}" is not a path from libnntile_c/src')
            elif other != own and HEIGHT.get(other, len(FLOORS)) >= HEIGHT[own]:
                found.append(f"{file}: {own} may not include {other} ({name})")
    try:
        TopologicalSorter(files).prepare()
    except CycleError as error:
        found.append("circle: " + " -> ".join(error.args[1]))
    return found


def tree() -> dict[str, list[str]]:
    """What each source file includes."""
    paths = [path for path in SOURCE.rglob("*") if path.suffix in {".cc", ".hh", ".def", ".cu"}]
    return {path.relative_to(SOURCE).as_posix(): includes(path) for path in sorted(paths)}


def main() -> None:
    found = problems(tree())
    for line in found:
        print(line, file=sys.stderr)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
