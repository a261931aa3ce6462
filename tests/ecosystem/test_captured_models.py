# SPDX-License-Identifier: BSD-3-Clause
"""Models of transformers whose steps look at data or draw on the CPU, until they are told not to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import torch_nntile

transformers: Any = pytest.importorskip("transformers")
DEVICE = "nntile"


def experts(kind: str) -> Any:
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=50, hidden_size=32, intermediate_size=48, moe_intermediate_size=16,
        num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2, num_experts_per_tok=2,
        num_local_experts=4, shared_expert_intermediate_size=16,
    )  # fmt: skip
    return getattr(transformers, f"{kind}ForCausalLM")(config).to(DEVICE)


def speech(**options: Any) -> Any:
    config = transformers.Wav2Vec2Config(
        vocab_size=20, hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=48,
        conv_dim=(16, 16), conv_stride=(5, 2), conv_kernel=(10, 3), num_feat_extract_layers=2,
        num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, layerdrop=0.0, mask_time_length=2,
        **options,
    )  # fmt: skip
    return transformers.Wav2Vec2Model(config).to(DEVICE)


def trained(model: Any, batch: dict[str, Tensor], capture: Callable[[Any], Any]) -> Any:
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    @capture
    def step(batch: dict[str, Tensor]) -> Tensor:
        optimizer.zero_grad()
        found = model(**batch)
        loss: Tensor = found["loss"] if "loss" in found else found[0].square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return [step(batch).item() for _ in range(5)], step


@pytest.mark.parametrize("kind", ["Mixtral", "Qwen2Moe"])
def test_experts(kind: str) -> None:
    words = torch.randint(0, 50, (2, 6)).to(DEVICE)
    batch = {"input_ids": words, "labels": words}
    with pytest.raises(RuntimeError, match=r"inside of a captured function.*; "):
        trained(experts(kind), batch, torch_nntile.capture)

    def run(capture: Callable[[Any], Any]) -> Any:
        torch.manual_seed(0)
        model = experts(kind)
        model.set_experts_implementation("batched_mm")
        return trained(model, batch, capture)

    losses, step = run(torch_nntile.capture)
    assert losses == run(lambda function: function)[0]
    assert step.replays >= 2


def test_masks_of_speech() -> None:
    batch = {"input_values": torch.randn(2, 400).to(DEVICE)}
    with pytest.raises(
        RuntimeError, match=r"what a mask selects.*use torch.where|draws random numbers"
    ):
        trained(speech(), batch, torch_nntile.capture)

    def run(capture: Callable[[Any], Any]) -> Any:
        torch.manual_seed(0)
        return trained(speech(apply_spec_augment=False), batch, capture)

    losses, step = run(torch_nntile.capture)
    assert losses == run(lambda function: function)[0]
    assert step.replays >= 2


def test_tokens_are_drawn_in_captured_steps() -> None:
    """With a cache of one size: the tokens of steps that are not captured, of the same seed."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=50, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).to(DEVICE).eval()

    def spoken(capture: Callable[[Any], Any]) -> tuple[list[int], int]:
        cache = transformers.StaticCache(config=config, max_cache_len=24)

        def step(token: Tensor, at: Tensor) -> Tensor:
            found = model(token, past_key_values=cache, cache_position=at, use_cache=True)
            return torch.multinomial(found.logits[:, -1].softmax(-1), 1)

        torch.manual_seed(1)
        next_token = capture(step)
        with torch.no_grad():
            tokens = [step(torch.tensor([[1, 2, 3]]).to(DEVICE), torch.arange(3).to(DEVICE))]
            for at in range(3, 20):
                before = torch_nntile.stats().ops
                tokens.append(next_token(tokens[-1], torch.tensor([at]).to(DEVICE)))
        return torch.cat(tokens, 1).tolist()[0], torch_nntile.stats().ops - before

    expected, ops = spoken(lambda step: step)
    found, replayed = spoken(torch_nntile.capture)
    assert found == expected
    assert replayed < 5 < ops  # what is done to the tokens outside
    assert len(set(found)) > 5
