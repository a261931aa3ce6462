# SPDX-License-Identifier: BSD-3-Clause
"""Tensors of the device in queues, pipes, arguments of processes, and from workers of a DataLoader."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

BEGIN = """
import sys, torch, torch_nntile
import torch.multiprocessing as mp
from torch import nn
NN = torch.device("nntile", 0)

class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, k):
        return torch.full((2,), float(k), device=NN), k

def loader(how):
    return torch.utils.data.DataLoader(Rows(), batch_size=4, num_workers=1, multiprocessing_context=how)
"""


def passes(folder: Path, code: str, timeout: float = 120) -> None:
    """Runs a program that others import: spawned children do."""
    program = folder / "program.py"
    program.write_text(BEGIN + textwrap.dedent(code))
    done = subprocess.run(
        [sys.executable, str(program)],
        text=True,
        capture_output=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"


@pytest.mark.multi
def test_spawned_processes(tmp_path: Path) -> None:
    passes(
        tmp_path,
        """
        def echo(given, inbox, outbox, pipe):
            assert given.device == NN and given.tolist() == [0.0, 1.0, 2.0], given
            x = inbox.get()
            assert x.device == NN
            x.add_(1)
            outbox.put(x)
            everything = inbox.get()
            a, t, row = everything["a"], everything["t"], everything["row"]
            row.fill_(7)
            assert a[1].tolist() == t[:, 1].tolist() == [7.0] * 4, (a, t)
            outbox.put(everything)
            pipe.send(everything["storage"])
            assert inbox.get() == "end"  # as on the CPU, a sender lives until its message was taken

        if __name__ == "__main__":
            context = mp.get_context("spawn")
            inbox, outbox, (here, there) = context.Queue(), context.SimpleQueue(), context.Pipe()
            given = torch.arange(3.0, device=NN)
            child = context.Process(target=echo, args=(given, inbox, outbox, there), daemon=True)
            child.start()
            a = torch.arange(12.0, device=NN).reshape(3, 4)
            inbox.put(a)
            assert torch.equal(outbox.get().cpu(), torch.arange(1.0, 13).reshape(3, 4))
            assert a[0].tolist() == [0.0, 1.0, 2.0, 3.0]  # a copy went
            everything = {
                "a": a, "t": a.t(), "row": a[1], "storage": a.untyped_storage(),
                "parameter": nn.Parameter(torch.ones(2, device=NN)), "frozen": nn.Parameter(a[0], False),
                "leaf": torch.ones(2, device=NN, requires_grad=True), "none": torch.empty(0, 3, device=NN),
                "bf16": a.bfloat16(), "complex": torch.complex(a, a), "long": a.long()[:, ::2],
                "bool": a > 3, "cpu": torch.ones(2), "model": nn.Linear(2, 2).to(NN),
            }
            inbox.put(everything)
            found = outbox.get()
            a[1] = 7
            for name, e in everything.items():
                f = found[name]
                if isinstance(e, torch.Tensor):
                    assert (f.device, f.dtype, f.shape) == (e.device, e.dtype, e.shape), name
                    assert f.stride() == e.stride(), name
                    assert type(f) is type(e) and f.requires_grad == e.requires_grad, name
                    if name not in ("bf16", "complex", "long", "bool"):  # they were made before the 7s
                        assert torch.equal(f.cpu(), e.cpu()), (name, f, e)
            assert torch.equal(found["complex"].real.cpu()[0], a[0].cpu()), found["complex"]
            assert found["long"].tolist() == [[0, 2], [4, 6], [8, 10]], found["long"]
            found["a"].zero_()
            assert found["t"].sum().item() == found["row"].sum().item() == 0  # still one storage
            assert found["storage"].data_ptr() == found["a"].data_ptr()
            for f, e in zip(found["model"].parameters(), everything["model"].parameters()):
                assert f.device == NN and f.requires_grad and torch.equal(f.cpu(), e.cpu())
            storage = here.recv()
            assert storage.device == NN and storage.nbytes() == 48, storage
            inbox.put("end")
            child.join()
            assert child.exitcode == 0

            found = list(loader("spawn"))  # its workers return tensors of the device
            assert [x.device for x, _ in found] == [NN, NN]
            assert torch.cat([x for x, _ in found]).cpu()[:, 0].tolist() == list(range(8)), found
        """,
    )


@pytest.mark.multi
def test_a_forked_child_says_what_is_wrong(tmp_path: Path) -> None:
    passes(
        tmp_path,
        """
        def send(queue, pipe, x):
            try: pipe.send(x)
            except RuntimeError as error: assert "forked" in str(error), error
            else: sys.exit(2)
            queue.put(x)
            queue.put("after")

        if __name__ == "__main__":
            x = torch.ones(2, device=NN)
            assert x.tolist() == [1.0, 1.0]
            context = mp.get_context("fork")
            queue, (here, there) = context.Queue(), context.Pipe()
            child = context.Process(target=send, args=(queue, there, x))
            child.start()
            try: queue.get(timeout=60)
            except RuntimeError as error: assert "forked" in str(error), error
            else: sys.exit(3)
            assert queue.get(timeout=60) == "after"  # one message was lost, no more
            child.join()
            assert child.exitcode == 0, child.exitcode
            try: list(loader("fork"))
            except RuntimeError as error: assert "fork" in str(error), error
            else: sys.exit(4)
            assert (x + 1).tolist() == [2.0, 2.0]
        """,
    )


def test_memory_cannot_be_shared() -> None:
    """A model that processes are to train together would be copied, in silence."""
    for share in (
        lambda: torch.nn.Linear(2, 2).to("nntile").share_memory(),
        lambda: torch.ones(2, device="nntile").share_memory_(),
    ):
        with pytest.raises(RuntimeError, match=r"belongs to its process.* on the CPU"):
            share()
    assert torch.nn.Linear(2, 2).share_memory().weight.is_shared()
