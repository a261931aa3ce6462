# SPDX-License-Identifier: BSD-3-Clause
"""Results in the memory of operands: the same bits as in memory of their own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from torch_nntile import set_axis_group_name, set_axis_group_tiling, wait

pytestmark = pytest.mark.usefixtures("runtime")
DEVICE = "nntile"

ROWS: dict[str, Callable[[Tensor, Tensor, int], Tensor]] = {
    "softmax": lambda x, _, dim: x.softmax(dim),
    "log_softmax": lambda x, _, dim: x.log_softmax(dim),
    "softmax_backward": lambda x, y, dim: torch.ops.aten._softmax_backward_data(x, y, dim, x.dtype),
    "log_softmax_backward": lambda x, y, dim: torch.ops.aten._log_softmax_backward_data(
        x, y, dim, x.dtype
    ),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("row", ROWS)
def test_rows_take_an_operand(row: str, dim: int, dtype: torch.dtype) -> None:
    x, y = (torch.randn(5, 37, 70).to(dtype).to(DEVICE) for _ in range(2))
    for a in (x, x.transpose(1, 2)):
        b = y if a is x else y.transpose(1, 2)
        kept = [a.exp(), b.exp()]
        apart = ROWS[row](*kept, dim)
        wait()
        for over in (ROWS[row](a.exp(), kept[1], dim), ROWS[row](kept[0], b.exp(), dim)):
            assert over.cpu().equal(apart.cpu())


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("row", ROWS)
def test_an_operand_put_together_from_tiles(row: str, dim: int) -> None:
    x, y = (torch.randn(40, 70).to(DEVICE) for _ in range(2))
    for k, (n, sizes) in enumerate(((40, [16, 24]), (70, [64, 6]))):
        set_axis_group_name(x, {k: f"reuse_{row}_{dim}_{n}"})
        set_axis_group_tiling(f"reuse_{row}_{dim}_{n}", sizes)
    kept = [x.exp(), y.exp()]
    apart = ROWS[row](*kept, dim)
    wait()
    for over in (ROWS[row](x.exp(), kept[1], dim), ROWS[row](kept[0], y.exp(), dim)):
        assert over.cpu().equal(apart.cpu())
    theirs = ROWS[row](*(x.cpu() for x in kept), dim)
    torch.testing.assert_close(apart.cpu(), theirs)
