# SPDX-License-Identifier: BSD-3-Clause
"""Memory over many steps: shapes that never come again, a full memory, contexts that come and go."""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import threading
import time
from array import array
from typing import Any

import pytest
import torch
from long.watch import MIB, Watch, passes, resident
from torch import nn
from torch.nn import functional as F

import torch_nntile


def lengths(steps: int = 100) -> None:
    """A transformer with batches of 2 to 16 and lengths of 8 to 256."""
    torch.manual_seed(0)
    draw = random.Random(1)
    width, words = 256, 2000
    torch_nntile.init_context(ncpu=2)
    torch.ones(1, device="nntile").item()
    process = resident()
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2)
    model = nn.Sequential(nn.Embedding(words, width), encoder, nn.Linear(width, words)).to("nntile")
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    watch = Watch("lengths of 8 to 256", steps)
    for _ in range(steps):
        x = torch.randint(0, words, (draw.randint(2, 16), draw.randint(8, 256) + 1))
        optimizer.zero_grad()
        logits = model(x[:, :-1].to("nntile")).flatten(0, 1)
        F.cross_entropy(logits, x[:, 1:].to("nntile").flatten()).backward()
        optimizer.step()
        torch_nntile.wait()
        watch.step()
    last = watch.samples[-1]
    largest = max(s.reserved for s in watch.samples)
    print(f"process {process / MIB:.0f} MiB, with it {last.rss / MIB:.0f} MiB resident")
    assert largest < 1.5 * last.peak + 32 * MIB, "idle tiles are kept"
    assert last.rss < process + 1.5 * last.peak + 256 * MIB, "plans take the rest"


def fixed(steps: int = 200) -> None:
    """A loop of one shape takes no fresh page, though it frees and takes all the time."""
    torch.manual_seed(0)
    torch_nntile.init_context(ncpu=2)
    model = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)).to("nntile")
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    x = torch.randn(1024, 512).to("nntile")
    watch = Watch("one shape", steps)
    for _ in range(steps):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        torch_nntile.wait()
        watch.step()
    watch.assert_flat()
    assert watch.samples[-1].faults < 20, "fresh pages in each step"


def full(rounds: int = 30) -> None:
    """Memory fills up, some of it is freed, other sizes follow; from two threads, too."""
    torch_nntile.init_context(ncpu=2, memory="256MiB")
    draw = random.Random(2)

    def fill(elements: int) -> list[torch.Tensor]:
        held: list[torch.Tensor] = []
        try:
            while True:
                held.append(torch.full((elements,), float(len(held)), device="nntile"))
        except torch.OutOfMemoryError:
            return held

    def fill_and_drop() -> None:
        fill(MIB)

    watch = Watch("full memory", rounds)
    for _ in range(rounds):
        held = fill(draw.randint(50_000, 3_000_000))
        assert all(x[-1].item() == k for k, x in enumerate(held))
        del held[::2]
        half = held[0].numel() // 2
        assert torch.ones(half, device="nntile").sum().item() == half
        del held
        threads = [threading.Thread(target=fill_and_drop) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        torch_nntile.wait()
        watch.step()
        assert watch.samples == [] or watch.samples[-1].in_use == 0, "nobody holds anything"
    watch.assert_flat(plans=False, lowerings=False, slower=3)


def contexts(rounds: int = 40) -> None:
    """A context, some training, its end; again and again."""
    watch = Watch("contexts", rounds)
    for i in range(rounds):
        torch_nntile.init_context(ncpu=2)
        layer = nn.Linear(64 + i, 64).to("nntile")
        layer(torch.ones(8, 64 + i, device="nntile")).sum().backward()
        assert layer.weight.grad is not None
        assert torch.equal(layer.weight.grad.cpu(), torch.full((64, 64 + i), 8.0))
        watch.step()
        torch_nntile.shutdown_context()
    watch.assert_flat(plans=False, lowerings=False)


def sizes(calls: int = 1_000_000, held: int = 64, **limits: Any) -> None:
    """Tensors of ever other sizes, each in the place of another: an allocation a call.

    A call records, and one of sixty ends a graph, which is a new one each time.
    """
    torch_nntile.init_context(ncpu=2, **limits)
    draw = random.Random(3)
    each = calls // 1000
    tensors = [torch.zeros(1, device="nntile") for _ in range(held)]
    seconds = array("d")
    watch = Watch("changing sizes", 1000)
    for _ in range(1000):
        for _ in range(each):
            elements = int(2 ** draw.uniform(0, 17))
            begin = time.perf_counter()
            tensors[draw.randrange(held)] = torch.full((elements,), 1.0, device="nntile")
            seconds.append(time.perf_counter() - begin)
        torch_nntile.wait()
        watch.step()
    watch.assert_flat(plans=False, lowerings=False)
    median = statistics.median(seconds)
    rare = [s for s in seconds if s > 10 * median]
    print(
        f"median {median * 1e6:.1f} us; {len(rare) / calls:.2%} above ten times that: "
        f"median {statistics.median(rare) * 1e6:.0f} us, longest {max(rare) * 1e3:.1f} ms"
    )
    assert all(x.sum().item() == x.numel() for x in tensors)


def sizes_on_disk() -> None:
    """Likewise, where a third of what is held has to be on the disk."""
    with tempfile.TemporaryDirectory() as folder:
        sizes(100_000, memory="2MiB", swap=folder, swap_size="256MiB")
        assert torch.nntile.memory_stats()["evictions"] > 10_000


PARTS = {f.__name__: f for f in (lengths, fixed, full, contexts, sizes, sizes_on_disk)}


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_memory(part: str) -> None:
    passes(__file__, part)


if __name__ == "__main__":
    PARTS[sys.argv[1]]()
