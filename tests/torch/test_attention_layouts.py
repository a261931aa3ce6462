# SPDX-License-Identifier: BSD-3-Clause
"""scaled_dot_product_attention() gives its result and gradients the strides of the CPU's kernel.

Users see them: with queries of `x.view(batch, length, heads, -1).transpose(1, 2)` the CPU's result
may be transposed back and viewed as (batch, length, embedding) without a copy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import torch_nntile  # noqa: F401

SHAPES = [(2, 3, 5, 4), (1, 3, 5, 4), (2, 1, 7, 1), (2, 3, 1, 4), (2, 1, 1, 4), (1, 1, 1, 1)]
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": lambda x: x,
    "of a linear layer": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "sequence first": lambda x: x.permute(2, 0, 1, 3).contiguous().permute(1, 2, 0, 3),
    "part of a linear layer": lambda x: (
        torch.cat([x, x, x], 1).transpose(1, 2).contiguous().chunk(3, 2)[0].transpose(1, 2)
    ),
    "keys last": lambda x: x.transpose(2, 3).contiguous().transpose(2, 3),
    "expanded": lambda x: x[:, :1].expand_as(x),
}
CALLS: dict[str, Callable[[Tensor], dict[str, Any]]] = {
    "plain": lambda q: {},
    "causal": lambda q: {"is_causal": True},
    "mask": lambda q: {"attn_mask": torch.zeros(q.shape[2], q.shape[2], device=q.device)},
    "mask of bools": lambda q: {
        "attn_mask": torch.ones(q.shape[2], q.shape[2], device=q.device, dtype=torch.bool)
    },
    "mask with a gradient": lambda q: {
        "attn_mask": torch.zeros(q.shape[2], q.shape[2], device=q.device, requires_grad=True)
    },
    "scale": lambda q: {"scale": 0.5},
    "dropout": lambda q: {"dropout_p": 0.5},
}


def strides(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> list[tuple[int, ...]]:
    """Of the result and of three gradients."""
    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    result = F.scaled_dot_product_attention(q, k, v, **options)
    with torch.no_grad():
        inferred = F.scaled_dot_product_attention(q, k, v, **options)
    with torch.inference_mode():
        third = F.scaled_dot_product_attention(q.clone(), k, v, **options)
    assert third.shape == inferred.shape == result.shape
    gradients = torch.autograd.grad(result.sum(), (q, k, v))
    return [x.stride() for x in (result, inferred, *gradients)]


def inputs(shape: tuple[int, ...], layout: str, device: str, **of: Any) -> list[Tensor]:
    return [LAYOUTS[layout](torch.ones(shape, **of)).to(device) for _ in range(3)]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_strides(shape: tuple[int, ...], layout: str, call: str) -> None:
    expected, found = (
        strides(*(x := inputs(shape, layout, device)), **CALLS[call](x[0]))
        for device in ("cpu", "nntile")
    )
    assert found == expected


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_strides_of_other_dtypes(dtype: torch.dtype) -> None:
    expected, found = (
        strides(*inputs((2, 3, 5, 4), "of a linear layer", device, dtype=dtype))
        for device in ("cpu", "nntile")
    )
    assert found == expected


def test_strides_of_other_keys_and_heads() -> None:
    for key, options in (((2, 4, 3, 8), {}), ((2, 2, 3, 8), {"enable_gqa": True})):
        expected, found = (
            strides(*(torch.ones(s, device=d) for s in ((2, 4, 5, 8), key, key)), **options)
            for d in ("cpu", "nntile")
        )
        assert found == expected


@pytest.mark.parametrize("mask", [None, (5,), (5, 5), (3, 1, 5), (1, 3, 5, 5)], ids=str)
def test_strides_of_three_dims(mask: tuple[int, ...] | None) -> None:
    """The kernel or the formula, as this version of PyTorch decides; or the error of both."""

    def found(device: str) -> Any:
        operands = (torch.ones(3, 5, 4, device=device) for _ in range(3))
        options = {} if mask is None else {"attn_mask": torch.zeros(mask, device=device)}
        try:
            return strides(*operands, **options)
        except RuntimeError as error:
            return type(error)

    assert found("nntile") == found("cpu")


def test_the_kernel_that_the_user_chose() -> None:
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        expected, found = (
            strides(*inputs((2, 3, 5, 4), "of a linear layer", d)) for d in ("cpu", "nntile")
        )
    assert found == expected


def test_heads_are_merged_by_a_view() -> None:
    qkv = torch.randn(2, 5, 3, 2, 4).to("nntile").requires_grad_()
    q, k, v = (x.transpose(1, 2) for x in qkv.unbind(2))
    merged = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).view(2, 5, 8)
    merged.square().sum().backward()

    on_cpu = qkv.detach().cpu().requires_grad_()
    q, k, v = (x.transpose(1, 2) for x in on_cpu.unbind(2))
    expected = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).view(2, 5, 8)
    expected.square().sum().backward()
    torch.testing.assert_close(merged.cpu(), expected)
    torch.testing.assert_close(qkv.grad.cpu(), on_cpu.grad)


def test_transforms_go_through() -> None:
    q, k, v = (torch.randn(2, 2, 3, 4) for _ in range(3))

    def loss(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v).square().sum()

    on_device = [x.to("nntile") for x in (q, k, v)]
    expected = torch.func.grad(loss)(q, k, v)
    torch.testing.assert_close(torch.func.grad(loss)(*on_device).cpu(), expected)
    stacked = [torch.stack([x, x * 2]) for x in (q, k, v)]
    expected = torch.func.vmap(loss)(*stacked)
    found = torch.func.vmap(loss)(*(x.to("nntile") for x in stacked))
    torch.testing.assert_close(found.cpu(), expected)
    _, found = torch.func.jvp(lambda q: loss(q, *on_device[1:]), (on_device[0],), (on_device[0],))
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        _, expected = torch.func.jvp(lambda x: loss(x, k, v), (q,), (q,))
    torch.testing.assert_close(found.cpu(), expected)


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_for_several_lengths(dynamic: bool) -> None:
    def merged(qkv: Tensor) -> Tensor:
        batch, length, _, heads, size = qkv.shape
        q, k, v = (x.transpose(1, 2) for x in qkv.unbind(2))
        result = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return result.transpose(1, 2).view(batch, length, heads * size)

    compiled = torch.compile(merged, backend="aot_eager", dynamic=dynamic)
    for length in (5, 7, 9):
        qkv = torch.randn(2, length, 3, 2, 4)
        on_device = qkv.to("nntile").requires_grad_()
        expected, found = merged(qkv.requires_grad_()), compiled(on_device)
        for result in (expected, found):
            result.square().sum().backward()
        torch.testing.assert_close(found.cpu(), expected)
        torch.testing.assert_close(on_device.grad.cpu(), qkv.grad)


def test_second_derivatives() -> None:
    """The CPU has none of its fast kernel."""

    def second(device: str) -> Tensor:
        q, k, v = (x.requires_grad_() for x in inputs((1, 2, 3, 4), "contiguous", device))
        result = F.scaled_dot_product_attention(q * 2, k, v * q)
        (first,) = torch.autograd.grad(result.square().sum(), q, create_graph=True)
        (found,) = torch.autograd.grad(first.square().sum(), q)
        return found.cpu()

    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        expected = second("cpu")
    torch.testing.assert_close(second("nntile"), expected)
