# SPDX-License-Identifier: BSD-3-Clause
"""Shapes that were learned from earlier calls: right for new sizes, and errors stay PyTorch's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from torch_nntile import _c

CALLS: dict[str, Callable[[int, int, str], Tensor]] = {
    "layer_norm": lambda n, w, d: functional.layer_norm(
        torch.ones(n, n + 1, w, device=d), (w,), torch.ones(w, device=d)
    ),
    "embedding": lambda n, w, d: functional.embedding(
        torch.ones(n, n + 2, dtype=torch.long, device=d), torch.ones(7, w, device=d)
    ),
    "sum": lambda n, w, d: torch.ones(n, n + 1, w, device=d).sum(1, keepdim=True),
    "mm": lambda n, w, d: torch.ones(n, w, device=d) @ torch.ones(w, n + 3, device=d),
    "cat": lambda n, w, d: torch.cat([torch.ones(n, w, device=d), torch.ones(n + 1, w, device=d)]),
}


def meta_calls() -> int:
    return int(_c.get("nntile_stub_meta_calls"))


@pytest.mark.parametrize("name", CALLS)
def test_new_sizes(name: str) -> None:
    for n, w in [(2, 64), (5, 64), (9, 64), (4, 64), (11, 64), (6, 32), (3, 16), (1, 64), (0, 8)]:
        found, want = CALLS[name](n, w, "nntile"), CALLS[name](n, w, "cpu")
        assert found.shape == want.shape and found.stride() == want.stride()
        assert torch.equal(found.cpu(), want)


def test_no_question_of_known_kinds() -> None:
    w = torch.ones(48, device="nntile")
    square = torch.ones(48, 48, device="nntile")
    inputs = [torch.zeros(n, n + 7, 48, device="nntile") for n in range(20, 40)]
    for i, x in enumerate(inputs):
        if i == 5:
            before = meta_calls()
        functional.layer_norm(x, (48,), w)
        torch.softmax(x, 1)
        x.sum(1, keepdim=True)
        torch.mm(x.view(-1, 48), square)
    assert meta_calls() == before


def test_errors_stay() -> None:
    for n in range(2, 9):
        torch.bmm(torch.ones(n, 2, 3, device="nntile"), torch.ones(n, 3, n, device="nntile"))
        torch.mm(torch.ones(n, n + 3, device="nntile"), torch.ones(n + 3, 2, device="nntile"))
        CALLS["layer_norm"](n, 64, "nntile")
    for device in ("cpu", "nntile"):
        with pytest.raises(RuntimeError, match="batch"):
            torch.bmm(torch.ones(1, 2, 3, device=device), torch.ones(4, 3, 5, device=device))
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            torch.mm(torch.ones(4, 5, device=device), torch.ones(6, 2, device=device))
        x, weight = torch.ones(2, 3, 32, device=device), torch.ones(64, device=device)
        with pytest.raises(RuntimeError, match="normalized_shape"):
            functional.layer_norm(x, (64,), weight)
