# SPDX-License-Identifier: BSD-3-Clause
"""torch.compile: the backend "nntile", and a clear answer where Inductor is asked for the device."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from torch_nntile import _c
from torch_nntile.errors import InvalidArgumentError, UnsupportedError
from torch_nntile.replay.recording import Recording, recording_now, replay_first, too_many

__all__ = ["NoInductor", "nntile"]


def nntile(
    graph: torch.fx.GraphModule,
    inputs: list[Tensor],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    """Entry point of the group torch_dynamo_backends: `torch.compile(model, backend="nntile")`.

    Dynamo traces and AOTAutograd makes forward and backward graphs. Each is recorded at its first
    call with tensors of some shapes, and replayed at the others.

    Raises:
        ValueError: `mode` or `options`: they are settings of Inductor.
    """
    for name, value in (("mode", mode), ("options", options)):
        if value:
            raise InvalidArgumentError(
                f"torch.compile(backend='nntile') has no {name}, got {name}={value!r}"
            )
    aot_autograd: Any = torch._dynamo.backends.common.aot_autograd
    # In the graph a write to an argument costs no copy: an optimizer writes all that it has.
    compile_with = aot_autograd(fw_compiler=_boxed, keep_inference_input_mutations=True)
    compiled: Callable[..., Any] = compile_with(graph, inputs)
    return compiled


def _boxed(graph: torch.fx.GraphModule, _inputs: Any) -> Callable[[list[Any]], Any]:
    """Takes one list and empties it, so that what it holds is freed as soon as possible."""
    function = _without_host(graph)

    def call(boxed: list[Any]) -> Any:
        args = list(boxed)
        boxed.clear()
        return function(*args)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def _devices(node: torch.fx.Node) -> set[str]:
    values = pytree.tree_leaves(node.meta.get("val"))
    return {value.device.type for value in values if isinstance(value, Tensor)}


def _without_host(graph: torch.fx.GraphModule) -> Callable[..., Any]:
    """What works on tensors of the host alone runs there, before the graph of the device.

    An optimizer counts its steps so, and takes numbers from that count.
    """
    calls = [node for node in graph.graph.nodes if node.op == "call_function"]
    of_host = {node for node in calls if _devices(node) == {"cpu"}}
    operands = itertools.chain(*(node.all_input_nodes for node in of_host))
    if not of_host:
        return _Replayed(graph)
    if any(_devices(node) - {"cpu"} for node in operands):
        return graph
    from torch.fx.passes.split_module import split_module

    parts = split_module(graph, graph, lambda node: int(node not in of_host))
    if hasattr(parts, "submod_1"):  # of the device
        function = _with_a_list(parts.get_submodule("submod_1"))
        del parts.submod_1
        parts.submod_1 = function
    return parts


def _with_a_list(graph: Any) -> Any:
    """A part that returns one value does not return a list of it, as graphs of AOTAutograd do."""
    (output,) = (node for node in graph.graph.nodes if node.op == "output")
    if not isinstance(output.args[0], torch.fx.Node):
        return _Replayed(graph)
    output.args = ((output.args[0],),)
    graph.recompile()
    replayed = _Replayed(graph)
    return lambda *args: replayed(*args)[0]


class _Replayed:
    """A graph of AOTAutograd: as it is written at first, then from its recording."""

    def __init__(self, graph: torch.fx.GraphModule) -> None:
        self._graph = graph
        given = [node.meta.get("val") for node in graph.graph.nodes if node.op == "placeholder"]
        # Arguments that are tensors, that are none, and those tensors that are numbers of the host.
        self._tensors = [k for k, value in enumerate(given) if isinstance(value, Tensor)]
        self._others = [k for k in range(len(given)) if k not in self._tensors]
        self._on_host = [
            k for k in self._tensors if given[k].device.type == "cpu" and not given[k].dim()
        ]
        # By the arguments that are numbers; the recording used last comes first.
        self._recordings: dict[Any, list[Recording]] = {}
        # What reads data must run as it is met: an attempt to record says so. PyTorch's tags do not:
        # they say of an op that some arguments make it depend on data, as a mask does an index.
        self._plain = False

    def __call__(self, *given: Any) -> Any:
        if self._plain or recording_now():
            return self._graph(*given)
        args = list(given)
        for k in self._on_host:
            args[k] = args[k].to("nntile")
        tensors = [args[k] for k in self._tensors]
        numbers = tuple(args[k] for k in self._others)
        recordings = self._recordings.get(numbers, [])
        found = replay_first(recordings, tensors)
        if found is None:
            if any(tensor.device.type != "nntile" for tensor in tensors):
                return self._graph(*args)
            return self._record(numbers, args, tensors)
        place, results = found
        if place:
            recordings.insert(0, recordings.pop(place))
        return results

    def _record(self, numbers: Any, args: list[Any], tensors: list[Tensor]) -> Any:
        recording = Recording()
        seed, offset = _c.new("uint64_t *"), _c.new("uint64_t *")
        _c.get("nntile_stub_rng_get", seed, offset)
        try:
            results = recording.record(lambda: self._graph(*args), tensors)
        except RuntimeError:  # an op that cannot be recorded, or an error that will come again
            self._plain = True
            _c.get("nntile_stub_rng_set", seed[0], offset[0])
            return self._graph(*args)
        if recording.why_not:
            self._plain = True
            return results
        self._recordings.setdefault(numbers, []).insert(0, recording)
        while too_many(kept := [*itertools.chain(*self._recordings.values())], len(kept), None):
            longest = max(self._recordings, key=lambda key: len(self._recordings[key]))
            self._recordings[longest].pop()
            if not self._recordings[longest]:
                del self._recordings[longest]
        return results


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
