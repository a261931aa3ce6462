# SPDX-License-Identifier: BSD-3-Clause
"""Models that people time train ten steps with nothing on the host.

Whole, and with batch and heads cut raggedly: the losses are the CPU's.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from parity import runtime_mode
from stock_models import family, loss_of, moved
from torch import Tensor, nn

import torch_nntile

pytestmark = [
    pytest.mark.usefixtures("rows_only", "one_thread"),
    pytest.mark.filterwarnings("ignore"),
]

STEPS = 10
# Model -> parameters whose first dim is heads x size of a head, and how many heads.
HEADS = {
    "llama": ("q_proj.weight", 4),
    "bert": ("query.weight", 4),
    "vit": ("q_proj.weight", 4),
    "t5": ("SelfAttention.q.weight", 4),
}
MODELS = (
    *("resnet", "lenet", "vgg", "unet", "lstm", "gru", "vit", "gpt2", "llama", "bert", "t5"),
    *("mlp_mixer", "dlrm", "mixtral", "whisper", "mamba", "segformer", "diffusion"),
)
QUICK = ("resnet", "lstm", "llama")


def batch_of(inputs: dict[str, Any]) -> dict[str, Any]:
    """Three examples where there are two: a batch that can be cut raggedly."""

    def more(x: Any) -> Any:
        pair = isinstance(x, Tensor) and x.dim() and x.shape[0] == 2
        return torch.cat([x, x[:1]]) if pair else x

    return {key: more(x) for key, x in inputs.items()}


def losses_of(model: nn.Module, inputs: dict[str, Any]) -> list[float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, inputs)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def cut_raggedly(name: str, model: nn.Module, inputs: dict[str, Any]) -> set[str]:
    """The batch in one row and the others; the heads in one and the others. Names of what was cut."""
    done = set()
    batch = max(x.shape[0] for x in inputs.values() if isinstance(x, Tensor) and x.dim())
    for x in inputs.values():
        if isinstance(x, Tensor) and x.dim() and x.shape[0] == batch and batch > 1:
            torch_nntile.set_axis_group_name(x, {0: "batch"})
            done.add("batch")
    if done:
        torch_nntile.set_axis_group_tiling("batch", [1, batch - 1])
    parameter, heads = HEADS.get(name, ("", 0))
    for key, weight in model.named_parameters():
        if parameter and key.endswith(parameter):
            torch_nntile.set_axis_group_name(weight, {0: "heads"})
            size = weight.shape[0] // heads
            torch_nntile.set_axis_group_tiling("heads", [size, weight.shape[0] - size])
            done.add("heads")
    return done


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in MODELS]
)
@pytest.mark.parametrize("cut", [False, True], ids=["whole", "cut"])
def test_ten_steps(name: str, cut: bool) -> None:
    kind = family(name)
    torch.manual_seed(0)
    model = kind.build().train()
    inputs = batch_of(kind.inputs())
    expected = losses_of(copy.deepcopy(model), inputs)
    with runtime_mode("eager"):
        model, inputs = model.to("nntile"), moved(inputs, "nntile")
        if cut:
            done = cut_raggedly(name, model, inputs)
            assert done == {"batch", "heads"} if name in HEADS else done <= {"batch"}
        torch_nntile.reset_fallback_report()
        found = losses_of(model, inputs)
    assert found == pytest.approx(expected, rel=2e-5)
    assert expected[-1] != expected[0]
    assert torch_nntile.fallback_report() == []
