# SPDX-License-Identifier: BSD-3-Clause
"""Random integers and coins, in the ranges and with the refusals of the CPU's kernels."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_nntile import _c
from torch_nntile.compositions.registry import composition, own_op


@composition("bernoulli_.float")
def bernoulli_(self: Tensor, p: float = 0.5, *, generator: torch.Generator | None = None) -> Tensor:
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    dtype = torch.float64 if self.dtype == torch.float64 else torch.float32  # p as it is
    chance = torch.full(self.shape, p, dtype=dtype, device=self.device)
    return self.copy_(torch.bernoulli(chance, generator=generator))


@composition("bernoulli_.Tensor")
def bernoulli_tensor_(
    self: Tensor, p: Tensor, *, generator: torch.Generator | None = None
) -> Tensor:
    chance = p.to(self.device).expand(self.shape)
    return self.copy_(torch.bernoulli(chance, generator=generator))


# Integers up to here are exact in the dtype; PyTorch draws from [0, 2 ** digits].
_DIGITS = {torch.float64: 53, torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}


def _exact(number: int, dtype: torch.dtype, inwards: int) -> int:
    """The number, or the next one towards the other bound if the dtype would round it outwards."""
    near = number + inwards
    rounded = int(torch.tensor(near, dtype=dtype, device="cpu").item())
    if (rounded - number) * inwards > (0 if inwards < 0 else -1):
        return number
    step: int = 2 ** (abs(near).bit_length() - _DIGITS[dtype])
    return rounded + inwards * step


@composition("random_.from")
def random_from_(
    self: Tensor, low: int, to: int | None = None, *, generator: torch.Generator | None = None
) -> Tensor:
    """Integers of [low, to); of all from low on that the dtype has, if `to` is None."""
    torch.empty(1, dtype=self.dtype, device="cpu").random_(low, to, generator=torch.Generator())
    floating, everything = self.dtype in _DIGITS, to is None and low == -(2**63)
    if floating:
        most = 2 ** _DIGITS[self.dtype]
        low = low if everything else _exact(low, self.dtype, 1)
        high = _exact(to, self.dtype, -1) if to is not None else 2**63 if everything else most + 1
    else:
        most = 1 if self.dtype == torch.bool else torch.iinfo(self.dtype).max
        high = most + 1 if to is None else to
    # The kernel has the bounds in the dtype itself, and counts modulo 2 ** 64.
    fits = self.dtype in _c.DTYPES and high <= most and (low >= -most or not floating)
    drawn = self if fits else self.new_empty(self.shape, dtype=torch.int64)
    high = high if high < 2**63 else -(2**63)
    torch.ops.nntile.randint_(drawn, low, high, generator=generator)
    return self if fits else self.copy_(drawn)


@composition("random_")
def random_(self: Tensor, *, generator: torch.Generator | None = None) -> Tensor:
    return self.random_(0, None, generator=generator)


@composition("random_.to")
def random_to_(self: Tensor, to: int, *, generator: torch.Generator | None = None) -> Tensor:
    return self.random_(0, to, generator=generator)


own_op(
    "randint_(Tensor(a!) self, int low, int high, *, Generator? generator=None) -> Tensor(a!)",
    lambda self, low, high, generator=None: self,
)
