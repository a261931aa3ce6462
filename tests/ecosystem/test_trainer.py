# SPDX-License-Identifier: BSD-3-Clause
"""transformers' Trainer, loading and pipelines, unchanged. Models are built here: nothing is loaded."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

os.environ["HF_HUB_OFFLINE"] = "1"
transformers = pytest.importorskip("transformers")

from accelerate.state import AcceleratorState  # noqa: E402

from torch_nntile import notices  # noqa: E402
from torch_nntile.integrations.transformers import KeepRandomState  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.* runs on the host")
VOCABULARY = 32


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", "nntile")
    monkeypatch.setattr(notices, "_left", False)
    transformers.logging.set_verbosity_error()
    yield
    AcceleratorState._reset_state(reset_partial_state=True)


def make_model(dropout: float = 0.0) -> Any:
    torch.manual_seed(0)
    sizes = {"vocab_size": VOCABULARY, "n_positions": 16, "n_embd": 16, "n_layer": 2, "n_head": 2}
    drops = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), dropout)
    ends = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, **drops, **ends))


def data() -> list[dict[str, torch.Tensor]]:
    ids = torch.randint(5, VOCABULARY, (16, 8), generator=torch.Generator().manual_seed(5))
    return [{"input_ids": i, "attention_mask": torch.ones_like(i), "labels": i} for i in ids]


def make_trainer(folder: Path, model: Any = None, callbacks: Any = None, **settings: Any) -> Any:
    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=4,
        num_train_epochs=1,
        learning_rate=1e-3,
        logging_steps=1,
        report_to=[],
        disable_tqdm=True,
        **{"save_strategy": "no", **settings},
    )
    rows = data()
    return transformers.Trainer(
        model=model or make_model(),
        args=arguments,
        train_dataset=rows,
        eval_dataset=rows[:4],
        callbacks=callbacks,
    )


def losses_of(trainer: Any, **settings: Any) -> list[float]:
    trainer.train(**settings)
    return [row["loss"] for row in trainer.state.log_history if "loss" in row]


def test_losses_are_those_of_the_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {
        "gradient_accumulation_steps": 2,
        "max_grad_norm": 0.5,
        "lr_scheduler_type": "cosine",
    }
    trainer = make_trainer(tmp_path, **settings)
    assert trainer.args.device.type == trainer.accelerator.device.type == "nntile"
    found = losses_of(trainer)
    evaluated = trainer.evaluate()["eval_loss"]
    assert next(trainer.model.parameters()).device.type == "nntile"

    monkeypatch.delenv("ACCELERATE_TORCH_DEVICE")
    on_cpu = make_trainer(tmp_path, use_cpu=True, **settings)
    assert found == pytest.approx(losses_of(on_cpu), rel=1e-4)
    assert evaluated == pytest.approx(on_cpu.evaluate()["eval_loss"], rel=1e-4)


def test_bf16_by_the_variable_of_accelerate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`TrainingArguments(bf16=True)` knows a list of devices, and refuses before it looks at ours."""
    with pytest.raises(ValueError, match="doesn't support bf16"):
        make_trainer(tmp_path, bf16=True)
    expected = losses_of(make_trainer(tmp_path))
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    trainer = make_trainer(tmp_path)
    dtypes = set()
    block = trainer.model.transformer.h[0].mlp.c_fc
    block.register_forward_hook(lambda module, args, out: dtypes.add(out.dtype))
    assert losses_of(trainer) == pytest.approx(expected, rel=1e-2)
    assert dtypes == {torch.bfloat16}


def test_a_resumed_run_is_the_whole_run(tmp_path: Path) -> None:
    settings: Any = {"save_strategy": "steps", "save_steps": 2}
    whole = losses_of(make_trainer(tmp_path, make_model(0.3), [KeepRandomState()], **settings))
    torch.manual_seed(99)
    resumed = make_trainer(tmp_path, make_model(0.3), [KeepRandomState()], **settings)
    checkpoint = str(tmp_path / "checkpoint-2")
    assert losses_of(resumed, resume_from_checkpoint=checkpoint) == whole
    assert next(resumed.model.parameters()).device.type == "nntile"


def test_a_model_that_leaves_is_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ACCELERATE_TORCH_DEVICE")
    with pytest.warns(UserWarning, match="ACCELERATE_TORCH_DEVICE"):
        trainer = make_trainer(tmp_path, make_model().to("nntile"))
    assert next(trainer.model.parameters()).device.type == "cpu"


@pytest.mark.parametrize(
    "place",
    [
        {"device_map": "nntile"},
        {"device_map": {"": "nntile:0"}},
        {"device_map": "nntile", "dtype": torch.bfloat16},
        {"device_map": "auto", "max_memory": {0: "1GiB"}},  # 0 is PyTorch's current accelerator
    ],
    ids=["name", "map", "bf16", "auto"],
)
def test_from_pretrained(place: Any, tmp_path: Path) -> None:
    model = make_model().eval()
    model.save_pretrained(tmp_path)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, **place)
    assert loaded.device.type == "nntile"
    ids = data()[0]["input_ids"][None]
    found = loaded(ids.to("nntile")).logits.float().cpu()
    torch.testing.assert_close(found, model(ids).logits, rtol=0.05, atol=0.02)


def test_auto_alone_takes_the_cpu(tmp_path: Path) -> None:
    """accelerate counts the memory of devices on its list only: documented, and seen if it changes."""
    make_model().save_pretrained(tmp_path)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, device_map="auto")
    assert loaded.device.type == "cpu"


def test_a_pipeline() -> None:
    np = pytest.importorskip("numpy")
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        image_size=32,
        patch_size=8,
        num_labels=3,
    )
    model = transformers.ViTForImageClassification(config).eval()
    processor = transformers.ViTImageProcessor(size={"height": 32, "width": 32})
    pixels = np.random.RandomState(0).randint(0, 255, (32, 32, 3), dtype=np.uint8)
    image = pytest.importorskip("PIL.Image").fromarray(pixels)
    answers = []
    for device in ("cpu", "nntile"):
        run = transformers.pipeline(
            "image-classification", model=model, image_processor=processor, device=device
        )
        assert run.device.type == device
        answers.append({row["label"]: row["score"] for row in run(image)})
    assert answers[1] == pytest.approx(answers[0], rel=1e-4)
