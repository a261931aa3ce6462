# SPDX-License-Identifier: BSD-3-Clause
"""What no row can say of its inputs: sensible numbers, indices, labels, masks, shapes that fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from samples_index import samples_of
from torch import Tensor

from torch_nntile import versions

__all__ = ["DIVISIONS", "NUMBERS", "SAMPLES", "Sample"]

# Values of number arguments by name; "" for all others.
NUMBERS: dict[str, tuple[float, ...]] = {
    "": (2, 3, 0.5, -1.5, 1, -2),
    "alpha": (1, 2, -1, 0.5),
    "beta": (1.0, 2.0),
    "threshold": (0, 1, 20),
    "negative_slope": (0.01, 0.5),
    "scale": (1.0, 2.0, 1.25),
    "exponent": (2, 3, 0.5, 1, 0, 4),
    "weight": (0.25, 0.75, 1),
    "eps": (0.0, 0.1, 0.3, 0.5, -0.5, -1.0),  # a bound: nan would bound nothing
}

# Where the CPU's vectors and its code for what is left of them differ at nan and zeros:
# test_special_values.py takes either.
UNLIKE_AT_NAN = {
    *("elu_backward", "hardswish_backward", "hardsigmoid_backward", "hardtanh_backward"),
    *("shrink_backward", "logit_backward", "prelu_backward", "log_sigmoid_backward"),
}

# Ops whose integer form has no answer for a divisor of 0.
DIVISIONS = {
    *("remainder", "fmod", "floor_divide", "div_trunc", "div", "addcdiv", "pow", "_foreach_div"),
    *("_foreach_pow", "_foreach_addcdiv"),
}


@dataclass(frozen=True)
class Sample:
    """A call with inputs; `length` terms are summed for one result (None: parity's guess)."""

    call: Callable[..., Any]
    inputs: tuple[Tensor, ...]
    grad: bool = True
    length: int | None = None


aten = torch.ops.aten


def randn(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape) + 3 * len(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def integers(high: int, *shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
    generator = torch.Generator().manual_seed(high + sum(shape))
    return torch.randint(high, shape, generator=generator).to(dtype)


def _reductions(name: str, dtypes: tuple[torch.dtype, ...]) -> list[Sample]:
    """Of all elements, of some dims, kept or not; of ties; of nan; of an empty dim."""
    op = getattr(torch, name)
    found = []
    for dtype in dtypes:
        real = dtype.is_floating_point
        grad = dtype == torch.float32 and name not in ("any", "all", "argmax", "argmin")
        x = randn(5, 7, 4) if real else integers(4, 5, 7, 4)
        x = x.to(dtype)
        found += [
            Sample(lambda x, op=op: op(x), (x,), grad),
            Sample(lambda x, op=op: op(x, 1), (x,), grad),
            Sample(
                lambda x, op=op: op(x, -1, keepdim=True),
                (x.transpose(0, 2).contiguous().transpose(0, 2),),
                grad,
            ),
            Sample(lambda x, op=op: op(x.t(), 0), (x[:, :, 0].clone(),), grad),
            Sample(lambda x, op=op: op(x, 0), (x[0, 0, 0].clone(),), grad),
        ]
        if name in ("sum", "mean", "amax", "amin", "any", "all"):
            found.append(Sample(lambda x, op=op: op(x, (0, 2)), (x,), grad))
        if name in ("sum", "any", "all", "prod"):
            found.append(Sample(lambda x, op=op: op(x, 1), (x[:, :0].clone(),), False))
        if real:
            odd = x.clone()
            odd[1, 2] = torch.nan
            odd[3, :, 1] = torch.inf
            found.append(Sample(lambda x, op=op: op(x, 1), (odd,), False))
    return found


def _over_dims(name: str) -> list[Sample]:
    op = getattr(torch, name)
    endless = randn(4, 6)
    endless[1, 2], endless[2], endless[3, 0] = torch.nan, -torch.inf, torch.inf
    # The CPU's means of what is endless are no numbers where they come with a variance.
    found = [Sample(lambda x: op(x, 1), (endless,), False)] if "mean" not in name else []
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        x = randn(5, 7, 4).to(dtype)
        turned, grad = x.transpose(0, 2).contiguous().transpose(0, 2), dtype != torch.bfloat16
        found += [
            Sample(lambda x: op(x, 1), (x,), grad),
            Sample(lambda x: op(x, (0, 2)), (x,), grad),
            Sample(lambda x: op(x, (0, 1, 2)), (x + 1000,), grad),
            Sample(lambda x: op(x, -1, keepdim=True), (turned,), grad),
            Sample(lambda x: op(x.t(), 0), (x[:, :, 0].clone(),), grad),
        ]
    return found


F32, F64, F16, BF16 = torch.float32, torch.float64, torch.float16, torch.bfloat16
I64, I32, U8, BOOL = torch.int64, torch.int32, torch.uint8, torch.bool


def _products() -> dict[str, list[Sample]]:
    found: dict[str, list[Sample]] = {"mm": [], "bmm": [], "addmm": [], "baddbmm": []}
    for dtype in (F32, F64, BF16, F16, I64):
        grad = dtype in (F32, F64)
        whole = dtype == I64

        def make(*shape: int, dtype: torch.dtype = dtype, whole: bool = whole) -> Tensor:
            return integers(5, *shape) if whole else randn(*shape, dtype=dtype)

        alpha, beta = (2, 3) if whole else (0.5, 2.0)
        found["mm"] += [
            Sample(torch.mm, (make(5, 13), make(13, 8)), grad, 13),
            Sample(torch.mm, (make(13, 5).t(), make(8, 13).t()), grad, 13),
            Sample(torch.mm, (make(1, 1), make(1, 7)), grad, 1),
            Sample(torch.mm, (make(3, 0), make(0, 4)), False, 1),
            Sample(torch.mm, (make(9, 9)[1:6, ::2], make(5, 4)), grad, 5),
            Sample(torch.mm, (make(4, 1).expand(4, 6), make(6, 3)), grad, 6),
        ]
        found["bmm"] += [
            Sample(torch.bmm, (make(3, 4, 5), make(3, 5, 2)), grad, 5),
            Sample(
                torch.bmm, (make(1, 4, 5).expand(3, 4, 5), make(3, 2, 5).transpose(1, 2)), grad, 5
            ),
            Sample(torch.matmul, (make(2, 3, 4, 5), make(5, 6)), grad, 120),
        ]
        found["addmm"] += [
            Sample(
                lambda c, a, b, alpha=alpha, beta=beta: torch.addmm(
                    c, a, b, alpha=alpha, beta=beta
                ),
                (make(6), make(5, 7), make(7, 6)),
                grad,
            ),
            Sample(
                lambda c, a, b: torch.addmm(c, a, b, beta=0),
                (torch.full((5, 6), float("nan")).to(dtype), make(5, 7), make(7, 6))
                if not whole
                else (make(5, 6), make(5, 7), make(7, 6)),
                False,
            ),
            Sample(lambda c, a, b: c.addmm_(a, b), (make(5, 6), make(5, 7), make(7, 6)), False),
        ]
        found["baddbmm"].append(
            Sample(
                lambda c, a, b, alpha=alpha, beta=beta: torch.baddbmm(
                    c, a, b, alpha=alpha, beta=beta
                ),
                (make(1, 6), make(3, 5, 7), make(3, 7, 6)),
                grad,
            )
        )
    linear = torch.nn.functional.linear
    found["addmm"] += [
        Sample(linear, (randn(2, 3, 7), randn(5, 7), randn(5))),
        Sample(linear, (randn(4, 7), randn(5, 7))),
    ]
    return found


def _networks() -> dict[str, list[Sample]]:
    functional = torch.nn.functional
    target, target2 = integers(5, 7), integers(5, 2, 3, 3)
    ignored = target.clone()
    ignored[::2] = -100
    # The gradient flows into the floating inputs only; weights of losses have none.
    found: dict[str, list[Sample]] = {
        "_softmax": [],
        "_log_softmax": [],
        "_softmax_backward_data": [],
        "_log_softmax_backward_data": [],
    }
    for dim, shape in ((1, (4, 9)), (0, (6, 5)), (-1, (2, 3, 7)), (1, (2, 5, 3)), (0, ())):
        for dtype in (F32, F64, BF16):
            x, dy = randn(*shape, dtype=dtype), randn(*shape, dtype=dtype) + 1
            grad = dtype != BF16
            found["_softmax"].append(Sample(lambda x, d=dim: torch.softmax(x, d), (x,), grad))
            found["_log_softmax"].append(
                Sample(lambda x, d=dim: torch.log_softmax(x * 3, d), (x,), grad)
            )
            for name, y in (("_softmax", x.softmax(dim)), ("_log_softmax", x.log_softmax(dim))):
                backward = getattr(aten, f"{name}_backward_data")
                found[f"{name}_backward_data"].append(
                    Sample(
                        lambda dy, y, d=dim, f=backward: f(dy, y, d, y.dtype),
                        (dy, y.clone()),
                        False,
                    )
                )
    masked = randn(4, 9)
    masked[:, 3:6] = -torch.inf
    found["_softmax"].append(Sample(lambda x: torch.softmax(x, 1), (masked,), False))

    losses: list[Sample] = []
    for reduction in ("mean", "sum", "none"):
        for t in (target, ignored):
            losses.append(
                Sample(
                    lambda x, t, r=reduction: functional.nll_loss(x, t, reduction=r),
                    (randn(7, 5).log_softmax(1).clone(), t),
                )
            )
        losses += [
            Sample(
                lambda x, t, w, r=reduction: functional.cross_entropy(
                    x, t, w.detach(), ignore_index=2, reduction=r
                ),
                (randn(7, 5), target, randn(5).abs()),
            ),
            Sample(
                lambda x, t, r=reduction: functional.cross_entropy(x, t, reduction=r),
                (randn(2, 5, 3, 3), target2),
            ),
        ]
    losses += [
        Sample(functional.cross_entropy, (randn(5), torch.tensor(3))),
        Sample(functional.cross_entropy, (randn(7, 5), torch.full((7,), -100))),
        Sample(
            lambda x, t: functional.cross_entropy(x, t, label_smoothing=0.1),
            (randn(7, 5), integers(5, 7)),
        ),
    ]
    found["nll_loss_forward"] = losses
    found["nll_loss_backward"] = losses[:4]

    indices = integers(6, 4, 3)
    table = randn(6, 5)
    found["embedding"] = [
        Sample(functional.embedding, (indices, table)),
        Sample(functional.embedding, (indices.t(), randn(5, 6).t())),
        Sample(functional.embedding, (indices.to(I32), table)),
        Sample(functional.embedding, (torch.tensor(2), table)),
        Sample(functional.embedding, (indices[:0], table), False),
        Sample(lambda i, w: functional.embedding(i, w, padding_idx=1), (indices, table)),
        Sample(lambda i, w: functional.embedding(i, w, scale_grad_by_freq=True), (indices, table)),
    ]
    found["embedding_dense_backward"] = [
        Sample(
            lambda dy, i, p=padding, s=scale: aten.embedding_dense_backward(dy, i, 6, p, s),
            (randn(4, 3, 5), indices),
            False,
        )
        for padding in (-1, 2)
        for scale in (False, True)
    ]
    norms = [
        Sample(lambda x: functional.layer_norm(x, (8,)), (randn(4, 8),)),
        Sample(
            lambda x, w, b: functional.layer_norm(x, (8,), w, b),
            (randn(4, 3, 8), randn(8), randn(8)),
        ),
        Sample(lambda x, w: functional.layer_norm(x, (3, 8), w), (randn(4, 3, 8), randn(3, 8))),
        Sample(
            lambda x, w, b: functional.layer_norm(x, (4,), w, b, 0.1),
            (randn(4, 5).t(), randn(4), randn(4)),
        ),
        Sample(lambda x: functional.layer_norm(x, (1,)), (randn(4, 1),)),
    ]
    found["native_layer_norm"] = norms
    found["native_layer_norm_backward"] = [
        Sample(
            lambda dy, x, m, r, w, b: aten.native_layer_norm_backward(
                dy, x, (8,), m, r, w, b, (True, True, True)
            ),
            (randn(4, 8) + 1, randn(4, 8), randn(4, 1), randn(4, 1).abs(), randn(8), randn(8)),
            False,
        )
    ]

    def attended(*options: Any) -> list[Sample]:
        def call(q: Tensor, k: Tensor, v: Tensor, *mask: Tensor) -> Tensor:
            given = mask[0].detach() if mask else None
            return functional.scaled_dot_product_attention(q, k, v, given, *options)

        q, k, v = (randn(2, 4, n, 8) for n in (6, 5, 5))
        masks = ((), (randn(6, 5) > -1,), *([] if options else [(randn(2, 1, 1, 5),)]))
        if options and not versions.CAUSAL_TAKES_A_MASK:
            masks = ((),)
        return [Sample(call, (q, k, v, *mask), True, 64) for mask in masks]

    def causal_with_a_mask(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        kernel = aten._scaled_dot_product_flash_attention_for_cpu
        result: Tensor = kernel(q, k, v, 0.0, True, attn_mask=randn(6, 5).to(q.device))[0]
        return result

    found["_scaled_dot_product_flash_attention_for_cpu"] = [
        *attended(),
        *attended(0.0, True),
        Sample(causal_with_a_mask, tuple(randn(2, 4, n, 8) for n in (6, 5, 5)), True, 64),
    ]
    found["_scaled_dot_product_flash_attention_for_cpu_backward"] = [
        Sample(
            lambda dy, q, k, v, c=causal: aten._scaled_dot_product_flash_attention_for_cpu_backward(
                dy,
                *(q, k, v),
                *aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, c),
                *(0.0, c),
            ),
            tuple(randn(2, 3, n, 4) for n in (6, 6, 5, 5)),
            False,
            64,
        )
        for causal in (False, True)
    ]
    found["cat"] = [
        Sample(lambda *xs: torch.cat(xs), (randn(3, 4), randn(5, 4), randn(1, 4))),
        Sample(lambda *xs: torch.cat(xs, -1), (randn(3, 4), randn(4, 3).t(), randn(3, 0))),
        Sample(lambda *xs: torch.cat(xs, 1), (randn(3, 4), integers(3, 3, 2)), False),
        Sample(lambda *xs: torch.stack(xs, 1), (randn(3, 4), randn(3, 4))),
        Sample(lambda *xs: torch.cat(xs), (torch.empty(0), randn(2, 2)), False),
        Sample(lambda x: torch.cat([x]), (randn(3),)),
    ]
    return found


def _fills() -> dict[str, list[Sample]]:
    return {
        "fill_.Scalar": [
            Sample(lambda x, v=value: x.fill_(v), (x,), False)
            for x, value in (
                (randn(4, 5)[1:3, ::2], 2.5),
                (integers(5, 3, 4).t(), 3),
                (randn(3, 1).expand(3, 4), 1.0),
                (integers(2, 7).bool(), True),
                (randn(3, dtype=BF16), 1 / 3),
            )
        ],
        "zero_": [Sample(lambda x: x.zero_(), (randn(4, 5)[:, 1:3],), False)],
        "arange.start_out": [
            Sample(lambda x: torch.arange(2, 11, 3, device=x.device) + x, (integers(3, 1),), False),
            Sample(lambda x: torch.arange(0.5, 3, 0.25, device=x.device) + x, (randn(1),), False),
            Sample(
                lambda x: torch.arange(5, 0, -2, device=x.device, dtype=F32) + x, (randn(1),), False
            ),
            Sample(lambda x: torch.arange(1, 1, device=x.device), (randn(1),), False),
        ],
    }


_REAL, _ALL = (F32, F64, BF16), (F32, F64, BF16, I64, I32, U8, BOOL)
_BY_REDUCTION = {
    "sum": (F32, F64, BF16, F16, I64, I32, U8, BOOL),
    "mean": _REAL,
    "prod": (F32, I64),
    "any": _ALL,
    "all": _ALL,
    "amax": (F32, BF16, I64, U8, BOOL),
    "amin": (F32, BF16, I64),
    "argmax": (F32, I64, BF16),
    "argmin": (F32, I64),
    "max": (F32, I64),
    "min": (F32, I64),
}

# Base name of the overload -> calls that reach it.
SAMPLES: dict[str, list[Sample]] = {
    **{
        name: [
            Sample(op, (randn(5, 7),)),
            Sample(lambda x, op=op: op(x, 2), (randn(3, 7, 5),)),
            Sample(lambda x, op=op: op(x, -9), (randn(1, 4),)),
        ]
        for name, op in (("tril", torch.tril), ("triu", torch.triu))
    },
    **{name: _reductions(name, dtypes) for name, dtypes in _BY_REDUCTION.items()},
    **{name: _over_dims(name) for name in ("logsumexp", "var", "std", "var_mean", "std_mean")},
    **_products(),
    **_networks(),
    **_fills(),
    **samples_of(Sample),
}
