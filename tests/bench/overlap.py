# SPDX-License-Identifier: BSD-3-Clause
"""How much of the network's time backward hides, between two network namespaces. As root:

    python tests/bench/overlap.py [MBIT]

Makes two namespaces with a link of so many Mbit/s (1000), runs a process in each, and removes them.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from typing import Any

NAMES = ("nntile_bench0", "nntile_bench1")
BUCKET_MIB = 4
LAYERS, WIDTH, ROWS = 12, 1024, 1024


def measure() -> None:
    """In one of the processes: a step with and without its transfers, and these alone."""
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    import torch_nntile

    device = os.environ["DEVICE"]
    torch.set_num_threads(1)
    torch_nntile.init_context(ncpu=1)
    dist.init_process_group()
    torch.manual_seed(0)
    layers = [part for _ in range(LAYERS) for part in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    model = DistributedDataParallel(
        nn.Sequential(*layers).to(device), bucket_cap_mb=BUCKET_MIB, gradient_as_bucket_view=True
    )
    x = torch.randn(ROWS, WIDTH).to(device)
    gradients = [torch.ones(WIDTH * WIDTH, device=device) for _ in range(LAYERS)]

    def step() -> None:
        model(x).square().mean().backward()

    def alone() -> None:
        with model.no_sync():
            step()

    def transfers() -> None:
        for gradient in gradients:
            dist.all_reduce(gradient, dist.ReduceOp.MAX)

    def timed(run: Any) -> float:
        dist.barrier()
        start = time.perf_counter()
        run()
        torch.nntile.synchronize()  # type: ignore[attr-defined]
        return time.perf_counter() - start

    runs = (step, alone, transfers)
    for run in runs:
        timed(run)
        timed(run)
    rounds = [[timed(run) for run in runs] for _ in range(5)]
    whole, work, network = (statistics.median(column) for column in zip(*rounds, strict=True))
    if dist.get_rank() == 0:
        hidden = (work + network - whole) / network
        print(
            f"{device}: step {whole:.3f} s, without transfers {work:.3f}, transfers alone "
            f"{network:.3f}: {hidden:.0%} hidden"
        )
    dist.destroy_process_group()


def sh(command: str, check: bool = True) -> None:
    subprocess.run(command, shell=True, check=check, stderr=None if check else subprocess.DEVNULL)


def remove() -> None:
    for name in NAMES:
        sh(f"ip netns del {name}", check=False)


def main(mbit: str = "1000") -> None:
    remove()
    for name in NAMES:
        sh(f"ip netns add {name}")
    sh(f"ip link add nnb0 netns {NAMES[0]} type veth peer name nnb1 netns {NAMES[1]}")
    for rank, name in enumerate(NAMES):
        run = f"ip netns exec {name}"
        sh(f"{run} ip addr add 10.77.77.{rank + 1}/24 dev nnb{rank}")
        sh(f"{run} ip link set nnb{rank} up && {run} ip link set lo up")
        sh(f"{run} tc qdisc add dev nnb{rank} root tbf rate {mbit}mbit burst 256kb latency 50ms")
    for device in ("nntile", "cpu"):
        processes = []
        for rank, name in enumerate(NAMES):
            environment = {
                **os.environ,
                "RANK": str(rank),
                "WORLD_SIZE": "2",
                "LOCAL_WORLD_SIZE": "2",
                "MASTER_ADDR": "10.77.77.1",
                "MASTER_PORT": "29400",
                "GLOO_SOCKET_IFNAME": f"nnb{rank}",
                "DEVICE": device,
                "OMP_NUM_THREADS": "1",
            }
            command = ["ip", "netns", "exec", name, sys.executable, "-W", "ignore", __file__]
            processes.append(subprocess.Popen([*command, "--measure"], env=environment))
        codes = [process.wait() for process in processes]  # of all
        if any(codes):
            sys.exit(1)


if __name__ == "__main__":
    if sys.argv[1:] == ["--measure"]:
        measure()
    else:
        try:
            main(*sys.argv[1:])
        finally:
            remove()
