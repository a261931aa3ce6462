# SPDX-License-Identifier: BSD-3-Clause
"""Ops of training as the sweep calls them: operands of a family of shapes, and a function of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["OPS", "Op", "image", "rows"]

Make = Callable[..., Tensor]
VALUES = torch.Generator()


@dataclass(frozen=True)
class Op:
    """`function(*make(batch, numbers, dtype))`; the first `laid` operands take the layout.

    Gradients are those of the first `gradients` operands; 0: forward only.
    """

    make: Callable[[int, int, torch.dtype], Sequence[Any]]
    function: Callable[..., Any]
    laid: int = 1
    gradients: int = 1


def signed(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    return (torch.rand(tuple(shape), generator=VALUES) * 4 - 2).to(dtype)


def positive(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    return (torch.rand(tuple(shape), generator=VALUES) * 0.8 + 0.1).to(dtype)


def whole(high: int, shape: Sequence[int]) -> Tensor:
    return torch.randint(high, tuple(shape), generator=VALUES)


def halves(numbers: int) -> tuple[int, int]:
    """Two powers of two with this product, the second the larger."""
    bits = int(math.log2(numbers))
    return 2 ** (bits // 2), 2 ** (bits - bits // 2)


def rows(batch: int, numbers: int) -> tuple[int, int, int]:
    return (batch, *halves(numbers // batch))


def image(batch: int, numbers: int) -> tuple[int, int, int, int]:
    channels = 64 if numbers >= 2**18 else 16
    return (batch, channels, *halves(numbers // batch // channels))


def line(batch: int, numbers: int) -> tuple[int, int, int]:
    return (batch, 16, numbers // batch // 16)


def volume(batch: int, numbers: int) -> tuple[int, int, int, int, int]:
    depth, rest = 8, numbers // batch // 16 // 8
    return (batch, 16, depth, *halves(max(rest, 1)))


def unary(function: Callable[..., Any], values: Make = signed, gradients: int = 1) -> Op:
    return Op(lambda b, n, t: [values(rows(b, n), t)], function, gradients=gradients)


def binary(function: Callable[..., Any], values: Make = signed, gradients: int = 2) -> Op:
    return Op(
        lambda b, n, t: [values(rows(b, n), t), values(rows(b, n), t)], function, 2, gradients
    )


def of_image(
    function: Callable[..., Any],
    channels: int = 0,
    gradients: int = 1,
    family: Callable[[int, int], Sequence[int]] = image,
) -> Op:
    """An image (or of another family), and so many vectors of an element for each channel."""

    def make(b: int, n: int, t: torch.dtype) -> list[Tensor]:
        shape = family(b, n)
        return [signed(shape, t), *(positive(shape[1:2], t) for _ in range(channels))]

    return Op(make, function, gradients=gradients)


def with_last(function: Callable[..., Any], vectors: int) -> Op:
    def make(b: int, n: int, t: torch.dtype) -> list[Tensor]:
        shape = rows(b, n)
        return [signed(shape, t), *(positive(shape[-1:], t) for _ in range(vectors))]

    return Op(make, function, gradients=1 + vectors)


def indexed(
    function: Callable[..., Any], places: Callable[[Sequence[int]], Tensor], gradients: int = 1
) -> Op:
    """x and a tensor of places; more operands with gradients are like x."""

    def make(b: int, n: int, t: torch.dtype) -> list[Tensor]:
        shape = rows(b, n)
        like = [signed(shape, t) for _ in range(max(gradients, 1))]
        return [*like, places(shape)]

    return Op(make, function, max(gradients, 1), gradients)


def loss(function: Callable[..., Any], target: Make, values: Make = signed) -> Op:
    return Op(lambda b, n, t: [values(rows(b, n), t), target(rows(b, n), t)], function, laid=2)


def matrices(b: int, n: int, t: torch.dtype) -> list[Tensor]:
    left = rows(b, n)
    return [signed(left, t), signed((b, left[2], left[1]), t)]


def layer(function: Callable[..., Any], bias: bool = True) -> Op:
    """Rows of 256 features and a matrix of 256 x 256."""

    def make(b: int, n: int, t: torch.dtype) -> list[Tensor]:
        k = min(256, n // b // 4)
        parts = [signed((b, n // b // k, k), t), positive((k, k), t), positive((k,), t)]
        return parts[: 2 + bias]

    return Op(make, function, gradients=2 + bias)


def filters(
    function: Callable[..., Any],
    size: int,
    groups: bool = False,
    family: Callable[[int, int], Sequence[int]] = image,
) -> Op:
    def make(b: int, n: int, t: torch.dtype) -> list[Tensor]:
        shape = family(b, n)
        c = shape[1]
        window = [size] * (len(shape) - 2)
        return [signed(shape, t), signed((c, 1 if groups else c, *window), t)]

    return Op(make, function, gradients=2)


def recurrent(kind: Any) -> Op:
    """A layer of 64 features on 64 steps."""

    def make(b: int, n: int, t: torch.dtype) -> list[Any]:
        layer = kind(64, 64, batch_first=True).to(t)
        weights = [w.detach() for w in layer.parameters()]
        return [signed((max(n // 4096, 1), 64, 64), t), *weights]

    def run(x: Tensor, *weights: Tensor) -> Tensor:
        state = x.new_zeros(1, x.shape[0], 64)
        if kind is torch.nn.LSTM:
            return torch.lstm(x, (state, state), weights, True, 1, 0.0, True, False, True)[0]
        call = torch.gru if kind is torch.nn.GRU else torch.rnn_tanh
        return call(x, state, weights, True, 1, 0.0, True, False, True)[0]

    return Op(make, run, gradients=5)


def of_whole(function: Callable[..., Any], high: int, dtype: torch.dtype = torch.int64) -> Op:
    """Of integers below `high`, whatever dtype is asked for."""
    return Op(lambda b, n, t: [whole(high, rows(b, n)).to(dtype)], function, gradients=0)


def attention(b: int, n: int, t: torch.dtype) -> list[Tensor]:
    d = 32
    heads = 4
    return [signed((b, heads, n // (b * heads * d), d), t) for _ in range(3)]


def labels(b: int, n: int, t: torch.dtype) -> list[Tensor]:
    _, m, c = rows(b, n)
    return [signed((b * m, c), t), whole(c, (b * m,))]


def image_labels(b: int, n: int, t: torch.dtype) -> list[Tensor]:
    shape = image(b, n)
    return [signed(shape, t), whole(shape[1], (shape[0], *shape[2:]))]


def table(b: int, n: int, t: torch.dtype) -> list[Tensor]:
    return [signed((1024, 64), t), whole(1024, (b, n // b // 64))]


def vectors(b: int, n: int, t: torch.dtype) -> list[Tensor]:
    _, r, c = rows(b, n)
    return [signed((b, r, c), t), positive((b, r, 1), t), positive((c,), t)]


def optimizer(kind: Any, **options: Any) -> Op:
    """A step of one parameter that has x's layout; it is made anew for each x."""
    made: dict[torch.device, Any] = {}

    def step(x: Tensor, g: Tensor) -> Tensor:
        if x.device not in made or made[x.device][0] is not x:
            p = x.detach().clone().requires_grad_()
            p.grad = g
            made[x.device] = (x, p, kind([p], lr=1e-3, **options))
        _, p, runs = made[x.device]
        runs.step()
        return p.detach()

    return Op(lambda b, n, t: [signed(rows(b, n), t), signed(rows(b, n), t)], step, 2, 0)


def foreach(function: Callable[..., Any]) -> Op:
    def make(b: int, n: int, t: torch.dtype) -> list[Tensor]:
        return [signed(rows(b, n // 8), t) for _ in range(8)]

    return Op(make, lambda *lists: function(list(lists)), 8, 0)


def last(shape: Sequence[int]) -> Tensor:
    return whole(shape[-1], shape)


def middle(shape: Sequence[int]) -> Tensor:
    return whole(shape[1], shape)


def middle_rows(shape: Sequence[int]) -> Tensor:
    return whole(shape[1], (shape[1],))


def mask(shape: Sequence[int]) -> Tensor:
    return torch.rand(tuple(shape), generator=VALUES) < 0.5


def grid(b: int, n: int, t: torch.dtype) -> list[Tensor]:
    shape = image(b, n)
    return [signed(shape, t), (signed((b, *shape[2:], 2), t) / 2)]


OPS: dict[str, Op] = {
    # ---- element-wise
    "add_scalar": unary(lambda x: x + 1),
    "neg": unary(torch.neg),
    "abs": unary(torch.abs),
    "exp": unary(torch.exp),
    "log": unary(torch.log, positive),
    "sqrt": unary(torch.sqrt, positive),
    "rsqrt": unary(torch.rsqrt, positive),
    "reciprocal": unary(torch.reciprocal, positive),
    "sin": unary(torch.sin),
    "tanh": unary(torch.tanh),
    "erf": unary(torch.erf),
    "square": unary(torch.square),
    "pow2": unary(lambda x: x**2),
    "pow3": unary(lambda x: x**3),
    "pow0.5": unary(lambda x: x**0.5, positive),
    "sigmoid": unary(torch.sigmoid),
    "relu": unary(torch.relu),
    "relu6": unary(F.relu6),
    "leaky_relu": unary(F.leaky_relu),
    "elu": unary(F.elu),
    "selu": unary(F.selu),
    "gelu": unary(F.gelu),
    "gelu_tanh": unary(lambda x: F.gelu(x, approximate="tanh")),
    "silu": unary(F.silu),
    "mish": unary(F.mish),
    "softplus": unary(F.softplus),
    "logsigmoid": unary(F.logsigmoid),
    "hardswish": unary(F.hardswish),
    "hardsigmoid": unary(F.hardsigmoid),
    "hardtanh": unary(F.hardtanh),
    "softshrink": unary(F.softshrink),
    "threshold": unary(lambda x: F.threshold(x, 0.5, 0.0)),
    "clamp": unary(lambda x: x.clamp(-1, 1)),
    "clamp_min": unary(lambda x: x.clamp(min=0.1)),
    "logit": unary(torch.logit, positive),
    "glu": unary(F.glu),
    "prelu": of_image(F.prelu, 1, 2),
    "dropout": unary(lambda x: F.dropout(x, 0.1)),
    "add": binary(torch.add),
    "sub": binary(torch.sub),
    "mul": binary(torch.mul),
    "div": binary(torch.div, positive),
    "maximum": binary(torch.maximum),
    "pow": binary(torch.pow, positive),
    "lerp": binary(lambda a, b: torch.lerp(a, b, 0.3)),
    "addcmul": binary(lambda a, b: torch.addcmul(a, a, b, value=0.5)),
    "where": indexed(lambda a, b, m: torch.where(m, a, b), mask, 2),
    "masked_fill": indexed(lambda x, m: x.masked_fill(m, -1.0), mask),
    "scale_shift": Op(vectors, lambda x, s, b: x * s + b, gradients=3),
    "add_": binary(lambda a, b: a.add_(b, alpha=1e-3), gradients=0),
    "mul_": unary(lambda x: x.mul_(0.999), gradients=0),
    "gt": binary(torch.gt, gradients=0),
    "isnan": unary(torch.isnan, gradients=0),
    "to_half": unary(lambda x: x.to(torch.float16)),
    "to_double": unary(lambda x: x.double()),
    # ---- reductions
    "sum": unary(torch.sum),
    "sum0": unary(lambda x: x.sum(0)),
    "sum1": unary(lambda x: x.sum(1)),
    "sum-1": unary(lambda x: x.sum(-1)),
    "mean-1": unary(lambda x: x.mean(-1)),
    "mean01": unary(lambda x: x.mean((0, 1))),
    "var1": unary(lambda x: x.var(1)),
    "std-1": unary(lambda x: x.std(-1)),
    "norm": unary(torch.linalg.vector_norm),
    "norm1": unary(lambda x: torch.linalg.vector_norm(x, dim=1)),
    "prod-1": unary(lambda x: x.prod(-1), lambda s, t: positive(s, t) + 0.5),
    "amax": unary(torch.amax),
    "amax1": unary(lambda x: x.amax(1)),
    "max1": unary(lambda x: x.max(1).values),
    "min-1": unary(lambda x: x.min(-1).values),
    "argmax1": unary(lambda x: x.argmax(1), gradients=0),
    "argmax-1": unary(lambda x: x.argmax(-1), gradients=0),
    "any1": unary(lambda x: (x > 2).any(1), gradients=0),
    "logsumexp1": unary(lambda x: x.logsumexp(1)),
    "logsumexp-1": unary(lambda x: x.logsumexp(-1)),
    "median-1": unary(lambda x: x.median(-1).values),
    "mean_image": of_image(lambda x: x.mean((2, 3))),
    # ---- norms, softmax
    "softmax-1": unary(lambda x: x.softmax(-1)),
    "softmax1": unary(lambda x: x.softmax(1)),
    "log_softmax-1": unary(lambda x: x.log_softmax(-1)),
    "log_softmax1": unary(lambda x: x.log_softmax(1)),
    "layer_norm": with_last(lambda x, w, b: F.layer_norm(x, w.shape, w, b), 2),
    "rms_norm": with_last(lambda x, w: F.rms_norm(x, w.shape, w), 1),
    "batch_norm": of_image(lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), 2, 3),
    "batch_norm_eval": of_image(lambda x, m, v: F.batch_norm(x, m, v), 2, 1),
    "group_norm": of_image(lambda x, w, b: F.group_norm(x, 8, w, b), 2, 3),
    "instance_norm": of_image(F.instance_norm),
    "normalize1": unary(lambda x: F.normalize(x, dim=1)),
    # ---- losses
    "mse_loss": loss(F.mse_loss, signed),
    "l1_loss": loss(F.l1_loss, signed),
    "smooth_l1_loss": loss(F.smooth_l1_loss, signed),
    "huber_loss": loss(F.huber_loss, signed),
    "bce": loss(F.binary_cross_entropy, positive, positive),
    "bce_logits": loss(F.binary_cross_entropy_with_logits, positive),
    "kl_div": loss(lambda x, t: F.kl_div(x, t, reduction="batchmean"), positive),
    "cosine_similarity": binary(lambda a, b: F.cosine_similarity(a, b, -1)),
    "cross_entropy": Op(labels, F.cross_entropy),
    "cross_entropy_image": Op(image_labels, F.cross_entropy),
    "nll_loss": Op(labels, F.nll_loss),
    # ---- indexing
    "index": indexed(lambda x, i: x[:, i], middle_rows),
    "index_select-1": indexed(lambda x, i: x.index_select(-1, i), lambda s: whole(s[-1], s[-1:])),
    "gather-1": indexed(lambda x, i: x.gather(-1, i), last),
    "gather1": indexed(lambda x, i: x.gather(1, i), middle),
    "scatter_add1": indexed(lambda x, y, i: x.scatter_add(1, i, y), middle, 2),
    "scatter-1": indexed(lambda x, y, i: x.scatter(-1, i, y), last, 2),
    "index_add1": indexed(lambda x, y, i: x.index_add(1, i, y), middle_rows, 2),
    "index_put": indexed(
        lambda x, y, i: x.index_put((i,), y, accumulate=True), lambda s: whole(s[0], s[:1]), 2
    ),
    "embedding": Op(table, lambda w, i: F.embedding(i, w), laid=1),
    "embedding_bag": Op(table, lambda w, i: F.embedding_bag(i, w, mode="mean"), laid=1),
    "one_hot": Op(lambda b, n, t: [whole(64, (b, n // b // 64))], lambda i: F.one_hot(i, 64), 0, 0),
    # ---- copies
    "contiguous": unary(lambda x: x.transpose(1, 2).contiguous()),
    "clone": unary(torch.clone),
    "copy_": binary(lambda a, b: a.copy_(b), gradients=0),
    "flip1": unary(lambda x: x.flip(1)),
    "flip-1": unary(lambda x: x.flip(-1)),
    "roll1": unary(lambda x: x.roll(3, 1)),
    "roll-1": unary(lambda x: x.roll(3, -1)),
    "cat1": binary(lambda a, b: torch.cat((a, b), 1)),
    "cat-1": binary(lambda a, b: torch.cat((a, b), -1)),
    "stack1": binary(lambda a, b: torch.stack((a, b), 1)),
    "stack-1": binary(lambda a, b: torch.stack((a, b), -1)),
    "split": unary(lambda x: [p * 2 for p in x.chunk(4, -1)]),
    "tril": unary(torch.tril),
    "triu": unary(lambda x: x.triu(1)),
    "repeat": unary(lambda x: x.repeat(1, 2, 1)),
    "repeat_interleave": unary(lambda x: x.repeat_interleave(2, 1)),
    "pixel_shuffle": of_image(lambda x: F.pixel_shuffle(x, 2)),
    "unfold": of_image(lambda x: F.unfold(x, 2, stride=2)),
    "pad": of_image(lambda x: F.pad(x, (1, 1, 1, 1))),
    "pad_reflect": of_image(lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect")),
    "pad_replicate": of_image(lambda x: F.pad(x, (1, 1, 1, 1), mode="replicate")),
    # ---- cumulative, sorts
    "cumsum1": unary(lambda x: x.cumsum(1)),
    "cumsum-1": unary(lambda x: x.cumsum(-1)),
    "cumprod-1": unary(lambda x: x.cumprod(-1), lambda s, t: positive(s, t) + 0.5),
    "cummax1": unary(lambda x: x.cummax(1).values),
    "logcumsumexp-1": unary(lambda x: x.logcumsumexp(-1)),
    "sort-1": unary(lambda x: x.sort(-1).values),
    "sort1": unary(lambda x: x.sort(1).values),
    "argsort-1": unary(lambda x: x.argsort(-1), gradients=0),
    "topk-1": unary(lambda x: x.topk(8, -1).values),
    "topk1": unary(lambda x: x.topk(8, 1).values),
    # ---- images
    "max_pool": of_image(lambda x: F.max_pool2d(x, 2)),
    "max_pool3": of_image(lambda x: F.max_pool2d(x, 3, 2, 1)),
    "avg_pool": of_image(lambda x: F.avg_pool2d(x, 2)),
    "adaptive_avg_pool": of_image(lambda x: F.adaptive_avg_pool2d(x, 1)),
    "adaptive_max_pool": of_image(lambda x: F.adaptive_max_pool2d(x, 2)),
    "interpolate_nearest": of_image(lambda x: F.interpolate(x, scale_factor=2)),
    "interpolate_bilinear": of_image(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear")),
    "interpolate_bicubic": of_image(lambda x: F.interpolate(x, scale_factor=2, mode="bicubic")),
    "grid_sample": Op(grid, lambda x, g: F.grid_sample(x, g, align_corners=False), gradients=2),
    "conv3x3": filters(lambda x, w: F.conv2d(x, w, padding=1), 3),
    "conv1x1": filters(F.conv2d, 1),
    "conv_depthwise": filters(
        lambda x, w: F.conv2d(x, w, padding=1, groups=w.shape[0]), 3, groups=True
    ),
    "conv_transpose": filters(lambda x, w: F.conv_transpose2d(x, w, stride=2), 2),
    # ---- products
    "mm": Op(
        lambda b, n, t: [signed(halves(n // 4), t), signed(halves(n // 4)[::-1], t)],
        torch.mm,
        2,
        2,
    ),
    "bmm": Op(matrices, torch.bmm, 2, 2),
    "addmm": layer(lambda x, w, b: torch.addmm(b, x.flatten(0, 1), w)),
    "linear": layer(lambda x, w, b: F.linear(x, w, b)),
    "linear_no_bias": layer(lambda x, w: F.linear(x, w), bias=False),
    "attention": Op(attention, F.scaled_dot_product_attention, 3, 3),
    # ---- optimizers
    "adamw": optimizer(torch.optim.AdamW),
    "adamw_fused": optimizer(torch.optim.AdamW, fused=True),
    "sgd_momentum": optimizer(torch.optim.SGD, momentum=0.9),
    "foreach_add": foreach(lambda p: torch._foreach_add(p, 1.0)),
    "foreach_norm": foreach(torch._foreach_norm),
    # ---- lines and volumes
    "conv1d": filters(lambda x, w: F.conv1d(x, w, padding=1), 3, family=line),
    "conv1d_depthwise": filters(
        lambda x, w: F.conv1d(x, w, padding=4, groups=x.shape[1]), 9, True, line
    ),
    "conv3d": filters(lambda x, w: F.conv3d(x, w, padding=1), 3, family=volume),
    "conv3d_depthwise": filters(
        lambda x, w: F.conv3d(x, w, padding=1, groups=x.shape[1]), 3, True, volume
    ),
    "conv_transpose1d": filters(lambda x, w: F.conv_transpose1d(x, w, stride=2), 4, family=line),
    "conv_transpose3d": filters(lambda x, w: F.conv_transpose3d(x, w, stride=2), 2, family=volume),
    "max_pool1d": of_image(lambda x: F.max_pool1d(x, 3, 2, 1), family=line),
    "avg_pool1d": of_image(lambda x: F.avg_pool1d(x, 3, 2, 1), family=line),
    "max_pool3d": of_image(lambda x: F.max_pool3d(x, 2), family=volume),
    "avg_pool3d": of_image(lambda x: F.avg_pool3d(x, 2), family=volume),
    "interpolate_linear": of_image(
        lambda x: F.interpolate(x, scale_factor=2, mode="linear"), family=line
    ),
    "interpolate_trilinear": of_image(
        lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"), family=volume
    ),
    "pad_reflect1d": of_image(lambda x: F.pad(x, (9, 9), mode="reflect"), family=line),
    "pad_reflect_line": unary(lambda x: F.pad(x.reshape(1, -1), (9, 9), mode="reflect")),
    "batch_norm3d": of_image(
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), 2, 3, volume
    ),
    "stft": unary(
        lambda x: torch.view_as_real(
            torch.stft(x.flatten(1), 64, 16, torch.ones(64, device=x.device), return_complex=True)
        )
    ),
    "lstm": recurrent(torch.nn.LSTM),
    "gru": recurrent(torch.nn.GRU),
    "rnn": recurrent(torch.nn.RNN),
    # ---- beside training: integers, sizes that depend on data, from and to the host
    "sort_i64": of_whole(lambda x: x.sort(-1), 64),
    "sort_i32": of_whole(lambda x: x.flatten().sort(), 2**31 - 1, torch.int32),
    "argsort_u8": of_whole(lambda x: x.flatten().argsort(), 255, torch.uint8),
    "nonzero": of_whole(torch.nonzero, 2),
    "unique": of_whole(torch.unique, 1000),
    "bincount": of_whole(lambda x: torch.bincount(x.flatten()), 1000),
    "randperm": unary(lambda x: torch.randperm(x.numel(), device=x.device), gradients=0),
    "randint": unary(lambda x: torch.randint(0, 9, x.shape, device=x.device), gradients=0),
    "randn": unary(torch.randn_like, gradients=0),
    "nansum-1": unary(lambda x: x.nansum(-1)),
    "nan_to_num": unary(torch.nan_to_num),
    "cdist": Op(lambda b, n, t: [signed((b, 64, 64), t) for _ in range(2)], torch.cdist, 2, 2),
    "cdist1": Op(
        lambda b, n, t: [signed((b, 64, 64), t) for _ in range(2)],
        lambda x, y: torch.cdist(x, y, p=1),
        *(2, 2),
    ),
    "pdist": Op(lambda b, n, t: [signed((256, 64), t)], F.pdist),
    "bilinear": Op(
        lambda b, n, t: [signed(s, t) for s in ((n // 256, 32), (n // 256, 32), (32, 32, 32))],
        F.bilinear,
        *(2, 3),
    ),
    "complex_mul": unary(lambda x: torch.view_as_real(torch.complex(x, x) * torch.complex(x, x))),
    "to_host": unary(lambda x: x.to("cpu", copy=True), gradients=0),
    "to_host_and_back": unary(
        lambda x: x.to("cpu", copy=True).to(x.device, copy=True), gradients=0
    ),
}
