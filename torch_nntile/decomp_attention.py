# SPDX-License-Identifier: BSD-3-Clause
"""What torch.nn calls for attention when no gradient is wanted (its "fast path").

The formulas are those of torch.nn.MultiheadAttention and torch.nn.TransformerEncoderLayer. As parts
they are cut like in training; a call as a whole would be one task of the host. Messages of errors
are PyTorch's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["COMPOSITIONS", "NESTED"]

_SRC, _PADDING, _FULL = range(3)  # kinds of masks: (T, T), (batch, T), as the scores


def masked_softmax(
    self: Tensor, mask: Tensor, dim: int | None = None, mask_type: int | None = None
) -> Tensor:
    """Softmax of scores (batch, heads, T, T); mask: True, or not 0, where a score does not count."""
    if mask_type is None:
        raise RuntimeError("Mask Type should be defined")
    if mask_type not in (_SRC, _PADDING, _FULL):
        raise RuntimeError(
            "Mask Type should be 0 (src_mask) or 1 (src_key_padding_mask), or 2 (default_mask)"
        )
    batch, length = self.shape[0], self.shape[-1]
    if mask_type == _SRC and mask.shape != self.shape[-2:]:
        raise RuntimeError("For mask_type == 0 mask shape should be (L, L)")
    if mask_type == _PADDING and mask.shape != (batch, length):
        raise RuntimeError("For mask_type == 1 mask shape should be (B, L)")
    if mask_type == _FULL and mask.shape != self.shape:
        raise RuntimeError("For mask_type == 2 mask shape should match input shape")
    if mask_type == _PADDING:
        mask = mask.view(batch, *[1] * (self.dim() - 2), length)
    scores = self.masked_fill(mask.to(torch.bool), -math.inf)
    return scores.softmax(self.dim() - 1 if dim is None else dim)


def _check_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
) -> None:
    def check(right: bool, message: str) -> None:
        if not right:
            raise RuntimeError(message)

    def check_dims(dims: int, name: str, x: Tensor) -> None:
        check(x.dim() == dims, f"expected {dims}-D `{name}`, got {x.dim()}-D tensor")

    check_dims(3, "query", query)
    check(
        query.shape[2] == embed_dim,
        f"passed-in embed_dim {embed_dim} didn't match last dim of query {query.shape[2]}",
    )
    check_dims(3, "key", key)
    check_dims(3, "value", value)
    check(
        query.shape == key.shape == value.shape,
        "expected `query`/`key`/`value` shapes to match",
    )
    check_dims(2, "qkv_weight", qkv_weight)
    rows, columns = qkv_weight.shape
    check(rows == 3 * embed_dim, "expected `qkv_weight` first dim to be 3x embed_dim")
    check(columns == embed_dim, "expected `qkv_weight` second dim to be embed_Dim")
    check_dims(1, "qkv_bias", qkv_bias)
    check(
        len(qkv_bias) == 3 * embed_dim,
        "expected `qkv_bias` first dim and first dim of query to be equal",
    )
    check(embed_dim % num_head == 0, "`embed_dim` must divide evenly by `num_heads`")


def multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Tensor, Tensor | None]:
    _check_attention(query, key, value, embed_dim, num_head, qkv_weight, qkv_bias)
    if not query.numel():
        return torch.empty_like(query), None
    batch, length, _ = query.shape

    def heads(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return F.linear(x, weight, bias).view(batch, length, num_head, -1).transpose(1, 2)

    inputs = zip((query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3), strict=True)
    q, k, v = (heads(*parts) for parts in inputs)
    scores = (q * (embed_dim // num_head) ** -0.5) @ k.transpose(-2, -1)
    weights = scores.softmax(-1) if mask is None else masked_softmax(scores, mask, -1, mask_type)
    found = F.linear((weights @ v).transpose(1, 2).flatten(2), proj_weight, proj_bias)
    if not need_weights:
        return found, None
    return found, weights.mean(1) if average_attn_weights else weights


def encoder_layer(
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Tensor:
    if not src.numel():
        return src.clone()

    def attention(x: Tensor) -> Tensor:
        parameters = (qkv_weight, qkv_bias, proj_weight, proj_bias)
        return multi_head_attention(
            x,
            x,
            x,
            embed_dim,
            num_heads,
            *parameters,
            mask,
            need_weights=False,
            mask_type=mask_type,
        )[0]

    def feed_forward(x: Tensor) -> Tensor:
        hidden = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(hidden) if use_gelu else hidden.relu(), ffn_weight_2, ffn_bias_2)

    def norm_1(x: Tensor) -> Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def norm_2(x: Tensor) -> Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    if norm_first:
        x = src + attention(norm_1(src))
        return x + feed_forward(norm_2(x))
    x = norm_1(src + attention(src))
    return norm_2(x + feed_forward(x))


# ---- sequences that differ in length: nested tensors of shapes (length, width)


def left_aligned(t: Tensor, mask: Tensor) -> bool:
    return torch._nested_tensor_from_mask_left_aligned(_shape_of(t), mask.cpu())


def nested_from_mask(t: Tensor, mask: Tensor, mask_check: bool = True) -> Tensor:
    """t: (batch, length, width); mask: (batch, length), True where a sequence is not padded."""
    return _packed(t, torch._nested_tensor_from_mask(_shape_of(t), mask.cpu(), mask_check))


def nested_encoder_layer(src: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Padded, with a mask, and packed again."""
    lengths = _lengths(src)
    if not any(lengths):
        return src.clone()
    padded = src.to_padded_tensor(0.0)
    mask = torch.arange(max(lengths)) >= torch.tensor(lengths).unsqueeze(1)
    kwargs |= {"mask": mask.to(src.device), "mask_type": _PADDING}
    return _packed(encoder_layer(padded, *args, **kwargs), src)


def _shape_of(t: Tensor) -> Tensor:
    """A tensor of the host: PyTorch checks its shape, and counts by the mask alone."""
    return torch.zeros((), dtype=t.dtype).expand(t.shape)


def _lengths(nested: Tensor) -> list[int]:
    sizes: list[list[int]] = nested._nested_tensor_size().tolist()
    return [size[0] for size in sizes]


def _packed(padded: Tensor, like: Tensor) -> Tensor:
    """The first elements of each sequence, as many as `like` has."""
    parts = [x[:length] for x, length in zip(padded, _lengths(like), strict=True)]
    return torch._nested_view_from_buffer(
        torch.cat(parts).view(-1),
        like._nested_tensor_size(),
        like._nested_tensor_strides(),
        like._nested_tensor_storage_offsets(),
    )


COMPOSITIONS: dict[str, Callable[..., Any]] = {
    "_masked_softmax": masked_softmax,
    "_native_multi_head_attention": multi_head_attention,
    "_transformer_encoder_layer_fwd": encoder_layer,
    "_nested_tensor_from_mask": nested_from_mask,
    "_nested_tensor_from_mask_left_aligned": left_aligned,
}

# Of nested tensors: other calls of theirs are PyTorch's views, or run on the host.
NESTED: dict[str, Callable[..., Any]] = {"_transformer_encoder_layer_fwd": nested_encoder_layer}
