# SPDX-License-Identifier: BSD-3-Clause
"""Runs entries of PyTorch's op_db in processes that may die, and keeps what became of them in a log.

A line of the log is an entry, a case, what became of it and a text; "done" ends an entry in a dtype. A
process takes entries one by one; when it crashes, or is silent for too long, that is noted, and another
goes on behind.
"""

from __future__ import annotations

import collections
import contextlib
import math
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

__all__ = ["BAD", "Log", "child", "run_all"]

BAD = ("value", "error", "accepted", "class", "crash", "hang")
SILENCE = 120.0  # seconds of one case


class Log:
    """Lines of all processes, and how many of each kind there were.

    With `resume`, what an earlier run finished is kept and is in `done`; what it had begun is dropped.
    """

    def __init__(self, path: Path, resume: bool = False) -> None:
        self.counts: collections.Counter[str] = collections.Counter()
        self.bad: list[str] = []
        self.lines: list[str] = []
        self.done: set[tuple[str, str]] = set()
        self.lock = threading.Lock()
        kept = self._kept(path) if resume and path.exists() else []
        self.file = path.open("w")
        for line in kept:
            self.add(line)

    def _kept(self, path: Path) -> list[str]:
        lines = [line.split("\t") for line in path.read_text().splitlines()]
        whole = [fields for fields in lines if len(fields) == 4]
        done = {(name, case) for name, case, kind, _ in whole if kind == "done"}
        return ["\t".join(f) for f in whole if (f[0], f[1].split()[0].rstrip(":")) in done]

    def add(self, line: str) -> None:
        name, case, kind, _ = line.split("\t")
        with self.lock:
            self.file.write(line + "\n")
            self.file.flush()
            if kind == "done":
                self.done.add((name, case))
                return
            self.counts[kind] += 1
            self.lines.append(line)
            if kind in BAD:
                self.bad.append(line)


def run_all(
    entries: list[tuple[str, str]],
    log: Log,
    samples: int,
    jobs: int = 2,
    silence: float = SILENCE,
    what: str = "verdicts",
) -> None:
    """Each entry and dtype in one of `jobs` processes; `what` is asked of each: "verdicts" or "marks"."""
    todo = collections.deque(entry for entry in entries if entry not in log.done)
    one_starts = threading.Lock()
    failed: list[Exception] = []

    def work() -> None:
        try:
            while todo and not failed:
                one_process(todo, log, [what, str(samples)], silence, one_starts)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def one_process(
    todo: collections.deque[tuple[str, str]],
    log: Log,
    arguments: list[str],
    silence: float,
    one_starts: threading.Lock,
) -> None:
    """A process takes entries until there is none, or it ends by itself."""
    messages = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed at the end
    one_starts.acquire()
    process = subprocess.Popen(
        [sys.executable, "-m", "torch_nntile.conformance", "--child", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=messages,
        text=True,
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
            with contextlib.suppress(BrokenPipeError):
                print(name, dtype, file=process.stdin, flush=True)
            for line in process.stdout:
                last[0] = time.monotonic()
                what, _, rest = line.rstrip("\n").partition("\t")
                if what == "done":
                    break
                if what == "begin":
                    case = rest
                elif what == "verdict":
                    log.add(f"{name}\t{rest}")
            else:  # it is gone
                status = process.wait()
                late = time.monotonic() - last[0] > silence - 1
                messages.seek(0)
                text = " ".join(messages.read()[-300:].split())
                kind = "hang" if late else "crash"
                log.add(f"{name}\t{dtype}: {case}\t{kind}\tstatus {status} {text}")
                log.add(f"{name}\t{dtype}\tdone\t")
                return
            log.add(f"{name}\t{dtype}\tdone\t")
            last[0] = math.inf
    finally:
        stopped.set()
        process.stdin.close()
        process.stdout.close()
        process.wait()
        watcher.join()
        messages.close()


def child(what: str, samples: int) -> None:
    """The process: names of entries and dtypes come by stdin."""
    import torch

    import torch_nntile
    from torch_nntile.conformance import cases, marks

    torch.set_num_threads(1)
    torch_nntile.init_context(ncpu=1)
    cases.entries()
    cases.settle()

    def say(*words: str) -> None:
        print(*(" ".join(word.split()) for word in words), sep="\t", flush=True)

    print("ready", flush=True)
    for line in sys.stdin:
        name, _, dtype = line.strip().rpartition(" ")
        begin, of = (lambda case: say("begin", case)), getattr(torch, dtype)
        if what == "marks":
            for case, mark, text in marks.marks(name, of, samples, begin):
                say("verdict", case, mark, text[:300])
        else:
            for verdict in cases.verdicts(name, of, samples, begin):
                say("verdict", verdict.case, verdict.kind, verdict.text[:300])
        say("done")
