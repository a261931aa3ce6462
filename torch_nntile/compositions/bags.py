# SPDX-License-Identifier: BSD-3-Clause
"""embedding_bag(): rows of a table, summed by bags, and its gradients.

What comes beside the result is what the CPU gives: which bag each index is in (empty where its fast
loop needs none), sizes of bags (0 for sums), and the rows of maxima.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torch_nntile.compositions.registry import composition, own_op

_SUM, _MEAN, _MAX = range(3)
_NO_PADDING = -1
_OPTIONS = (
    *("scale_grad_by_freq", "mode", "sparse", "per_sample_weights"),
    *("include_last_offset", "padding_idx"),
)


@composition("_embedding_bag")
def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = _NO_PADDING,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """weight: (rows, width); indices and offsets: (n,) and (bags,), or (bags + 1,) with the last."""
    if per_sample_weights is not None and mode != _SUM:
        raise RuntimeError("embedding_bag: per_sample_weights only supported with mode='sum'")
    given = (weight, indices, offsets, per_sample_weights)
    options = (mode, include_last_offset, padding_idx)
    kept = offsets.shape[0] - include_last_offset
    dtype = torch.promote_types(indices.dtype, offsets.dtype)
    if mode == _MAX:
        found, rows = torch.ops.nntile.embedding_bag_max(*given, *options)
    else:
        found = torch.ops.nntile.embedding_bag(*given, *options)
    bag_of, sizes = (offsets.new_empty(0, dtype=dtype) for _ in range(2))
    if not (mode == _SUM and _is_fast(weight, per_sample_weights, padding_idx)) and kept:
        bag_of, sizes = torch.ops.nntile.bag_of(offsets[:kept].to(dtype), indices.shape[0])
    if mode == _SUM:
        sizes = offsets.new_zeros(kept, dtype=dtype)
    elif padding_idx >= 0 and kept:
        padded = (indices == padding_idx).to(torch.float64).unsqueeze(1)
        sizes = sizes - _summed(padded, bag_of, kept).squeeze(1).to(dtype)
    return found, bag_of, sizes, rows.to(dtype) if mode == _MAX else sizes.clone()


def _is_fast(weight: Tensor, per_sample_weights: Tensor | None, padding_idx: int) -> bool:
    """The CPU has a loop for these that needs no bag of each index, and tells none."""
    fast = weight.dtype in (torch.float32, torch.float16) and weight.stride(1) == 1
    dense = per_sample_weights is None or per_sample_weights.stride(0) == 1
    return fast and dense and padding_idx < 0


@composition("_embedding_bag_forward_only")
def embedding_bag_forward_only(
    weight: Tensor, indices: Tensor, offsets: Tensor, *options: Any, **more: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The same; of sums there are as many sizes, all of them 0, as offsets."""
    found, bag_of, sizes, rows = embedding_bag(weight, indices, offsets, *options, **more)
    named = dict(zip(_OPTIONS, options, strict=False)) | more
    if named.get("mode", _SUM) == _SUM and named.get("include_last_offset", False):
        sizes = torch.zeros_like(offsets, dtype=sizes.dtype)
        rows = sizes.clone()
    return found, bag_of, sizes, rows


@composition("_embedding_bag_backward", above_autograd=True)
def embedding_bag_backward(
    grad: Tensor,
    indices: Tensor,
    offsets: Tensor,
    offset2bag: Tensor,
    bag_size: Tensor,
    maximum_indices: Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Tensor | None,
    padding_idx: int = _NO_PADDING,
) -> Tensor:
    """Gradient of the table, (num_weights, width)."""
    result: Tensor
    if not offsets.numel():
        return grad.new_zeros((num_weights, grad.shape[1]))
    bag_of = _bag_of(indices, offsets, offset2bag, mode)
    if sparse:
        result = torch.ops.aten._embedding_bag_sparse_backward(
            *(grad, indices, offsets, bag_of, bag_size, num_weights),
            *(scale_grad_by_freq, mode, per_sample_weights, padding_idx),
        )
        return result
    if scale_grad_by_freq:  # a function of the host, as of embedding()
        result = torch.ops.aten._embedding_bag_dense_backward(
            *(grad, indices, bag_of, bag_size, maximum_indices),
            *(num_weights, scale_grad_by_freq, mode, per_sample_weights, padding_idx),
        )
        return result
    if mode == _MAX:  # of each element to the row that it is from; empty bags have none
        rows = grad * (bag_size > 0).to(grad.dtype).unsqueeze(1)
        width = grad.shape[1]
        places = maximum_indices * width + torch.arange(width, device=grad.device)
        flat = torch.ops.aten.embedding_dense_backward(
            rows.reshape(-1, 1), places.reshape(-1), num_weights * width, _NO_PADDING, False
        )
        result = flat.view(num_weights, width)
        return result
    if mode == _MEAN:
        grad = grad / bag_size.clamp_min(1).to(grad.dtype).unsqueeze(1)
    rows = torch.nn.functional.embedding(bag_of, grad)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    result = torch.ops.aten.embedding_dense_backward(
        rows, indices, num_weights, padding_idx, scale_grad_by_freq
    )
    return result


@composition("_embedding_bag_per_sample_weights_backward")
def per_sample_weights_backward(
    grad: Tensor,
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    offset2bag: Tensor,
    mode: int,
    padding_idx: int = _NO_PADDING,
) -> Tensor:
    """(n,): the gradient of a bag times the row that it weighs."""
    bag_of = _bag_of(indices, offsets, offset2bag, mode)
    embedding = torch.nn.functional.embedding
    found = (embedding(bag_of, grad) * embedding(indices, weight)).sum(1)
    return found if padding_idx < 0 else found.masked_fill(indices == padding_idx, 0)


def _bag_of(indices: Tensor, offsets: Tensor, offset2bag: Tensor, mode: int) -> Tensor:
    """For each index its bag, made anew for sums: the forward gives some of them none.

    Its size must not say that: PyTorch's Meta kernel, which compiled graphs go by, gives devices one.
    """
    if mode != _SUM or not indices.numel():
        return offset2bag
    return torch.ops.nntile.bag_of(offsets, indices.shape[0])[0]


def _summed(rows: Tensor, bag_of: Tensor, bags: int) -> Tensor:
    return torch.ops.aten.embedding_dense_backward(rows, bag_of, bags, _NO_PADDING, False)


def _bags(weight: Tensor, indices: Tensor, offsets: Tensor, *rest: Any) -> Tensor:
    *_, include_last_offset, _padding_idx = rest
    return weight.new_empty(offsets.shape[0] - include_last_offset, weight.shape[1])


def _bags_max(*args: Any) -> tuple[Tensor, Tensor]:
    found = _bags(*args)
    return found, found.new_empty(found.shape, dtype=torch.int64)


_ARGUMENTS = (
    "Tensor weight, Tensor indices, Tensor offsets, Tensor? per_sample_weights, int mode, "
    "bool include_last_offset, int padding_idx"
)
own_op(f"embedding_bag({_ARGUMENTS}) -> Tensor", _bags)
own_op(f"embedding_bag_max({_ARGUMENTS}) -> (Tensor, Tensor)", _bags_max)
own_op(
    "bag_of(Tensor offsets, int num_indices) -> (Tensor, Tensor)",
    lambda offsets, n: (offsets.new_empty(n), torch.empty_like(offsets)),
)
