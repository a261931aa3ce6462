# SPDX-License-Identifier: BSD-3-Clause
"""torch.compile: the backend "nntile", and a clear answer where Inductor is asked for the device."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch import Tensor

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
    compiled: Callable[..., Any] = aot_autograd(fw_compiler=_Replayed)(graph, inputs)
    return compiled


class _Replayed:
    """A graph of AOTAutograd: as it is written at first, then from its recording."""

    def __init__(self, graph: torch.fx.GraphModule, _inputs: Any) -> None:
        # Takes one list and empties it, so that what it holds is freed as soon as possible. Of the
        # object, not the class: Dynamo copies it to its wrapper.
        self._boxed_call = True
        self._graph = graph
        # By the arguments that are numbers; the recording used last comes first.
        self._recordings: dict[Any, list[Recording]] = {}
        # What reads data must run as it is met: an attempt to record says so. PyTorch's tags do not:
        # they say of an op that some arguments make it depend on data, as a mask does an index.
        self._plain = False

    def __call__(self, boxed: list[Any]) -> Any:
        args = list(boxed)
        boxed.clear()
        if self._plain or recording_now():
            return self._graph(*args)
        tensors = [arg for arg in args if isinstance(arg, Tensor)]
        numbers = tuple(arg for arg in args if not isinstance(arg, Tensor))
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
