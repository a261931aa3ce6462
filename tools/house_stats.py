# SPDX-License-Identifier: BSD-3-Clause
"""Prints how large the house is, as it stands: lines, circles of files, format, seconds of compiling."""

from __future__ import annotations

import subprocess
from pathlib import Path

import check_layers

ROOT = Path(__file__).resolve().parent.parent


def files(*patterns: str) -> list[Path]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in names.split("\n") if name and (ROOT / name).is_file()]


def lines(*patterns: str) -> int:
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files(*patterns))


def circles() -> tuple[int, int, int]:
    """Of the core, the stub, and Python: 1 if there is any."""
    trees = [check_layers.tree(house) for house in (check_layers.CORE, check_layers.STUB)]
    core, stub = (any(check_layers.circle(check_layers.units(tree))) for tree in trees)
    return int(core), int(stub), int(any(check_layers.circle(check_layers.imports())))


def unformatted() -> int:
    program = ROOT / ".venv" / "bin" / "clang-format"
    found = 0
    for path in files("*.cc", "*.hh", "*.h", "*.c"):
        command = [str(program), "--dry-run", "--Werror", str(path)]
        found += subprocess.run(command, capture_output=True, check=False).returncode != 0
    return found


def compile_seconds() -> float:
    """Of the last build of each file, as ninja noted them; those that ccache had are short."""
    log = ROOT / "build" / "dev" / ".ninja_log"
    spans: dict[str, float] = {}
    for line in log.read_text().splitlines()[1:] if log.exists() else []:
        begin, end, _, output, *_ = line.split("\t")
        if output.endswith(".o"):
            spans[output] = (int(end) - int(begin)) / 1000
    return sum(spans.values())


def main() -> None:
    rows = (
        ("stub, compositions, dispatch: lines",
         lines("torch_nntile/csrc/*", "torch_nntile/compositions/*", "torch_nntile/dispatch.py")),
        ("core: lines", lines("libnntile_c/src/*")),
        ("Python: lines", lines("torch_nntile/*.py")),
        ("tests: lines", lines("tests/*.py", "tests/*.cc", "tests/*.c")),
        ("circles of files: core, stub, Python", ", ".join(map(str, circles()))),
        ("C++ files that break the formatter", unformatted()),
        ("compile, CPU-seconds (as last built)", round(compile_seconds())),
    )  # fmt: skip
    for name, value in rows:
        print(f"{name:40} {value}")


if __name__ == "__main__":
    main()
