# SPDX-License-Identifier: BSD-3-Clause
"""Gradients of kernels: another kernel or a formula, whose parameters are found by name."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from torch_nntile.errors import DtypeError, InvalidArgumentError

__all__ = ["names_of", "register_backward"]


def names_of(backward: Any) -> list[str]:
    """Of the parameters of a backward, a kernel or a function."""
    if hasattr(backward, "rules"):
        return list(backward._arguments)
    if not callable(backward):
        raise DtypeError(f"backward is a kernel or a function, not {type(backward).__name__}")
    return list(inspect.signature(backward).parameters)


def register_backward(kernel: Any, backward: Any, library: torch.library.Library) -> None:
    """Make `backward` the gradient of `kernel`.

    Raises:
        ValueError: a parameter or result of `backward` that names nothing of the kernel.
    """
    rules, inputs = kernel.rules, list(kernel._arguments)
    if any(t.kind == "mut" for t in rules.inputs):
        raise InvalidArgumentError(f"{kernel.name}: a kernel with InMut has no gradient")
    outs = [t.name for t in rules.outs]
    floating = [t.name for t in rules.inputs if t.dtype.is_floating_point]
    gradients = {f"grad_{name}": k for k, name in enumerate(outs)}
    wanted = names_of(backward)
    for name in wanted:
        if name not in gradients and name not in outs and name not in inputs:
            raise InvalidArgumentError(
                f"{kernel.name}: backward has a parameter {name}; there are "
                f"{', '.join([*gradients, *inputs, *outs])}"
            )
    given = floating
    if hasattr(backward, "rules"):
        given = []
        for t in backward.rules.outs:
            name = t.name.removeprefix("grad_")
            if name == t.name or name not in floating:
                raise InvalidArgumentError(
                    f"{kernel.name}: backward has a result {t.name}; there may be "
                    f"{', '.join('grad_' + n for n in floating)}"
                )
            given.append(name)
    tensors = [n for n in wanted if n in rules.tensors]

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        results = output if isinstance(output, tuple) else (output,)
        known = {**kernel._named(inputs), **dict(zip(outs, results, strict=True))}
        ctx.save_for_backward(*(known[n] for n in tensors))
        ctx.numbers = {n: known[n] for n in wanted if n in rules.scalars}

    def formula(ctx: Any, *grads: torch.Tensor) -> Any:
        known = {**ctx.numbers, **dict(zip(tensors, ctx.saved_tensors, strict=True))}
        known |= {name: grads[k] for name, k in gradients.items()}
        found = backward(*(known[n] for n in wanted))
        found = found if isinstance(found, (tuple, list)) else (found,)
        if len(found) != len(given):
            raise InvalidArgumentError(
                f"{kernel.name}: backward gives {len(found)} gradients, expected {len(given)}: "
                f"{', '.join(given)}"
            )
        by_name = dict(zip(given, found, strict=True))
        result = tuple(by_name.get(n) for n in inputs)
        return result if len(result) > 1 else result[0]

    torch.library.register_autograd(
        kernel.qualified, formula, setup_context=setup_context, lib=library
    )
