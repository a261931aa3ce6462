# SPDX-License-Identifier: BSD-3-Clause
"""Named axis groups and their cuts. A group is all dims that ops or views relate to the named."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, SupportsIndex

import torch

from torch_nntile import _c
from torch_nntile.errors import DtypeError, InvalidArgumentError

__all__ = [
    "format_axis_groups",
    "load_cuts",
    "print_axis_groups",
    "save_cuts",
    "set_axis_group_name",
    "set_axis_group_tiling",
]


WHOLE = 2**63 - 1  # a size that no axis exceeds


def set_axis_group_name(tensor: torch.Tensor, names: Mapping[int, str]) -> None:
    """Name dims of a tensor on the device; dims that are left out keep their group.

    Args:
        tensor: on device "nntile". The names stay with its data, its `.grad` and optimizer state.
        names: dim -> name; a negative dim counts from the end.

    Raises:
        ValueError: a dim outside the tensor, an empty name, or a tensor on another device.
        TypeError: names that are no mapping of dims to texts.
    """
    if not isinstance(tensor, torch.Tensor):
        raise DtypeError(
            f"set_axis_group_name: expected a tensor, got {type(tensor).__name__}: name its parameters"
        )
    if not isinstance(names, Mapping):
        raise DtypeError(
            f"set_axis_group_name: expected dims and their names, as {{0: 'batch'}}, got {names!r}"
        )
    if tensor.device.type != "nntile":
        raise InvalidArgumentError(
            f"set_axis_group_name: the tensor is on {tensor.device}, not on device 'nntile'"
        )
    operand = _c.operand(tensor)
    for dim, name in names.items():
        if not isinstance(dim, SupportsIndex) or isinstance(dim, bool):
            raise DtypeError(
                "set_axis_group_name: expected a dim and its name, as {0: 'batch'}, got "
                f"{{{dim!r}: {name!r}}}"
            )
        dim = operator.index(dim)
        if not -tensor.dim() <= dim < tensor.dim():
            raise InvalidArgumentError(
                f"set_axis_group_name: dim {dim} is out of range for a tensor of shape "
                f"{tuple(tensor.shape)}"
            )
        if not isinstance(name, str) or not name:
            raise InvalidArgumentError(f"set_axis_group_name: dim {dim} needs a name, got {name!r}")
        _c.call("nntile_record_axis_name", _c.record(), operand, dim % tensor.dim(), name.encode())


def set_axis_group_tiling(name: str, sizes: int | Sequence[int] | Literal["auto", "whole"]) -> None:
    """Cut an axis group, at any time; it holds from the next lowering on.

    Args:
        name: of the group.
        sizes: one size (the last tile may be smaller), a list that sums to the extent, "auto", or
            "whole": one tile, whatever would be chosen. A list of one size is that size.

    Raises:
        ValueError: an unknown group, a size <= 0, or sizes that do not sum to the extent.
        TypeError: sizes that are no whole numbers, or a name that is no text.
    """
    if not isinstance(name, str):
        raise DtypeError(f"set_axis_group_tiling: expected the name of a group, got {name!r}")
    _c.call("nntile_record_axis_tiling", _c.record(), name.encode(), *_cut_of(name, sizes))


def _cut_of(
    name: str, sizes: int | Sequence[int] | Literal["auto", "whole"]
) -> tuple[list[int], int]:
    if isinstance(sizes, str):
        if sizes == "whole":
            return [WHOLE], 1
        if sizes != "auto":
            raise InvalidArgumentError(
                f"axis group {name!r}: the tiling must be a size, a list of sizes, 'auto' or "
                f"'whole', got {sizes!r}"
            )
        return [], 0
    one = isinstance(sizes, SupportsIndex) and not isinstance(sizes, Sequence)
    given = [sizes] if one else list(sizes) if isinstance(sizes, Iterable) else [sizes]
    if not all(isinstance(size, SupportsIndex) and not isinstance(size, bool) for size in given):
        raise DtypeError(
            f"axis group {name!r}: the tiling must be a size, a list of sizes, 'auto' or 'whole', got "
            f"{sizes!r}"
        )
    cut = [operator.index(size) for size in given if isinstance(size, SupportsIndex)]
    if not cut:
        raise InvalidArgumentError(
            f"axis group {name!r}: the list of sizes is empty; 'auto' is a word"
        )
    return cut, len(cut)


def format_axis_groups() -> str:
    """Table of axis groups: name, extents, cut. A name stays in it when no tensor has it any more."""
    return _c.owned_text("nntile_record_axis_text", _c.record())


def print_axis_groups() -> None:
    """Print `format_axis_groups()`."""
    print(format_axis_groups())


def save_cuts(path: str | os.PathLike[str]) -> None:
    """Write the cuts of named axes, and those that were chosen for graphs, to a text file.

    The file can be edited: a line `axis NAME = 16 16` cuts a named axis, a line `%12 dim 0 = 256
    256` under `graph` the axis of that dim of a value as `explain("graph")` numbers it.

    Raises:
        OSError: the file cannot be written; an old one is then as it was.
    """
    target = Path(path)
    new = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        new.write_text(_c.owned_text("nntile_record_cuts_save", _c.record()))
        new.replace(target)
    finally:
        new.unlink(missing_ok=True)


def load_cuts(path: str | os.PathLike[str]) -> None:
    """Take the cuts of a file of `save_cuts()`, from the next lowering on.

    Named axes are cut as it says, also where the name is given later. A graph that it knows gets
    the cuts that it has for it; others are cut as before.

    Raises:
        OSError: the file cannot be read.
        ValueError: with its line, a file that is torn, of another version, wrong, or does not sum
            to the extent of an axis; nothing is taken then.
        RuntimeError: later, where a graph is lowered that the cuts for it do not fit.
    """
    _c.call("nntile_record_cuts_load", _c.record(), Path(path).read_text().encode())
