# SPDX-License-Identifier: BSD-3-Clause
"""Compositions are run in Python twice for a signature; then their calls are made without it."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from torch_nntile import fallback

pytestmark = pytest.mark.usefixtures("runtime")
DEVICE = "nntile"


def entered(call: Callable[[], Any]) -> int:
    """How many compositions ran in Python."""
    count = 0

    def seen(frame: FrameType, event: str, _: Any) -> None:
        nonlocal count
        count += event == "call" and frame.f_code.co_filename.endswith("compositions/forms.py")

    sys.setprofile(seen)
    try:
        call()
    finally:
        sys.setprofile(None)
    return count


def same_each_time(call: Callable[..., Any], *operands: Tensor, times: int = 4) -> None:
    """The CPU's results, whether Python or a tape makes them."""
    for _ in range(times):
        fresh = [torch.randn_like(x) if x.is_floating_point() else x for x in operands]
        theirs = call(*fresh)
        ours = call(*(x.to(DEVICE) for x in fresh))
        torch.testing.assert_close(ours.cpu(), theirs)


def test_python_runs_twice() -> None:
    x, y = torch.randn(3, 6).to(DEVICE), torch.randn(3, 6).to(DEVICE)
    counts = [entered(lambda: (F.glu(x), F.huber_loss(x, y))) for _ in range(5)]
    assert counts[0] > 0 and counts[1] > 0
    assert counts[2:] == [0, 0, 0]


def test_draws_without_python() -> None:
    """A tape draws other numbers at each call, and raises what is wrong with them at the call."""
    p = torch.full((2, 1000), 1.0).to(DEVICE)
    drawn: list[Tensor] = []
    counts = [entered(lambda: drawn.append(p.multinomial(3, replacement=True))) for _ in range(4)]
    assert counts[0] > 0 and counts[2:] == [0, 0]
    assert not drawn[2].equal(drawn[3])
    p[1, 7] = -1
    with pytest.raises(RuntimeError, match="contains either `inf`, `nan` or element < 0"):
        p.multinomial(3, replacement=True)
    p[1, 7] = 1
    assert p.multinomial(3, replacement=True).shape == (2, 3)


def test_within_another_composition() -> None:
    """Its own tape is written when it is called again, not refused for ever."""
    x, y = torch.randn(3, 5).to(DEVICE), torch.rand(3, 5).to(DEVICE)
    counts = [entered(lambda: F.binary_cross_entropy_with_logits(x, y)) for _ in range(6)]
    assert counts[-1] == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda x, y: F.smooth_l1_loss(x, y),
        lambda x, y: F.huber_loss(x, y, reduction="none"),
        lambda x, y: torch.clamp(x, -0.5, 0.5),
        lambda x, y: x.clone().clamp_(min=y),
        lambda x, y: torch.clamp(x, max=0.1, out=torch.empty_like(y)),
        lambda x, y: F.group_norm(x, 2, y[0], y[1]),
        lambda x, y: x.norm(3, 1),
        lambda x, y: x[:, [0, 2]],
        lambda x, y: F.glu(x.t(), 1),
        lambda x, y: torch.logit(x.sigmoid(), 1e-3),
        lambda x, y: F.elu_(x.clone(), 0.3),
        lambda x, y: F.binary_cross_entropy_with_logits(x, y),
    ],
)
def test_values(call: Callable[..., Any]) -> None:
    same_each_time(call, torch.empty(4, 4), torch.empty(4, 4))


def test_each_number_has_its_tape() -> None:
    x = torch.randn(9)
    for _ in range(3):
        for low in (-0.3, 0.0, 0.25):
            assert x.to(DEVICE).clamp(low, 0.5).cpu().equal(x.clamp(low, 0.5))


@pytest.mark.parametrize("rounding", [None, "floor", "trunc"])
def test_numbers_that_are_tensors_to_the_dispatcher(rounding: str | None) -> None:
    x = torch.tensor([7, 100, -5, 0])
    for _ in range(3):
        for number in (2, -3, 1.5, True):
            ours = torch.div(x.to(DEVICE), number, rounding_mode=rounding)
            assert ours.cpu().equal(torch.div(x, number, rounding_mode=rounding))


def test_complex_numbers() -> None:
    for _ in range(3):
        for end in (3 + 1j, 3 + 2j):
            ours = torch.linspace(1j, end, 5, device=DEVICE)
            torch.testing.assert_close(ours.cpu(), torch.linspace(1j, end, 5))


def test_numbers_that_never_come_again() -> None:
    x = torch.randn(9)
    for k in range(1500):
        low = -1 - k / 1500
        assert k % 100 or x.to(DEVICE).clamp(low, 0.5).cpu().equal(x.clamp(low, 0.5))
        x.to(DEVICE).clamp(low, 0.5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_dtypes_layouts_and_shapes_take_turns(dtype: torch.dtype) -> None:
    for _ in range(3):
        for shape in ((4, 6), (2, 3)):
            for turned in (False, True):
                x = torch.arange(shape[0] * shape[1]).reshape(shape).to(dtype)
                x = x.t() if turned else x
                ours = x.to(DEVICE).clamp(1, 7)
                assert ours.cpu().equal(x.clamp(1, 7))
                assert ours.stride() == x.clamp(1, 7).stride()


def test_an_operand_that_is_written_too() -> None:
    """The same call with and without operands that are one tensor, or share a storage."""
    for _ in range(3):
        for kind in ("apart", "same", "view"):
            results = []
            for device in ("cpu", DEVICE):
                base = torch.arange(8.0).to(device)
                x = base[:4]
                out = {"apart": torch.zeros(4).to(device), "same": x, "view": base[4:]}[kind]
                torch.clamp(x, 1, 2, out=out)
                results.append((base.cpu(), out.cpu()))
            assert all(a.equal(b) for a, b in zip(*results, strict=True)), kind


def test_default_dtype() -> None:
    x = torch.arange(1, 5)
    try:
        for dtype in (torch.float32, torch.float64) * 3:
            torch.set_default_dtype(dtype)
            ours = torch.logit(x.to(DEVICE) / 8)
            assert ours.dtype == dtype
            torch.testing.assert_close(ours.cpu(), torch.logit(x / 8))
    finally:
        torch.set_default_dtype(torch.float32)


def test_data_that_a_composition_reads() -> None:
    """A skipped step of a scaled optimizer, a comparison: new data, new answers."""
    x = torch.randn(5).to(DEVICE)
    for other in (x, x + 1, x, x.clone(), x - 1):
        assert torch.equal(x, other) == x.cpu().equal(other.cpu())
    for found in (0.0, 0.0, 0.0, 1.0, 0.0, 1.0):
        weight = torch.ones(3).to(DEVICE)
        torch._fused_sgd_(
            [weight],
            [torch.ones(3).to(DEVICE)],
            [],
            weight_decay=0.0,
            momentum=0.0,
            lr=0.5,
            dampening=0.0,
            nesterov=False,
            maximize=False,
            is_first_step=False,
            grad_scale=torch.ones(()).to(DEVICE),
            found_inf=torch.tensor(found).to(DEVICE),
        )
        assert weight.cpu().equal(torch.full((3,), 1.0 if found else 0.5))


def test_numbers_of_the_host_are_read_anew() -> None:
    x = torch.randn(7)
    for k in range(5):
        bound = torch.tensor(k / 10)
        assert x.to(DEVICE).clamp(min=bound).cpu().equal(x.clamp(min=bound))


def test_draws_go_on() -> None:
    def drawn() -> Tensor:
        return torch.empty(64, device=DEVICE).bernoulli_(0.5).cpu()

    torch.manual_seed(3)
    first = [drawn() for _ in range(5)]
    assert len({tuple(x.tolist()) for x in first}) == 5
    torch.manual_seed(3)
    assert all(a.equal(drawn()) for a in first)


def test_a_generator_is_its_own() -> None:
    def drawn(seed: int) -> Tensor:
        generator = torch.Generator(DEVICE).manual_seed(seed)
        return torch.empty(64, device=DEVICE).bernoulli_(0.5, generator=generator).cpu()

    seeds = (1, 1, 1, 2, 3, 2)
    results = {seed: drawn(seed) for seed in seeds}
    assert all(drawn(seed).equal(results[seed]) for seed in seeds)
    assert not results[1].equal(results[2])


def test_errors_come_each_time() -> None:
    x = torch.randn(3, 5).to(DEVICE)
    for _ in range(4):
        with pytest.raises(RuntimeError, match="Halving dimension must be even"):
            F.glu(x)
        with pytest.raises(RuntimeError, match="on the same device"):
            torch.clamp(x, min=torch.zeros(5))


def test_what_runs_on_the_host_is_no_tape() -> None:
    """In place, too, where the result is known and nothing seems to have been called."""
    for _ in range(5):
        x = torch.randn(4, 4, dtype=torch.complex64)
        ours = x.to(DEVICE)
        torch.testing.assert_close(torch.trace(ours).cpu(), torch.trace(x))
        a, b = torch.randn(2, 4, dtype=torch.complex64)
        torch.testing.assert_close(ours.addr_(a.to(DEVICE), b.to(DEVICE)).cpu(), x.addr_(a, b))
    before = fallback.cpu_fallback()
    fallback.set_cpu_fallback(False)
    try:
        with pytest.raises(NotImplementedError, match=r"trace.*cpu_fallback"):
            torch.trace(ours)
    finally:
        fallback.set_cpu_fallback(before)


def test_no_tensor_lives_longer() -> None:
    x = torch.randn(4, 6).to(DEVICE)
    gone = []
    for _ in range(4):
        y = F.glu(x * 2)
        gone.append(weakref.ref(y))
        del y
    gc.collect()
    assert [r() for r in gone] == [None] * 4


@contextmanager
def calls_seen() -> Iterator[list[str]]:
    seen: list[str] = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    with Watch():
        yield seen


def test_modes_see_what_they_always_saw() -> None:
    x = torch.randn(4, 6).to(DEVICE)
    for _ in range(3):
        F.glu(x)
    with calls_seen() as seen:
        result = F.glu(x)
    assert seen[0] == "aten.glu.default"
    torch.testing.assert_close(result.cpu(), F.glu(x.cpu()))


def test_gradients() -> None:
    for _ in range(4):
        x, y = torch.randn(4, 6), torch.randn(4, 6)
        grads = []
        for device in ("cpu", DEVICE):
            a = x.clone().to(device).requires_grad_()
            (F.smooth_l1_loss(a, y.to(device)) + F.glu(a).norm()).backward()
            assert a.grad is not None
            grads.append(a.grad.cpu())
        torch.testing.assert_close(*grads)
