# SPDX-License-Identifier: BSD-3-Clause
"""What needs an order: searching, membership, medians, cumulative extremes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torch_nntile.compositions.index import take
from torch_nntile.compositions.registry import composition, own_op

_FEW = 64  # values that isin() compares with one by one


@composition("searchsorted.Tensor")
def searchsorted(
    sorted_sequence: Tensor,
    self: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    if side not in (None, "left", "right"):
        raise RuntimeError(
            f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}"
        )
    if right and side == "left":
        raise RuntimeError(
            "torch.searchsorted(): side and right can't be set to opposites, got side of left "
            "while right was True"
        )
    if sorter is not None and sorter.dtype != torch.int64:
        raise RuntimeError(
            f"torch.searchsorted(): sorter must be a tensor of long dtype but got dtype {sorter.dtype}"
        )
    return torch.ops.nntile.searchsorted(
        sorted_sequence, self, out_int32, right or side == "right", sorter
    )


@composition("searchsorted.Scalar")
def searchsorted_number(sorted_sequence: Tensor, self: float | int, **options: Any) -> Tensor:
    value = torch.full((), self, dtype=sorted_sequence.dtype, device=sorted_sequence.device)
    return searchsorted(sorted_sequence, value, **options)


@composition("bucketize.Tensor")
def bucketize(
    self: Tensor, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> Tensor:
    if boundaries.dim() != 1:
        raise RuntimeError(
            f"bucketize: boundaries tensor must be 1 dimension, but got dim({boundaries.dim()})"
        )
    return searchsorted(boundaries, self, out_int32=out_int32, right=right)


@composition("isin.Tensor_Tensor")
def isin(
    elements: Tensor, test_elements: Tensor, *, assume_unique: bool = False, invert: bool = False
) -> Tensor:
    for x in (elements, test_elements):
        if x.dtype == torch.bool:
            raise RuntimeError("Unsupported input type encountered for isin(): Bool")
    if not test_elements.numel():
        return torch.full_like(elements, invert, dtype=torch.bool)
    test = test_elements.reshape(-1)
    if test.numel() <= _FEW:
        found = (elements.unsqueeze(-1) == test).any(-1)
    else:
        dtype = torch.result_type(elements, test)
        values, ordered = elements.to(dtype), test.to(dtype).sort()[0]
        place = searchsorted(ordered, values).clamp_max(test.numel() - 1)
        found = take(ordered, place) == values
    return ~found if invert else found


@composition("isin.Scalar_Tensor")
def isin_number(
    element: float | int,
    test_elements: Tensor,
    *,
    assume_unique: bool = False,
    invert: bool = False,
) -> Tensor:
    found = (test_elements == element).any()
    return ~found if invert else found


def _cumulative(name: str) -> Callable[..., None]:
    """_cummax_helper, _cummin_helper: into tensors that the caller made."""

    def helper(self: Tensor, values: Tensor, indices: Tensor, dim: int) -> None:
        found, places = getattr(torch.ops.nntile, name)(self, dim)
        values.copy_(found)
        indices.copy_(places)

    return helper


@composition("kthvalue")
def kthvalue(self: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    size = self.size(dim) if self.dim() else 1
    if size == 0:
        raise IndexError(
            f"kthvalue(): Expected reduction dim {dim % self.dim()} to have non-zero size."
        )
    if not 1 <= k <= size:
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {dim}")
    values, places = torch.ops.nntile.kthvalue(self, k, dim)
    return (
        (values, places)
        if keepdim or not self.dim()
        else (values.squeeze(dim), places.squeeze(dim))
    )


@composition("median.dim")
def median_dim(self: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """A nan is the median of its row."""
    if self.dim() and not self.size(dim):
        raise IndexError(f"median(): Expected reduction dim {dim} to have non-zero size.")
    if not self.dim():
        return self.clone(), torch.zeros_like(self, dtype=torch.int64)
    middle = (self.size(dim) - 1) // 2
    values, places = (x.narrow(dim, middle, 1) for x in torch.sort(self, dim=dim, stable=True))
    if not keepdim:
        values, places = values.squeeze(dim), places.squeeze(dim)
    if not self.is_floating_point():
        return values.contiguous(), places.contiguous()
    odd = self.isnan()
    any_odd, first = odd.any(dim, keepdim), odd.to(torch.uint8).argmax(dim, keepdim)
    return values.masked_fill(any_odd, torch.nan), torch.where(any_odd, first, places)


@composition("median")
def median(self: Tensor) -> Tensor:
    if not self.numel():
        return self.new_full((), torch.nan if self.is_floating_point() else 0)
    return median_dim(self.reshape(-1), 0)[0]


@composition("nanmedian.dim")
def nanmedian_dim(self: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    if not self.is_floating_point() or not self.dim():
        return median_dim(self, dim, keepdim)
    if not self.size(dim):
        raise IndexError(f"median(): Expected reduction dim {dim} to have non-zero size.")
    values, places = torch.sort(self, dim=dim, stable=True)
    count = (~self.isnan()).sum(dim, keepdim=True)
    middle = ((count - 1) // 2).clamp_min(0)
    value, place = values.gather(dim, middle), places.gather(dim, middle)
    return (value, place) if keepdim else (value.squeeze(dim), place.squeeze(dim))


@composition("nanmedian")
def nanmedian(self: Tensor) -> Tensor:
    if not self.numel():
        return median(self)
    return nanmedian_dim(self.reshape(-1), 0)[0]


composition("_logcumsumexp")(lambda self, dim: torch.ops.nntile.logcumsumexp(self, dim))
composition("_cummax_helper")(_cumulative("cummax"))
composition("_cummin_helper")(_cumulative("cummin"))


own_op(
    "searchsorted(Tensor sequence, Tensor self, bool out_int32, bool right, Tensor? sorter)"
    " -> Tensor",
    lambda _, x, short, *__: x.new_empty(x.shape, dtype=torch.int32 if short else torch.int64),
)
own_op("logcumsumexp(Tensor self, int dim) -> Tensor", "self")


@own_op("kthvalue(Tensor self, int k, int dim) -> (Tensor, Tensor)")
def _kth(self: Tensor, k: int, dim: int) -> tuple[Tensor, Tensor]:
    sizes = list(self.shape)
    if sizes:
        sizes[dim] = 1
    return self.new_empty(sizes), self.new_empty(sizes, dtype=torch.int64)


for name in ("cummax", "cummin"):
    own_op(
        f"{name}(Tensor self, int dim) -> (Tensor, Tensor)",
        lambda x, _: (x.new_empty(x.shape), x.new_empty(x.shape, dtype=torch.int64)),
    )
