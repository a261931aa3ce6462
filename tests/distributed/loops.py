# SPDX-License-Identifier: BSD-3-Clause
"""Loops of accelerate, transformers and Lightning in two processes, on the device or on the CPU.

torchrun --nproc-per-node 2 tests/distributed/loops.py OUT nntile|cpu
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy

import torch_nntile  # noqa: F401 - registers the device

RANK = int(os.environ["RANK"])


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))


def rows() -> torch.utils.data.Dataset[Any]:
    torch.manual_seed(1)
    return torch.utils.data.TensorDataset(torch.randn(64, 8), torch.randint(3, (64,)))


def with_accelerate(device: str) -> list[float]:
    from accelerate import Accelerator

    own = Accelerator(cpu=True)
    assert own.device.type == device and own.num_processes == 2
    net = model()
    parts = own.prepare(
        net,
        torch.optim.SGD(net.parameters(), 0.1),
        torch.utils.data.DataLoader(rows(), 8),  # type: ignore[arg-type]
    )
    net, optimizer, loader = parts
    found = []
    for x, y in loader:
        loss = cross_entropy(net(x), y)
        own.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        found.append(own.gather(loss.detach()[None]).mean().item())
    return found


def with_trainer(device: str) -> list[float]:
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    torch.manual_seed(0)
    net = GPT2LMHeadModel(
        GPT2Config(
            n_layer=1,
            n_embd=16,
            n_head=2,
            vocab_size=32,
            n_positions=16,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=0,
            eos_token_id=0,
        )
    )
    data = [{name: torch.randint(32, (8,)) for name in ("input_ids", "labels")} for _ in range(16)]
    with tempfile.TemporaryDirectory() as folder:
        options = TrainingArguments(
            folder,
            per_device_train_batch_size=2,
            max_steps=3,
            report_to=[],
            save_strategy="no",
            logging_steps=1,
            use_cpu=True,
            disable_tqdm=True,
        )
        trainer = Trainer(net, options, train_dataset=data)
        trainer.train()
    assert next(net.parameters()).device.type == device
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def with_lightning(device: str) -> list[float]:
    import lightning

    import torch_nntile.integrations.lightning  # noqa: F401 - registers its names

    seen = []

    class Net(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = model()

        def training_step(self, batch: Any, _: int) -> torch.Tensor:
            loss = cross_entropy(self.net(batch[0]), batch[1])
            assert loss.device.type == device
            mean = loss.detach().clone()
            dist.all_reduce(mean, dist.ReduceOp.SUM)
            seen.append(mean.item() / 2)
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), 0.1)

    names = {"accelerator": device, "strategy": "nntile_ddp" if device == "nntile" else "ddp"}
    trainer = lightning.Trainer(
        max_epochs=1,
        devices=2,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **names,
    )
    trainer.fit(Net(), torch.utils.data.DataLoader(rows(), 8))  # type: ignore[arg-type]
    return seen


def main(out: str, device: str) -> None:
    warnings.simplefilter("ignore")
    if device == "nntile":
        os.environ["ACCELERATE_TORCH_DEVICE"] = "nntile"
    dist.init_process_group(None if device == "nntile" else "gloo")
    loops = {"accelerate": with_accelerate, "Trainer": with_trainer, "Lightning": with_lightning}
    found = {name: loop(device) for name, loop in loops.items()}
    if RANK == 0:
        Path(out).write_text(json.dumps(found), encoding="utf-8")
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
