# SPDX-License-Identifier: BSD-3-Clause
"""What torch.nn calls for attention when no gradient is wanted: values and errors of the CPU."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from parity import runtime_mode
from torch import Tensor, nn

import torch_nntile

BATCH, LENGTH, WIDTH, HEADS, INNER = 3, 5, 8, 2, 12

Masks = dict[str, Tensor]
NONE: Masks = {}
FUTURE = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
PADDING = torch.arange(LENGTH) >= torch.tensor([[4], [5], [2]])
SCATTERED = torch.tensor([[0, 1, 0, 0, 1], [0] * 5, [0, 0, 1, 0, 0]], dtype=torch.bool)


def layer(**options: Any) -> nn.TransformerEncoderLayer:
    torch.manual_seed(0)
    made = nn.TransformerEncoderLayer(WIDTH, HEADS, INNER, batch_first=True, **options)
    for parameter in made.parameters():
        if parameter.dim() == 1:
            nn.init.normal_(parameter)
    return made.eval()


def attention() -> nn.MultiheadAttention:
    torch.manual_seed(0)
    made = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    nn.init.normal_(made.in_proj_bias)
    return made.eval()


class Attends(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.inner, self.options = attention(), options

    def forward(self, x: Tensor, **masks: Tensor) -> Any:
        return self.inner(x, x, x, **self.options, **masks)


# By name: the module, and its masks.
CASES: dict[str, tuple[Callable[[], nn.Module], Masks]] = {
    "layer": (layer, NONE),
    "layer, norm first": (lambda: layer(norm_first=True), {"src_mask": FUTURE}),
    "layer, gelu": (lambda: layer(activation="gelu"), {"src_key_padding_mask": PADDING}),
    "layer, both masks": (layer, {"src_mask": FUTURE, "src_key_padding_mask": PADDING}),
    "encoder": (lambda: nn.TransformerEncoder(layer(), 2), NONE),
    "encoder, future": (lambda: nn.TransformerEncoder(layer(), 2), {"mask": FUTURE}),
    "encoder, nested": (
        lambda: nn.TransformerEncoder(layer(), 2),
        {"src_key_padding_mask": PADDING},
    ),
    "encoder, not nested": (
        lambda: nn.TransformerEncoder(layer(), 2),
        {"src_key_padding_mask": SCATTERED},
    ),
    "attention": (Attends, NONE),
    "attention, no weights": (lambda: Attends(need_weights=False), NONE),
    "attention, weights of heads": (lambda: Attends(average_attn_weights=False), NONE),
    "attention, future": (Attends, {"attn_mask": FUTURE}),
    "attention, padding": (Attends, {"key_padding_mask": PADDING}),
    "attention, both": (Attends, {"attn_mask": FUTURE, "key_padding_mask": PADDING}),
    "attention, all masked": (Attends, {"key_padding_mask": PADDING | True}),
}


def results(make: Callable[[], nn.Module], masks: Masks, device: str, batch: int = BATCH) -> Any:
    model = copy.deepcopy(make()).to(device)
    x = torch.randn(batch, LENGTH, WIDTH, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        return model(x.to(device), **{name: mask.to(device) for name, mask in masks.items()})


@pytest.mark.filterwarnings("ignore:.*nested")
@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize("name", CASES)
def test_it_is_the_same(name: str, mode: str) -> None:
    make, masks = CASES[name]
    with runtime_mode(mode):
        found = results(make, masks, "nntile")
        torch.testing.assert_close(
            found, results(make, masks, "cpu"), check_device=False, equal_nan=True
        )


@pytest.mark.filterwarnings("ignore:.*nested")
@pytest.mark.parametrize("name", CASES)
def test_no_part_of_it_runs_on_the_host(name: str) -> None:
    """As one host function it would be one task, of whole tensors."""
    torch_nntile.wait()
    before = torch_nntile.stats().host_calls
    torch_nntile.reset_fallback_report()
    results(*CASES[name], "nntile")
    torch_nntile.wait()
    assert not torch_nntile.fallback_report()
    torch_nntile.wait()
    assert torch_nntile.stats().host_calls == before


def test_no_batch() -> None:
    found = results(layer, NONE, "nntile", 0)
    assert found.shape == (0, LENGTH, WIDTH)


def called(device: str, **changed: Any) -> Any:
    module = attention()
    x = torch.ones(BATCH, LENGTH, WIDTH)
    arguments: dict[str, Any] = {
        "query": x,
        "key": x,
        "value": x,
        "embed_dim": WIDTH,
        "num_head": HEADS,
        "qkv_weight": module.in_proj_weight.detach(),
        "qkv_bias": module.in_proj_bias.detach(),
        "proj_weight": module.out_proj.weight.detach(),
        "proj_bias": module.out_proj.bias.detach(),
        **changed,
    }
    return torch._native_multi_head_attention(
        **{k: v.to(device) if isinstance(v, Tensor) else v for k, v in arguments.items()}
    )


WRONG: dict[str, dict[str, Any]] = {
    "2-D query": {"query": torch.ones(LENGTH, WIDTH)},
    "1-D value": {"value": torch.ones(WIDTH)},
    "longer key": {"key": torch.ones(BATCH, LENGTH + 1, WIDTH)},
    "embed_dim": {"embed_dim": WIDTH + 2},
    "num_head": {"num_head": 3},
    "1-D weight": {"qkv_weight": torch.ones(3 * WIDTH)},
    "rows of weight": {"qkv_weight": torch.ones(2 * WIDTH, WIDTH)},
    "columns of weight": {"qkv_weight": torch.ones(3 * WIDTH, WIDTH + 1)},
    "2-D bias": {"qkv_bias": torch.ones(3 * WIDTH, 1)},
    "short bias": {"qkv_bias": torch.ones(WIDTH)},
    "mask without type": {"mask": FUTURE},
    "mask of type 0": {"mask": FUTURE[:2], "mask_type": 0},
    "mask of type 1": {"mask": FUTURE, "mask_type": 1},
    "mask of type 2": {"mask": FUTURE, "mask_type": 2},
    "mask of type 3": {"mask": FUTURE, "mask_type": 3},
}


@pytest.mark.parametrize("name", WRONG)
def test_errors(name: str) -> None:
    with pytest.raises(RuntimeError) as expected:
        called("cpu", **WRONG[name])
    with pytest.raises(RuntimeError) as found:
        called("nntile", **WRONG[name])
    assert str(found.value) == str(expected.value)
    assert called("nntile")[0].shape == (BATCH, LENGTH, WIDTH)


def test_a_nested_batch_takes_no_mask() -> None:
    for device in ("cpu", "nntile"):
        model = layer().to(device)
        x = torch.nested.as_nested_tensor([torch.ones(n, WIDTH, device=device) for n in (2, 3)])
        attention, feed = model.self_attn, (model.linear1, model.linear2)
        with torch.no_grad(), pytest.raises(RuntimeError, match="NestedTensor with mask"):
            torch._transformer_encoder_layer_fwd(
                *(x, WIDTH, HEADS, attention.in_proj_weight, attention.in_proj_bias),
                *(attention.out_proj.weight, attention.out_proj.bias, False, False, 1e-5),
                *(p for norm in (model.norm1, model.norm2) for p in norm.parameters()),
                *(p for linear in feed for p in linear.parameters()),
                FUTURE[:3, :3].to(device),
                0,
            )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_nothing_of_an_earlier_call_is_left_where_the_scale_is_zero(dtype: torch.dtype) -> None:
    """Its scores are 0 of whatever memory they are written into."""
    attention = nn.functional.scaled_dot_product_attention
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, n, 32).to("nntile", dtype) for n in (70, 130, 130))
    assert attention(torch.full_like(q, torch.nan), k, v).isnan().all()
    assert not attention(q, k, v, scale=0.0).isnan().any()
