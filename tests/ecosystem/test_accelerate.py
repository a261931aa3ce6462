# SPDX-License-Identifier: BSD-3-Clause
"""accelerate with ACCELERATE_TORCH_DEVICE=nntile, its own way to name a device."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

accelerate = pytest.importorskip("accelerate")

import torch_nntile  # noqa: E402
from torch_nntile import notices  # noqa: E402
from torch_nntile.integrations.accelerate import RandomState  # noqa: E402


def reset() -> None:
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", "nntile")
    monkeypatch.setattr(notices, "_left", False)
    reset()
    yield
    reset()


def parts(dropout: float = 0.0) -> tuple[nn.Module, torch.optim.Optimizer, Any]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, 2))
    x = torch.randn(32, 10)
    data = torch.utils.data.TensorDataset(x, (x.sum(1) > 0).long())
    loader = torch.utils.data.DataLoader(data, batch_size=8)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-2), loader


def epoch(accelerator: Any, model: Any, optimizer: Any, loader: Any) -> list[float]:
    losses = []
    for x, y in loader:
        with accelerator.accumulate(model):
            with accelerator.autocast():
                loss = F.cross_entropy(model(x), y)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(accelerator.gather(loss.detach()).item())
    return losses


@pytest.mark.parametrize(
    ("settings", "rel"),
    [({}, 1e-5), ({"gradient_accumulation_steps": 2}, 1e-5), ({"mixed_precision": "bf16"}, 1e-2)],
    ids=["plain", "accumulated", "bf16"],
)
def test_losses_are_those_of_the_cpu(
    settings: Any, rel: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    accelerator = accelerate.Accelerator(**settings)
    model, optimizer, loader = accelerator.prepare(*parts())
    found = epoch(accelerator, model, optimizer, loader)
    assert accelerator.device.type == next(model.parameters()).device.type == "nntile"
    assert not torch_nntile.fallback_report()

    reset()
    monkeypatch.delenv("ACCELERATE_TORCH_DEVICE")
    on_cpu = accelerate.Accelerator(cpu=True, **settings)
    assert found == pytest.approx(epoch(on_cpu, *on_cpu.prepare(*parts())), rel=rel)


def test_fp16_is_refused_by_accelerate() -> None:
    with pytest.raises(ValueError, match="fp16 mixed precision requires a device"):
        accelerate.Accelerator(mixed_precision="fp16")


def test_a_state_continues_with_the_same_dropout(tmp_path: Path) -> None:
    accelerator = accelerate.Accelerator()
    prepared = accelerator.prepare(*parts(dropout=0.5))
    accelerator.register_for_checkpointing(RandomState())
    epoch(accelerator, *prepared)
    accelerator.save_state(tmp_path / "state")
    second = epoch(accelerator, *prepared)

    torch.manual_seed(123)
    accelerator.load_state(tmp_path / "state")
    assert epoch(accelerator, *prepared) == second
    accelerator.save_model(prepared[0], tmp_path / "model")
    assert (tmp_path / "model" / "model.safetensors").exists()


def test_a_model_that_leaves_is_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ACCELERATE_TORCH_DEVICE")
    accelerator = accelerate.Accelerator()
    model = nn.Linear(2, 2).to("nntile")
    with pytest.warns(UserWarning, match=r"nntile.*ACCELERATE_TORCH_DEVICE") as caught:
        assert accelerator.prepare(model).weight.device.type == "cpu"
    assert len(caught) == 1

    reset()
    monkeypatch.setattr(notices, "_left", False)
    asked_for = accelerate.Accelerator(cpu=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asked_for.prepare(nn.Linear(2, 2).to("nntile"))


def test_big_models_by_parts() -> None:
    with accelerate.init_empty_weights():
        empty = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 3))
    assert empty[0].weight.is_meta
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 3))
    x = torch.randn(2, 4)
    expected = model(x)
    parted = accelerate.dispatch_model(model, {"0": "nntile", "1": "cpu"})
    found = parted(x.to("nntile"))
    torch.testing.assert_close(found.cpu(), expected)
