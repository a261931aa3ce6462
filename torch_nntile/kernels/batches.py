# SPDX-License-Identifier: BSD-3-Clause
"""vmap: the same function with one dim more, an axis along which it may be cut."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

from torch_nntile.errors import InvalidArgumentError
from torch_nntile.kernels.gradients import names_of

__all__ = ["register_vmap"]


def _backward_of(kernel: Any, batched: frozenset[str]) -> Callable[..., Any]:
    """The gradient of the kernel with a batch: that of the kernel under vmap."""
    names = names_of(kernel.backward)
    inputs = set(kernel._arguments)
    in_dims = tuple(0 if n in batched or n not in inputs else None for n in names)

    def backward(*given: Any) -> Any:
        # Of an input without a batch too: autograd sums what has more dims than the input.
        return torch.vmap(kernel.backward, in_dims=in_dims)(*given)

    parameters = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in names]
    backward.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return backward


def register_vmap(kernel: Any, library: torch.library.Library) -> None:
    """Give `kernel` its rule for vmap."""
    made: dict[frozenset[str], Any] = {}

    def with_batch(batched: frozenset[str]) -> Any:
        """The kernel with a batch; None: the function uses a tensor otherwise than by its elements."""
        if batched not in made:
            try:
                made[batched] = kernel.with_batch(batched)
            except InvalidArgumentError:
                made[batched] = None
            if made[batched] is not None and kernel.backward is not None:
                made[batched].backward = _backward_of(kernel, batched)
        return made[batched]

    def rule(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> Any:
        dims = dict(zip(kernel._arguments, in_dims, strict=True))
        batched = frozenset(name for name, dim in dims.items() if dim is not None)
        for t in kernel.rules.inputs:
            if t.kind == "mut" and t.name not in batched:
                raise RuntimeError(
                    f"{kernel.name}: vmap: {t.name} is changed in place and has no batch"
                )
        moved = [
            a if dim is None else a.movedim(dim, 0)
            for a, dim in zip(arguments, in_dims, strict=True)
        ]
        batch = with_batch(batched)
        if batch is not None:
            results = batch.op(*moved)
        else:
            parts = [
                kernel.op(
                    *(a if dim is None else a[k] for a, dim in zip(moved, in_dims, strict=True))
                )
                for k in range(info.batch_size)
            ]
            single = isinstance(parts[0], torch.Tensor)
            results = (
                torch.stack(parts) if single else tuple(map(torch.stack, zip(*parts, strict=True)))
            )
        return results, 0 if isinstance(results, torch.Tensor) else (0,) * len(results)

    torch.library.register_vmap(kernel.qualified, rule, lib=library)
