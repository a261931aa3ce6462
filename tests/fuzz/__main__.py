# SPDX-License-Identifier: BSD-3-Clause
"""python -m fuzz --seconds 600 [--seed 7]: ends with 1 if a program differs from CPU PyTorch.

Programs run in eager and in graph mode and captured, with one and with two workers. The first program of each
kind of difference is shrunk, printed as a script and saved. NNTILE_FUSE=0 switches fusion off.
"""

from __future__ import annotations

import argparse
import collections
import pathlib
import random
import sys
import time
from typing import Any

from fuzz.child import Child
from fuzz.compare import Verdict
from fuzz.script import script
from fuzz.shrink import shrink

MODES = ("eager", "graph", "captured")
SAME_WORKERS = 64  # programs until the count of workers changes


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", default=str(random.randrange(10**6)))
    parser.add_argument("--first", type=int, default=0, help="number of the first program")
    parser.add_argument("--directory", type=pathlib.Path, default=pathlib.Path("runs/fuzz"))
    parser.add_argument(
        "--memory", type=int, default=0, help="budget in bytes, with a disk behind it; 0: none"
    )
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)

    child = Child(options.memory)
    calls: collections.Counter[str] = collections.Counter()
    kinds: collections.Counter[str] = collections.Counter()
    begin, number, spilled = time.monotonic(), options.first, 0
    while time.monotonic() - begin < options.seconds:
        seed, mode = f"{options.seed}/{number}", MODES[number % 3]
        child.with_workers(1 + number // SAME_WORKERS % 2)
        answer = child.ask("seed", seed, mode)
        died = isinstance(answer, str)
        verdict, tried, moved = (Verdict(answer), [], False) if died else answer
        calls.update(tried)
        spilled += moved
        number += 1
        if verdict:
            kinds[verdict.kind] += 1
            print(f"program {seed}, {mode}: {verdict.kind}", flush=True)
            if kinds[verdict.kind] == 1:
                report(child, seed, mode, verdict, options.directory)
            child.stop()  # what went wrong may have left something behind
    child.stop()
    if options.memory:
        print(f"within {options.memory} bytes data left memory in {spilled} programs")
    summary(options.seed, number - options.first, time.monotonic() - begin, calls, kinds)
    return 1 if kinds else 0


def verdict_of(child: Child, program: Any, mode: str) -> Verdict:
    answer = child.ask("check", program, mode)
    return Verdict(answer) if isinstance(answer, str) else answer


def report(child: Child, seed: str, mode: str, verdict: Verdict, directory: pathlib.Path) -> None:
    """Shrink, print and save; a program that fails only after others is reported as it is."""
    program = child.ask("draw", seed)
    child.stop()
    if isinstance(program, str):
        print(f"CPU PyTorch alone {program}: a row asks what it cannot do")
        return
    if verdict_of(child, program, mode).kind == verdict.kind:
        program = shrink(program, lambda p: verdict_of(child, p, mode).kind == verdict.kind)
        verdict = verdict_of(child, program, mode) or verdict
    else:
        print("it does not fail alone: run the programs before it too (--first)")
    title = f"{verdict.kind}\n\n{verdict.text}\nprogram {seed}".strip()
    text = script(program, mode, child.workers, title)
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{seed.replace('/', '_')}.py"
    path.write_text(text)
    print(f"---- {path}\n{text}----", flush=True)


def summary(
    seed: str,
    programs: int,
    seconds: float,
    calls: collections.Counter[str],
    kinds: collections.Counter[str],
) -> None:
    table = [f"{name} {count}" for name, count in calls.most_common()]
    for k in range(0, len(table), 8):
        print("  " + ", ".join(table[k : k + 8]))
    rate = programs / max(seconds, 1e-9)
    print(
        f"seed {seed}: {programs} programs of {calls.total()} operations of {len(calls)} kinds in "
        f"{seconds:.0f} s ({rate:.1f} programs/s); differences: {kinds.total()}"
    )
    for kind, count in kinds.most_common():
        print(f"  {count} times: {kind}")


if __name__ == "__main__":
    sys.exit(main())
