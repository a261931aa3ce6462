# SPDX-License-Identifier: BSD-3-Clause
"""Programs run in a process of their own: a crash or a hang of it is a difference like any other."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import warnings
from typing import Any

__all__ = ["Child"]

PATIENCE = 60.0  # seconds until a program counts as hung


class Child:
    """A process that draws and checks programs; a new one starts where the old one died."""

    def __init__(self, memory: int = 0) -> None:
        self.context = multiprocessing.get_context("spawn")
        self.process: Any = None
        self.end: Any = None
        self.workers = 1
        self.memory = memory

    def ask(self, *request: Any) -> Any:
        """The answer, or the text of how the process died."""
        if self.process is None:
            self.end, other = self.context.Pipe()
            self.process = self.context.Process(
                target=serve, args=(other, self.workers, self.memory), daemon=True
            )
            self.process.start()
            other.close()
        try:
            self.end.send(request)
            if self.end.poll(PATIENCE):
                return self.end.recv()
            died = f"hangs for {PATIENCE:.0f} s"
        except (EOFError, OSError):
            self.process.join()
            died = f"dies with {self.process.exitcode}"
        self.stop()
        return died

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.end.close()
            self.process = None

    def with_workers(self, workers: int) -> None:
        """Another count of workers from the next program on."""
        if workers != self.workers:
            self.workers = workers
            if self.process is not None:
                self.ask("workers", workers)


def start(workers: int, memory: int) -> None:
    """A context whose budget is `memory` bytes with a disk behind it; 0: no limit.

    init_context() takes no budget that is so small that programs of a few kilobytes spill.
    """
    import torch_nntile
    from torch_nntile import _c

    if not memory:
        torch_nntile.init_context(ncpu=workers)
        return
    config = _c.new_struct("nntile_context_config")
    folder = _c.ffi.new("char[]", tempfile.gettempdir().encode())
    config.ncpu, config.memory_bytes, config.spin_seconds = workers, memory, -1.0
    config.swap, config.swap_bytes = folder, 1 << 28
    _c.call("nntile_context_create", config)


def serve(end: Any, workers: int, memory: int) -> None:
    """Answer requests until the other end closes; to a seed: verdict, calls, has data left memory."""
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    import torch

    import torch_nntile
    from fuzz.compare import check
    from fuzz.draw import draw_program

    warnings.simplefilter("ignore")  # of what PyTorch thinks of the programs
    torch.set_num_threads(1)
    start(workers, memory)
    while True:
        try:
            kind, *arguments = end.recv()
        except EOFError:
            return
        if kind == "workers":
            torch_nntile.shutdown_context()
            start(arguments[0], memory)
            end.send(None)
        elif kind == "draw":
            end.send(draw_program(*arguments))
        elif kind == "check":
            end.send(check(*arguments))
        else:
            program = draw_program(arguments[0])
            before = torch.nntile.memory_stats()["evictions"]
            verdict = check(program, arguments[1])
            moved = torch.nntile.memory_stats()["evictions"] > before
            end.send((verdict, [step.kind for step in program.steps], moved))
