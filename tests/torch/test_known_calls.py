# SPDX-License-Identifier: BSD-3-Clause
"""A small call that comes often runs in the thread that makes it, and nobody can see that it does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from emulated_devices import on_cores
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from torch_nntile import capture, explain, has_pending_graph, set_axis_group_name, stats, wait

DEVICE = "nntile"
OFTEN = 40  # above the default of NNTILE_SMALL_CALLS

pytestmark = pytest.mark.usefixtures("runtime")
# on_cores: beside GPUs calls wait in graphs, for handing over few large ones is worth more there.


def is_known(call: Callable[[], Any], times: int = OFTEN) -> bool:
    """Whether the calls wait for nothing any more after so many."""
    for _ in range(times):
        kept = call()
    wait()
    kept = call()
    waits = has_pending_graph()
    del kept
    return not waits


@on_cores
def test_it_does_not_wait() -> None:
    x = torch.randn(3, 4).to(DEVICE)
    assert is_known(lambda: ((x @ x.t()).softmax(1) * 2 + 1).relu())


@on_cores
def test_a_first_call_that_seldom_comes() -> None:
    """Autograd sums gradients so: of the first two anew, then in place."""
    x = torch.randn(3, 4).to(DEVICE)
    kept = x * 1
    for _ in range(OFTEN):
        kept.add_(x)
    kept.sum().item()
    total = x + x
    assert has_pending_graph()
    for _ in range(4):
        total.add_(x)
        assert not has_pending_graph()
    torch.testing.assert_close(total.cpu(), 6 * x.cpu())


def test_a_call_behind_much_waits_as_before() -> None:
    x, large = torch.randn(3, 4).to(DEVICE), torch.randn(300, 100).to(DEVICE)
    kept = x * 1
    for _ in range(OFTEN):
        kept.add_(x)
    kept.sum().item()
    part = large[:3, :4] * (large * 2).sum()
    part.add_(x)
    assert has_pending_graph()


def test_large_calls_wait_as_before() -> None:
    x = torch.randn(300, 100).to(DEVICE)
    assert not is_known(lambda: x * 2)


def test_a_few_calls_are_one_graph() -> None:
    x = torch.randn(3, 4).to(DEVICE)
    assert not is_known(lambda: (x * 2 + 1).relu(), times=20)


CALLS: dict[str, Callable[[Tensor, Tensor, float], Any]] = {
    "numbers": lambda x, y, n: torch.add(x, y, alpha=n) * n,
    "integers": lambda x, y, n: (x > n).sum(1, True) + (y < n).long(),
    "views": lambda x, y, n: x.t()[1:] @ y[:, ::2],
    "broadcast": lambda x, y, n: x + y[0] - y[:, :1] * n,
    "into another dtype": lambda x, y, n: x.to(torch.bfloat16) * y.to(torch.float16) * n,
    "the same twice": lambda x, y, n: x * x + x @ x.t() @ y,
    "in place": lambda x, y, n: (x.mul_(n), y[1].add_(x[0]), y.t().clamp_(min=-n), x, y),
    "into a part": lambda x, y, n: (x.__setitem__((slice(None), 1), n), x[1:].copy_(y[1:]), x),
    "out": lambda x, y, n: torch.sub(x, y, alpha=n, out=torch.empty(0, device=x.device)),
    "reductions": lambda x, y, n: (x.mean(), y.var(1), x.amax(0), (x * n).norm(), y.cumsum(1)),
    "layers": lambda x, y, n: F.layer_norm(x, (4,), y[0]) + F.softmax(y * n, 0) @ x.t() @ x,
    "losses": lambda x, y, n: F.smooth_l1_loss(x, y, beta=n) + F.cross_entropy(x, y.argmax(1)),
    "gather": lambda x, y, n: x.gather(1, y.argsort(1)) + F.embedding(y.argmax(1) % 3, x) * n,
    "lists": lambda x, y, n: torch.cat([x, y, x], 1).chunk(3, 1)[2] + torch.stack([x, y]).sum(0),
    "where": lambda x, y, n: torch.where(x > y, x, n) + x.masked_fill(y > 0, n),
    "one element": lambda x, y, n: x[0, 0] * y.sum() / n + x.max(),
    "products": lambda x, y, n: torch.addmm(x, y, y.t() @ x, beta=n, alpha=2) + (x[0] @ y[1]),
    "lists in place": lambda x, y, n: (*torch._foreach_mul([x, y], n), x, y),
}


@pytest.mark.parametrize("name", CALLS)
def test_numbers(name: str) -> None:
    """The bits of calls that wait, and near the CPU, with other data and numbers at each call."""
    call = CALLS[name]

    def made(k: int, device: str) -> list[Tensor]:
        generator = torch.Generator().manual_seed(k)
        x, y = (torch.randn(3, 4, generator=generator).to(device) for _ in "xy")
        result = call(x, y, 0.5 + k)
        return [
            r.cpu() for r in (result if isinstance(result, tuple) else (result,)) if r is not None
        ]

    waited = [made(k, DEVICE) for k in range(8)]
    for k in range(OFTEN):
        made(k, DEVICE)
    known = [made(k, DEVICE) for k in range(8)]
    for k in range(8):
        for ours, before, theirs in zip(known[k], waited[k], made(k, "cpu"), strict=True):
            assert torch.equal(ours, before) or bool(ours.isnan().any())
            torch.testing.assert_close(ours, theirs)


@given(
    seed=st.integers(0, 1000),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool]),
    other=st.sampled_from([torch.float32, torch.int32, torch.float16]),
    shape=st.sampled_from([(), (1,), (5,), (2, 3), (3, 1), (1, 3, 2)]),
    turned=st.booleans(),
    op=st.sampled_from(["add", "mul", "true_divide", "maximum", "eq", "lt", "atan2", "copysign"]),
)
def test_formulas(
    seed: int, dtype: torch.dtype, other: torch.dtype, shape: tuple[int, ...], turned: bool, op: str
) -> None:
    """One formula has a way of its own, too: its dtypes, layouts and single elements."""
    generator = torch.Generator().manual_seed(seed)
    x = (torch.randn(shape, generator=generator) * 3).to(dtype)
    y = (torch.randn(shape, generator=generator) * 3).to(other)
    if turned and len(shape) > 1:
        y = y.transpose(0, 1).contiguous().transpose(0, 1)
    call = getattr(torch, op)
    for operands in ((x, y), (x, y.flatten()[0]), (y, x)):
        torch.testing.assert_close(
            call(*(t.to(DEVICE) for t in operands)).cpu(), call(*operands), equal_nan=True
        )


def test_a_write_does_not_pass_a_read_that_waits() -> None:
    """The large call reads what the small one then changes in place."""
    small, large = torch.ones(4).to(DEVICE), torch.randn(9000, 4).to(DEVICE)
    for _ in range(OFTEN):
        small.mul_(1)
    wait()
    for _ in range(3):
        expected = small.cpu() + large.cpu()
        waiting = large + small
        assert has_pending_graph()
        small.mul_(3)
        torch.testing.assert_close(waiting.cpu(), expected)
    assert small.tolist() == [27.0] * 4


def test_a_task_that_runs_is_waited_for() -> None:
    """Workers still compute what the small call reads and changes."""
    known = torch.ones(()).to(DEVICE)
    for _ in range(OFTEN):
        known.mul_(2)
        known + known
    a, b = torch.randn(600, 900).to(DEVICE), torch.randn(900, 600).to(DEVICE)
    expected = (a.cpu() @ b.cpu()).amax()
    for _ in range(3):
        largest = (a @ b).amax()
        b @ a  # ends the window of the product before it
        twice = largest + largest
        largest.mul_(2)
        torch.testing.assert_close(twice.cpu(), expected * 2)
        torch.testing.assert_close(largest.cpu(), expected * 2)


def test_random_numbers() -> None:
    """Each call draws others, and a seed draws the same again."""
    x = torch.ones(3, 8).to(DEVICE)
    for _ in range(OFTEN):
        F.dropout(x)
    torch.manual_seed(1)
    first = [F.dropout(x).tolist() for _ in range(4)]
    assert len({str(drawn) for drawn in first}) == 4
    torch.manual_seed(1)
    assert [F.dropout(x).tolist() for _ in range(4)] == first


def test_an_error() -> None:
    """It names the op and the line; the next call works."""
    table, index = torch.randn(5, 3).to(DEVICE), torch.tensor([1, 4]).to(DEVICE)
    for _ in range(OFTEN):
        F.embedding(index, table)
    wait()
    with pytest.raises(IndexError, match=r"embedding.*test_known_calls.py:\d+"):
        F.embedding(index + 1, table).cpu()
    torch.testing.assert_close(F.embedding(index, table).cpu(), table.cpu()[[1, 4]])


def test_what_needs_an_operand_that_was_lost() -> None:
    """A known call does not compute with what another one could not give."""
    table, index = torch.randn(5, 3).to(DEVICE), torch.tensor([1, 4]).to(DEVICE)
    for _ in range(OFTEN):
        F.embedding(index, table) + 1  # the calls, not their results
    lost = F.embedding(torch.tensor([1, 7]).to(DEVICE), table) + 1
    with pytest.raises(IndexError, match="embedding"):
        lost.cpu()
    with pytest.raises(RuntimeError, match="never computed"):
        lost.cpu()
    torch.testing.assert_close((F.embedding(index, table) + 1).cpu(), table.cpu()[[1, 4]] + 1)


@on_cores
def test_statistics_and_captures() -> None:
    """A known call is a graph, and a step that is captured has it as before."""
    x = torch.randn(4).to(DEVICE)
    for _ in range(OFTEN):
        y = x + 1
    wait()
    before = stats()
    for _ in range(5):
        y = x + 1
    after = stats()
    assert after.graphs - before.graphs == 5
    assert after.tasks - before.tasks == 5
    assert after.lowerings == before.lowerings
    step = capture(lambda z: (z + 1).relu())
    for _ in range(4):
        torch.testing.assert_close(step(x).cpu(), (x.cpu() + 1).relu())
    assert torch.equal(y.cpu(), x.cpu() + 1)


def test_profiles_see_it() -> None:
    from torch_nntile import profile

    x = torch.randn(4).to(DEVICE)
    for _ in range(OFTEN):
        x + 1  # the call, not its result
    with profile() as seen:
        kept = x + 1
        wait()
    assert any("add" in task.op for task in seen.tasks)
    assert kept.shape == (4,)


PROGRAM = """
import torch, torch_nntile
def steps(x):
    for _ in range(40):
        y = x * 2 + 1
    return y

x = torch.arange(6.0).reshape(2, 3)
print(steps(x.to("nntile")).sum().item())
torch_nntile.shutdown_context()
torch_nntile.init_context(ncpu=1)
print(steps(x.to("nntile")).sum().item())
with torch_nntile.estimate_only():
    steps(torch.ones(2, 3, device="nntile"))
print(steps(x.to("nntile")).sum().item(), torch_nntile.stats().waiting)
"""


@pytest.mark.parametrize("after", ["0", "-1", "32"])
def test_contexts_and_settings(after: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "NNTILE_SMALL_CALLS": after},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["36.0", "36.0", "36.0", "0"]


def test_named_axes_are_kept() -> None:
    """A result of a tensor with a named axis has the name."""
    x = torch.randn(6, 4).to(DEVICE)
    for _ in range(OFTEN):
        x * 2  # the call, not its result
    set_axis_group_name(x, {0: "known_rows"})
    y = x * 2
    wait()
    assert "known_rows" in explain("cuts")
    assert y.shape == x.shape
