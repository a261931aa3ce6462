# SPDX-License-Identifier: BSD-3-Clause
"""Results have the strides of the CPU, whatever the operands'; but of dims of one element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from parity import strides_of
from torch import Tensor
from torch.nn.functional import huber_loss

import torch_nntile  # noqa: F401

DTYPES = (torch.float32, torch.bfloat16, torch.int32, torch.bool, torch.float64)


@dataclass(frozen=True)
class Operand:
    """Sizes, 1 where it broadcasts; expanded dims; the order of its dims in memory; every other one."""

    sizes: Sequence[int]
    expanded: Sequence[bool]
    order: Sequence[int]
    step: bool
    dtype: torch.dtype

    def make(self, device: str) -> Tensor:
        kept = [1 if e else n for n, e in zip(self.sizes, self.expanded, strict=True)]
        memory = [kept[d] for d in self.order]
        if self.step and memory:
            memory[-1] *= 2
        x = torch.ones(memory, dtype=self.dtype, device=device)
        if self.step and memory:
            x = x[..., ::2]
        return x.permute([list(self.order).index(d) for d in range(len(kept))]).expand(*self.sizes)


@st.composite
def operands(draw: st.DrawFn) -> tuple[Operand, Operand]:
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    rank = len(sizes)
    found = []
    for _ in range(2):
        broadcasts = draw(st.lists(st.booleans(), min_size=rank, max_size=rank))
        own = [1 if b else n for n, b in zip(sizes, broadcasts, strict=True)]
        found.append(
            Operand(
                own,
                draw(st.lists(st.booleans(), min_size=rank, max_size=rank)),
                draw(st.permutations(range(rank))),
                draw(st.booleans()),
                draw(st.sampled_from(DTYPES)),
            )
        )
    return found[0], found[1]


aten = torch.ops.aten
# Of a gradient and an operand that may lie in different ways.
GRADIENTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "native_dropout_backward": lambda g, x: aten.native_dropout_backward(g, x > 0, 2.0),
    "hardshrink_backward": lambda g, x: aten.hardshrink_backward(g, x, 0.5),
    "softshrink_backward": lambda g, x: aten.softshrink_backward(g, x, 0.5),
    "elu_backward": lambda g, x: aten.elu_backward(g, 1, 1, 1, False, x),
    "hardsigmoid_backward": aten.hardsigmoid_backward,
    "hardswish_backward": aten.hardswish_backward,
    "hardtanh_backward": lambda g, x: aten.hardtanh_backward(g, x, -1, 1),
    "mish_backward": aten.mish_backward,
    "softplus_backward": lambda g, x: aten.softplus_backward(g, x, 1, 20),
    "logit_backward": aten.logit_backward,
    "mse_loss_backward": lambda g, x: aten.mse_loss_backward(g, x, g, 0),
    "smooth_l1_loss_backward": lambda g, x: aten.smooth_l1_loss_backward(g, x, g, 0, 1.0),
    "huber_loss_backward": lambda g, x: aten.huber_loss_backward(g, x, g, 0, 1.0),
    "log_sigmoid_backward": lambda g, x: aten.log_sigmoid_backward(g, x, g),
}

OPS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add tensors": torch.add,
    "mul tensors": torch.mul,
    "ne": torch.ne,
    "div tensors": torch.true_divide,
    "maximum": torch.maximum,
    "pow": lambda x, y: torch.pow(x.float(), y),
    "exp": lambda x, y: torch.exp(x),
    "sigmoid": lambda x, y: torch.sigmoid(y),
    "addcmul": lambda x, y: torch.addcmul(x.float(), x.float(), y),
    "copysign": lambda x, y: torch.copysign(x.float(), y),
    "floor_divide": lambda x, y: torch.floor_divide(x.float(), y + 1),
    "logical_xor": torch.logical_xor,
    "nextafter": lambda x, y: torch.nextafter(x.float(), y.double()),
    "xlogy": torch.xlogy,
    "where": lambda x, y: torch.where(x > 0, x, y),
    "huber_loss": lambda x, y: huber_loss(
        *torch.broadcast_tensors(x.float(), y.double()), reduction="none"
    ),
    "lerp": lambda x, y: torch.lerp(x.float(), y.float(), 0.3),
    "sum": lambda x, y: x.sum(-1),
    "amax": lambda x, y: y.amax(0, keepdim=True),
    "cumsum": lambda x, y: x.cumsum(0),
    "softmax": lambda x, y: x.float().softmax(0),
    **{
        name: lambda x, y, name=name: getattr(torch, name)(
            x if x.dtype != torch.bool else x.int(), 3
        )
        for name in ("add", "sub", "mul", "div", "remainder", "fmod", "rsub", "ge", "clamp_min")
    },
    "bitwise_and": lambda x, y: torch.bitwise_and(x.int(), 3),
    "masked_fill": lambda x, y: x.masked_fill(y > 0, 3),
    "relu": lambda x, y: torch.relu(x.float()),
    "foreach add": lambda x, y: torch._foreach_add([y, x.float()], [x, y])[1],
    "foreach addcmul": lambda x, y: torch._foreach_addcmul([x.float()], [y.float()], [x.float()])[
        0
    ],
    "foreach exp": lambda x, y: torch._foreach_exp([y, x])[1],
    "foreach mul": lambda x, y: torch._foreach_mul([y, x], 1.5)[1],
    "roll": lambda x, y: x.roll(1, 0),
    "logical_and": torch.logical_and,
    "complex": lambda x, y: torch.complex(x.float(), y.float()),
    "where out": lambda x, y: torch.where(
        x > 0, x.float(), y.float(), out=torch.empty(0, device=x.device)
    ),
    **{
        f"{name} out": lambda x, y, name=name: getattr(torch, name)(
            x.int(), 3, out=torch.empty(0, dtype=torch.int32, device=x.device)
        )
        for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "fmod", "remainder")
    },
    **{
        name: lambda x, y, gradient=gradient: gradient(
            *torch.broadcast_tensors(x.float(), y.float())
        )
        for name, gradient in GRADIENTS.items()
    },
}


@given(pair=operands(), name=st.sampled_from(sorted(OPS)))
@settings(max_examples=300, deadline=None)
def test_strides_are_those_of_the_cpu(pair: tuple[Operand, Operand], name: str) -> None:
    found, expected = (
        OPS[name](*(operand.make(device) for operand in pair)) for device in ("nntile", "cpu")
    )
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert strides_of(found) == strides_of(expected)


def test_what_the_cpu_refuses_is_refused() -> None:
    """Python's Meta kernel knows nothing of bools here."""
    for device in ("cpu", "nntile"):
        with pytest.raises(RuntimeError, match="argmax"):
            torch.ones(3, dtype=torch.bool, device=device).argmax()


@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_of_bools_along_a_dim(name: str) -> None:
    x = torch.tensor([[False, True, True], [True, False, True]])
    expected = getattr(x, name)(1)
    found = getattr(x.to("nntile"), name)(1)
    assert torch.equal(found.values.cpu(), expected.values)
    assert torch.equal(found.indices.cpu(), expected.indices)


def test_a_cotangent_of_fewer_dims() -> None:
    """The CPU lays the gradient like the cotangent, and resizes it where that is too small."""
    for shape in ((0,), (1,), (3,)):
        found = [
            torch.ops.aten.log_sigmoid_backward(
                torch.tensor(1.5, device=device),
                torch.ones(shape, device=device),
                torch.ones(shape, device=device),
            )
            for device in ("cpu", "nntile")
        ]
        assert found[0].stride() == found[1].stride()
        torch.testing.assert_close(found[0], found[1].cpu())
