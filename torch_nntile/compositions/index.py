# SPDX-License-Identifier: BSD-3-Clause
"""Indexing, and what is made of it: x[i, :, mask], x[i] = v, take(), scatter_reduce().

Sizes that depend on data (the elements of a mask, nonzero()) are read by the host, as item() is:
that is no function of the host, and runs with cpu_fallback=False as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from torch_nntile.compositions.registry import composing, composition, own_op
from torch_nntile.schemas import scalar_type

_INDEX_DTYPES = (torch.int64, torch.int32, torch.bool, torch.uint8)


# ---- indexing with tensors


def _resolved(
    self: Tensor, indices: Sequence[Tensor | None]
) -> tuple[Tensor, list[Tensor], list[int]]:
    """`self`, index tensors without masks, and which dims of `self` they lead into."""
    found: list[Tensor] = []
    dims: list[int] = []
    dim = 0
    for index in indices:
        if index is None:
            dim += 1
            continue
        if index.dtype not in _INDEX_DTYPES:
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        if index.dtype not in (torch.bool, torch.uint8):
            found.append(index.to(self.device))
            dims.append(dim)
            dim += 1
            continue
        if index.dim() == 0:
            self, index = self.unsqueeze(dim), index.unsqueeze(0)
        for j in range(index.dim()):
            if dim + j >= self.dim() or index.shape[j] != self.shape[dim + j]:
                raise IndexError(
                    f"The shape of the mask {list(index.shape)} at index {j} does not match the shape "
                    f"of the indexed tensor {list(self.shape)} at index {dim + j}"
                )
        if index.dim() > 1 and self.is_contiguous():  # one index instead of several, and a view
            self, index = self.flatten(dim, dim + index.dim() - 1), index.reshape(-1)
        places = index.cpu().nonzero().to(self.device)
        for j in range(index.dim()):
            found.append(places[:, j])
            dims.append(dim)
            dim += 1
    if dim > self.dim():
        raise IndexError(
            f"too many indices for tensor of dimension {self.dim()} (got {len(indices)})"
        )
    try:
        shapes_found = {index.shape for index in found}
        shape = (
            shapes_found.pop() if len(shapes_found) == 1 else torch.broadcast_shapes(*shapes_found)
        )
    except RuntimeError:
        shapes = ", ".join(str(list(index.shape)) for index in found)
        raise IndexError(
            "shape mismatch: indexing tensors could not be broadcast together with shapes " + shapes
        ) from None
    if 0 not in shape and any(self.shape[dim] == 0 for dim in dims):
        raise IndexError("index is out of bounds for dimension with size 0")
    return self, found, dims


@composition("index.Tensor")
def index(self: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    table, found, dims = _resolved(self, indices)
    if not found:
        return table.clone()
    if dims == [0] and found[0].dim() and not table.is_contiguous() and 1 not in table.shape:
        laid, order = _laid(table)
        if order[0] == 0 and laid is not table:  # rows in the order of the table, as on the CPU
            y = torch.ops.nntile.index(laid, found, dims)
            own = _in_place_of(order, 0, found[0].dim())
            return y.permute([own.index(k) for k in range(y.dim())])
    return torch.ops.nntile.index(table, found, dims)


def _laid(table: Tensor) -> tuple[Tensor, list[int]]:
    """With the dims as they lie in memory, if that is all of it; and their order."""
    strides = table.stride()
    order = sorted(range(table.dim()), key=lambda d: strides[d], reverse=True)
    laid = table.permute(order)
    return (laid, order) if laid.is_contiguous() else (table, [*range(table.dim())])


def _in_place_of(order: Sequence[int], dim: int, dims: int) -> list[int]:
    """Dims of a table in this order, as those of a result that has so many in the place of `dim`."""
    of = [[*range(dim, dim + dims)] if d == dim else [d + (dims - 1) * (d > dim)] for d in order]
    return [k for each in of for k in each]


def _only_mask(self: Tensor, indices: Sequence[Tensor | None]) -> Tensor | None:
    """The mask that is the one index, as one of all dims of `self`; or None."""
    given = [(k, index) for k, index in enumerate(indices) if index is not None]
    if len(given) != 1 or given[0][1].dtype not in (torch.bool, torch.uint8):
        return None
    k, mask = given[0]
    end = k + mask.dim()
    if mask.dim() == 0 or self.shape[k:end] != mask.shape:
        return None
    return mask.to(self.device).bool().reshape(mask.shape + (1,) * (self.dim() - end))


def _may_overlap(x: Tensor) -> bool:
    """False: no two elements of x are in one place."""
    reach = 0
    for stride, size in sorted(zip(x.stride(), x.shape, strict=True)):
        if size > 1:
            if stride <= reach:
                return True
            reach += stride * (size - 1)
    return False


@composition("_index_put_impl_")
def index_put_impl_(
    self: Tensor,
    indices: Sequence[Tensor | None],
    values: Tensor,
    accumulate: bool = False,
    unsafe: bool = False,
) -> Tensor:
    if values.numel() == 1 and not accumulate and _only_mask(self, indices) is not None:
        if values.is_complex() and not self.is_complex():
            raise RuntimeError(f"value cannot be converted to {self.dtype} without overflow")
        values = values.to(self.dtype)  # a number, as masked_fill() takes it
    if values.dtype != self.dtype:
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{scalar_type(self.dtype)} for the destination and {scalar_type(values.dtype)} for the source."
        )
    if values.device != self.device and values.numel() == 1:
        values = values.to(self.device)
    if self.is_complex():  # pairs of real numbers: what is copied or added is each by itself
        pairs = (torch.view_as_real(x) for x in (self, values))
        index_put_impl_(next(pairs), indices, next(pairs), accumulate)
        return self
    mask = _only_mask(self, indices) if values.numel() == 1 else None
    if mask is not None:  # nothing has to know how many elements that are
        value = values.reshape(())
        if not accumulate:
            return self.masked_fill_(mask, value)
        return self.copy_(torch.where(mask, self + value, self))
    if _may_overlap(self):  # by its storage, of which each element is one
        storage = self.as_strided(
            (self.untyped_storage().nbytes() // self.element_size(),), (1,), 0
        )
        places = torch.arange(storage.numel(), device=self.device)
        places = places.as_strided(self.shape, self.stride(), self.storage_offset())
        places = torch.ops.aten.index.Tensor(places, indices)
        index_put_impl_(storage, [places], values.expand(places.shape), accumulate)
        return self
    table, found, dims = _resolved(self, indices)
    if not found:
        return self.add_(values) if accumulate else self.copy_(values)
    if values.dim() > table.dim() + max(index.dim() for index in found) - 1:
        values = values.reshape(values.shape[-table.dim() :])
    if len(found) == 1 and not table.is_contiguous():
        table, values, dims = _in_order(table, values, found[0].dim(), dims[0])
    torch.ops.nntile.index_put_(table, values, found, dims, "sum" if accumulate else "put")
    return self


def _in_order(
    table: Tensor, values: Tensor, index_dims: int, dim: int
) -> tuple[Tensor, Tensor, list[int]]:
    """The same with the dims as they lie in memory: what is written is then one piece of it."""
    laid, order = _laid(table)
    values = values[(None,) * (table.dim() - 1 + index_dims - values.dim())]
    own = _in_place_of(order, dim, index_dims)
    return laid, values.permute(own), [order.index(dim)]


@composition("take")
def take(self: Tensor, index: Tensor) -> Tensor:
    if index.dtype != torch.int64:
        raise RuntimeError(f"take(): Expected a long tensor for index, but got {index.dtype}")
    if not self.numel() and index.numel():
        raise IndexError("take(): tried to take from an empty tensor")
    return torch.ops.nntile.index(self.reshape(-1), [index], [0]).contiguous()


@composition("put_")
def put_(self: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    if index.dtype != torch.int64 or source.dtype != self.dtype:
        raise RuntimeError(
            f"put_(): Expected a long index and a source of dtype {self.dtype}, got {index.dtype} "
            f"and {source.dtype}"
        )
    if source.numel() != index.numel():
        raise RuntimeError(
            "put_(): Expected source and index to have the same number of elements, but got "
            f"source.numel() = {source.numel()}, index.numel() = {index.numel()}"
        )
    if not self.numel() and index.numel():
        raise IndexError("put_(): Expected self to be non-empty")
    flat = self.reshape(-1)
    index_put_impl_(flat, [index.reshape(-1)], source.reshape(-1), accumulate)
    return self if self.is_contiguous() else self.copy_(flat.view(self.shape))


@composition("masked_scatter_")
def masked_scatter_(self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """The n-th element of the mask gets the n-th of source; too short a one is an error of the task."""
    if mask.dtype != torch.bool or source.dtype != self.dtype:
        raise RuntimeError(
            "masked_scatter_: expected a bool mask and a source of the dtype of self, got "
            f"{mask.dtype} and {source.dtype} for {self.dtype}"
        )
    mask = mask.expand(self.shape)
    number = mask.reshape(-1).cumsum(0) - 1
    number = torch.where(mask.reshape(-1), number, 0)
    flat = source.reshape(-1)
    if not flat.numel():
        if bool(mask.any()):
            raise RuntimeError(
                "masked_scatter: expected self and source to have same number of elements"
            )
        return self
    chosen = torch.gather(flat, 0, number).view(self.shape)
    return self.copy_(torch.where(mask, chosen, self))


@composition("scatter_reduce.two")
def scatter_reduce(
    self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    if reduce != "mean":
        return torch.ops.nntile.scatter_reduce(self, dim, index, src, reduce, include_self)
    if self.dtype == torch.bool:
        raise NotImplementedError("scatter_reduce: the mean of bools is not implemented for 'Bool'")
    total = torch.ops.nntile.scatter_reduce(self, dim, index, src, "sum", include_self)
    begin = torch.ones_like(self) if include_self else torch.zeros_like(self)
    count = begin.scatter_add(dim, index, torch.ones_like(src))
    return _divided(total, count)


@composition("index_reduce")
def index_reduce(
    self: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    if reduce != "mean":
        return torch.ops.nntile.index_reduce(self, dim, index, source, reduce, include_self)
    total = torch.ops.nntile.index_reduce(self, dim, index, source, "sum", include_self)
    begin = torch.ones_like(self) if include_self else torch.zeros_like(self)
    return _divided(total, begin.index_add(dim, index, torch.ones_like(source)))


def _divided(total: Tensor, count: Tensor) -> Tensor:
    count = count.clamp_min(1)
    return total / count if total.is_floating_point() else total // count


@composition("scatter.reduce")
def scatter_mode(self: Tensor, dim: int, index: Tensor, src: Tensor, *, reduce: str) -> Tensor:
    names = {"add": "sum", "multiply": "prod"}
    if reduce not in names:
        raise RuntimeError("reduce argument must be either add or multiply.")
    return torch.ops.nntile.scatter_reduce(self, dim, index, src, names[reduce], True)


@composition("scatter.value_reduce")
def scatter_value_mode(
    self: Tensor, dim: int, index: Tensor, value: float | int, *, reduce: str
) -> Tensor:
    src = torch.full(index.shape, value, dtype=self.dtype, device=self.device)
    return scatter_mode(self, dim, index, src, reduce=reduce)


@composition("unfold_backward")
def unfold_backward(
    grad_in: Tensor, input_sizes: Sequence[int], dim: int, size: int, step: int
) -> Tensor:
    """Of unfold(): windows of `size`, `step` apart along dim, are the last dim of its result."""
    dx = grad_in.new_zeros(input_sizes)
    if not input_sizes:
        return dx.add_(grad_in.reshape(()))
    dim %= len(input_sizes)
    starts = torch.arange(grad_in.shape[dim], device=grad_in.device) * step
    places = starts.unsqueeze(1) + torch.arange(size, device=grad_in.device)
    torch.ops.nntile.index_put_(dx, grad_in.movedim(-1, dim + 1), [places], [dim], "sum")
    return dx


@composition("value_selecting_reduction_backward", above_autograd=True)
def value_selecting_reduction_backward(
    grad: Tensor, dim: int, indices: Tensor, sizes: Sequence[int], keepdim: bool
) -> Tensor:
    """PyTorch's formula as one graph: zeros that are cut as the indices are, with no copy between."""
    if not keepdim and sizes:
        grad, indices = grad.unsqueeze(dim), indices.unsqueeze(dim)
    with composing():
        return grad.new_zeros(sizes).scatter(dim, indices, grad)


@composition("cummaxmin_backward", above_autograd=True)
def cummaxmin_backward(grad: Tensor, input: Tensor, indices: Tensor, dim: int) -> Tensor:
    """The same, where an element may have been picked several times."""
    if not input.numel():
        return input
    with composing():
        return input.new_zeros(input.shape).scatter_add(dim, indices, grad)


# ---- sizes that depend on data: the host reads


def _where_any(self: Tensor) -> Tensor:
    """A byte of each element: what the host has to read."""
    return (self if self.dtype == torch.bool else self != 0).cpu()


@composition("nonzero")
def nonzero(self: Tensor) -> Tensor:
    return _where_any(self).nonzero().to(self.device)


@composition("nonzero_static")
def nonzero_static(self: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    places = torch.nonzero_static(_where_any(self), size=size, fill_value=fill_value)
    return places.to(self.device)


@composition("repeat_interleave.Tensor")
def repeat_interleave(repeats: Tensor, *, output_size: int | None = None) -> Tensor:
    found = torch.repeat_interleave(repeats.cpu(), output_size=output_size)
    return found.to(repeats.device)


def _indices(name: str) -> Callable[..., Tensor]:
    """triu_indices, tril_indices: numbers that the call says."""

    def made(row: int, col: int, offset: int = 0, **options: Any) -> Tensor:
        device = options.pop("device", None)
        options = {k: v for k, v in options.items() if v is not None and k != "pin_memory"}
        return getattr(torch, name)(row, col, offset, device="cpu", **options).to(device)

    return made


composition("triu_indices")(_indices("triu_indices"))
composition("tril_indices")(_indices("tril_indices"))


@own_op("index(Tensor self, Tensor[] indices, int[] dims) -> Tensor")
def _indexed(self: Tensor, indices: list[Tensor], dims: list[int]) -> Tensor:
    given: list[Tensor | None] = [None] * (max(dims) + 1)
    for dim, index in zip(dims, indices, strict=True):
        given[dim] = index
    return torch.ops.aten.index.Tensor(self, given)


# In torch.compile a result that is an operand is refused, and an argument called mode of an op that writes.
own_op(
    "index_put_(Tensor(a!) self, Tensor values, Tensor[] indices, int[] dims, str how) -> ()",
    lambda self, values, indices, dims, how: None,
)
own_op(
    "scatter_reduce(Tensor self, int dim, Tensor index, Tensor src, str mode, bool include_self) -> Tensor",
    lambda self, dim, index, src, mode, include_self: torch.scatter_reduce(
        self, dim, index, src, mode, include_self=include_self
    ),
)
own_op(
    "index_reduce(Tensor self, int dim, Tensor index, Tensor source, str mode, bool include_self)"
    " -> Tensor",
    lambda self, dim, index, source, mode, include_self: torch.index_reduce(
        self, dim, index, source, "amax" if mode == "sum" else mode, include_self=include_self
    ),
)
