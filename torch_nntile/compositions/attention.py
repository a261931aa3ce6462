# SPDX-License-Identifier: BSD-3-Clause
"""Attention: where the CPU's kernel is called, and torch.nn's "fast path" without gradients.

The latter are PyTorch's own functions (decomposed.py), of which the parts are here that are kernels
of the CPU. Messages of errors are PyTorch's.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import functional as F
from torch.nn.attention import SDPBackend
from torch.utils._python_dispatch import _disable_current_modes

from torch_nntile import versions
from torch_nntile.compositions.registry import composition, derivative, of_nested

__all__ = ["is_usual"]

_SRC, _PADDING, _FULL = range(3)  # kinds of masks: (T, T), (batch, T), as the scores
_PARAMETERS = 17  # of _transformer_encoder_layer_fwd(), between src and mask
_FLASH = SDPBackend.FLASH_ATTENTION.value


@composition("scaled_dot_product_attention", above_autograd=True)
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """The CPU's kernel where the CPU would take it, as a row of ours; else PyTorch's formula.

    The kernel's result is like `query`, of shape (batch, heads, length, size), and its gradients are
    (batch, length, heads, size) in memory, whatever the operands are. So a model that makes heads by
    view() and transpose() undoes both without a copy, here as there.
    """
    if versions.ATTENTION_OF_THREE_DIMS and query.dim() == key.dim() == value.dim() == 3:
        if attn_mask is not None and attn_mask.dim() in (1, 3):
            attn_mask = attn_mask.unsqueeze(0)
        q, k, v = (x.unsqueeze(0) for x in (query, key, value))
        of_one = scaled_dot_product_attention(
            q, k, v, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
        return of_one.squeeze(0)
    operands = (query, key, value, *(() if attn_mask is None else (attn_mask,)))
    fast = attn_mask is None or not attn_mask.requires_grad
    fast = fast and (attn_mask is None or not is_causal or versions.CAUSAL_TAKES_A_MASK)
    fast = fast and is_usual(*operands)
    fast = fast and _cpu_has_kernel(
        _signatures(operands),
        dropout_p,
        is_causal,
        enable_gqa,
        torch.backends.cuda.flash_sdp_enabled(),
    )
    result: Tensor
    if fast:
        if enable_gqa and key.shape[1] != query.shape[1]:
            repeats = query.shape[1] // key.shape[1]
            key, value = (_repeated(x, repeats) for x in (key, value))
        result, _ = torch._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale
        )
    else:
        formula = torch.ops.aten.scaled_dot_product_attention.default.decompose
        options = {"scale": scale, "enable_gqa": enable_gqa}
        result = formula(query, key, value, attn_mask, dropout_p, is_causal, **options)
    return result


def _repeated(x: Tensor, repeats: int) -> Tensor:
    """Each head so often. The gradient of a slice is made anew, here while heads and length are swapped."""
    if x.requires_grad:
        x = x.transpose(1, 2).narrow(0, 0, x.shape[0]).transpose(1, 2)
    return x.repeat_interleave(repeats, 1)


def is_usual(*tensors: Tensor | None) -> bool:
    """On one device, outside of forward mode and vmap(): a row with gradients of its own can take them.

    Rows have no derivative in forward mode, and vmap() would call them for each element.
    """
    given = [x for x in tensors if x is not None]
    return forward_ad._current_level < 0 and all(
        x.device == given[0].device and not _is_batched(x) for x in given
    )


def _is_batched(x: Tensor) -> bool:
    """Whether vmap() is among the transforms that wrap it."""
    functorch = torch._C._functorch
    while functorch.is_functorch_wrapped_tensor(x):
        if functorch.is_batchedtensor(x):
            return True
        x = functorch.get_unwrapped(x)
    return False


@derivative("_scaled_dot_product_flash_attention_for_cpu_backward")
def flash_attention_backward(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The row; where it is differentiated itself, which the CPU refuses, a formula of its own."""
    inputs = (grad_out, query, key, value)
    if not (torch.is_grad_enabled() and any(x.requires_grad for x in inputs)):
        with torch._C._AutoDispatchBelowAutograd():
            found: tuple[Tensor, Tensor, Tensor]
            found = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
                *inputs,
                *(out, logsumexp, dropout_p, is_causal),
                attn_mask=attn_mask,
                scale=scale,
            )
            return found
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = query @ key.transpose(-2, -1) * factor
    if is_causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -math.inf)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, -math.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    weights = torch._safe_softmax(scores, -1)
    slopes = grad_out @ value.transpose(-2, -1)
    slopes = weights * (slopes - (weights * slopes).sum(-1, keepdim=True)) * factor
    return slopes @ key, slopes.transpose(-2, -1) @ query, weights.transpose(-2, -1) @ grad_out


def _signatures(operands: tuple[Tensor, ...]) -> tuple[tuple[Any, ...], ...]:
    """Shape, whether the last dim is dense, and dtype of query, key, value and the mask if there is one.

    Lengths are compared with each other only, so they are counted: the second other one is 3, whatever
    it is. Else each token that is generated would ask PyTorch anew. A size that torch.compile() keeps
    open counts as that of its example, None if it has none.
    """
    numbers: dict[int, int] = {}

    def counted(n: int | None) -> int | None:
        return n if n is None or n < 2 else numbers.setdefault(n, len(numbers) + 2)

    found = []
    for k, x in enumerate(operands):
        shape: list[int | None] = [
            n.node.hint if isinstance(n, torch.SymInt) else n for n in x.shape
        ]
        if len(shape) > 1:
            shape[-2] = counted(shape[-2])
            if k == 3:  # the mask's last dim is the length of key
                shape[-1] = counted(shape[-1])
        found.append((tuple(shape), bool(x.dim() > 0 and x.stride(-1) == 1), x.dtype))
    return tuple(found)


@functools.lru_cache(4096)
def _cpu_has_kernel(
    signatures: tuple[Any, ...], dropout_p: float, is_causal: bool, enable_gqa: bool, _: bool
) -> bool:
    """PyTorch decides by kinds of shapes, dtypes, and whether last dims are dense; stand-ins have no data.

    The last argument is the user's setting, which PyTorch reads itself. What PyTorch refuses before
    it decides is none of the kernel's.
    """
    if any(None in shape for shape, _, _ in signatures):
        return False

    def stand_in(shape: tuple[int, ...], dense: bool, dtype: torch.dtype) -> Tensor:
        data = torch.zeros(shape[-1] if dense else 1, dtype=dtype, device="cpu")
        return data.as_strided(shape, (*[0] * len(shape[1:]), int(dense))[: len(shape)])

    try:
        with _disable_current_modes():  # who traces should not see it
            query, key, value, *masks = (stand_in(*signature) for signature in signatures)
            mask = masks[0] if masks else None
            F.scaled_dot_product_attention(
                *(query.to("meta"), key.to("meta"), value.to("meta")),
                *(mask if mask is None else mask.to("meta"), dropout_p),
                enable_gqa=enable_gqa,
            )
            choice = torch._fused_sdp_choice(
                query, key, value, mask, dropout_p, is_causal, enable_gqa=enable_gqa
            )
    except RuntimeError:  # the formula will say it
        return False
    return choice == _FLASH


@composition("_masked_softmax")
def masked_softmax(
    self: Tensor, mask: Tensor, dim: int | None = None, mask_type: int | None = None
) -> Tensor:
    """Softmax of scores (batch, heads, T, T); mask: True where a score does not count."""
    batch, length = self.shape[0], self.shape[-1]
    shapes = {_SRC: self.shape[-2:], _PADDING: (batch, length), _FULL: self.shape}
    fits = mask_type in shapes and mask.shape == shapes[mask_type] and mask.dtype == torch.bool
    if not fits:
        torch._masked_softmax(_shape_of(self), _shape_of(mask), dim, mask_type)  # PyTorch's error
    if mask_type == _PADDING:
        mask = mask.view(batch, *[1] * (self.dim() - 2), length)
    scores = self.masked_fill(mask, -math.inf)
    return scores.softmax(self.dim() - 1 if dim is None else dim)


@composition("_transform_bias_rescale_qkv")
def projected_heads(qkv: Tensor, qkv_bias: Tensor, num_heads: int) -> tuple[Tensor, ...]:
    """Query, key and value, (batch, heads, length, size) each, of products (batch, length, 3 * width)."""
    q, k, v = (qkv + qkv_bias).unflatten(2, (3, num_heads, -1)).permute(2, 0, 3, 1, 4)
    return (q * q.shape[-1] ** -0.5).contiguous(), k.contiguous(), v.contiguous()


@composition("_addmm_activation")
def addmm_activation(
    self: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    *,
    beta: float = 1,
    alpha: float = 1,
    use_gelu: bool = False,
) -> Tensor:
    y = torch.addmm(self, mat1, mat2, beta=beta, alpha=alpha)
    return F.gelu(y) if use_gelu else y.relu()


# ---- sequences that differ in length: nested tensors of shapes (length, width)


@composition("_nested_tensor_from_mask_left_aligned")
def left_aligned(t: Tensor, mask: Tensor) -> bool:
    return torch._nested_tensor_from_mask_left_aligned(_shape_of(t), mask.cpu())


@composition("_nested_tensor_from_mask")
def nested_from_mask(t: Tensor, mask: Tensor, mask_check: bool = True) -> Tensor:
    """t: (batch, length, width); mask: (batch, length), True where a sequence is not padded."""
    return _packed(t, torch._nested_tensor_from_mask(_shape_of(t), mask.cpu(), mask_check))


@of_nested("_transformer_encoder_layer_fwd")
def nested_encoder_layer(src: Tensor, *args: Any) -> Tensor:
    """Padded, with a mask, and packed again."""
    if args[_PARAMETERS:] and args[_PARAMETERS] is not None:
        raise RuntimeError("NestedTensor with mask is not supported yet")
    lengths = _lengths(src)
    if not any(lengths):
        return src.clone()
    mask = torch.arange(max(lengths)) >= torch.tensor(lengths).unsqueeze(1)
    masked: list[Any] = [*args[:_PARAMETERS], mask.to(src.device), _PADDING]
    return _packed(torch._transformer_encoder_layer_fwd(src.to_padded_tensor(0.0), *masked), src)


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


# Of nested tensors: other calls of theirs are PyTorch's views, or run on the host.
