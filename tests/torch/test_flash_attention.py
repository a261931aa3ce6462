# SPDX-License-Identifier: BSD-3-Clause
"""The rows that stand for the CPU's kernel of attention: values, gradients, cuts, memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from parity import assert_parity
from torch import Tensor
from torch.nn import functional as F

import torch_nntile
from torch_nntile import explain, versions, wait

BATCH, HEADS, LENGTH, KEYS, SIZE = 2, 4, 9, 7, 8
CUTS = ({0: {0: 1}}, {0: {1: (1, 3)}}, {0: {2: (4, 5)}}, {0: {0: 1, 1: 2, 2: 3}, 1: {2: 3}})


def randn(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def inputs(
    length: int = LENGTH, keys: int = KEYS, size: int = SIZE, dtype: torch.dtype = torch.float32
) -> list[Tensor]:
    return [
        randn(BATCH, HEADS, n, size, dtype=dtype, seed=k)
        for k, n in enumerate((length, keys, keys))
    ]


def kept(*shape: int) -> Tensor:
    """Where a query sees a key; the last query sees none."""
    mask = randn(*shape) > -0.5
    mask[..., -1:, :] &= shape[-2] == 1
    return mask


MASKS: dict[str, Callable[[], Tensor]] = {
    "bools": lambda: kept(LENGTH, KEYS),
    "bools of each batch": lambda: kept(BATCH, 1, LENGTH, KEYS),
    "bools of keys": lambda: kept(BATCH, 1, 1, KEYS),
    "numbers": lambda: randn(LENGTH, KEYS),
    "numbers of heads": lambda: randn(1, HEADS, LENGTH, KEYS),
    "numbers of queries": lambda: randn(LENGTH, 1),
    "minus infinity": lambda: torch.zeros(LENGTH, KEYS).masked_fill(~kept(LENGTH, KEYS), -math.inf),
    "transposed": lambda: randn(KEYS, LENGTH).t(),
}
CALLS: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"is_causal": True},
    "scale": {"scale": 0.3},
    "no scale": {"scale": 0.0},
    **{name: {"attn_mask": make()} for name, make in MASKS.items()},
}
if versions.CAUSAL_TAKES_A_MASK:
    CALLS["causal with a mask"] = {"attn_mask": MASKS["numbers"](), "is_causal": True}


def attend(**options: Any) -> Callable[..., Tensor]:
    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        on_device = {
            name: x.to(q.device) if isinstance(x, Tensor) else x for name, x in options.items()
        }
        return F.scaled_dot_product_attention(q, k, v, **on_device)

    return call


def is_a_row() -> bool:
    wait()
    return "= attention" in explain("graph")


@pytest.mark.parametrize("name", CALLS)
def test_values_and_gradients_whole_and_cut(name: str) -> None:
    assert_parity(attend(**CALLS[name]), inputs(), cuts=CUTS, length=64)
    on_device = [x.to("nntile") for x in inputs()]
    found = attend(**CALLS[name])(*on_device)
    wait()
    assert is_a_row() and found.shape == (BATCH, HEADS, LENGTH, SIZE)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["plain", "causal", "bools", "numbers"])
def test_dtypes(name: str, dtype: torch.dtype) -> None:
    options = {
        key: x.to(dtype) if isinstance(x, Tensor) and x.is_floating_point() else x
        for key, x in CALLS[name].items()
    }
    assert_parity(attend(**options), inputs(dtype=dtype), cuts=CUTS[3], length=64)


# Blocks of 128 queries and 256 keys: around their borders, and of several.
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("length", "keys", "size"),
    [
        *((1, 1, 1), (1, 300, 4), (300, 2, 4), (128, 256, 16), (129, 257, 5), (300, 600, 32)),
        *((513, 200, 64), (200, 513, 80), (40, 50, 128), (30, 70, 256), (20, 40, 600)),
    ],
)
def test_blocks(length: int, keys: int, size: int, causal: bool) -> None:
    if causal and keys > 1:  # a query with one key has a gradient of 0: its rounding is left
        length = max(length, 2)
    tensors = [x[:1, :2] for x in inputs(length, keys, size)]
    assert_parity(
        attend(is_causal=causal),
        [x.contiguous() for x in tensors],
        cuts={0: {2: max(length // 3, 1)}},
        modes=["graph"],
        length=4 * max(keys, length),
    )


def test_more_queries_than_the_gradient_keeps() -> None:
    """The gradient takes queries in parts of 2 ** 18 elements; here 3 of them."""
    size = 512
    tensors = [x[:1, :1].contiguous() for x in inputs(1300, 300, size)]
    for options in ({}, {"is_causal": True}):
        assert_parity(attend(**options), tensors, modes=["graph"], length=5200)


@pytest.mark.parametrize(
    "layout",
    [
        lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
        lambda x: torch.cat([x, x], 1).transpose(1, 2).contiguous().chunk(2, 2)[1].transpose(1, 2),
        lambda x: x[:, :1].expand_as(x),
        lambda x: torch.stack([x, x], -2).flatten(2, 3)[:, :, ::2],
    ],
    ids=["of a linear layer", "part of one", "expanded", "every second"],
)
def test_layouts(layout: Callable[[Tensor], Tensor]) -> None:
    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(layout(q), layout(k), layout(v), is_causal=True)

    assert_parity(call, inputs(), cuts=CUTS, length=64)


@pytest.mark.parametrize("heads", [1, 2])
def test_fewer_heads_of_keys(heads: int) -> None:
    q, k, v = inputs()
    k, v = k[:, :heads].contiguous(), v[:, :heads].contiguous()
    for options in ({}, {"is_causal": True}):
        assert_parity(attend(enable_gqa=True, **options), [q, k, v], cuts=CUTS[:2], length=64)


def test_values_of_another_size_use_the_formula() -> None:
    q, k, _ = inputs()
    assert_parity(attend(), [q, k, randn(BATCH, HEADS, KEYS, 5)], length=64)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_special_values(place: int, value: float) -> None:
    """Rows that see none of it are the CPU's, the others PyTorch's formula's.

    The CPU's kernel itself gives 0 or nan for a row of nan, by the number of keys.
    """
    tensors = inputs()
    tensors[place][0, 1, 2, 3] = value
    found = attend()(*(x.to("nntile") for x in tensors)).cpu()
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        expected = attend()(*tensors)
    torch.testing.assert_close(found, expected, equal_nan=True)


def test_a_query_that_sees_nothing() -> None:
    tensors = [x.to("nntile").requires_grad_() for x in inputs()]
    mask = torch.zeros(LENGTH, KEYS, dtype=torch.bool, device="nntile")
    found = attend(attn_mask=mask)(*tensors)
    gradients = torch.autograd.grad(found.sum(), tensors)
    for x in (found, *gradients):
        assert torch.equal(x.cpu(), torch.zeros(x.shape))


def test_the_overload_itself() -> None:
    op = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        tensors = inputs(dtype=dtype)
        expected = op(*tensors, attn_mask=MASKS["minus infinity"]().to(dtype))
        on_device = [x.to("nntile") for x in tensors]
        found = op(*on_device, attn_mask=MASKS["minus infinity"]().to("nntile", dtype))
        for x, y in zip(found, expected, strict=True):
            assert (x.dtype, x.stride()) == (y.dtype, y.stride())
            near = {"rtol": 0.02, "atol": 0.01} if y.dtype == torch.bfloat16 else {}
            torch.testing.assert_close(x.cpu(), y, **near)
    with pytest.raises(RuntimeError, match="dropout"):
        op(*on_device, 0.5)


def test_the_overload_itself_on_last_dims_that_are_not_dense() -> None:
    """The CPU's kernel takes them for dense, in all versions; attention never gives it others."""
    op = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    dense = inputs()
    strided = [x.to("nntile").transpose(1, 3).contiguous().transpose(1, 3) for x in dense]
    torch.testing.assert_close(op(*strided)[0].cpu(), op(*dense)[0])


def test_what_pytorch_refuses() -> None:
    q, k, v = inputs()
    for wrong in ((q, k.double(), v), (q, k[..., :4], v), (q, k, v[:, :2])):
        with pytest.raises(RuntimeError) as expected:
            F.scaled_dot_product_attention(*wrong)
        with pytest.raises(RuntimeError) as found:
            F.scaled_dot_product_attention(*(x.to("nntile") for x in wrong))
        assert type(found.value) is type(expected.value)
    with pytest.raises(RuntimeError):
        F.scaled_dot_product_attention(q.to("nntile"), k, v)


@pytest.mark.parametrize("dims", [3, 4])
@pytest.mark.parametrize("name", ["numbers", "bools"])
def test_a_mask_of_a_causal_call_is_taken_where_the_cpu_takes_it(name: str, dims: int) -> None:
    call = attend(attn_mask=MASKS[name](), is_causal=True)

    def outcome(device: str) -> Tensor | str:
        try:
            return call(*((x[0] if dims == 3 else x).to(device) for x in inputs())).cpu()
        except RuntimeError as error:
            return str(error)

    found, expected = outcome("nntile"), outcome("cpu")
    if isinstance(expected, str):
        assert found == expected
    else:
        torch.testing.assert_close(found, expected)


def test_autocast() -> None:
    tensors = [x.to("nntile").requires_grad_() for x in inputs()]
    with torch.autocast("nntile", torch.bfloat16):
        found = attend(is_causal=True)(*tensors)
    assert found.dtype == torch.bfloat16
    found.sum().backward()
    expected = attend(is_causal=True)(*inputs())
    torch.testing.assert_close(found.detach().cpu().float(), expected, rtol=0.05, atol=0.05)
    assert all(x.grad is not None and x.grad.dtype == torch.float32 for x in tensors)


def test_heads_are_merged_without_a_copy() -> None:
    """The result is made as it lies in memory, a query's heads one after the other."""
    qkv = randn(2, 6, 3, 2, 8).to("nntile")
    wait()
    before = torch_nntile.stats()
    q, k, v = (x.transpose(1, 2) for x in qkv.unbind(2))
    merged = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(2, 6, 16)
    wait()
    after = torch_nntile.stats()
    assert (after.tasks - before.tasks, after.copies - before.copies) == (1, 0)
    assert merged.shape == (2, 6, 16)


def peak(length: int) -> int:
    """Bytes beyond the inputs, forward and backward, of one head."""
    tensors = [
        torch.ones(1, 1, length, 16, device="nntile").mul_(0.1).requires_grad_() for _ in range(3)
    ]
    wait()
    torch.nntile.reset_peak_memory_stats()
    before = torch.nntile.memory_allocated()
    attend(is_causal=True)(*tensors).sum().backward()
    wait()
    return int(torch.nntile.max_memory_allocated() - before)


def test_memory_grows_with_the_length() -> None:
    short, long = peak(2048), peak(4096)
    assert 0 < long < 2.5 * short
    assert long < 4096 * 4096  # a quarter of the scores
