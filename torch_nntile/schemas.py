# SPDX-License-Identifier: BSD-3-Clause
"""What PyTorch's schemas say of an overload: its functional, in-place and `out=` forms."""

from __future__ import annotations

import functools
from typing import Any

import torch

__all__ = ["is_in_place", "is_written", "scalar_type", "schema_of", "siblings"]


def schema_of(name: str) -> Any:
    """Schema of "aten::add.Tensor".

    Raises:
        LookupError: PyTorch has no such overload.
    """
    base, _, overload = name.partition(".")
    for schema in _schemas(base):
        if schema.overload_name == overload:
            return schema
    raise LookupError(f"PyTorch has no overload {name}")


def siblings(name: str) -> list[str]:
    """ "aten::add.Tensor" -> itself, "aten::add_.Tensor" and "aten::add.out", told by schemas.

    An overload that is in-place or `out=` itself, or works on lists, has no `out=` form here.
    """
    mine = schema_of(name)
    found = [name]
    if any(is_written(argument) for argument in mine.arguments):
        return found
    base = mine.name
    candidates = [s for s in _schemas(f"{base}_") if is_in_place(s)]
    if "List[Tensor]" not in [str(result.type) for result in mine.returns]:
        candidates += [s for s in _schemas(base) if any(a.is_out for a in s.arguments)]
    signature = _signature(mine)
    return found + [_full_name(s) for s in candidates if _signature(s) == signature]


def is_written(argument: Any) -> bool:
    """Whether the op writes this argument."""
    return argument.alias_info is not None and argument.alias_info.is_write


def is_in_place(schema: Any) -> bool:
    """Whether the op writes its first argument."""
    return (
        bool(schema.arguments)
        and is_written(schema.arguments[0])
        and not schema.arguments[0].is_out
    )


def scalar_type(dtype: torch.dtype) -> str:
    """The name that PyTorch's errors have for it: "Long"."""
    return torch.empty(0, dtype=dtype, device="cpu").type()[len("torch.") : -len("Tensor")]


@functools.cache
def _schemas(name: str) -> tuple[Any, ...]:
    return tuple(torch._C._jit_get_schemas_for_operator(name))


def _full_name(schema: Any) -> str:
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else str(schema.name)


def _signature(schema: Any) -> list[tuple[str, str]]:
    """Names and types of what a caller gives, without options that only some forms have."""
    return [
        (argument.name, str(argument.type))
        for argument in schema.arguments
        if not argument.is_out and argument.name not in ("layout", "device", "pin_memory")
    ]
