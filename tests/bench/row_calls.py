# SPDX-License-Identifier: BSD-3-Clause
"""A call of PyTorch for each op row: about a million numbers of float32, as models have them.

A call is made of CPU tensors and a function of them; a gradient is timed alone, by `backward_of`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_nntile import _c, aten

__all__ = ["CALLS", "Call", "call_of"]

N = 1024


@dataclass(frozen=True)
class Call:
    """`function(*inputs)`; backward: of its result, by the gradients of `inputs[:gradients]`."""

    text: str
    inputs: Sequence[Any]
    function: Callable[..., Any]
    gradients: int = 0


def real(*shape: int) -> Tensor:
    """Between 0.1 and 0.9: every function takes it."""
    return torch.rand(shape, generator=torch.Generator().manual_seed(0)) * 0.8 + 0.1


def whole(high: int, *shape: int) -> Tensor:
    return torch.randint(high, shape, generator=torch.Generator().manual_seed(0))


def backward_of(text: str, inputs: Sequence[Any], function: Callable[..., Any], n: int = 1) -> Call:
    return Call(text, inputs, function, n)


def pool(kind: str) -> tuple[str, Sequence[Any], Callable[..., Any]]:
    return f"{kind}(16x64x56x56, 2)", [real(16, 64, 56, 56)], lambda x: getattr(F, kind)(x, 2)


def recurrent(kind: str, *shape: int) -> tuple[str, Sequence[Any], Callable[..., Any], int]:
    module = getattr(torch.nn, kind)(128, 256)
    weights = [p.detach() for p in module.parameters()]
    names = [name for name, _ in module.named_parameters()]

    def run(x: Tensor, *values: Tensor) -> Tensor:
        found = torch.func.functional_call(module, dict(zip(names, values, strict=True)), (x,))
        return found if isinstance(found, Tensor) else found[0]

    text = f"{kind}({'x'.join(map(str, shape))}x128, 256)"
    return text, [real(*shape, 128), *weights], run, 1 + len(weights)


def sequence(kind: str) -> tuple[str, Sequence[Any], Callable[..., Any], int]:
    return recurrent(kind, 64, 32)


def cell(kind: str) -> tuple[str, Sequence[Any], Callable[..., Any], int]:
    return recurrent(kind, N)


HEADS = [real(8, 8, 512, 64) for _ in range(3)]
ATTENTION = ("scaled_dot_product_attention(8x8x512x64)", HEADS, F.scaled_dot_product_attention)
CROSS = (
    "cross_entropy(2048x8192)",
    [real(2048, 8192), whole(8192, 2048)],
    F.cross_entropy,
)
NLL = (
    "nll_loss(2048x1024)",
    [real(2048, N), whole(N, 2048)],
    F.nll_loss,
)
CONVOLUTION = (
    "conv2d(16x64x56x56, 64x64x3x3)",
    [real(16, 64, 56, 56), real(64, 64, 3, 3)],
    functools.partial(F.conv2d, padding=1),
)
LAYER = (
    "layer_norm(4096x1024)",
    [real(4096, N), real(N), real(N)],
    lambda x, w, b: F.layer_norm(x, (N,), w, b),
)
RMS = (
    "rms_norm(4096x1024)",
    [real(4096, N), real(N)],
    lambda x, w: F.rms_norm(x, (N,), w),
)
GROUP = (
    "group_norm(16x64x56x56, 32)",
    [real(16, 64, 56, 56), real(64), real(64)],
    lambda x, w, b: F.group_norm(x, 32, w, b),
)
GRID = (
    "grid_sample(4x16x32x32)",
    [real(4, 16, 32, 32), real(4, 32, 32, 2)],
    lambda x, g: F.grid_sample(x, g.tanh(), align_corners=False),
)
BATCH = (
    "batch_norm(16x64x56x56)",
    [real(16, 64, 56, 56), real(64), real(64)],
    lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
)
BAG = (
    "embedding_bag(65536 of 100000x64)",
    [real(100_000, 64), whole(100_000, 65_536), torch.arange(0, 65_536, 32)],
)
LOOKUP = (
    "embedding(64x512 of 8192x256)",
    [real(8192, 256), whole(8192, 64, 512)],
    lambda w, i: F.embedding(i, w),
)
SQUARE = [real(N, N)]
PLACES = whole(N, N, N)
ROWS_OF = whole(N, N)


def step(kind: Any, **options: Any) -> Callable[..., Any]:
    """An optimizer's step of one parameter; its state is made by the first call."""
    made: dict[str, Any] = {}

    def run(p: Tensor, g: Tensor) -> None:
        key = str(p.device)
        if key not in made:
            p = p.detach().clone().requires_grad_()
            p.grad = g.detach()
            made[key] = kind([p], lr=1e-3, **options)
        made[key].step()

    return run


CALLS: dict[str, Call] = {
    "abs": Call("abs(1024x1024)", SQUARE, torch.abs),
    "copy": Call("clone(1024x1024)", SQUARE, torch.clone),
    "cast": Call("to(float64)", SQUARE, lambda x: x.double()),
    "fill": Call("fill_", SQUARE, lambda x: x.fill_(0.5)),
    "arange": Call("arange(1048576)", SQUARE, lambda x: torch.arange(0.0, N * N, device=x.device)),
    "uniform": Call("uniform_", SQUARE, lambda x: x.uniform_()),
    "normal": Call("normal_", SQUARE, lambda x: x.normal_()),
    "randint": Call("random_(100)", SQUARE, lambda x: x.random_(100)),
    "bernoulli": Call("bernoulli", SQUARE, torch.bernoulli),
    "dropout": Call("dropout", SQUARE, lambda x: F.dropout(x, 0.1)),
    "masked_scale": backward_of("dropout", SQUARE, lambda x: F.dropout(x, 0.1)),
    "div_trunc": Call(
        "div(trunc)", [real(N, N), real(N, N)], lambda a, b: torch.div(a, b, rounding_mode="trunc")
    ),
    "clamp": Call("clamp(0.2, 0.7)", SQUARE, lambda x: x.clamp(0.2, 0.7)),
    "trigamma": Call("polygamma(1)", SQUARE, lambda x: torch.polygamma(1, x)),
    "zeta": Call("special.zeta", [real(N, N) + 2, real(N, N)], torch.special.zeta),
    "binary_cross_entropy": Call(
        "binary_cross_entropy", [real(N, N), real(N, N)], F.binary_cross_entropy
    ),
    "elu_backward": backward_of("elu", SQUARE, F.elu),
    "softshrink": Call("softshrink(1024x1024)", SQUARE, F.softshrink),
    "nan_to_num": Call("nan_to_num(1024x1024)", SQUARE, torch.nan_to_num),
    "logit": Call("logit(1024x1024)", SQUARE, lambda x: torch.logit(x, 1e-6)),
    **{
        f"{name}{way}": make(f"{name}_loss", [real(N, N), real(N, N) / 2], loss)
        for name, loss in (("smooth_l1", F.smooth_l1_loss), ("huber", F.huber_loss))
        for way, make in (("", Call), ("_backward", backward_of))
    },
    "binary_cross_entropy_backward": backward_of(
        "binary_cross_entropy", [real(N, N), real(N, N)], F.binary_cross_entropy
    ),
    "glu": Call("glu(1024x1024)", SQUARE, F.glu),
    "glu_gate_backward": backward_of("glu", SQUARE, F.glu),
    "mse": Call("mse_loss", [real(N, N), real(N, N) / 2], F.mse_loss),
    "mse_backward": backward_of("mse_loss", [real(N, N), real(N, N) / 2], F.mse_loss),
    "sgd": Call("SGD", [real(N, N), real(N, N)], step(torch.optim.SGD, fused=True)),
    "sgd_momentum": Call(
        "SGD(momentum)", [real(N, N), real(N, N)], step(torch.optim.SGD, momentum=0.9, fused=True)
    ),
    "adam": Call("AdamW", [real(N, N), real(N, N)], step(torch.optim.AdamW, fused=True)),
    "adam_amsgrad": Call(
        "AdamW(amsgrad)",
        [real(N, N), real(N, N)],
        step(torch.optim.AdamW, amsgrad=True, fused=True),
    ),
    "matmul": Call("mm(1024^3)", [real(N, N), real(N, N)], torch.mm),
    "matmul_int8": Call(
        "int8 weights",
        [real(N, N), torch.arange(N * N).reshape(N, N).to(torch.int8), real(N)],
        torch._weight_int8pack_mm,
    ),
    "addmm": Call("addmm(1024^3)", [real(N), real(N, N), real(N, N)], torch.addmm),
    **{
        name: Call(f"{name}(1)", SQUARE, lambda x, f=name: getattr(torch, f)(x, 1))
        for name in ("sum", "mean", "prod", "amax", "amin", "argmax", "argmin")
    },
    **{
        name: Call(f"{name}(1)", [real(N, N) > 0.2], lambda x, f=name: getattr(torch, f)(x, 1))
        for name in ("any", "all")
    },
    "norm2": Call("linalg.vector_norm", SQUARE, torch.linalg.vector_norm),
    "softmax": Call("softmax(4096x1024)", [real(4096, N)], lambda x: x.softmax(1)),
    "log_softmax": Call("log_softmax(4096x1024)", [real(4096, N)], lambda x: x.log_softmax(1)),
    "softmax_backward": backward_of("softmax(4096x1024)", [real(4096, N)], lambda x: x.softmax(1)),
    "log_softmax_backward": backward_of(
        "log_softmax(4096x1024)", [real(4096, N)], lambda x: x.log_softmax(1)
    ),
    "nll_loss": Call(*NLL),
    "nll_loss_backward": backward_of(*NLL),
    "cross_entropy": Call(*CROSS),
    "cross_entropy_backward": backward_of(*CROSS),
    "convolution": Call(*CONVOLUTION),
    "convolution_backward": backward_of(*CONVOLUTION, 2),
    "embedding": Call(*LOOKUP),
    "embedding_backward": backward_of(*LOOKUP),
    "embedding_bag": Call(*BAG, lambda w, i, o: F.embedding_bag(i, w, o, mode="sum")),
    "embedding_bag_max": Call(*BAG, lambda w, i, o: F.embedding_bag(i, w, o, mode="max")),
    "bag_of": backward_of(*BAG, lambda w, i, o: F.embedding_bag(i, w, o, mode="sum")),
    "layer_norm": Call(*LAYER),
    "layer_norm_backward": backward_of(*LAYER, 3),
    "rms_norm": Call(*RMS),
    "rms_norm_backward": backward_of(*RMS, 2),
    "group_norm": Call(*GROUP),
    "group_norm_backward": backward_of(*GROUP, 3),
    "batch_norm": Call(*BATCH),
    "batch_norm_backward": backward_of(*BATCH, 3),
    "channel_sums": Call(*BATCH),
    "channel_blend": Call(*BATCH),
    "grid_sample": Call(*GRID),
    "grid_sample_backward": backward_of(*GRID, 2),
    "max_pool": Call(*pool("max_pool2d")),
    "max_pool_backward": backward_of(*pool("max_pool2d")),
    "avg_pool": Call(*pool("avg_pool2d")),
    "avg_pool_backward": backward_of(*pool("avg_pool2d")),
    "lstm_cell": Call(*cell("LSTMCell")[:3]),
    "lstm_cell_backward": backward_of(*cell("LSTMCell")),
    "gru_cell": Call(*cell("GRUCell")[:3]),
    "gru_cell_backward": backward_of(*cell("GRUCell")),
    "lstm_sequence": Call(*sequence("LSTM")[:3]),
    "lstm_sequence_backward": backward_of(*sequence("LSTM")),
    "gru_sequence": Call(*sequence("GRU")[:3]),
    "gru_sequence_backward": backward_of(*sequence("GRU")),
    "rnn_sequence": Call(*sequence("RNN")[:3]),
    "rnn_sequence_backward": backward_of(*sequence("RNN")),
    "attention": Call(*ATTENTION),
    "attention_backward": backward_of(*ATTENTION, 3),
    "cat": Call("cat of two", [real(N, N), real(N, N)], lambda a, b: torch.cat((a, b))),
    "gather": Call("gather(1)", [real(N, N), PLACES], lambda x, i: x.gather(1, i)),
    "scatter": Call(
        "scatter_add(0)",
        [real(N, N), PLACES],
        lambda x, i: torch.zeros_like(x).scatter_add_(0, i, x),
    ),
    "index_select": Call(
        "index_select(0)", [real(N, N), ROWS_OF], lambda x, i: x.index_select(0, i)
    ),
    "index_add": Call(
        "index_add(0)", [real(N, N), ROWS_OF], lambda x, i: torch.zeros_like(x).index_add_(0, i, x)
    ),
    "index": Call("x[i, j]", [real(N, N), PLACES], lambda x, i: x[i, i]),
    "index_put": Call(
        "index_put_(accumulate)",
        [real(N, N), ROWS_OF],
        lambda x, i: torch.zeros_like(x).index_put_((i,), x, accumulate=True),
    ),
    "cumsum": Call("cumsum(1)", SQUARE, lambda x: x.cumsum(1)),
    "cumprod": Call("cumprod(1)", SQUARE, lambda x: x.cumprod(1)),
    "logcumsumexp": Call("logcumsumexp(1)", SQUARE, lambda x: x.logcumsumexp(1)),
    "cummax": Call("cummax(1)", SQUARE, lambda x: x.cummax(1)),
    "cummin": Call("cummin(1)", SQUARE, lambda x: x.cummin(1)),
    "sort": Call("sort(1)", SQUARE, lambda x: x.sort(1)),
    "topk": Call("topk(8)", SQUARE, lambda x: x.topk(8)),
    "kthvalue": Call("kthvalue(8)", SQUARE, lambda x: x.kthvalue(8)),
    "flip": Call("flip(1)", SQUARE, lambda x: x.flip(1)),
    "resample": Call(
        "interpolate(16x64x28x28, 2, bilinear)",
        [real(16, 64, 28, 28)],
        lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    ),
    "draw": Call(
        "multinomial(64x50257, 1)", [real(64, 50257).abs()], lambda x: torch.multinomial(x, 1)
    ),
    "searchsorted": Call(
        "searchsorted(1024x1024)",
        [real(N, N).sort(1).values, real(N, N)],
        torch.searchsorted,
    ),
}


def call_of(op: str) -> Call | None:
    """Of the table; else PyTorch's overload that the row serves, on operands of 1024 x 1024."""
    if op in CALLS:
        return CALLS[op]
    for row in aten.ROWS:
        if row.op == op and "::" not in row.overload and not row.flags & aten.FOREACH:
            return elementwise(row)
    return None


def elementwise(row: aten.Row) -> Call:
    name, _, overload = row.overload.partition(".")
    function = getattr(getattr(torch.ops.aten, name), overload or "default")
    number = next(k for k in range(_c.get("nntile_op_count")) if op_name(k) == row.op)
    takes = [d for d in _c.DTYPES if _c.get("nntile_op_takes", number, _c.DTYPES[d])]
    inputs: list[Any] = []
    for argument in function._schema.arguments:
        if argument.has_default_value() or argument.kwarg_only:
            continue
        if isinstance(argument.type, torch.TensorType) or str(argument.type) == "Optional[Tensor]":
            value = real(N, N)
            if argument.name in ("condition", "mask"):
                value = value > 0.5
            elif torch.float32 not in takes:
                value = (value * 10).to(takes[0])
            inputs.append(value)
        else:
            inputs.append(0.5)
    return Call(f"{name}(1024x1024)", inputs, function)


def op_name(number: int) -> str:
    return _c.text(_c.get("nntile_op_name", number))
