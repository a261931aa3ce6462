# SPDX-License-Identifier: BSD-3-Clause
"""Named axis groups and their cuts. A group has all dims that ops or views relate to a named dim."""

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
    "axis_groups",
    "load_cuts",
    "save_cuts",
    "set_axis_group_name",
    "set_axis_group_tiling",
]


WHOLE = 2**63 - 1  # a size that no axis exceeds


def set_axis_group_name(tensor: torch.Tensor, names: Mapping[int, str]) -> None:
    """Name dims of a tensor on the device; dims that you leave out keep their group.

    Args:
        tensor: on device "nntile". Its data, its `.grad` and its optimizer state keep the names.
        names: dim -> name; a negative dim counts from the end.

    Raises:
        ValueError: a dim is outside the tensor, a name is empty, or the tensor is on another
            device.
        TypeError: `names` is not a mapping of dims to strings.
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
    """Cut an axis group into tiles, at any time.

    The cut applies from the next lowering on, when recorded ops become tasks.

    Args:
        name: the name of the group.
        sizes: one size (the last tile may be smaller), a list that sums to the extent, "auto"
            (the device chooses), or "whole" (one tile). A list of one size means that size.

    Raises:
        ValueError: there is no such group, a size is <= 0, or sizes do not sum to the extent.
        TypeError: sizes are not integers, or the name is not a string.
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


def axis_groups() -> str:
    """Return a table of axis groups: name, extents, cut. It keeps names that no tensor has now."""
    return _c.owned_text("nntile_record_axis_text", _c.record())


def save_cuts(path: str | os.PathLike[str]) -> None:
    """Write the cuts of named axes, and those that the device chose for graphs, to a text file.

    You may edit the file. A line `axis NAME = 16 16` cuts a named axis. A line `%12 dim 0 = 256
    256` under `graph` cuts the axis of that dim of a value, as `explain("graph")` numbers it.

    Raises:
        OSError: the file cannot be written; an old file then stays as it was.
    """
    target = Path(path)
    new = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        new.write_text(_c.owned_text("nntile_record_cuts_save", _c.record()))
        new.replace(target)
    finally:
        new.unlink(missing_ok=True)


def load_cuts(path: str | os.PathLike[str]) -> None:
    """Apply the cuts of a file that `save_cuts()` wrote, from the next lowering on.

    They cut named axes, even if you name the axis later. A graph that is in the file gets its
    cuts from the file; other graphs are cut as before.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is cut short, wrong or of another version, or sizes do not sum to the
            extent of an axis. The message has the line, and no cut is applied.
        RuntimeError: raised later, if the cuts for a graph do not fit that graph.
    """
    _c.call("nntile_record_cuts_load", _c.record(), Path(path).read_text().encode())
