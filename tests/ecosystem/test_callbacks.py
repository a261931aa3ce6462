# SPDX-License-Identifier: BSD-3-Clause
"""Cuts, profiles and captured steps in the loops of transformers, Lightning and accelerate."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import torch_nntile
from torch_nntile.integrations.loops import Steps

os.environ["HF_HUB_OFFLINE"] = "1"
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The names of a test are not those of the next."""
    monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", "nntile")
    yield
    accelerate = pytest.importorskip("accelerate")
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    if "batch" in torch_nntile.axis_groups():
        torch_nntile.set_axis_group_tiling("batch", "auto")


def parts() -> tuple[nn.Module, torch.optim.Optimizer, Any]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 2))
    x = torch.randn(48, 10)
    data = torch.utils.data.TensorDataset(x, (x.sum(1) > 0).long())
    loader = torch.utils.data.DataLoader(data, batch_size=8)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-2), loader


def trained(captured: bool = False, steps: Steps | None = None) -> tuple[list[float], Any]:
    """A loop with accelerate."""
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator()
    model, optimizer, loader = accelerator.prepare(*parts())

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = F.cross_entropy(model(x), y)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    called: Any = torch_nntile.capture(step) if captured else step
    batches = loader if steps is None else steps.over(loader)
    return [called(x, y).item() for x, y in batches], called


def test_accelerate_cut_and_profiled(tmp_path: Path) -> None:
    expected, _ = trained()
    page, cuts = tmp_path / "step.html", tmp_path / "cuts.txt"
    found, _ = trained(steps=Steps(tiling={"batch": 3}, cuts=cuts, profile=page))
    assert found == pytest.approx(expected, rel=1e-5)
    assert "  cut 3" in torch_nntile.axis_groups()
    assert "axis batch = 3" in cuts.read_text()
    assert "cross_entropy" in page.read_text()

    torch_nntile.set_axis_group_tiling("batch", "auto")
    trained(steps=Steps(cuts=cuts))
    assert "  cut 3" in torch_nntile.axis_groups()


def test_accelerate_captured() -> None:
    expected, _ = trained()
    found, step = trained(captured=True)
    assert found == expected
    assert step.replays >= 3


def test_an_error_in_the_loop_ends_the_profile(tmp_path: Path) -> None:
    page = tmp_path / "step.html"
    batches = Steps(profile=page, profile_step=1).over([torch.ones(2, device="nntile")])
    (next(batches) + 1).cpu()
    batches.close()
    assert page.exists()
    with torch_nntile.profile():  # another one may begin
        pass
    with pytest.raises(ValueError, match="profile_step must be 1"):
        Steps(profile=page, profile_step=0)


def losses_of(trainer: Any) -> list[float]:
    trainer.train()
    return [row["loss"] for row in trainer.state.log_history if "loss" in row]


def arguments(folder: Path, accumulated: int = 1) -> dict[str, Any]:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {"vocab_size": 32, "n_positions": 16, "n_embd": 16, "n_layer": 2, "n_head": 2}
    drops = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    config = transformers.GPT2Config(**sizes, **drops, bos_token_id=1, eos_token_id=2)
    ids = torch.randint(5, 32, (26, 8), generator=torch.Generator().manual_seed(5))
    settings = transformers.TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=4,
        gradient_accumulation_steps=accumulated,
        num_train_epochs=2,
        learning_rate=1e-3,
        logging_steps=1,
        report_to=[],
        disable_tqdm=True,
        save_strategy="no",
    )
    rows = [{"input_ids": i, "labels": i} for i in ids]
    return {
        "model": transformers.GPT2LMHeadModel(config),
        "args": settings,
        "train_dataset": rows,
    }


def test_trainer_captured_cut_and_profiled(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    from torch_nntile.integrations.transformers import CapturedTrainer, NntileCallback

    expected = losses_of(transformers.Trainer(**arguments(tmp_path)))
    trainer = CapturedTrainer(**arguments(tmp_path))
    assert losses_of(trainer) == pytest.approx(expected, rel=1e-5)
    assert trainer._captured is not None and trainer._captured.replays >= 4

    page = tmp_path / "step.html"
    callback = NntileCallback(tiling={"batch": 2}, profile=page)
    cut = transformers.Trainer(**arguments(tmp_path), callbacks=[callback])
    assert losses_of(cut) == pytest.approx(expected, rel=1e-4)
    assert "  cut 2" in torch_nntile.axis_groups()
    assert "layer_norm" in page.read_text() and "adam" in page.read_text()
    assert not cut.model._forward_pre_hooks


def test_trainer_does_not_capture_what_accumulates(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from torch_nntile.integrations.transformers import CapturedTrainer

    with pytest.raises(ValueError, match="gradient_accumulation_steps must be 1, got 3"):
        CapturedTrainer(**arguments(tmp_path, 3)).train()


@pytest.mark.slow
def test_lightning_cut_profiled_and_compiled(tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning")
    from torch_nntile.integrations.lightning import NntileCallback

    class Lit(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.model, _, self.loader = parts()
            self.losses: list[float] = []

        def training_step(self, batch: tuple[Tensor, Tensor], index: int) -> Tensor:
            loss = F.cross_entropy(self.model(batch[0]), batch[1])
            self.losses.append(loss.item())
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), lr=1e-2)

    def fit(model: Any, **settings: Any) -> list[float]:
        quiet = ("logger", "enable_progress_bar", "enable_model_summary", "enable_checkpointing")
        names = {"accelerator": "nntile", "strategy": "nntile", **dict.fromkeys(quiet, False)}
        lightning.Trainer(max_epochs=2, **names, **settings).fit(model, model.loader)
        return copy.copy(model.losses)

    expected, page = fit(Lit()), tmp_path / "step.html"
    callback = NntileCallback(tiling={"batch": 3}, profile=page)
    assert fit(Lit(), callbacks=[callback]) == pytest.approx(expected, rel=1e-5)
    assert "  cut 3" in torch_nntile.axis_groups()
    assert page.exists()
    compiled = Lit()
    compiled.model.compile(backend="nntile")
    assert fit(compiled) == pytest.approx(expected, rel=1e-5)
