# SPDX-License-Identifier: BSD-3-Clause
"""DistributedDataParallel in two processes: the losses of one process with the whole batch.

    torchrun --nproc-per-node 2 examples/08_two_processes.py

Without torchrun the program starts it.
"""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.run import main as torchrun
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel


def made() -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 4))
    return model, torch.randn(512, 20), torch.randint(4, (512,))


def train(model: nn.Module, x: Tensor, y: Tensor, steps: int = 10) -> list[Tensor]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(steps):
        loss = cross_entropy(model(x), y)
        loss.backward()  # gradients are averaged over processes while others are computed
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return losses


def main() -> None:
    dist.init_process_group()  # for the device, and for tensors of the CPU
    rank, count = dist.get_rank(), dist.get_world_size()
    model, x, y = made()
    own_x, own_y = (part.chunk(count)[rank].to("nntile") for part in (x, y))
    losses = train(DistributedDataParallel(model.to("nntile")), own_x, own_y)
    for loss in losses:
        dist.all_reduce(loss, dist.ReduceOp.AVG)  # nobody waits here: it is recorded
    found = [loss.item() for loss in losses]
    if rank == 0:
        wanted = [loss.item() for loss in train(*made())]
        for step in range(0, 10, 3):
            print(f"step {step}: {count} processes {found[step]:.6f}, one {wanted[step]:.6f}")
        assert max(abs(a - b) for a, b in zip(found, wanted, strict=True)) < 1e-5
    dist.destroy_process_group()


if __name__ == "__main__":
    if "RANK" in os.environ:
        main()
    else:
        torchrun(["--standalone", "--nproc-per-node", "2", __file__])
