# SPDX-License-Identifier: BSD-3-Clause
"""Writes what the docs print: outputs of their code, and the pages that follow from tables.

python tools/make_docs.py           write
python tools/make_docs.py --check   change nothing; exit code 1 and a diff if a page is out of date

A page of `RUN` is a program: its ```python blocks run from top to bottom in one process, and each
gets what it printed as a ```text block right below. A block that begins with ```python no-run is
only shown. Those of `TOGETHER` share a process, since to start one, and Numba, takes longer than they do;
each begins anew. In a page of `SHELL` the ```sh blocks run, at the root of the repository.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RUN = (
    "README.md",
    "docs/concepts/data_way.md",
    "docs/concepts/axis_groups.md",
    "docs/concepts/tiling.md",
    "docs/concepts/modes.md",
    "docs/concepts/memory_and_errors.md",
    "docs/concepts/will_it_fit.md",
    "docs/guides/works_with.md",
    "docs/guides/profiling.md",
    "docs/develop/passes.md",
)
TOGETHER = (
    *(path.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob("docs/tutorials/0[1-5]_*"))),
    "docs/guides/kernels.md",
)
SHELL = ("docs/tutorials/06_from_c.md",)
PICTURES = "docs/concepts/pictures"
GENERATED = (
    "docs/reference/ops",
    "docs/reference/environment.md",
    "docs/reference/python.md",
    PICTURES,
)
# show_config() counts workers, explain() shows cuts: what is printed is the same on every machine.
ENVIRONMENT = os.environ | {
    "STARPU_NCPU": "2",
    "NNTILE_COST": str(Path(__file__).parents[1] / "tests" / "machine.cost"),
}
HEAD = "<!-- Written by tools/make_docs.py. -->\n\n"

# A code block, and the block of its output if there is one.
_BLOCK, _SHELL_BLOCK = (
    re.compile(
        rf"^```{language}\n(?P<code>.*?)^```\n(?P<output>\n```text\n.*?^```\n)?",
        re.DOTALL | re.MULTILINE,
    )
    for language in ("python", "sh")
)

# Runs in a process of its own: reads pages of blocks from stdin, writes what each printed to stdout.
# The device prints from C too, and PyTorch warns on stderr: only sys.stdout counts.
_RUNNER = """
import contextlib, gc, io, json, linecache, os, sys
if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD") == "0":
    import torch_nntile
outputs = {}
for page, blocks in json.load(sys.stdin).items():
    outputs[page], names = [], {"__name__": "__main__"}
    for first_line, code in blocks:
        out, text = io.StringIO(), "\\n" * (first_line - 1) + code
        linecache.cache[page] = (len(text), None, text.splitlines(True), page)  # for inspect
        with contextlib.redirect_stdout(out):
            exec(compile(text, page, "exec"), names)
        outputs[page].append(out.getvalue())
    names.clear()
    gc.collect()
    if "torch_nntile" in sys.modules:
        sys.modules["torch_nntile"].shutdown_context()
json.dump(outputs, sys.stdout)
"""


def with_outputs(page: str, text: str) -> str:
    """The text of a page with the outputs that its code has now."""
    return all_with_outputs({page: text})[page]


def all_with_outputs(pages: dict[str, str]) -> dict[str, str]:
    """The same of several pages, which run in one process."""
    blocks = {
        page: [(text.count("\n", 0, m.start()) + 2, m["code"]) for m in _BLOCK.finditer(text)]
        for page, text in pages.items()
    }
    with tempfile.TemporaryDirectory() as elsewhere:  # Python finds modules in its folder first
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _RUNNER],
            input=json.dumps(blocks),
            capture_output=True,
            text=True,
            check=False,
            cwd=elsewhere,
            env=ENVIRONMENT,
        )
    if done.returncode != 0:
        raise RuntimeError(f"{', '.join(pages)}: its code fails\n{done.stderr}")
    outputs = json.loads(done.stdout)
    return {page: _renewed(text, _BLOCK, outputs[page]) for page, text in pages.items()}


def with_shell_outputs(page: str, text: str) -> str:
    """The text of a page with what its ```sh blocks print now, at the root of the repository."""
    outputs = []
    for match in _SHELL_BLOCK.finditer(text):
        command = ["sh", "-e", "-c", match["code"]]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=ROOT, env=ENVIRONMENT
        )
        if done.returncode != 0:
            raise RuntimeError(f"{page}: its commands fail\n{done.stderr}")
        outputs.append(done.stdout)
    return _renewed(text, _SHELL_BLOCK, outputs)


def _renewed(text: str, block: re.Pattern[str], outputs: list[str]) -> str:
    remaining = iter(outputs)

    def renew(match: re.Match[str]) -> str:
        lines = (line.rstrip() for line in next(remaining).strip("\n").splitlines())
        printed = "\n".join(lines)
        output = f"\n```text\n{printed}\n```\n" if printed else ""
        return f"{match[0].removesuffix(match['output'] or '')}{output}"

    return block.sub(renew, text)


def pages_that_run() -> dict[str, str]:
    """Path -> text of the pages with code, two processes at a time."""
    texts = {page: (ROOT / page).read_text() for page in (*RUN, *TOGETHER, *SHELL)}
    together = [{page: texts[page]} for page in RUN]
    together.append({page: texts[page] for page in TOGETHER})
    with ThreadPoolExecutor(2) as pool:
        found = [page for pages in pool.map(all_with_outputs, together) for page in pages.items()]
    return dict(found) | {page: with_shell_outputs(page, texts[page]) for page in SHELL}


def generated_pages() -> dict[str, str]:
    """Path -> text of the pages that follow from tables."""
    import doc_tables  # it imports torch: not needed for --help

    pages = {f"docs/reference/ops/{name}": text for name, text in doc_tables.op_pages()}
    pages["docs/reference/environment.md"] = doc_tables.environment_page()
    pages["docs/reference/python.md"] = doc_tables.python_page()
    pages |= {f"{PICTURES}/{name}.svg": text for name, text in pictures().items()}
    return {path: HEAD + text for path, text in pages.items()}


def pictures() -> dict[str, str]:
    """Name -> picture; in a process of its own, since it names axes and counts tasks."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(ROOT / "tools" / "draw_tiles.py")],
        capture_output=True,
        text=True,
        check=False,
        env=ENVIRONMENT,
    )
    if done.returncode != 0:
        raise RuntimeError(f"tools/draw_tiles.py fails\n{done.stderr}")
    found: dict[str, str] = json.loads(done.stdout)
    return found


def stale_files(pages: dict[str, str]) -> list[str]:
    """Files in generated folders that no table asks for: an op that was removed."""
    return [
        str(file.relative_to(ROOT))
        for place in GENERATED
        for file in sorted((ROOT / place).glob("*.*"))
        if str(file.relative_to(ROOT)) not in pages
    ]


def differences(pages: dict[str, str]) -> Iterator[str]:
    """A unified diff for each page that is not what it should be."""
    for path, wanted in pages.items():
        file = ROOT / path
        found = file.read_text() if file.exists() else ""
        if found != wanted:
            yield "\n".join(
                difflib.unified_diff(
                    found.splitlines(),
                    wanted.splitlines(),
                    path,
                    f"{path}, as it should be",
                    "",
                    "",
                    2,
                    "",
                )
            )


def write(pages: dict[str, str]) -> None:
    for path, text in pages.items():
        file = ROOT / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists() or file.read_text() != text:
            file.write_text(text)
            print(f"wrote {path}")
    for path in stale_files(pages):
        (ROOT / path).unlink()
        print(f"removed {path}")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if out of date")
    options = parser.parse_args()
    pages = generated_pages() | pages_that_run()
    if not options.check:
        write(pages)
        return 0
    stale = [f"{path}: no table asks for this page" for path in stale_files(pages)]
    found = [*differences(pages), *stale]
    if found:
        print("\n".join(found))
        print("out of date: run `.venv/bin/python tools/make_docs.py`, then look at the change")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
