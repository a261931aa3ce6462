# SPDX-License-Identifier: BSD-3-Clause
"""Runs all of PyTorch's op_db in processes that may die: python -m op_db_run LOG [--ops abs,add].

A line of the log is an entry, a case, what became of it and a text. A process takes entries one by
one; when it crashes, or is silent for too long, that is noted, and another goes on behind.
"""

from __future__ import annotations

import argparse
import collections
import math
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

__all__ = ["BAD", "Log", "run_all"]

BAD = ("value", "error", "accepted", "class", "crash", "hang")
SILENCE = 120.0  # seconds of one case


class Log:
    """Lines of all processes, and how many of each kind there were."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("w")
        self.counts: collections.Counter[str] = collections.Counter()
        self.bad: list[str] = []
        self.lock = threading.Lock()

    def add(self, line: str) -> None:
        kind = line.split("\t")[2]
        with self.lock:
            self.counts[kind] += 1
            if kind in BAD:
                self.bad.append(line)
            self.file.write(line + "\n")
            self.file.flush()


def run_all(
    entries: list[tuple[str, str]], log: Log, samples: int, jobs: int = 2, silence: float = SILENCE
) -> None:
    """Each entry and dtype in one of `jobs` processes."""
    todo = collections.deque(entries)

    one_starts = threading.Lock()

    def work() -> None:
        while todo:
            one_process(todo, log, samples, silence, one_starts)

    threads = [threading.Thread(target=work) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def one_process(
    todo: collections.deque[tuple[str, str]],
    log: Log,
    samples: int,
    silence: float,
    one_starts: threading.Lock,
) -> None:
    """A process takes entries until there is none, or it ends by itself."""
    messages = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed at the end
    one_starts.acquire()
    process = subprocess.Popen(
        [sys.executable, __file__, "--child", str(samples)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=messages,
        text=True,
        cwd=Path(__file__).parent,
    )
    assert process.stdin is not None and process.stdout is not None
    last = [math.inf]  # a start may take its time
    stopped = threading.Event()

    def watch() -> None:
        while not stopped.wait(1):
            if time.monotonic() - last[0] > silence:
                process.kill()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        ready = process.stdout.readline() == "ready\n"
        one_starts.release()  # an editable package may have built itself
        if not ready:
            messages.seek(0)
            raise RuntimeError(f"no process starts:\n{messages.read()}")
        while todo:
            try:
                name, dtype = todo.popleft()
            except IndexError:
                break
            case = "start"
            last[0] = time.monotonic()
            print(name, dtype, file=process.stdin, flush=True)
            for line in process.stdout:
                last[0] = time.monotonic()
                what, _, rest = line.rstrip("\n").partition("\t")
                if what == "done":
                    break
                if what == "begin":
                    case = rest
                else:
                    log.add(f"{name}\t{rest}")
            else:  # it is gone
                status = process.wait()
                late = time.monotonic() - last[0] > silence - 1
                messages.seek(0)
                text = " ".join(messages.read()[-300:].split())
                kind = "hang" if late else "crash"
                log.add(f"{name}\t{dtype}: {case}\t{kind}\tstatus {status} {text}")
                return
    finally:
        stopped.set()
        process.stdin.close()
        process.stdout.close()
        process.wait()
        watcher.join()
        messages.close()


def child(samples: int) -> None:
    import torch

    import torch_nntile

    torch.set_num_threads(1)
    torch_nntile.init_context(ncpu=1)
    import op_db_cases

    op_db_cases.settle()

    def say(*words: str) -> None:
        print(*(" ".join(word.split()) for word in words), sep="\t", flush=True)

    print("ready", flush=True)
    for line in sys.stdin:
        name, _, dtype = line.strip().rpartition(" ")
        for verdict in op_db_cases.verdicts(
            name, getattr(torch, dtype), samples, lambda case: say("begin", case)
        ):
            say("verdict", verdict.case, verdict.kind, verdict.text[:300])
        say("done")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log", nargs="?", type=Path)
    parser.add_argument("--child", type=int, help="samples; names of entries come by stdin")
    parser.add_argument("--ops", default="", help="names of entries, separated by commas")
    parser.add_argument("--dtypes", default="")
    parser.add_argument("--samples", type=int, default=6)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    if given.child:
        child(given.child)
        return
    import op_db_cases

    names = given.ops.split(",") if given.ops else op_db_cases.names()
    dtypes = [str(d).removeprefix("torch.") for d in op_db_cases.DTYPES]
    dtypes = given.dtypes.split(",") if given.dtypes else dtypes
    log = Log(given.log)
    began = time.monotonic()
    run_all([(n, d) for n in names for d in dtypes], log, given.samples, given.jobs)
    print(dict(log.counts), f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
