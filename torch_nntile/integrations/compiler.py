# SPDX-License-Identifier: BSD-3-Clause
"""torch.compile: the backend "nntile", and a clear answer where Inductor is asked for the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch

from torch_nntile.errors import InvalidArgumentError, UnsupportedError

__all__ = ["NoInductor", "nntile"]


def nntile(
    graph: torch.fx.GraphModule,
    inputs: list[torch.Tensor],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    """Entry point of the group torch_dynamo_backends: `torch.compile(model, backend="nntile")`.

    Dynamo traces, AOTAutograd makes forward and backward graphs, and their ops run one by one.

    Raises:
        ValueError: `mode` or `options`: they are settings of Inductor.
    """
    for name, value in (("mode", mode), ("options", options)):
        if value:
            raise InvalidArgumentError(
                f"torch.compile(backend='nntile') has no {name}, got {name}={value!r}"
            )
    compile_graph: Any = torch._dynamo.lookup_backend("aot_eager")
    compiled: Callable[..., Any] = compile_graph(graph, inputs)
    return compiled


def _refuse(*_: Any) -> NoReturn:
    raise UnsupportedError(
        "torch.compile: backend='inductor', the default, makes no code for device nntile; use "
        "backend='nntile' (or 'aot_eager', 'eager')"
    )


class _Refusing(type):
    supports_caching = property(_refuse)  # the first thing that Inductor asks for a graph's device


class NoInductor(metaclass=_Refusing):
    """What Inductor finds in `torch.nntile` where a device has its code generators.

    PyTorch looks them up by name when a compilation begins, and uses those of the devices that a
    graph has. So the answer comes before any lowering, and a graph on the CPU never sees it.
    """

    def __init__(self, *_: Any) -> None:
        _refuse()
