# SPDX-License-Identifier: BSD-3-Clause
"""Runs PyTorch's op_db on the device: python -m torch_nntile.conformance [--ops add,mm] [--write FILE]

Without --write or --check it prints the lines of the table. --write puts the entries that were run into
the page, and leaves the others there as they are. --check ends with 1 if one is worse than on the page.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
import time
from pathlib import Path

__all__ = ["main"]


def main() -> int:
    """Runs what the command line asks for; 1 if --check found a step back."""
    parser = argparse.ArgumentParser(
        prog="python -m torch_nntile.conformance", description=(__doc__ or "").partition(":")[0]
    )
    parser.add_argument("--ops", default="", help="names of entries, separated by commas")
    parser.add_argument("--dtypes", default="", help="dtypes (default: those of the page)")
    parser.add_argument("--shard", default="1/1", help="i/n: the i-th of n parts of the entries")
    parser.add_argument("--samples", type=int, default=2, help="samples of each entry and dtype")
    parser.add_argument("--jobs", type=int, default=2, help="processes that run at a time")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="continue the run of this log")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write this page")
    parser.add_argument("--check", type=Path, metavar="FILE", help="compare with this page")
    parser.add_argument(
        "--verdicts", type=Path, metavar="LOG", help="run all forms, as the tests do"
    )
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if importlib.util.find_spec("expecttest") is None:
        parser.error("op_db needs expecttest: pip install expecttest")
    from torch_nntile.conformance import cases, page, runner

    if given.child:
        runner.child(given.child[0], int(given.child[1]))
        return 0
    if given.write and given.dtypes:
        parser.error("--write has the dtypes of the page")
    known = sorted(cases.entries())
    names = given.ops.split(",") if given.ops else known
    if unknown := sorted({*names} - {*known}):
        parser.error(f"op_db has no {', '.join(unknown)}")
    part, _, parts = given.shard.partition("/")
    if not (part.isdigit() and parts.isdigit() and 1 <= int(part) <= int(parts)):
        parser.error(f"--shard {given.shard}: expected 1/4, 2/4, ...")
    names = names[int(part) - 1 :: int(parts)]
    defaults = [str(d).removeprefix("torch.") for d in cases.DTYPES]
    dtypes = (
        given.dtypes.split(",") if given.dtypes else defaults if given.verdicts else page.DTYPES
    )
    entries = [(name, dtype) for name in names for dtype in dtypes]

    with tempfile.TemporaryDirectory() as folder:
        path = given.verdicts or given.resume or Path(folder, "log")
        log = runner.Log(path, resume=given.resume is not None)
        began, what = time.monotonic(), "verdicts" if given.verdicts else "marks"
        runner.run_all(entries, log, given.samples, given.jobs, what=what)
    print(f"{len(log.done)} entries and dtypes, {time.monotonic() - began:.0f} s", file=sys.stderr)
    if given.verdicts:
        print(dict(log.counts), *log.bad, sep="\n")
        return int(bool(log.bad))
    found = page.table_of(log.lines, log.done)
    if given.write:
        before = page.parse(given.write.read_text()) if given.write.exists() else {}
        before = {name: entry for name, entry in before.items() if name in known}
        given.write.write_text(page.render(before | found))
    if given.check:
        back = page.steps_back(found, page.parse(given.check.read_text()))
        print(*back, sep="\n", end="\n" * bool(back))
        print(f"{len(found)} entries, {len(back)} steps back")
        return int(bool(back))
    if not given.write:
        print(page.render(found).partition("## Entries\n\n")[2], end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
