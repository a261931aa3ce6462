# SPDX-License-Identifier: BSD-3-Clause
"""Graph mode: record a whole step, make its plan once, and reuse the plan at each later step."""

from __future__ import annotations

import torch

import torch_nntile
from torch_nntile.train_mnist import DeepReLU
from torch_nntile.training import Adam, cross_entropy


def main() -> None:
    torch_nntile.init_context(cpu_fallback=False, runtime_mode="graph")
    generator = torch.Generator().manual_seed(0)
    model = DeepReLU.tiny(generator).to("nntile")
    optimizer = Adam(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    x = torch.randn(256, 128, generator=generator).to("nntile")
    y = torch.randint(10, (256,), generator=generator).to("nntile")

    losses, lowerings = [], []
    for step in range(8):
        before = torch_nntile.stats()
        optimizer.zero_grad()
        loss = cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        assert torch_nntile.has_pending_graph()  # nothing has run yet

        torch_nntile.compile_graph()  # cut it and plan it, or find its plan
        torch_nntile.run_graph()  # submit the tasks; Python goes on
        losses.append(loss.item())  # waits for the loss
        scheduler.step()  # another learning rate is a number, not another graph

        after = torch_nntile.stats()
        lowerings.append(after.lowerings - before.lowerings)
        print(
            f"step {step}: loss {losses[-1]:.4f}, {after.ops - before.ops} ops, "
            f"{after.tasks - before.tasks} tasks, {lowerings[-1]} lowerings"
        )

    assert losses[-1] < losses[0]
    assert lowerings[0] > 0
    assert lowerings[-4:] == [0, 0, 0, 0], "an equal step needs no new plan"
    assert not torch_nntile.has_pending_graph()
    assert torch_nntile.fallback_report() == []


if __name__ == "__main__":
    main()
