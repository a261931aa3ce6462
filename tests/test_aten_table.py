# SPDX-License-Identifier: BSD-3-Clause
"""The table of rows against PyTorch's schemas and the ops of libnntile_c."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

import torch_nntile
from torch_nntile import _c, aten
from torch_nntile.compositions.decomposed import DECOMPOSED
from torch_nntile.compositions.registry import COMPOSITIONS
from torch_nntile.schemas import is_written, schema_of, siblings

NO_WORD_NEEDED = {
    *("dtype", "layout", "device", "pin_memory", "memory_format", "non_blocking", "generator"),
}


def forms() -> list[tuple[str, aten.Row]]:
    return [(name, row) for row in aten.ROWS for name in siblings(row.qualified)]


@pytest.mark.parametrize("row", aten.ROWS, ids=lambda row: row.overload)
def test_every_argument_is_mapped_or_ignored(row: aten.Row) -> None:
    words = row.arguments.split()
    named = {word.partition(":")[0] for word in words if "=" not in word}
    for name in siblings(row.qualified):
        schema = schema_of(name)
        have = {argument.name for argument in schema.arguments}
        assert named <= have, f"{name} has no argument {sorted(named - have)}"
        needed = {
            argument.name
            for argument in schema.arguments
            if not is_written(argument) and argument.name not in NO_WORD_NEEDED
        }
        assert needed <= named, f"{name}: no word for {sorted(needed - named)}"


@pytest.mark.parametrize("row", aten.ROWS, ids=lambda row: row.overload)
def test_words_name_operands_of_the_op(row: aten.Row) -> None:
    number = _c.new("uint32_t *")
    _c.call("nntile_op_find", row.op.encode(), number)
    have = {
        _c.text(_c.get(f"nntile_op_{kind}_name", number[0], i)).rstrip("?*")
        for kind in ("input", "output", "attr")
        for i in range(_c.get(f"nntile_op_{kind}_count", number[0]))
    }
    for word in row.arguments.split():
        target = word.partition("=")[0] if "=" in word else word.rpartition(":")[2]
        assert target == "-" or target in have, f"{word}: op {row.op} has {sorted(have)}"


def test_no_overload_is_served_twice() -> None:
    served = Counter(name for name, _ in forms())
    assert [name for name, count in served.items() if count > 1] == []
    composed = {f"aten::{name}" for name in COMPOSITIONS}
    assert composed & set(served) == set()


@pytest.mark.parametrize("overload", sorted(COMPOSITIONS))
def test_compositions_are_for_overloads_that_exist(overload: str) -> None:
    assert schema_of(f"aten::{overload}") is not None


def test_decomposed_overloads_have_a_decomposition() -> None:
    from torch._decomp import core_aten_decompositions

    known = {str(op).removeprefix("aten.") for op in core_aten_decompositions()}
    for overload in DECOMPOSED:
        assert (overload if "." in overload else f"{overload}.default") in known


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("aten::add.Tensor", ["aten::add_.Tensor", "aten::add.out"]),
        ("aten::pow.Tensor_Scalar", ["aten::pow_.Scalar", "aten::pow.Tensor_Scalar_out"]),
        ("aten::sigmoid_backward", ["aten::sigmoid_backward.grad_input"]),
        ("aten::nll_loss_forward", ["aten::nll_loss_forward.output"]),
        ("aten::mean", ["aten::mean.dtype_out"]),
        ("aten::max.dim", ["aten::max.dim_max"]),
        ("aten::_foreach_add.List", ["aten::_foreach_add_.List"]),
        ("aten::fill_.Scalar", []),
        ("aten::arange.start_out", []),
    ],
)
def test_siblings(name: str, expected: list[str]) -> None:
    assert siblings(name) == [name, *expected]


def test_an_unknown_overload_is_named() -> None:
    with pytest.raises(LookupError, match=r"aten::add\.Nothing"):
        schema_of("aten::add.Nothing")


def test_rows_are_what_the_dispatcher_calls() -> None:
    """Not a kernel of PyTorch that is composed of others: every form has a kernel of the device."""
    assert torch_nntile.runtime_mode() in ("eager", "graph")
    for name, _ in forms():
        assert torch._C._dispatch_has_kernel_for_dispatch_key(name, "PrivateUse1"), name


def test_every_op_has_a_call_to_time() -> None:
    """tests/bench/rows.py times them, the op reference shows it."""
    from bench.row_calls import call_of

    served = {row.op for row in aten.ROWS}
    missing = {op for op in served if call_of(op) is None}
    assert not missing, f"bench/row_calls.py has no call of {sorted(missing)}"
