# SPDX-License-Identifier: BSD-3-Clause
"""Every element-wise row on infinities, nan, zeros of both signs and the edges of integers.

test_rows.py draws such numbers now and then; here each row meets all of them, in all combinations
of its operands and with each number as an argument.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from typing import Any

import pytest
import samples
import strategies
import torch
from parity import assert_close, moved
from strategies import AtenCall, Slot
from torch import Tensor
from torch.utils import _pytree as pytree

from torch_nntile import aten
from torch_nntile.schemas import schema_of, siblings

NUMBERS = (0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 3.0, 0.0, -0.0, math.inf, -math.inf, math.nan)
EDGES = (*NUMBERS, 0.3, -0.3, 1.5, 2.5, -1e-4, 30.0, -30.0, 700.0)
INTEGERS = (0, 1, 2, 3, 7, -1, -2)


def edges_of(dtype: torch.dtype, divides: bool) -> Tensor:
    if dtype.is_floating_point or dtype == torch.bool:
        return torch.tensor(EDGES, dtype=torch.float64).to(dtype)
    # An integer has no quotient by 0, and CPU PyTorch dies of the least one divided by -1.
    limits = torch.iinfo(dtype)
    few = [1, 2, 3, 7, -2] if divides else [*INTEGERS, limits.min, limits.max, limits.max - 1]
    return torch.tensor([k for k in few if k >= limits.min], dtype=dtype)


def calls(row: aten.Row, overload: str) -> Iterator[tuple[AtenCall, torch.dtype, list[Tensor]]]:
    """Calls with all combinations of edges, for each dtype and each number."""
    op, words, arguments = strategies.op_of(row.op), strategies.words_of(row), inputs_of(overload)
    types = {name.rstrip("?*"): type_ for name, type_ in op.inputs}
    tensors = [a.name for a in arguments if "Tensor" in str(a.type)]
    divides = row.op in samples.DIVISIONS
    for dtype in op.dtypes:
        edges = edges_of(dtype, divides)[:: 2 if len(tensors) > 2 else 1]
        grid = torch.cartesian_prod(*[edges] * max(len(tensors), 1))
        columns = list(grid.reshape(-1, max(len(tensors), 1)).unbind(1))
        for numbers in numbers_of(row, overload, dtype):
            inputs: list[Tensor] = []
            values = dict(numbers)
            for a in arguments:
                if a.name in numbers:
                    continue
                column = columns[len(inputs)].clone()
                if types.get(words.get(a.name, a.name), "T") == "any":
                    column = column > 0
                in_list = str(a.type).startswith("List")
                if a.name == "value" or (row.flags & aten.FOREACH and not in_list):
                    column = column[0].clone()  # PyTorch wants a 0-dim tensor
                slot = Slot(len(inputs))
                values[a.name] = [slot] if in_list else slot
                inputs.append(column)
            positional = tuple(values[a.name] for a in arguments if not a.kwarg_only)
            named = {a.name: values[a.name] for a in arguments if a.kwarg_only}
            yield AtenCall(overload, positional, named), dtype, inputs


def inputs_of(overload: str) -> list[Any]:
    return [a for a in schema_of(overload).arguments if a.name not in ("dtype", "generator")]


def numbers_of(row: aten.Row, overload: str, dtype: torch.dtype) -> Iterator[dict[str, Any]]:
    """All combinations of the arguments that are no tensors."""
    choices: dict[str, tuple[Any, ...]] = {}
    for a in inputs_of(overload):
        type_, target = str(a.type), strategies.words_of(row).get(a.name, a.name)
        few: tuple[Any, ...] = (
            NUMBERS if a.name == "exponent" else samples.NUMBERS.get(a.name, NUMBERS)
        )
        if not dtype.is_floating_point:
            few = tuple(k for k in INTEGERS if k or row.op not in samples.DIVISIONS)
        if type_ == "str":
            choices[a.name] = strategies.op_of(row.op).choices[target]
        elif type_ == "bool":
            choices[a.name] = (False, True)
        elif "Tensor" not in type_:
            choices[a.name] = tuple([k] for k in few) if type_.startswith("List") else few
    for values in itertools.product(*choices.values()):
        yield dict(zip(choices, values, strict=True))


def results(call: AtenCall, inputs: list[Tensor], device: str) -> list[Tensor]:
    found = call(*(moved(x.clone(), device) for x in inputs))
    return [x.cpu() for x in pytree.tree_leaves(found) if isinstance(x, Tensor)]


ROWS = [
    (name, row)
    for row in aten.ROWS
    if strategies.op_of(row.op).rule == "map" and not row.flags & aten.RANDOM
    if row.overload.partition(".")[0] not in {*samples.SAMPLES, "_masked_scale"}  # the CPU has none
    for name in siblings(row.qualified)
    if name.startswith("aten") and not any(a.is_out for a in schema_of(name).arguments)
]


@pytest.mark.parametrize(("name", "row"), ROWS, ids=[name for name, _ in ROWS])
def test_edges(name: str, row: aten.Row) -> None:
    base = name.removeprefix("aten::").partition(".")[0].rstrip("_")
    compared = 0
    for call, dtype, inputs in calls(row, name):
        if row.op == "gelu":  # oneDNN's gelu of inf is nan, that of the CPU's own loop is inf
            inputs = [x[~x.isinf()] for x in inputs]
        try:
            expected = results(call, inputs, "cpu")
        except RuntimeError as refusal:
            with pytest.raises(type(refusal), match=re.escape(str(refusal))):
                results(call, inputs, "nntile")
            continue
        found = results(call, inputs, "nntile")
        for k, (x, y) in enumerate(zip(found, expected, strict=True)):
            try:
                if x.shape == y.shape and not same(x, y).all():
                    y = likely(x, y, call, inputs, k)
                assert_close(x, y, 1, base, dtype)
            except AssertionError as error:
                raise AssertionError(
                    f"{call} of {dtype}: {error}\n{report(inputs, x, y)}"
                ) from None
        compared += 1
    assert compared


def same(found: Tensor, expected: Tensor) -> Tensor:
    return (found == expected) | (found.isnan() & expected.isnan())


def likely(found: Tensor, expected: Tensor, call: AtenCall, inputs: list[Tensor], k: int) -> Tensor:
    """What the CPU gives, where its vectors and its code for what is left of them differ: either.

    They do at nan and at zeros of logit. An element alone takes the latter.
    """
    if any(x.dim() != 1 or x.shape != found.shape for x in inputs):
        return expected
    either = expected.clone()
    for n in (~same(found, expected)).nonzero().flatten().tolist():
        either[n] = results(call, [x[n : n + 1] for x in inputs], "cpu")[k][0]
    return either


def report(inputs: list[Tensor], found: Tensor, expected: Tensor) -> str:
    """The first elements that differ, with what they were made of."""
    lines = []
    for k in (~same(found, expected)).flatten().nonzero().flatten()[:5].tolist():
        operands = [x.flatten()[k if x.numel() > 1 else 0].item() for x in inputs]
        lines.append(f"of {operands}: {found.flatten()[k]}, expected {expected.flatten()[k]}")
    return "\n".join(lines)
