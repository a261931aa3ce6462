# SPDX-License-Identifier: BSD-3-Clause
"""Processes of one group that live through many tests: to start one takes longer than most tests.

    with Ranks(2, "program.py") as ranks:
        answers = ranks.ask("what", limit=60)   # one of each process

The program calls `serve(run)`. Where one has failed, died or not answered in time, all end, and the
next question starts new ones.
"""

from __future__ import annotations

import faulthandler
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

TREE = Path(__file__).parent.parent


class Answer(NamedTuple):
    state: str  # "ok", "skipped", "failed", "ended" or "silent"
    text: str = ""


class Ranks:
    """`size` processes that run one program, with RANK and WORLD_SIZE in their environment."""

    def __init__(self, size: int, program: Path, **environment: str) -> None:
        self.size = size
        self.starts = 0  # how often they were started
        self._program = program
        self._environment = environment
        self._processes: list[subprocess.Popen[str]] = []
        self._folder = tempfile.TemporaryDirectory()

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self._folder.cleanup()

    @property
    def pids(self) -> list[int]:
        return [p.pid for p in self._processes]

    def start(self) -> None:
        if self._processes:
            return
        self.starts += 1
        for rank in range(self.size):
            with self._said(rank).open("w") as said:
                self._processes.append(
                    subprocess.Popen(
                        [sys.executable, str(self._program)],
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=said,
                        text=True,
                        cwd=TREE,
                        env={
                            **os.environ,
                            "PYTHONPATH": f"{TREE}:{TREE / 'tests'}",
                            "RANK": str(rank),
                            "LOCAL_RANK": str(rank),
                            "WORLD_SIZE": str(self.size),
                            "LOCAL_WORLD_SIZE": str(self.size),
                            "MASTER_ADDR": "127.0.0.1",
                            **self._environment,
                        },
                    )
                )

    def end(self) -> None:
        for p in self._processes:
            p.send_signal(signal.SIGKILL)
        for p in self._processes:
            p.communicate()
        self._processes = []

    def ask(self, what: str, limit: float, others: float = 10) -> list[Answer]:
        """Each process runs `what` in a folder of its own for this question. When one has failed,
        the others have `others` seconds. Who is silent says where its threads are."""
        self.start()
        with tempfile.TemporaryDirectory() as folder:
            for p in self._processes:
                assert p.stdin
                try:
                    p.stdin.write(json.dumps([what, folder]) + "\n")
                    p.stdin.flush()
                except BrokenPipeError:
                    pass  # it has ended: there will be no answer either
            answers = self._answers(limit, others)
        if any(a.state not in ("ok", "skipped") for a in answers):
            self.end()
        return answers

    def _answers(self, limit: float, others: float) -> list[Answer]:
        answers: dict[int, Answer] = {}
        end = time.monotonic() + limit
        with selectors.DefaultSelector() as selector:
            for rank, p in enumerate(self._processes):
                assert p.stdout
                selector.register(p.stdout, selectors.EVENT_READ, rank)
            while len(answers) < self.size:
                ready = selector.select(end - time.monotonic())
                if not ready:
                    break
                for key, _ in ready:
                    line = self._processes[key.data].stdout.readline()
                    selector.unregister(key.fileobj)
                    answers[key.data] = Answer(*json.loads(line)) if line else self._ended(key.data)
                    if answers[key.data].state not in ("ok", "skipped"):
                        end = min(end, time.monotonic() + others)
        for rank in set(range(self.size)) - set(answers):
            self._processes[rank].send_signal(signal.SIGUSR1)  # it says where it is
        if len(answers) < self.size:
            time.sleep(1)
        return [answers.get(r) or Answer("silent", self.said(r)) for r in range(self.size)]

    def _ended(self, rank: int) -> Answer:
        code = self._processes[rank].wait()
        return Answer("ended", f"exit code {code}\n{self.said(rank)}")

    def _said(self, rank: int) -> Path:
        return Path(self._folder.name) / f"rank{rank}"

    def said(self, rank: int) -> str:
        """The end of what a process has printed."""
        return self._said(rank).read_text(errors="replace")[-4000:]


def serve(run: Callable[[str, Path], Any]) -> None:
    """In a process of Ranks: answers until there are no more questions."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what tests print is no answer
    faulthandler.register(signal.SIGUSR1)
    for line in sys.stdin:
        what, folder = json.loads(line)
        answers.write(json.dumps(_answer(run, what, Path(folder))) + "\n")
        answers.flush()


def _answer(run: Callable[[str, Path], Any], what: str, folder: Path) -> Answer:
    try:
        result = run(what, folder)
    except unittest.SkipTest as skip:
        return Answer("skipped", str(skip))
    except BaseException:  # also SystemExit, by which PyTorch's tests end a process
        return Answer("failed", traceback.format_exc()[-6000:])
    return Answer("ok", "" if result is None else str(result))
