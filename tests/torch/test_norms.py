# SPDX-License-Identifier: BSD-3-Clause
"""Group, instance and RMS norm: values, gradients, layouts and errors of CPU PyTorch, whole and cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from parity import assert_parity
from torch import Tensor

import torch_nntile
from torch_nntile.fallback import set_cpu_fallback

FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
IMAGES = (4, 6, 5, 3)


@pytest.fixture(autouse=True)
def _rows_only() -> Iterator[None]:
    set_cpu_fallback(False)
    yield
    set_cpu_fallback(True)


def random(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> list[Tensor]:
    torch.manual_seed(len(shapes) + len(shapes[0]))
    return [torch.randn(shape).to(dtype) + 0.5 for shape in shapes]


def channels_last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)


def tasks_of(call: Callable[[], Any]) -> int:
    torch_nntile.wait()
    before = torch_nntile.stats().tasks
    kept = call()
    torch_nntile.wait()
    del kept
    torch_nntile.wait()
    return int(torch_nntile.stats().tasks - before)


# ---- RMS norm


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dims", [1, 2])
def test_rms_norm(dims: int, weighted: bool, dtype: torch.dtype) -> None:
    shape = (5, 7, 6)
    inputs = random(shape, *([shape[-dims:]] if weighted else []), dtype=dtype)
    cuts: Any = [{0: {0: (1, 4)}}, {0: {0: 2, 1: 3}}, {0: {2: 4}}]
    assert_parity(lambda x, w=None: F.rms_norm(x, shape[-dims:], w), inputs, cuts=cuts, length=64)
    assert_parity(lambda x, w=None: F.rms_norm(x, shape[-dims:], w, 0.1), inputs, length=64)


def test_rms_norm_of_long_rows() -> None:
    for dtype in FLOATS:
        x, w = random((3, 1500), (1500,), dtype=dtype)
        assert_parity(lambda x, w: F.rms_norm(x, (1500,), w), [x, w], length=1500)


def test_rms_norm_of_other_layouts() -> None:
    x, w = random((4, 6, 5), (6,))
    assert_parity(lambda x, w: F.rms_norm(x.transpose(1, 2), (6,), w), [x, w], length=64)
    assert_parity(lambda x: F.rms_norm(x[:, ::2, 1:], (4,)), [x], length=64)
    images = random((2, 6, 4, 3))[0]
    assert_parity(lambda x: F.rms_norm(channels_last(x), (3,)), [images], length=64)


def test_rms_norm_of_special_values() -> None:
    (x,) = random((6, 5))
    x[0, 1], x[1, 2], x[2, 3], x[3] = float("nan"), float("inf"), -float("inf"), 0
    assert_parity(lambda x: F.rms_norm(x, (5,)), [x], length=16)


def test_rms_norm_of_nothing() -> None:
    assert_parity(lambda x: F.rms_norm(x, (5,)), [torch.ones(0, 5)])


def test_rms_norm_is_a_task_each_way() -> None:
    x, w = (t.to("nntile").requires_grad_() for t in random((4, 6), (6,)))
    assert tasks_of(lambda: F.rms_norm(x, (6,), w)) == 1
    y = F.rms_norm(x, (6,), w)
    grad = torch.ones_like(y)
    assert tasks_of(lambda: torch.autograd.grad(y, [x, w], grad)) == 2


def test_gradients_of_gradients_of_rms_norm() -> None:
    def found(device: str) -> list[Tensor]:
        x, w = (t.to(device).requires_grad_() for t in random((4, 6), (6,)))
        grads = torch.autograd.grad(F.rms_norm(x, (6,), w).exp().sum(), [x, w], create_graph=True)
        return list(torch.autograd.grad(sum(g.square().sum() for g in grads), [x, w]))

    for expected, value in zip(found("cpu"), found("nntile"), strict=True):
        torch.testing.assert_close(value.cpu(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("x", "shape", "w"),
    [
        (torch.ones(4, 5), (4,), None),
        (torch.ones(4, 5), (5,), torch.ones(4)),
        (torch.ones(4, 5), (), None),
        (torch.ones(5), (4, 5), None),
    ],
)
def test_wrong_shapes_of_rms_norm(x: Tensor, shape: tuple[int, ...], w: Tensor | None) -> None:
    for device in ("cpu", "nntile"):
        with pytest.raises((RuntimeError, ValueError)):
            F.rms_norm(x.to(device), shape, None if w is None else w.to(device))


def test_wrong_operands_of_the_rows() -> None:
    x, w = (t.to("nntile") for t in random((4, 6), (6,)))
    y, rstd = torch.ops.nntile.rms_norm(x, (6,), w, 1e-5)
    assert rstd.shape == (4, 1)
    with pytest.raises(RuntimeError, match=r"rms_norm: weight must have shape \(6,\)"):
        torch.ops.nntile.rms_norm(x, (6,), w[1:], 1e-5)
    with pytest.raises(RuntimeError, match="rstd must have shape"):
        torch.ops.nntile.rms_norm_backward(y, x, (6,), rstd[1:], w)


# ---- group norm


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("groups", [1, 3, 6])
@pytest.mark.parametrize("affine", [False, True])
def test_group_norm(affine: bool, groups: int, dtype: torch.dtype) -> None:
    inputs = random(IMAGES, *([(6,), (6,)] if affine else []), dtype=dtype)
    cuts: Any = [{0: {0: (1, 3)}}, {0: {0: 2, 1: 4}}, {0: {2: (3, 2)}}]
    assert_parity(lambda x, *a: F.group_norm(x, groups, *a), inputs, cuts=cuts, length=256)


@pytest.mark.parametrize("shape", [(4, 6), (4, 6, 9), (2, 6, 3, 4, 2), (3, 6, 1, 1)])
def test_group_norm_of_dims(shape: tuple[int, ...]) -> None:
    inputs = random(shape, (6,), (6,))
    assert_parity(lambda x, w, b: F.group_norm(x, 2, w, b), inputs, length=256)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_group_norm_with_the_channels_last(dtype: torch.dtype) -> None:
    x, w, b = random(IMAGES, (6,), (6,), dtype=dtype)
    cuts: Any = [{0: {0: 2}}, {0: {2: 3}}]
    call = lambda x, w, b: F.group_norm(channels_last(x), 3, w, b)  # noqa: E731
    assert_parity(call, [x, w, b], cuts=cuts, length=256)


def test_group_norm_of_an_expanded_gradient() -> None:
    x, w = torch.randn(3, 4, 5), torch.randn(4)
    assert_parity(lambda x, w: F.group_norm(x, 2, w)[:, ::2].sum(2), [x, w], length=256)


def test_group_norm_with_weights_in_float32() -> None:
    (x,) = random(IMAGES, dtype=torch.bfloat16)
    w, b = random((6,), (6,))
    assert_parity(lambda x, w, b: F.group_norm(x, 3, w, b), [x, w, b], length=256)


def test_group_norm_of_special_values() -> None:
    (x,) = random(IMAGES)
    x[0, 1, 0, 0], x[1, 2, 1, 1], x[2, 3] = float("nan"), float("inf"), 0
    assert_parity(lambda x: F.group_norm(x, 3), [x], length=256)


def test_group_norm_of_no_images() -> None:
    inputs = [torch.ones(0, 6, 2, 2), torch.ones(6), torch.ones(6)]
    assert_parity(lambda x, w, b: F.group_norm(x, 2, w, b), inputs)


def test_group_norm_of_a_large_mean() -> None:
    """Sums are kept in float64: of squares float32 would leave nothing."""
    x = random((2, 4, 16, 16))[0] + 1000
    expected = F.group_norm(x.double(), 2)
    found = F.group_norm(x.to("nntile"), 2).cpu().double()
    torch.testing.assert_close(found, expected, rtol=0, atol=5e-4)


@pytest.mark.parametrize("which", [[0], [1], [2], [0, 2]])
def test_some_gradients_of_group_norm(which: list[int]) -> None:
    def found(device: str) -> list[Tensor]:
        inputs = [t.to(device) for t in random(IMAGES, (6,), (6,))]
        wanted = [inputs[k].requires_grad_() for k in which]
        y = F.group_norm(inputs[0], 3, *inputs[1:])
        return [g.cpu() for g in torch.autograd.grad((y * y).sum(), wanted)]

    for expected, value in zip(found("cpu"), found("nntile"), strict=True):
        torch.testing.assert_close(value, expected, rtol=1e-4, atol=1e-4)


def test_gradients_of_gradients_of_group_norm() -> None:
    def found(device: str) -> list[Tensor]:
        x, w, b = (t.to(device).requires_grad_() for t in random(IMAGES, (6,), (6,)))
        y = F.group_norm(x, 3, w, b)
        (dx,) = torch.autograd.grad(y.exp().sum(), x, create_graph=True)
        return [g.cpu() for g in torch.autograd.grad(dx.square().sum(), [x, w])]

    for expected, value in zip(found("cpu"), found("nntile"), strict=True):
        torch.testing.assert_close(value, expected, rtol=1e-3, atol=1e-3)


def test_wrong_operands_of_the_sums() -> None:
    x, shift = torch.ones(IMAGES, device="nntile"), torch.ones(6, device="nntile").double()
    sums = torch.ops.nntile.channel_sums
    with pytest.raises(RuntimeError, match=r"shift must have shape \(4, 6\), got \(6,\)"):
        sums(x, x, shift, [0, 1])
    with pytest.raises(RuntimeError, match=r"kept \(1, 1\) must be growing dims"):
        sums(x, x, None, [1, 1])
    with pytest.raises(RuntimeError, match="must be of one shape"):
        sums(x, x[1:], None, [1])


# ---- instance norm


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("affine", [False, True])
def test_instance_norm(affine: bool, dtype: torch.dtype) -> None:
    inputs = random(IMAGES, *([(6,), (6,)] if affine else []), dtype=dtype)
    cuts: Any = [{0: {0: (1, 3)}}, {0: {1: 4}}]
    assert_parity(lambda x, *a: F.instance_norm(x, None, None, *a), inputs, cuts=cuts, length=256)


def test_instance_norm_with_the_channels_last() -> None:
    assert_parity(lambda x: F.instance_norm(channels_last(x)), random(IMAGES), length=256)


def test_instance_norm_follows_its_statistics() -> None:
    x, mean, var = random((4, 3, 8), (3,), (3,))

    def call(x: Tensor, mean: Tensor, var: Tensor) -> Any:
        mean, var = mean.detach().clone(), var.detach().abs()
        return F.instance_norm(x, mean, var, momentum=0.3), mean, var

    assert_parity(call, [x, mean, var], length=64)


# ---- variances


def statistics(x: Tensor, dims: Any, keepdim: bool = False) -> Any:
    found = torch.var_mean(x, dims, keepdim=keepdim)
    return *found, torch.std(x, dims, correction=0, keepdim=keepdim)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("dims", [None, 0, 1, -1, (0, 2), (1, 2), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("keepdim", [False, True])
def test_variances(keepdim: bool, dims: Any, dtype: torch.dtype) -> None:
    inputs = random((5, 7, 6), dtype=dtype)
    cuts: Any = [{0: {0: (1, 4)}}, {0: {0: 2, 1: 3}}, {0: {2: 4}}]
    assert_parity(lambda x: statistics(x, dims, keepdim), inputs, cuts=cuts, length=256)


def test_variances_of_other_layouts() -> None:
    inputs = random((8, 7, 6))
    assert_parity(lambda x: statistics(x.transpose(0, 2)[::2], (0, 1)), inputs, length=256)
    assert_parity(lambda x: statistics(x[:, :1].expand(8, 5, 6), 1), inputs, length=256)


def test_variances_of_a_large_mean() -> None:
    x = random((4, 2000))[0] + 10000
    found, mean = torch.var_mean(x.to("nntile"), 1)
    expected, expected_mean = torch.var_mean(x.double(), 1)
    torch.testing.assert_close(found.cpu(), expected.float(), rtol=1e-6, atol=0)
    torch.testing.assert_close(mean.cpu(), expected_mean.float(), rtol=1e-6, atol=0)


def test_variances_of_what_does_not_vary() -> None:
    """Exactly 0, and so is the gradient of the deviation."""
    x = torch.tensor([[0.1], [1e6], [3.3]]).expand(3, 1001).contiguous().to("nntile")
    x.requires_grad_()
    std = torch.std(x, 1)
    std.sum().backward()
    assert x.grad is not None
    assert not std.detach().cpu().any() and not x.grad.cpu().any()


def test_variances_of_special_values() -> None:
    (x,) = random((4, 5))
    x[0, 1], x[1, 2], x[2, 0] = float("nan"), float("inf"), -float("inf")
    assert_parity(lambda x: torch.var(x, 1), [x], length=16)
    assert_parity(lambda x: torch.var_mean(x, 1), [x[::3].clone()], length=16)
    for shape, dim in (((0, 3), 0), ((0, 3), 1), ((3, 1), 1), ((), ())):
        assert_parity(lambda x, dim=dim: torch.var_mean(x, dim), [torch.ones(shape)], grad=False)


def test_variances_are_read_once() -> None:
    """The shift, the sums, and one program of what they give."""
    x = torch.randn(64, 64).to("nntile")
    assert tasks_of(lambda: torch.var(x, 1)) <= 3


def test_wrong_dims_of_variances() -> None:
    x = torch.ones(3, 4, device="nntile")
    for dims in ((0, 0), (2,)):
        with pytest.raises((RuntimeError, IndexError)):
            torch.var(x, dims)


def test_what_batch_norm_keeps_of_channels_has_the_dtype_of_its_weight() -> None:
    x, weight = torch.randn(4, 3, 5, dtype=torch.bfloat16), torch.ones(3)
    operands = x.to("nntile"), weight.to("nntile"), None, None, None
    results = torch.ops.nntile.batch_norm(*operands, 1, True, 0.1, 1e-5)
    expected = x.float().mean((0, 2)), x.float().var((0, 2), correction=0)
    for found, value in zip(results[3:], expected, strict=True):
        assert found.dtype == torch.float32
        torch.testing.assert_close(found.cpu(), value)
