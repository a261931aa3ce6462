# SPDX-License-Identifier: BSD-3-Clause
"""The module `torch.nntile`: functions that PyTorch and its users call for a device by name.

Names and meanings follow torch.cuda and torch.accelerator. Only `init()` and functions that wait
for tasks start the runtime.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import OutOfMemoryError  # noqa: F401 - part of this module's face

from torch_nntile import _c, amp, context, modes  # noqa: F401 - so is amp
from torch_nntile.errors import IndexRangeError, InvalidArgumentError
from torch_nntile.integrations.compiler import NoInductor
from torch_nntile.memory import (  # noqa: F401 - part of this module's face
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
)

_Device: TypeAlias = "torch.device | str | int | None"


def is_available() -> bool:
    """Return True: the device needs no special hardware."""
    return True


def is_initialized() -> bool:
    """Return True while a runtime is running in this process."""
    return bool(_c.get("nntile_context_active"))


def init() -> None:
    """Start the runtime with defaults, if none is running."""
    if not is_initialized():
        context.init_context(runtime_mode=modes.runtime_mode())


def _lazy_init() -> None:
    """Called before the first tensor. Without it torch.accelerator.synchronize() does nothing, up to 2.11."""


def _is_in_bad_fork() -> bool:
    return bool(_c.get("nntile_context_forked"))


def device_count() -> int:
    """Return 1: the whole runtime, with all its workers, is one device.

    Under torchrun, return the number of processes on this machine. A program may call its device
    by the local rank, so every index means the device of this process.
    """
    return int(_c.settings().local_processes)


def _index(device: _Device = None) -> int:
    if device is None:
        return current_device()
    if not isinstance(device, int):
        device = torch.device(device)
        if device.type != "nntile":
            raise InvalidArgumentError(f"expected a device of type 'nntile', got {device}")
        device = current_device() if device.index is None else device.index
    if not 0 <= device < device_count():
        raise IndexRangeError(f"device index {device} is not in [0, {device_count()})")
    return current_device()


def current_device() -> int:
    """Return 0, the index of the device of this process."""
    return 0


def set_device(device: _Device) -> None:
    """Check the index; every valid index means the device of this process."""
    _index(device)


def get_device_name(device: _Device = None) -> str:
    """Return "nntile:0"."""
    return f"nntile:{_index(device)}"


def get_device_capability(device: _Device = None) -> tuple[int, int]:
    """Return (0, 0), for programs that expect a version as of torch.cuda."""
    _index(device)
    return (0, 0)


@dataclass(frozen=True, slots=True)
class DeviceProperties:
    """The result of `get_device_properties`; names are those of torch.cuda."""

    name: str
    total_memory: int  # bytes: the memory budget
    multi_processor_count: int  # CPU workers
    major: int = 0
    minor: int = 0


def get_device_properties(device: _Device = None) -> DeviceProperties:
    """Return name, memory budget and workers of the running runtime, or of one with defaults."""
    name, (_, total) = get_device_name(device), mem_get_info(device)
    stats = _c.new_struct("nntile_context_stats")
    if is_initialized():
        _c.call("nntile_context_stats_get", stats)
    return DeviceProperties(name, total, int(stats.ncpu) or len(os.sched_getaffinity(0)))


class device:  # noqa: N801
    """`with torch.nntile.device(0):` changes nothing; torch.load and checkpointing use it."""

    def __init__(self, device: _Device) -> None:
        self.idx = _index(device)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: object) -> None:
        return None


class device_of(device):  # noqa: N801
    """`with torch.nntile.device_of(tensor):` changes nothing either."""

    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__(tensor.device if tensor.device.type == "nntile" else None)


# ---- order: one queue; streams and events are names for it


class Stream(torch.Stream):
    """The one in-order queue of the device, under the name that stream code expects."""

    def __new__(cls, device: _Device = None, priority: int = 0, **kwargs: Any) -> Stream:
        if "stream_id" not in kwargs:
            kwargs = {"device": torch.device("nntile", _index(device)), "priority": priority}
        return super().__new__(cls, **kwargs)


class Event(torch.Event):
    """A point in the queue."""

    def __new__(cls, enable_timing: bool = False, **kwargs: Any) -> Event:
        kwargs.setdefault("device", torch.device("nntile", 0))
        return super().__new__(cls, enable_timing=enable_timing, **kwargs)


def current_stream(device: _Device = None) -> torch.Stream:
    """Return the queue."""
    return torch.accelerator.current_stream(torch.device("nntile", _index(device)))


def default_stream(device: _Device = None) -> torch.Stream:
    """Return the queue."""
    return current_stream(device)


def set_stream(stream: torch.Stream) -> None:
    """Change nothing, because there is one queue."""
    torch.accelerator.set_stream(stream)


@contextlib.contextmanager
def stream(stream: torch.Stream | None) -> Iterator[None]:
    """`with torch.nntile.stream(s):` changes nothing, because there is one queue."""
    yield


def synchronize(device: _Device = None) -> None:
    """Wait for all submitted work, and raise the first error of a task.

    In graph mode call `run_graph()` first.
    """
    _index(device)
    _c.call("nntile_stub_synchronize")


# ---- random numbers: Philox by (seed, offset, element), the same for any cut

# Checkpointing keeps the generator's state if the device says that it has one. Ours is there from
# import on, before a runtime.
_initialized = True


def manual_seed(seed: int) -> None:
    """Seed the default generator. `torch.manual_seed` calls this too."""
    _c.get("nntile_stub_rng_set", int(seed) & (2**64 - 1), 0)


def manual_seed_all(seed: int) -> None:
    """Do the same as `manual_seed()`."""
    manual_seed(seed)


def seed() -> int:
    """Seed the default generator from the system's entropy, and return the seed."""
    return int(_c.get("nntile_stub_rng_reseed"))


def seed_all() -> int:
    """Do the same as `seed()`."""
    return seed()


def _seed_and_offset() -> tuple[int, int]:
    seed, offset = _c.new("uint64_t *"), _c.new("uint64_t *")
    _c.get("nntile_stub_rng_get", seed, offset)
    return int(seed[0]), int(offset[0])


def initial_seed() -> int:
    """Return the seed of the default generator."""
    return _seed_and_offset()[0]


_RNG_STATE = struct.Struct("=QQ")  # seed, offset


def get_rng_state(device: _Device = None) -> torch.Tensor:
    """Return the state of the default generator, 16 bytes in a tensor on the CPU."""
    _index(device)
    state = bytearray(_RNG_STATE.pack(*_seed_and_offset()))
    return torch.frombuffer(state, dtype=torch.uint8).clone()


def get_rng_state_all() -> list[torch.Tensor]:
    """Return a list of one state."""
    return [get_rng_state(current_device())]


def set_rng_state(new_state: torch.Tensor, device: _Device = None) -> None:
    """Restore a state that `get_rng_state()` returned."""
    _index(device)
    if new_state.dtype != torch.uint8 or new_state.numel() != _RNG_STATE.size:
        raise InvalidArgumentError(
            f"set_rng_state: the state must be {_RNG_STATE.size} bytes, got "
            f"{tuple(new_state.shape)} of {new_state.dtype}"
        )
    _c.get("nntile_stub_rng_set", *_RNG_STATE.unpack(bytes(new_state.tolist())))


def set_rng_state_all(new_states: list[torch.Tensor]) -> None:
    """Restore a list that `get_rng_state_all()` returned."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


# ---- mixed precision


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Return the dtypes that autocast may use."""
    return [torch.bfloat16, torch.float16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return True."""
    return True


def is_autocast_enabled() -> bool:
    """Return `torch.is_autocast_enabled("nntile")`."""
    return torch.is_autocast_enabled("nntile")


def get_autocast_dtype() -> torch.dtype:
    """Return `torch.get_autocast_dtype("nntile")`."""
    return torch.get_autocast_dtype("nntile")


# ---- code generators, by the names under which Inductor looks for them

Scheduling = PythonWrapperCodegen = CppWrapperCodegen = WrapperFxCodegen = NoInductor
