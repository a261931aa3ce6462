# SPDX-License-Identifier: BSD-3-Clause
"""Integers that the promoted dtype does not hold: they wrap, or PyTorch refuses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from parity import runtime_mode
from torch import Tensor

NUMBERS = (-5, -200, 300, 70_000, 2**31 + 7)
DTYPES = (torch.uint8, torch.int8, torch.int16, torch.int32)
# uint8 >= -5: -5 becomes 251
WRAPPING: tuple[Callable[..., Tensor], ...] = (
    *(torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge, torch.add, torch.mul, torch.rsub),
    *(torch.floor_divide, torch.remainder, torch.fmod, torch.bitwise_and, torch.bitwise_xor),
    *(torch.maximum, torch.minimum, torch.div, torch.clamp_min, torch.clamp_max, torch.where),
    *(torch.pow, torch.full_like, torch.Tensor.fill_, torch.Tensor.add_, torch.Tensor.copy_),
)
TENSORS_ONLY = (torch.maximum, torch.minimum, torch.Tensor.copy_)
NUMBERS_ONLY = (torch.full_like, torch.Tensor.fill_)  # a 0-dim tensor would be read


def outcome(op: Callable[..., Tensor], dtype: torch.dtype, number: Any, device: str) -> Any:
    x = torch.tensor([1, 2, 100, 0, 251 if dtype == torch.uint8 else 127]).to(dtype).to(device)
    if isinstance(number, Tensor):
        number = number.to(device)
    mask = torch.tensor([True, False, True, False, False], device=device)
    try:
        result = op(mask, x, number) if op is torch.where else op(x, number)
    except (RuntimeError, TypeError) as error:
        return type(error).__name__, str(error)
    return result.dtype, result.cpu().nan_to_num(7.5).tolist()


@pytest.mark.parametrize("op", WRAPPING, ids=lambda op: op.__name__)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_numbers_that_do_not_fit(op: Callable[..., Tensor], dtype: torch.dtype, mode: str) -> None:
    numbers: list[Any] = [] if op in TENSORS_ONLY else [*NUMBERS]
    numbers += [] if op in NUMBERS_ONLY else [torch.tensor(n) for n in NUMBERS]
    for number in numbers:
        with runtime_mode(mode):
            found = outcome(op, dtype, number, "nntile")
        assert found == outcome(op, dtype, number, "cpu"), number


# Bounds on both sides, and the ops on lists that are made of them.
BOUNDED: dict[str, Callable[[Tensor, int], Tensor]] = {
    "from": lambda x, n: torch.clamp(x, n, 3),
    "to": lambda x, n: torch.clamp(x, 3, n),
    "at": lambda x, n: torch.clamp(x, n, n),
    "in place": lambda x, n: x.clamp_(min=n),
    "hardtanh": lambda x, n: torch.nn.functional.hardtanh(x, -70_000, n),
    "foreach from": lambda x, n: torch._foreach_clamp_min([x, x], n)[1],
    "foreach to": lambda x, n: torch._foreach_clamp_max([x, x], n)[1],
    "foreach maximum": lambda x, n: torch._foreach_maximum([x], n)[0],
    "foreach minima": lambda x, n: torch._foreach_minimum([x, x], [n, 3])[0],
}


@pytest.mark.parametrize("op", BOUNDED)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_bounds_that_do_not_fit(op: str, dtype: torch.dtype) -> None:
    for number in NUMBERS:
        found = outcome(BOUNDED[op], dtype, number, "nntile")
        assert found == outcome(BOUNDED[op], dtype, number, "cpu"), number


@pytest.mark.parametrize("dtype", [*DTYPES, torch.int64], ids=str)
def test_negative_powers_are_refused_each_time(dtype: torch.dtype) -> None:
    x = torch.tensor([1, 2], dtype=dtype, device="nntile")
    assert (x**2).tolist() == [1, 4]
    for exponent in (-1, -2, -1):
        with pytest.raises(RuntimeError, match="Integers to negative integer powers"):
            x**exponent


@pytest.mark.parametrize("factors", [(0.2, 0.6), (1.7, 2.6), (-1.5, -0.5)])
def test_factors_of_products_count_whole(factors: tuple[float, float]) -> None:
    """The CPU's matrix product of integers drops the fraction of alpha and beta."""
    beta, alpha = factors
    a, v = torch.arange(9, dtype=torch.int32).reshape(3, 3), torch.tensor([4, -5, 7]).int()
    for op, tensors in (
        (torch.addmm, (a, a, a)),
        (torch.addmv, (v, a, v)),
        (torch.baddbmm, (a[None], a[None], a[None])),
    ):
        expected = op(*tensors, beta=beta, alpha=alpha)
        found = op(*(x.to("nntile") for x in tensors), beta=beta, alpha=alpha)
        assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("dtype", [*DTYPES, torch.bool], ids=str)
@pytest.mark.parametrize("bounds", [(-1, 1), (0.5, 2.7), (1, 3)])
def test_bounds_of_hardtanh_do_not_promote(dtype: torch.dtype, bounds: tuple[Any, Any]) -> None:
    def clipped(device: str) -> Any:
        try:
            x = torch.nn.functional.hardtanh(torch.arange(5).to(dtype).to(device), *bounds)
        except RuntimeError as error:
            return str(error)
        return x.dtype, x.tolist()

    assert clipped("nntile") == clipped("cpu")


FACTORS: dict[str, Callable[[Tensor, Any], Any]] = {
    "add": lambda x, n: x.add(x, alpha=n),
    "add a number": lambda x, n: x.add(3, alpha=n),
    "sub": lambda x, n: x.sub(x, alpha=n),
    "rsub": lambda x, n: torch.rsub(x, x, alpha=n),
    "addcmul": lambda x, n: torch.addcmul(x, x, x, value=n),
    "threshold": lambda x, n: torch.nn.functional.threshold(x, n, 1),
    "threshold to": lambda x, n: torch.nn.functional.threshold(x, 1, n),
    "foreach add": lambda x, n: torch._foreach_add([x, x], [x, x], alpha=n),
    "foreach add_": lambda x, n: torch._foreach_add_([x], [x.clone()], alpha=n) or [x],
    "foreach addcmul": lambda x, n: torch._foreach_addcmul([x, x], [x, x], [x, x], [1, n]),
    **{
        f"foreach {name}": lambda x, n, name=name: getattr(torch, f"_foreach_{name}")(
            [x, x], [1, n]
        )
        for name in ("add", "sub", "mul", "maximum", "pow")
    },
    **{
        f"foreach {name}_": lambda x, n, name=name: (
            getattr(torch, f"_foreach_{name}_")([x], n) or [x]
        )
        for name in ("add", "sub", "mul", "div", "minimum")
    },
    "minus": lambda x, n: x - n,
    "minus_": lambda x, n: x.sub_(n),
}


@pytest.mark.parametrize("name", FACTORS)
@pytest.mark.parametrize("dtype", [*DTYPES, torch.int64, torch.bool, torch.float32], ids=str)
def test_factors_that_do_not_fit(name: str, dtype: torch.dtype) -> None:
    """A number beside the operands, or in a list: taken, wrapped or refused as the CPU does."""

    def outcome(number: Any, device: str) -> Any:
        x = torch.tensor([1, 2, 100]).to(dtype).to(device)
        try:
            found = FACTORS[name](x, number)
        except (RuntimeError, TypeError) as error:
            return type(error).__name__, str(error)
        several = [found] if isinstance(found, Tensor) else found
        return [(y.dtype, y.tolist()) for y in several]

    for number in (1, 300, -1, 2**33, 2**60 + 1, 2.0, 1.5, True):
        assert outcome(number, "nntile") == outcome(number, "cpu"), number


@pytest.mark.parametrize("rounding", [None, "floor", "trunc"])
@pytest.mark.parametrize("dtype", [*DTYPES, torch.int64, torch.float32, torch.bfloat16], ids=str)
def test_division_by_a_number(rounding: str | None, dtype: torch.dtype) -> None:
    for number in (2, -3, 1.5, True, torch.tensor(2)):

        def divided(device: str, number: Any = number) -> list[Any]:
            x = torch.tensor([7, 100, 5, 0]).to(dtype).to(device)
            results = [torch.div(x, number, rounding_mode=rounding)]
            if results[0].dtype == dtype:
                results.append(x.div_(number, rounding_mode=rounding))
            return [(y.dtype, y.tolist()) for y in results]

        assert divided("nntile") == divided("cpu"), number
