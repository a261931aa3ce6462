# SPDX-License-Identifier: BSD-3-Clause
"""vmap of kernels in Python: one call with a dim more."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

import torch_nntile
from torch_nntile import In, Out, index, kernel

pytest.importorskip("numba")

from python_kernels import numbered, step_of_sgd, tasks_of

B = torch.linspace(-1, 2, 49).view(7, 7).cos()


@pytest.mark.parametrize("device", ["cpu", "nntile"])
def test_vmap_is_one_call_with_a_dim_more(device: str) -> None:
    a, row, table = torch.randn(4, 5, 6, 3), torch.arange(24).view(6, 4), torch.randn(5)
    single = [numbered(a[k], row[:, k], table) for k in range(4)]
    expected = [torch.stack(results) for results in zip(*single, strict=True)]
    moved = [x.to(device) for x in (a, row, table)]
    call = torch.vmap(numbered, in_dims=(0, 1, None))
    for found, wanted in zip(call(*moved), expected, strict=True):
        assert found.cpu().equal(wanted)
    if device == "nntile":
        assert tasks_of(lambda: call(*moved))[0] <= 3  # a copy for the batch in dim 1, a call
        torch_nntile.set_axis_group_name(moved[0], {0: "vmapped"})
        torch_nntile.set_axis_group_tiling("vmapped", 2)
        assert call(*moved)[0].cpu().equal(expected[0])


def test_vmap_changes_in_place_and_loops_where_it_has_to() -> None:
    p, x = torch.arange(6.0, dtype=torch.float64).view(2, 3), torch.ones(3, dtype=torch.float64)
    moved = torch.vmap(step_of_sgd, in_dims=(0, None, None, None))(p, x, 1, False)
    assert p.tolist() == [[0, 0, 1], [3, 3, 4]] and moved.tolist() == [[False, True, True]] * 2
    with pytest.raises(RuntimeError, match="step_of_sgd: vmap: p is changed in place"):
        torch.vmap(step_of_sgd, in_dims=(None, 0, None, None))(x, p, 1, False)

    @kernel(points="a.shape")
    def share(a: In("f32", (None,)), y: Out("f32", "a")):
        y[index()] = a[index()] / a.sum()

    assert_close(torch.vmap(share)(B), B / B.sum(1, keepdim=True))


def test_gradients_under_vmap() -> None:
    @kernel(points="x.shape", cut={"rows": 0})
    def weigh(
        x: In("f64", (None,), axes=("rows",)),
        w: In("f64", "x"),
        y: Out("f64", "x"),
    ):
        i = index()
        y[i] = x[i] * w[i]

    weigh.backward = lambda grad_y, x, w: (grad_y * w, grad_y * x)
    x, w = torch.randn(3, 4, dtype=torch.float64), torch.randn(4, dtype=torch.float64)
    for device in ("cpu", "nntile"):
        leaves = [v.to(device).requires_grad_() for v in (x.clone(), w.clone())]
        torch.vmap(weigh, in_dims=(0, None))(*leaves).square().sum().backward()
        assert leaves[0].grad is not None and leaves[1].grad is not None
        assert_close(leaves[0].grad.cpu(), 2 * x * w**2)
        assert_close(leaves[1].grad.cpu(), (2 * x**2 * w).sum(0))
