# SPDX-License-Identifier: BSD-3-Clause
"""Prints how large the house is, beside its goals: lines, circles, places, files of a call, times."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import check_layers
from way_of_call import way

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


def naming(pattern: str, *paths: str) -> int:
    """How many files a pattern is in."""
    command = ["git", "grep", "--untracked", "-lwE", pattern, "--", *paths]
    return len(subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.split())


def places() -> tuple[int, int, int, int]:
    """Files to write in for a row with a kernel of its own, a reduction, a pass, a fused pattern:
    counted for one that is there, without its kernel for GPUs. tests/test_add_an_op.py adds a
    reduction to the files that it needs."""
    core, row = "libnntile_c/src", "torch_nntile/aten.py"
    kernel = naming("layer_norm", core, ":!*/cuda/*", row)
    reduction = naming("Op_sumsq|FOLD.sumsq", f"{core}/kernels", ":!*/cuda/*") + naming("amax", row)
    epilogue = naming("epilogue = true", f"{core}/ops") + naming(
        "args.program", f"{core}/kernels/gemm.cc"
    )
    return kernel, reduction, naming("fuse_writes", core), epilogue


def ways_to_the_host() -> str:
    """Calls that run one of PyTorch's functions on the host: as a task, and at once."""
    stub = "torch_nntile/csrc"
    task = naming("call.nntile_record_function", f"{stub}/host")
    return f"{task} as a task, {naming('op.redispatchBoxed.c10', stub)} at once"


def way_of_gelu() -> str:
    try:
        return str(len(way()))
    except OSError as error:
        return f"not measured here: {error}"


def test_seconds() -> str:
    """Of the last `make test`."""
    report = ROOT / "build" / "tests.xml"
    found = re.search(
        r'<testsuite [^>]* time="([0-9]+)', report.read_text() if report.exists() else ""
    )
    return f"{int(found[1]) // 60}:{int(found[1]) % 60:02}" if found else "not run here"


def main() -> None:
    rows = (
        ("stub, compositions, dispatch: lines",
         lines("torch_nntile/csrc/*", "torch_nntile/compositions/*", "torch_nntile/dispatch.py"), "8000"),
        ("core: lines", lines("libnntile_c/src/*"), ""),
        ("Python: lines", lines("torch_nntile/*.py"), ""),
        ("tests: lines", lines("tests/*.py", "tests/*.cc", "tests/*.c"), ""),
        ("circles of files: core, stub, Python", ", ".join(map(str, circles())), "0, 0, 0"),
        ("places to touch: row kernel, reduction,", ", ".join(map(str, places())), "5, 2, 3, 2"),
        ("  pass, fused pattern", "", ""),
        ("files on the way of gelu(x), known plan", way_of_gelu(), "22"),
        ("ways to run on the host", ways_to_the_host(), "1"),
        ("C++ files that break the formatter", unformatted(), "0"),
        ("compile, seconds of each file as last built", round(compile_seconds()), "500"),
        ("make test, minutes", test_seconds(), "8:00"),
    )  # fmt: skip
    print(f"{'':45} {'today':30} goal")
    for name, value, goal in rows:
        print(f"{name:45} {value!s:30} {goal}".rstrip())


if __name__ == "__main__":
    main()
