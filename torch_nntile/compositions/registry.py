# SPDX-License-Identifier: BSD-3-Clause
"""Where a composition says which overloads it serves: decorators, and what they have gathered.

dispatch.py makes kernels of it. A file of this package is read at import; nothing lists it.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, overload

import torch

from torch_nntile import _c

__all__ = [
    "COMPOSITIONS",
    "KERNELS",
    "OWN_OPS",
    "OwnOp",
    "composing",
    "composition",
    "derivative",
    "elementwise",
    "gradients",
    "nothing",
    "of_nested",
    "own_op",
]

Function = Callable[..., Any]
F = TypeVar("F", bound=Function)


@dataclass
class OwnOp:
    """An op of namespace nntile. meta: shapes and dtypes of its results."""

    schema: str
    meta: Function
    backward: Function | None = None
    setup_context: Function | None = None


COMPOSITIONS: dict[str, Function] = {}  # below autograd, by overload; dispatch.py makes their forms
KERNELS: list[tuple[str, str, Function]] = []  # overload, dispatch key, its kernel as it stands
OWN_OPS: dict[str, OwnOp] = {}  # by name: "clamp.Scalar"


def composition(*overloads: str, above_autograd: bool = False) -> Callable[[F], F]:
    """The function computes these overloads ("elu", "clamp.Tensor") of aten, with their signatures.

    Below autograd, in-place and `out=` forms come with it. Above, it is made of ops that autograd
    knows, and serves these overloads alone.
    """

    def register(function: F) -> F:
        for name in overloads:
            if above_autograd:
                for key in ("PrivateUse1", "AutogradPrivateUse1"):
                    KERNELS.append((name, key, _of_one_process(name, function)))
            elif COMPOSITIONS.setdefault(name, function) is not function:
                raise AssertionError(f"two compositions for aten::{name}")
        return function

    return register


def _of_one_process(name: str, function: Function) -> Function:
    """DTensor knows how ops of aten are cut over processes, not how ours are: it gets aten's formula."""
    packet, _, kind = name.partition(".")

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        module = sys.modules.get("torch.distributed.tensor")
        if module is not None and any(isinstance(x, module.DTensor) for x in args):
            formula = getattr(getattr(torch.ops.aten, packet), kind or "default")
            from torch.distributed.tensor.experimental import implicit_replication

            with implicit_replication():  # of plain tensors that it makes, as a mask
                return formula.decompose(*args, **kwargs)
        return function(*args, **kwargs)

    return call


@contextmanager
def composing() -> Iterator[None]:
    """Calls of a composition above autograd wait for each other, as those below it always do."""
    _c.call("nntile_record_compose", _c.record(), 1)
    try:
        yield
    finally:
        _c.call("nntile_record_compose", _c.record(), 0)


def derivative(*overloads: str) -> Callable[[F], F]:
    """The function makes a derivative that is a row differentiable once more."""
    return _at("AutogradPrivateUse1", overloads)


def of_nested(*overloads: str) -> Callable[[F], F]:
    """The function takes nested tensors. Their other calls are PyTorch's views, or run on the host."""
    return _at("NestedTensorPrivateUse1", overloads)


def _at(key: str, overloads: tuple[str, ...]) -> Callable[[F], F]:
    def register(function: F) -> F:
        KERNELS.extend((name, key, function) for name in overloads)
        return function

    return register


@overload
def own_op(schema: str) -> Callable[[F], F]: ...
@overload
def own_op(schema: str, meta: Function | str) -> None: ...
def own_op(schema: str, meta: Function | str | None = None) -> Callable[[F], F] | None:
    """Define an op of namespace nntile: what a row needs and aten has no name for.

    The function `meta`, or the decorated one, says shapes and dtypes of the results: the op's kernel
    for device meta. A text names for each result the argument that it is like, dense: "cx cx gates".
    """

    def register(function: F) -> F:
        OWN_OPS[schema.partition("(")[0]] = OwnOp(schema, function)
        return function

    if meta is None:
        return register
    register(_like(schema, meta) if isinstance(meta, str) else meta)
    return None


def _like(schema: str, words: str) -> Function:
    names = re.findall(r"(\w+)[,)]", schema.partition(" -> ")[0])
    places = [names.index(word) for word in words.split()]

    def meta(*args: Any) -> Any:
        results = tuple(args[k].new_empty(args[k].shape) for k in places)
        return results if len(results) > 1 else results[0]

    return meta


def elementwise(*operands: torch.Tensor) -> torch.Tensor:
    """For `meta`: what an element-wise op makes of up to three tensors.

    By the stub. PyTorch's Meta kernels for it are in Python: 100 us a call, and the first one imports
    torch._dynamo and sympy, a second and 80 MB in a program that may compile nothing.
    """
    result: torch.Tensor = torch.ops.nntile.elementwise(operands)
    return result


def nothing(*_: Any) -> None:
    """For an own op that makes no results."""


def gradients(name: str, backward: Function, setup_context: Function) -> None:
    """The gradients of an own op, and what of a call they need: see torch.library.register_autograd."""
    OWN_OPS[name].backward, OWN_OPS[name].setup_context = backward, setup_context
