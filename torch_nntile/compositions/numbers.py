# SPDX-License-Identifier: BSD-3-Clause
"""Random numbers of other distributions, counts, norms of weights, and small formulas."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torch_nntile.compositions.distances import only_wide_floats
from torch_nntile.compositions.formats import like_on_meta
from torch_nntile.compositions.registry import composition, own_op

Number = float | int | bool
_FEW = 4096  # numbers that take as long to read as one


# ---- random numbers: made of uniform and normal ones


def _uniform(self: Tensor, generator: torch.Generator | None) -> Tensor:
    """In (0, 1], so that it has a logarithm; in steps so small that what is seldom happens, too."""
    drawn = torch.empty(self.shape, dtype=torch.float64, device=self.device)
    return 1 - drawn.uniform_(0, 1, generator=generator)


def _exponential(uniform: Tensor) -> Tensor:
    """Never 0, as PyTorch's, so that none of probability 0 is drawn: 0 / 0 is the largest of all."""
    return -torch.log(uniform).clamp_max(-torch.finfo(uniform.dtype).eps / 2)


def _refuse(name: str, self: Tensor, fits: bool, what: str) -> None:
    if not fits:
        raise RuntimeError(f"{name} expects {what}")
    if not self.is_floating_point():
        raise RuntimeError(f"{name} is not implemented for {self.dtype}")


@composition("exponential_")
def exponential_(
    self: Tensor, lambd: float = 1, *, generator: torch.Generator | None = None
) -> Tensor:
    _refuse("exponential_", self, lambd > 0, f"lambda > 0.0, but found lambda={lambd}")
    kept = torch.finfo(self.dtype)
    least = kept.smallest_normal * kept.eps  # float16 has none below 6e-8
    return self.copy_((_exponential(_uniform(self, generator)) / lambd).clamp_min(least))


@composition("log_normal_")
def log_normal_(
    self: Tensor, mean: float = 1, std: float = 2, *, generator: torch.Generator | None = None
) -> Tensor:
    _refuse("log_normal_", self, std > 0, f"std > 0.0, but found std={std}")
    return self.copy_(torch.empty_like(self).normal_(mean, std, generator=generator).exp())


@composition("geometric_")
def geometric_(self: Tensor, p: float, *, generator: torch.Generator | None = None) -> Tensor:
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    return self.copy_(
        torch.ceil(torch.log(_uniform(self, generator)) / math.log1p(-p)).clamp_min(1)
    )


@composition("normal.Tensor_float", "normal.float_Tensor", "normal.Tensor_Tensor")
def normal(
    mean: Tensor | float, std: Tensor | float = 1.0, *, generator: torch.Generator | None = None
) -> Tensor:
    given = [x for x in (mean, std) if isinstance(x, Tensor)]
    if isinstance(std, Tensor):
        if std.is_complex():
            raise RuntimeError("normal expects standard deviation to be non-complex")
        if std.numel() and bool((std < 0).any()):
            raise RuntimeError("normal expects all elements of std >= 0.0")
    elif std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    shape = torch.broadcast_shapes(*(x.shape for x in given))
    drawn = torch.empty(shape, dtype=given[0].dtype, device=given[0].device)
    return drawn.normal_(0, 1, generator=generator) * std + mean


def _no_distribution(good: bool) -> RuntimeError:
    if good:
        return RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    return RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")


def _draw(p: Tensor, samples: int, generator: torch.Generator | None) -> Tensor:
    drawn = torch.empty((*p.shape[:-1], samples), dtype=torch.float64, device=p.device)
    found: Tensor = torch.ops.nntile.draw(p, drawn.uniform_(0, 1, generator=generator))
    torch.ops.nntile.raise_errors(found)  # what is wrong with p, at the call as on the CPU
    return found


own_op("draw(Tensor p, Tensor u) -> Tensor", lambda p, u: u.new_empty(u.shape, dtype=torch.int64))


@composition("multinomial")
def multinomial(
    self: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: torch.Generator | None = None,
) -> Tensor:
    """By the inverse of cumulative sums; without replacement the largest of p / q, q exponential."""
    if not 0 < self.dim() <= 2:
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if not self.is_floating_point():
        raise RuntimeError(
            "multinomial only supports floating-point dtypes for input, got: " + str(self.dtype)
        )
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and num_samples > self.shape[-1]:
        raise RuntimeError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
        )
    if not self.numel():
        return torch.empty((*self.shape[:-1], num_samples), dtype=torch.int64, device=self.device)
    if num_samples == 1 or replacement:
        return _draw(self, num_samples, generator)
    # Read, as on other devices. The host computes with few numbers itself, in a microsecond a call.
    few = self.numel() <= _FEW
    p = self.cpu() if few else self
    good = ((p >= 0) & (p < math.inf)).all()
    if not bool(good & (p.sum(-1) > 0).all()):
        raise _no_distribution(bool(good))
    drawn = _uniform(self, generator)
    score = p / _exponential(drawn.cpu() if few else drawn)
    return score.topk(num_samples, -1)[1].to(self.device)


@composition("randperm.generator_out")
def randperm_out(n: int, *, generator: torch.Generator | None, out: Tensor) -> Tensor:
    """The order of n random keys of 63 bits, as on other devices."""
    cpu = torch.device("cpu")
    if out.dtype != torch.int64 or n < 0:  # may not hold all numbers below n
        torch.randperm(n, generator=torch.Generator(), dtype=out.dtype, device=cpu)
    if generator is not None and generator.device == cpu:  # RandomSampler has one
        return out.resize_(n).copy_(torch.randperm(n, generator=generator, device=cpu))
    keys = torch.empty(n, dtype=torch.int64, device=out.device).random_(generator=generator)
    return out.resize_(n).copy_(keys.argsort())


@composition("rrelu_with_noise", "rrelu_with_noise.out")
def rrelu_with_noise(
    self: Tensor,
    noise: Tensor,
    lower: Number = 0.125,
    upper: Number = 1 / 3,
    training: bool = False,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Training writes the slope of each element into noise."""
    if self.shape != noise.shape:
        raise RuntimeError(
            f"noise tensor shape must match self tensor shape. Got self.shape = {list(self.shape)} "
            f"noise.shape = {list(noise.shape)}"
        )
    if not training:
        return torch.nn.functional.leaky_relu(self, (lower + upper) / 2).contiguous()
    if noise.dtype != self.dtype:
        raise RuntimeError(f"expected scalar type {self.dtype} but found {noise.dtype}")
    drawn = torch.empty_like(self).uniform_(lower, upper, generator=generator)
    noise.copy_(torch.where(self <= 0, drawn, 1))
    return (self * noise).contiguous()


@composition("rrelu_with_noise_")
def rrelu_with_noise_(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    return self.copy_(rrelu_with_noise(self, *args, **kwargs))


# ---- formulas


@composition("polygamma")
def polygamma(n: int, self: Tensor) -> Tensor:
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    if n == 0:
        return torch.digamma(self)
    if n == 1:
        return torch.ops.nntile.trigamma(self)
    x = self if self.is_floating_point() else self.to(torch.get_default_dtype())
    sign = 1.0 if n % 2 else -1.0
    series: Tensor = torch.ops.nntile.zeta(torch.full_like(x, n + 1), x)
    return series * (sign * math.gamma(n + 1))


@composition("special_spherical_bessel_j0")
def spherical_bessel_j0(self: Tensor) -> Tensor:
    x = self if self.is_floating_point() else self.to(torch.get_default_dtype())
    only_wide_floats("special_spherical_bessel_j0", x)
    y = torch.where(x == 0, 1, x.sin() / x)
    return y.masked_fill(x.isinf(), 0)


@composition("linalg_cross")
def linalg_cross(self: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    like_on_meta(torch.ops.aten.linalg_cross.default, (self, other), dim=dim)  # PyTorch's errors
    a, b = torch.broadcast_tensors(self, other)
    (a0, a1, a2), (b0, b1, b2) = a.unbind(dim), b.unbind(dim)
    return torch.stack((a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0), dim)


@composition("addbmm")
def addbmm(
    self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1
) -> Tensor:
    """One product: the batch joins the dim that is summed."""
    if batch1.dim() != 3 or batch2.dim() != 3:
        raise RuntimeError("batch1 and batch2 must be 3D tensors")
    if batch1.shape[0] != batch2.shape[0] or batch1.shape[2] != batch2.shape[1]:
        raise RuntimeError(
            f"batch1 {list(batch1.shape)} and batch2 {list(batch2.shape)} do not match"
        )
    batch, rows, terms = batch1.shape
    first = batch1.transpose(0, 1).reshape(rows, batch * terms)
    second = batch2.reshape(batch * terms, batch2.shape[2])
    return torch.addmm(self, first, second, beta=beta, alpha=alpha)


@composition("addbmm_")
def addbmm_(self: Tensor, batch1: Tensor, batch2: Tensor, **factors: Number) -> Tensor:
    """As on the CPU it gets the size of the result."""
    result = addbmm(self, batch1, batch2, **factors)
    if self.shape != result.shape:
        self.resize_(result.shape)
    return self.copy_(result)


@composition("_efficientzerotensor")
def zeros(
    size: Sequence[int],
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
) -> Tensor:
    """A tensor that PyTorch keeps without memory; a formula of its gradients asks for one."""
    return torch.zeros(size, dtype=dtype, device=device)


@composition("_weight_norm_interface_backward")
def weight_norm_backward(
    grad_w: Tensor, saved_v: Tensor, saved_g: Tensor, saved_norms: Tensor, dim: int
) -> tuple[Tensor, Tensor]:
    others = [d for d in range(saved_v.dim()) if d != dim % saved_v.dim()]
    along = (grad_w * saved_v).sum(others, keepdim=True) / saved_norms
    dv = (grad_w - saved_v * (along / saved_norms)) * (saved_g / saved_norms)
    return dv, along


@composition("histc")
def histc(self: Tensor, bins: int = 100, min: Number = 0, max: Number = 0) -> Tensor:
    """Counts of bins of equal width; also of integers, as on other accelerators."""
    if bins <= 0:
        raise RuntimeError("bins must be > 0")
    if self.dtype == torch.bool or self.is_complex():
        raise NotImplementedError(f"histc is not implemented for {self.dtype}")
    x = self.reshape(-1) if self.is_floating_point() else self.reshape(-1).double()
    low: Any = float(min)
    high: Any = float(max)
    if not x.numel():
        return self.new_zeros(bins)
    if low == high:
        low, high = x.min(), x.max()
        high, low = torch.where(low == high, high + 1, high), torch.where(low == high, low - 1, low)
        if not bool((low > -math.inf) & (high < math.inf)):
            raise RuntimeError(f"range of [{float(low)}, {float(high)}] is not finite")
    elif not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"range of [{low}, {high}] is not finite")
    elif low > high:
        raise RuntimeError("max must be larger than min")
    inside = (x >= low) & (x <= high)
    place = torch.floor((x - low) * bins / (high - low)).clamp(0, bins - 1)
    place = torch.where(inside, place, 0).long()
    return x.new_zeros(bins).index_add(0, place, inside.to(x.dtype)).to(self.dtype)


own_op(
    "zeta(Tensor self, Tensor other) -> Tensor", lambda self, other: torch.special.zeta(self, other)
)
own_op("trigamma(Tensor self) -> Tensor", lambda self: torch.polygamma(1, self))
