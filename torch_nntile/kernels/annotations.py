# SPDX-License-Identifier: BSD-3-Clause
"""Annotations for the parameters of a kernel, and the rules of their shapes."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torch_nntile.errors import DtypeError, InvalidArgumentError

__all__ = ["DTYPES", "Expr", "In", "InMut", "Out", "Scalar", "Shaped", "Unused", "dtype_of"]

# What Numba computes in on a CPU, by all names that seem natural.
DTYPES = {
    **dict.fromkeys(("f32", "float32"), torch.float32),
    **dict.fromkeys(("f64", "float64", "double"), torch.float64),
    **dict.fromkeys(("i64", "int64"), torch.int64),
    **dict.fromkeys(("i32", "int32"), torch.int32),
    **dict.fromkeys(("i16", "int16"), torch.int16),
    **dict.fromkeys(("i8", "int8"), torch.int8),
    **dict.fromkeys(("u8", "uint8"), torch.uint8),
    **dict.fromkeys(("bool", "bool_"), torch.bool),
}
_OF_PYTHON = {float: torch.float32, int: torch.int64, bool: torch.bool}


def dtype_of(dtype: Any) -> torch.dtype:
    """The PyTorch dtype that a torch, numpy or Python type or a name means.

    As in the annotations of CUDA kernels, `float` is float32; `int` is int64.

    Raises:
        TypeError: no such dtype, or one that Numba does not compute in on a CPU.
    """
    if isinstance(dtype, type) and dtype in _OF_PYTHON:
        return _OF_PYTHON[dtype]
    name = str(getattr(dtype, "__name__", None) or dtype).removeprefix("torch.")
    if name not in DTYPES:
        known = ", ".join(dict.fromkeys(str(d).removeprefix("torch.") for d in DTYPES.values()))
        raise DtypeError(f"kernels have no dtype {dtype!r}; there are {known}")
    return DTYPES[name]


@dataclass(frozen=True)
class _Tensor:
    """dtype: a name such as "f32", or a type of PyTorch, NumPy or Python.

    shape: the name of another tensor parameter, or one entry for each dim: an extent, None (any
    extent), or an expression of parameters, such as "a.size(0) + 1". The name of a tensor alone
    means the same dim of that tensor.

    axes: for each dim the axis along which it may be cut, or None. If the shape is that of another
    tensor and you leave out axes, the axes are those of that tensor too."""

    dtype: Any
    shape: Any
    axes: tuple[str | None, ...] | None = None


@dataclass(frozen=True)
class In(_Tensor):
    """An input tensor, which the kernel only reads."""

    __doc__ = f"An input tensor, which the kernel only reads.\n\n    {_Tensor.__doc__}"


@dataclass(frozen=True)
class InMut(_Tensor):
    """An input tensor that the kernel may change in place. The arguments are those of `In`."""


@dataclass(frozen=True)
class Out(_Tensor):
    """A result, created for each call. The arguments are those of `In`, without None in shape.

    init: a number that fills the result before the kernel runs. Without it the kernel must write
    every element.
    """

    init: float | None = None


@dataclass(frozen=True)
class Scalar:
    """A number. You may pass another value in each call, at no cost."""

    dtype: Any


class Unused:
    """A parameter that is not an argument of the call. It is None in the function."""


class Shaped:
    """What expressions see of a tensor."""

    def __init__(self, shape: Sequence[Any]) -> None:
        self.shape = tuple(shape)
        self.ndim = len(self.shape)

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        return self.ndim

    def numel(self) -> Any:
        return math.prod(self.shape)


_NODES = (
    *(ast.BinOp, ast.UnaryOp, ast.Call, ast.Attribute, ast.Subscript, ast.Name, ast.Constant),
    *(ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.USub, ast.Load, ast.Tuple, ast.Slice),
)
_CALLS: dict[str, Callable[..., Any]] = {"min": min, "max": max, "len": len}
_ATTRIBUTES = ("shape", "size", "dim", "ndim", "numel")


class Expr:
    """A checked expression of shapes and integers."""

    def __init__(self, text: str, names: Mapping[str, Any], owner: str) -> None:
        self.text, self.owner = text, owner
        self.names: set[str] = set()
        try:
            tree = ast.parse(text.strip(), mode="eval")
        except SyntaxError as error:
            raise InvalidArgumentError(f"{owner}: {text!r}: {error.msg}") from None
        for node in ast.walk(tree.body):
            at = f"{owner}: {text!r}: column {getattr(node, 'col_offset', 0) + 1}"
            if not isinstance(node, _NODES):
                raise InvalidArgumentError(
                    f"{at}: shapes have no {type(node).__name__}; there are + - * // %, .shape, "
                    ".size(), .numel(), len, min, max"
                )
            if isinstance(node, ast.Attribute) and node.attr not in _ATTRIBUTES:
                raise InvalidArgumentError(f"{at}: shapes know no .{node.attr}")
            if isinstance(node, ast.Name) and node.id not in _CALLS:
                if node.id not in names:
                    raise InvalidArgumentError(
                        f"{at}: no parameter '{node.id}' is known here; there are {sorted(names)}"
                    )
                self.names.add(node.id)
        self._code = compile(tree, f"<{owner}: {text}>", "eval")

    def __call__(self, values: Mapping[str, Any]) -> Any:
        """Its value: an integer, or a tuple of them."""
        try:
            return eval(self._code, {"__builtins__": {}, **_CALLS}, dict(values))
        except Exception as error:
            raise InvalidArgumentError(f"{self.owner}: {self.text!r}: {error}") from None
