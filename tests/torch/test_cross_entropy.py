# SPDX-License-Identifier: BSD-3-Clause
"""Cross entropy as rows that store no probabilities: values, gradients and errors of CPU PyTorch."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from parity import assert_parity
from torch import Tensor

import torch_nntile
from torch_nntile.fallback import set_cpu_fallback

CLASSES, IGNORED = 7, 3
FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


@pytest.fixture(autouse=True)
def _rows_only() -> Iterator[None]:
    set_cpu_fallback(False)
    yield
    set_cpu_fallback(True)


def case(*shape: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    """Logits of this shape with classes as dim 1, targets of which some are 3, and weights."""
    torch.manual_seed(sum(shape))
    classes = 1 if len(shape) > 1 else 0
    rows = (*shape[:classes], *shape[classes + 1 :])
    x = (3 * torch.randn(shape)).to(dtype)
    target = torch.randint(shape[classes], rows)
    if rows:
        target.flatten()[::3] = IGNORED
    return x, target, torch.rand(shape[classes]).to(dtype) + 0.5


def loss(**options: Any) -> Callable[..., Tensor]:
    def call(x: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        weight = None if weight is None else weight.detach()  # it may have no gradient
        return F.cross_entropy(x, target, weight, **options)

    return call


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("smoothing", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_as_on_the_cpu(
    reduction: str, weighted: bool, smoothing: float, dtype: torch.dtype
) -> None:
    x, target, weight = case(10, CLASSES, dtype=dtype)
    call = loss(reduction=reduction, label_smoothing=smoothing, ignore_index=IGNORED)
    inputs = [x, target, weight] if weighted else [x, target]
    cuts: Any = [{0: {0: (1, 7, 2)}}, {0: {0: 4, 1: 3}}, {1: {0: (6, 4)}}]
    assert_parity(call, inputs, cuts=cuts, length=64)


@pytest.mark.parametrize("shape", [(5,), (4, 5, 3), (2, 5, 3, 4), (2, 3, 2, 3, 2), (1, 9)])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_dims(shape: tuple[int, ...], smoothing: float) -> None:
    x, target, weight = case(*shape)
    target %= shape[1 if len(shape) > 1 else 0]
    for reduction in ("none", "mean"):
        call = loss(reduction=reduction, label_smoothing=smoothing)
        cuts: Any = [{0: {0: 1}}] if len(shape) > 1 else []
        assert_parity(call, [x, target, weight], cuts=cuts, length=64)


def test_strided_logits() -> None:
    x, target, _ = case(12, 2 * CLASSES)
    assert_parity(lambda x, t: F.cross_entropy(x[1::2, ::2], t), [x, target[:6] % 7], length=64)
    assert_parity(
        lambda x, t: F.cross_entropy(x.t(), t), [x, target.repeat(2)[:14] % 12], length=64
    )


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("order", [(0, 1, 3, 2), (1, 2, 3, 0), (3, 1, 0, 2)])
def test_logits_in_another_order_than_their_gradient(
    order: tuple[int, ...], dtype: torch.dtype
) -> None:
    x, target, weight = case(3, CLASSES, 9, 20, dtype=dtype)
    back = [order.index(k) for k in range(4)]
    x = x.permute(order).contiguous().permute(back)
    assert_parity(loss(label_smoothing=0.1), [x, target, weight], length=target.numel())


@pytest.mark.parametrize("dtype", FLOATS)
def test_classes_apart_in_logits_and_together_in_their_gradient(dtype: torch.dtype) -> None:
    x, target, weight = case(90, 70, dtype=dtype)
    x = x.t().contiguous().t()
    assert_parity(loss(label_smoothing=0.1), [x, target, weight], length=70)


def test_many_classes() -> None:
    """More than one piece of a row, in a dtype that is read by pieces too."""
    for dtype in FLOATS:
        x, target, weight = case(3, 1300, dtype=dtype)
        target[1] = 1299
        assert_parity(loss(label_smoothing=0.1), [x, target, weight], length=1300)


def test_large_logits_lose_no_digits() -> None:
    x, target, _ = case(4, 50)
    assert_parity(loss(label_smoothing=0.1), [(x * 0.25).round() / 8 + 4096, target], length=4)


def test_special_values() -> None:
    x, target, _ = case(8, CLASSES)
    inf = float("inf")
    x[0, 1], x[1, 2], x[2, 3] = float("nan"), inf, -inf
    x[3], x[4, target[4]], x[5] = -inf, -inf, inf
    for reduction in ("none", "sum"):
        for smoothing in (0.0, 0.1):
            assert_parity(loss(reduction=reduction, label_smoothing=smoothing), [x, target])


def test_rows_that_are_all_ignored() -> None:
    x, _, weight = case(4, CLASSES)
    target = torch.full((4,), -100)
    for reduction in ("none", "mean", "sum"):
        assert_parity(loss(reduction=reduction), [x, target, weight])


@pytest.mark.parametrize("shape", [(0, 5), (3, 5, 0)])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_no_rows(shape: tuple[int, ...], reduction: str) -> None:
    x, target, _ = case(*shape)
    assert_parity(loss(reduction=reduction), [x, target])


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_probabilities_as_targets(smoothing: float) -> None:
    x, _, weight = case(6, CLASSES)
    target = torch.rand(6, CLASSES).softmax(1)
    assert_parity(loss(label_smoothing=smoothing), [x, target, weight], length=64)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", ["none", "mean"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_gradients_of_gradients(dtype: torch.dtype, reduction: str, weighted: bool) -> None:
    def found(device: str) -> list[Tensor]:
        x, target, weight = (t.to(device) for t in case(5, CLASSES, dtype=dtype))
        x.requires_grad_()
        options: Any = {"reduction": reduction, "ignore_index": IGNORED, "label_smoothing": 0.1}
        y = F.cross_entropy(x * 2, target, weight if weighted else None, **options)
        scale = torch.ones_like(y, requires_grad=True)
        (dx,) = torch.autograd.grad(y, x, scale, create_graph=True)
        return list(torch.autograd.grad(dx.square().sum(), [x, scale]))

    rtol = {torch.float64: 1e-10, torch.float32: 1e-4, torch.bfloat16: 0.05}[dtype]
    for expected, value in zip(found("cpu"), found("nntile"), strict=True):
        torch.testing.assert_close(value.cpu(), expected, rtol=rtol, atol=rtol * 0.1)


def test_weights_have_no_gradient() -> None:
    x, target, weight = (t.to("nntile") for t in case(5, CLASSES))
    with pytest.raises(RuntimeError, match="not differentiable with respect to argument 'weight'"):
        F.cross_entropy(x, target, weight.requires_grad_())


@pytest.mark.parametrize("wrong", [-1, CLASSES, 2**40])
@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_a_wrong_target_is_an_error_of_the_next_read(wrong: int, reduction: str) -> None:
    x, target, _ = (t.to("nntile") for t in case(6, CLASSES))
    target[4] = wrong
    y = F.cross_entropy(x, target, reduction=reduction)
    with pytest.raises(IndexError, match=rf"{wrong} is out of range \[0, {CLASSES}\)"):
        y.cpu()


@pytest.mark.parametrize(
    ("x", "target", "weight"),
    [
        (torch.ones(4, 5), torch.zeros(3, dtype=torch.int64), None),
        (torch.ones(4, 5), torch.zeros(4, 2, dtype=torch.int64), None),
        (torch.ones(4, 5), torch.zeros(4, dtype=torch.int64), torch.ones(4)),
        (torch.ones(4, 5), torch.zeros(4, dtype=torch.int32), None),
        (torch.ones(4, 5), torch.zeros(4, dtype=torch.int64), torch.ones(5).double()),
        (torch.ones(4, 5).long(), torch.zeros(4, dtype=torch.int64), None),
        (torch.ones(()), torch.zeros((), dtype=torch.int64), None),
    ],
)
def test_wrong_operands(x: Tensor, target: Tensor, weight: Tensor | None) -> None:
    moved = [None if t is None else t.to("nntile") for t in (x, target, weight)]
    for tensors in ((x, target, weight), moved):
        with pytest.raises((RuntimeError, IndexError, ValueError)):
            F.cross_entropy(*tensors).item()


def test_a_wrong_smoothing() -> None:
    x, target, _ = (t.to("nntile") for t in case(6, CLASSES))
    with pytest.raises(RuntimeError, match="label_smoothing must be between"):
        F.cross_entropy(x, target, label_smoothing=1.5)


def test_wrong_operands_of_the_rows() -> None:
    x, target, weight = (t.to("nntile") for t in case(6, CLASSES))
    op, back = torch.ops.nntile.cross_entropy, torch.ops.nntile.cross_entropy_backward
    with pytest.raises(RuntimeError, match="target lacks the dim of classes"):
        op(x, target[1:], None, 1, -100, 0.0)
    with pytest.raises(RuntimeError, match=r"weight must have shape \(7,\)"):
        op(x, target, weight[1:], 1, -100, 0.0)
    y, logs, total = op(x, target, weight, 1, -100, 0.0)
    with pytest.raises(RuntimeError, match="logsumexp must have shape"):
        back(y, x, target, weight, logs[1:], total, 1, -100, 0.0)
    with pytest.raises(RuntimeError, match="dy must have shape"):
        back(logs[1:].float(), x, target, weight, logs, total, 1, -100, 0.0)


STEP = """
import sys
import torch, torch_nntile as nt
import torch.nn.functional as F
nt.init_context(ncpu=2)
x = torch.randn(512, 8000).to("nntile").requires_grad_()
target = torch.randint(8000, (512,)).to("nntile")
nt.wait()
nt.modes.set_mode(int(sys.argv[1]))
F.cross_entropy(x, target, label_smoothing=0.1).backward()
nt.run_graph()
nt.wait()
print(torch.nntile.memory_stats()["peak_bytes"] / (x.numel() * 4))
nt.modes.set_mode(0)
assert x.grad.cpu().isfinite().all()
"""


@pytest.mark.parametrize("mode", [0, 1], ids=["eager", "graph"])
def test_a_step_holds_logits_and_their_gradient(mode: int) -> None:
    """Bytes of tiles at their highest, in those of the logits."""
    done = subprocess.run(
        [sys.executable, "-c", STEP, str(mode)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert 1.9 < float(done.stdout) < 2.1


def test_vmap_takes_the_formula() -> None:
    set_cpu_fallback(True)  # of a batch of calls the loss gathers
    x, target = torch.randn(6, 4, CLASSES), torch.randint(CLASSES, (6, 4))
    slope = torch.func.vmap(torch.func.grad(F.cross_entropy))
    found = slope(x.to("nntile"), target.to("nntile"))
    torch.testing.assert_close(found.cpu(), slope(x, target), rtol=1e-4, atol=1e-6)


def test_derivatives_in_forward_mode_take_the_formula() -> None:
    x, target, _ = case(6, CLASSES)

    def slope(device: str) -> Tensor:
        at = target.to(device)
        call = lambda x: F.cross_entropy(x, at)  # noqa: E731
        return torch.func.jvp(
            call, (x.to(device),), (torch.ones_like(x).to(device) * x.to(device),)
        )[1]

    torch.testing.assert_close(slope("nntile").cpu(), slope("cpu"), rtol=1e-4, atol=1e-6)


def test_one_class() -> None:
    x, _, weight = case(6, 1)
    assert_parity(loss(), [x, torch.zeros(6, dtype=torch.int64), weight])


def test_a_step_is_few_tasks() -> None:
    """Weights of targets, rows, their sum; and the gradient."""
    x, target, _ = case(6, CLASSES)
    leaf, on_device = x.to("nntile").requires_grad_(), target.to("nntile")
    torch_nntile.wait()
    before = torch_nntile.stats().tasks
    F.cross_entropy(leaf, on_device).backward()
    torch_nntile.wait()
    assert torch_nntile.stats().tasks - before == 4
