# SPDX-License-Identifier: BSD-3-Clause
"""Processes and operands that are lost: the group is closed, and another one works. A program for
ranks.py; each call of LOSSES begins in a new group."""

from __future__ import annotations

import contextlib
import os
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Timer

import torch
import torch.distributed as dist
from collective_calls import NN, all_of, begin, mine, program, rank, refused, same, size

import torch_nntile

LOSSES: dict[str, Callable[[Path], None]] = {}


def loss(function: Callable[[Path], None]) -> Callable[[Path], None]:
    LOSSES[function.__name__] = function
    return function


@contextlib.contextmanager
def ends_within(seconds: float, *texts: str) -> Iterator[None]:
    start = time.monotonic()
    with refused(*texts, error=(RuntimeError, IndexError)):
        yield
    took = time.monotonic() - start
    assert took < seconds, f"{took:.1f} s"


def begin_again(folder: Path, of: int | None = None) -> None:
    """In the processes that live."""
    with refused("process group is closed since|never computed"):
        dist.all_reduce(torch.ones(1, device=NN))
    with contextlib.suppress(RuntimeError, IndexError):
        torch_nntile.wait()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # work of the group had failed
        dist.destroy_process_group()
    begin(folder / "again", of)
    x = mine(5).to(NN)
    dist.all_reduce(x)
    same(x, sum(all_of(5)))
    torch_nntile.wait()


def never_computed() -> torch.Tensor:
    """A task fails: the index is known on the device only."""
    index = torch.tensor([7], device=NN)
    return torch.nn.functional.embedding(index, torch.ones(3, 4, device=NN))


@loss
def a_killed_process(folder: Path) -> None:
    last = size() - 1
    x = torch.ones(1 << 22, device=NN)
    if rank() == last:
        dist.all_reduce(x)
        x.sum().item()
        Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
        while True:
            dist.all_reduce(x)
            x.sum().item()
    dist.all_reduce(x)
    x.sum().item()
    with ends_within(20, "all_reduce: on rank", f"rank {rank()} of {size()} of group 'default_pg'"):
        while True:
            dist.all_reduce(x)
            x.sum().item()
    begin_again(folder, of=last)


@loss
def a_killed_process_of_a_sender(folder: Path) -> None:
    last = size() - 1
    if rank() == last:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    x = torch.ones(4, device=NN)
    with ends_within(20, "recv: on rank", "group 'default_pg'"):
        dist.recv(x, last)
        x.tolist()
    begin_again(folder, of=last)


@loss
def operands_of_all_reduce(folder: Path) -> None:
    odd = rank() == size() - 1
    # Who has failed hears of what went wrong first.
    text = f"all_reduce: on rank {rank()} of {size()} of group 'default_pg'"
    with ends_within(20, "is out of range" if odd else text):
        x = never_computed() if odd else torch.ones(1, 4, device=NN)
        dist.all_reduce(x)
        x.tolist()
    begin_again(folder)


@loss
def operands_of_a_send(folder: Path) -> None:
    """Others wait for what comes later: nobody gets there."""
    odd = rank() == size() - 1
    with ends_within(20):
        x, y = torch.ones(1, 4, device=NN), torch.ones(1, 4, device=NN)
        if odd:
            dist.isend(never_computed(), 0)
        elif rank() == 0:
            dist.recv(x, size() - 1)
            y = y + x
        dist.all_reduce(y)
        y.tolist()
    begin_again(folder)


@loss
def operands_beside_a_pending_recv(folder: Path) -> None:
    """What this process waits for itself keeps no other waiting."""
    odd = rank() == size() - 1
    with ends_within(20):
        x = torch.ones(1, 4, device=NN)
        if odd:
            y = torch.empty(4, device=NN)
            dist.irecv(y, 0)
            time.sleep(0.5)
            x = never_computed()
        dist.all_reduce(x)
        x.tolist()
        if rank() == 0:
            dist.send(x, size() - 1)
    begin_again(folder)


def run(name: str, folder: Path) -> None:
    begin(folder / "store")
    LOSSES[name](folder)
    dist.destroy_process_group()


if __name__ == "__main__":
    program(run)
