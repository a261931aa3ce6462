#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Check that includes and imports go one way: down the floors, and never in a circle of files."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class House:
    """Rooms of a tree, from the ground up. A room may use itself and what stands below; not its
    neighbours on a floor."""

    name: str
    floors: tuple[frozenset[str], ...]

    def height(self, room: str) -> int:
        return next((k for k, floor in enumerate(self.floors) if room in floor), -1)


def house(name: str, *floors: str) -> House:
    return House(name, tuple(frozenset(floor.split()) for floor in floors))


CORE = house(
    "libnntile_c/src",
    *(
        "base",
        "kernels",
        "schema",
        "ops",
        "graph",
        "record tile",
        "runtime",
        "pipeline",
        "executor",
        "abi",
    ),
)
STUB = house(
    "torch_nntile/csrc",
    *("contract", "observe", "device", "processes shapes", "host replay", "rows", "stub"),
)
# Python modules of torch_nntile; the package itself is the roof.
PYTHON = house(
    "torch_nntile",
    *(
        "_cffi_build amp autocast errors notices schemas stubs versions",
        "_c aten",
        "fallback memory modes places replay",
        "axes cost distributed integrations.compiler kernels processes show_config windows",
        "compositions context profiling training",
        "device dispatch estimate explain old_names",
        "_start integrations",
        "calibrate conformance train_mnist",
        "models",
        "__main__ diagnose",
    ),
)
GENERATED = {"all_ops.inc", "cuda_symbols.inc", "kernel_headers.inc"}


def room_of(file: str) -> str:
    """The room of a file: its folder; a file of no folder stands alone."""
    return file.split("/")[0] if "/" in file else Path(file).stem


def includes(path: Path) -> list[str]:
    found = re.findall(r'^\s*#\s*include\s+"([^"]+)"', path.read_text(encoding="utf-8"), re.M)
    return [name for name in found if name not in GENERATED and not name.startswith("nntile/")]


def tree(of: House) -> dict[str, list[str]]:
    """What each source file includes."""
    source = ROOT / of.name
    paths = [p for p in source.rglob("*") if p.suffix in {".cc", ".hh", ".h", ".def", ".cu"}]
    return {path.relative_to(source).as_posix(): includes(path) for path in sorted(paths)}


def problems(of: House, files: dict[str, list[str]]) -> Iterator[str]:
    for file, names in files.items():
        own = of.height(room_of(file))
        if own < 0:
            yield f"{file}: its folder stands on no floor (tools/check_layers.py)"
            continue
        for name in names:
            other = room_of(name)
            if name not in files:
                yield f'{file}: "{name}" is not a path from {of.name}'
            elif other != room_of(file) and not 0 <= of.height(other) < own:
                yield f"{file}: {room_of(file)} may not include {other} ({name})"
    yield from circle(files)


def circle(files: dict[str, list[str]]) -> Iterator[str]:
    try:
        TopologicalSorter(files).prepare()
    except CycleError as error:
        yield "circle: " + " -> ".join(error.args[1])


def units(files: dict[str, list[str]]) -> dict[str, list[str]]:
    """A header and the source that implements it are one unit; a table stands alone."""

    def unit(file: str) -> str:
        return file if file.endswith(".def") else str(Path(file).with_suffix(""))

    found: dict[str, set[str]] = {}
    for file, names in files.items():
        found.setdefault(unit(file), set()).update(unit(n) for n in names if unit(n) != unit(file))
    return {name: sorted(uses) for name, uses in sorted(found.items())}


def imports() -> dict[str, list[str]]:
    """What each module of torch_nntile imports when it is imported itself."""
    paths = {}
    for path in sorted((ROOT / "torch_nntile").rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        paths[name.removesuffix(".__init__")] = path
    found: dict[str, list[str]] = {}
    for module, path in paths.items():
        uses: set[str] = set()
        for node in at_import(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                uses.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    uses.add(inner if inner in paths else node.module)
        found[module] = sorted(uses & set(paths) - {module, "torch_nntile"})
    return found


def room_of_module(module: str) -> str:
    """A module or a folder of modules; one that the floors name stands alone."""
    _, first, *rest = module.split(".")
    inner = ".".join([first, *rest[:1]])
    return inner if PYTHON.height(inner) >= 0 else first


def python_problems(modules: dict[str, list[str]]) -> Iterator[str]:
    """As of includes: what a module imports when it is imported stands below it."""
    for module, uses in modules.items():
        if module == PYTHON.name:
            continue
        room = room_of_module(module)
        own = PYTHON.height(room)
        if own < 0:
            yield f"{module}: {room} stands on no floor (tools/check_layers.py)"
            continue
        for name in uses:
            other = room_of_module(name)
            if other != room and not 0 <= PYTHON.height(other) < own:
                yield f"{module}: {room} may not import {other} ({name})"
    yield from circle(modules)


def at_import(node: ast.AST) -> Iterator[ast.AST]:
    """Statements that run with the module; not those of functions, nor what only type checkers read."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        yield child
        yield from at_import(child)


def main() -> None:
    found: list[str] = []
    for of in (CORE, STUB):
        found += problems(of, files := tree(of))
        found += circle(units(files))
    found += python_problems(imports())
    for line in found:
        print(line, file=sys.stderr)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
