# SPDX-License-Identifier: BSD-3-Clause
"""Shapes that were learned from earlier calls: right for new sizes, and errors stay PyTorch's."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

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


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


# Whose results have the default dtype, or the complex one of its size.
DEFAULTS: dict[str, Callable[[Tensor], Tensor]] = {
    "true division": lambda x: x / x,
    "division by a number": lambda x: x / 3,
    "mean": lambda x: (x / 2).mean(0),
    "sqrt": torch.sqrt,
    "sigmoid": torch.sigmoid,
    "real number": lambda x: x * 0.1,
    "in place": lambda x: torch.zeros(3, device=x.device).add_(x).div_(3),
    "out": lambda x: torch.exp(x, out=torch.empty(3, dtype=torch.float64, device=x.device)),
    "imaginary number": lambda x: x * 0.1j,
    "complex of real": lambda x: torch.complex(x / 3, x / 7),
    "polar": lambda x: torch.polar(x / 3, x / 7),
    "Fourier": lambda x: torch.fft.fft(x),
    "composition": lambda x: torch.logit(x, 1e-3),
    "special": lambda x: torch.special.entr(x),
    "host": lambda x: torch.special.zeta(x + 1, x),
    "full": lambda x: torch.full((3,), 0.1, device=x.device),
    "tensor": lambda x: torch.tensor([0.1, 0.2], device=x.device),
    "arange": lambda x: torch.arange(0.0, 1.0, 0.1, device=x.device),
    "linspace": lambda x: torch.linspace(0, 1, 7, device=x.device),
    "window": lambda x: torch.hann_window(7, device=x.device),
    "where": lambda x: torch.where(x > 1, 0.1, 0.2),
    "cumulative": lambda x: (x / 7).cumsum(0),
    "norm": lambda x: torch.linalg.vector_norm(x / 7),
    "bool": lambda x: (x > 1) / (x > 0),
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_default_dtype(name: str) -> None:
    """Four calls under each: from the fourth on shapes are guessed, and the first answer is kept."""
    call, x = DEFAULTS[name], torch.tensor([1, 2, 3])
    found = []
    for dtype in (torch.float32, torch.float64, torch.float16, torch.float32, torch.float64):
        with default_dtype(dtype):
            try:
                expected = call(x)
            except RuntimeError:  # complex numbers of 16 bits
                with pytest.raises(RuntimeError):
                    call(x.to("nntile")).cpu()
                continue
            for _ in range(4):
                y = call(x.to("nntile"))
                assert y.dtype == expected.dtype, dtype
                found.append((y, expected))
    for y, expected in found:  # tasks may run under another default than their call
        if torch.finfo(y.dtype).bits != 16:
            torch.testing.assert_close(y.cpu(), expected)
