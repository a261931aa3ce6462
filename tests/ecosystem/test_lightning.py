# SPDX-License-Identifier: BSD-3-Clause
"""Lightning's Trainer and Fabric, unchanged, with accelerator and strategy "nntile"."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

lightning = pytest.importorskip("lightning")

from lightning.fabric.utilities.exceptions import MisconfigurationException  # noqa: E402

import torch_nntile  # noqa: E402
from torch_nntile.integrations.lightning import (  # noqa: E402
    NntileFabricStrategy,
    NntileStrategy,
)

pytestmark = pytest.mark.filterwarnings("ignore")
NAMES = {"accelerator": "nntile", "strategy": "nntile"}


class Lit(lightning.LightningModule):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 2))
        self.losses: list[float] = []
        self.devices: set[str] = set()

    def training_step(self, batch: tuple[Tensor, Tensor], index: int) -> Tensor:
        x, y = batch
        out = self.model(x)
        self.dtype_of_product = out.dtype
        loss = F.cross_entropy(out, y)
        self.losses.append(loss.item())
        self.devices |= {x.device.type, self.device.type, loss.device.type}
        self.log("loss", loss)
        return loss

    def validation_step(self, batch: tuple[Tensor, Tensor], index: int) -> None:
        self.log("validation", F.cross_entropy(self.model(batch[0]), batch[1]))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


def loader() -> Any:
    x = torch.randn(32, 10, generator=torch.Generator().manual_seed(1))
    data = torch.utils.data.TensorDataset(x, (x.sum(1) > 0).long())
    return torch.utils.data.DataLoader(data, batch_size=8)


def trainer(**settings: Any) -> Any:
    quiet = ("logger", "enable_progress_bar", "enable_model_summary", "enable_checkpointing")
    return lightning.Trainer(**{"max_epochs": 2, **dict.fromkeys(quiet, False), **settings})


def fit(**settings: Any) -> Lit:
    model = Lit()
    trainer(**settings).fit(model, loader(), loader())
    return model


@pytest.mark.parametrize(
    "settings", [{}, {"gradient_clip_val": 0.1, "accumulate_grad_batches": 2}], ids=["", "clipped"]
)
def test_losses_are_those_of_the_cpu(settings: Any) -> None:
    expected = fit(accelerator="cpu", **settings)
    for choice in (NAMES, {"strategy": NntileStrategy()}):
        found = fit(**choice, **settings)
        assert found.devices == {"nntile"}
        assert found.losses == pytest.approx(expected.losses, rel=1e-5)
    assert not torch_nntile.fallback_report()


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [
        ("bf16-mixed", torch.bfloat16),
        ("16-mixed", torch.float16),
        ("bf16-true", torch.bfloat16),
        ("64-true", torch.float64),
    ],
)
def test_precisions(precision: str, dtype: torch.dtype) -> None:
    model = Lit()
    used = trainer(**NAMES, precision=precision)
    used.fit(model, loader())
    assert model.dtype_of_product == dtype
    assert model.devices == {"nntile"}
    assert model.losses == pytest.approx(fit(accelerator="cpu").losses, rel=2e-2)
    if precision == "16-mixed":  # Lightning makes the scaler for CUDA, where it does nothing
        assert used.precision_plugin.scaler.get_scale() > 1


def test_a_checkpoint_continues_and_loads_on_the_cpu(tmp_path: Path) -> None:
    whole = fit(**NAMES, max_epochs=4)
    first = trainer(**NAMES, max_epochs=2)
    first.fit(Lit(), loader())
    first.save_checkpoint(tmp_path / "half.ckpt")
    rest = Lit()
    trainer(**NAMES, max_epochs=4).fit(
        rest, loader(), ckpt_path=tmp_path / "half.ckpt", weights_only=False
    )
    assert rest.losses == whole.losses[8:]
    loaded = Lit.load_from_checkpoint(tmp_path / "half.ckpt", map_location="cpu")
    assert next(loaded.parameters()).device.type == "cpu"
    results = trainer(**NAMES).validate(loaded, loader(), verbose=False)
    assert 0 < results[0]["validation"] < 1


def test_what_would_run_elsewhere_is_refused() -> None:
    for settings in (
        {"accelerator": "nntile"},
        {"strategy": "nntile", "accelerator": "cpu"},
        {**NAMES, "devices": 2},
    ):
        with pytest.raises((ValueError, MisconfigurationException), match="nntile"):
            fit(**settings)


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_fabric(precision: Any) -> None:
    torch.manual_seed(0)
    plain = nn.Linear(5, 3)
    x = torch.randn(8, 5)
    for choice in (NAMES, {"strategy": NntileFabricStrategy()}):
        fabric = lightning.Fabric(**choice, precision=precision)
        model = copy.deepcopy(plain)
        wrapped, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
        loss = wrapped(fabric.to_device(x)).square().mean()
        fabric.backward(loss)
        fabric.clip_gradients(wrapped, optimizer, max_norm=10.0)
        optimizer.step()
        assert loss.device.type == "nntile"
        assert loss.item() == pytest.approx(plain(x).square().mean().item(), rel=2e-2)
        assert model.weight.device.type == "nntile"
