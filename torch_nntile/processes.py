# SPDX-License-Identifier: BSD-3-Clause
"""Tensors on their way to another process: queues and pipes of torch.multiprocessing, arguments of
its processes, what the workers of a DataLoader return.

A storage goes as a copy in shared memory, and the receiver puts it on its own device: nobody else can
read the tiles of this process. Views of one storage stay views of one storage, as far as they are in
one message; writes of one process are not seen in the other.
"""

from __future__ import annotations

import functools
import multiprocessing.context
import multiprocessing.reduction
import threading
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.multiprocessing import reductions

from torch_nntile import _c
from torch_nntile.errors import InvalidStateError

__all__ = ["register"]

# The child that is being spawned inherits file descriptors: they stay open until it has started.
_inherited: WeakKeyDictionary[Any, list[torch.UntypedStorage]] = WeakKeyDictionary()


def register() -> None:
    """Tell the pickler of multiprocessing how storages of the device travel. Called once, at import."""
    multiprocessing.reduction.register(torch.UntypedStorage, _reduce_storage)
    torch.UntypedStorage.share_memory_ = _share_memory  # type: ignore[method-assign]


_share = torch.UntypedStorage.share_memory_


@functools.wraps(_share)
def _share_memory(self: torch.UntypedStorage, *args: Any, **kwargs: Any) -> Any:
    """PyTorch's does nothing with other devices than the CPU: processes would train copies, in silence."""
    if self.device.type == "nntile":
        raise InvalidStateError(
            "share_memory_: data of device 'nntile' belongs to its process, others get copies: share the "
            "tensors while they are on the CPU, and in each process move values to the "
            "device and gradients back"
        )
    return _share(self, *args, **kwargs)


def _reduce_storage(storage: torch.UntypedStorage) -> tuple[Callable[..., Any], Any]:
    if storage.device.type != "nntile":
        found: tuple[Callable[..., Any], Any] = reductions.reduce_storage(storage)
        return found
    try:
        if _c.get("nntile_context_forked"):
            raise InvalidStateError(
                "a tensor of device 'nntile' cannot leave a forked child process, which has no runtime: "
                "use the start method spawn, or send tensors of the CPU"
            )
        host = storage.cpu()
        child = multiprocessing.context.get_spawning_popen()
        if child is not None:
            _inherited.setdefault(child, []).append(host)
        return _rebuild_storage, reductions.reduce_storage(host)
    except Exception as error:
        # A queue pickles in a thread of its own, which prints errors and forgets the message: the
        # receiver would wait for ever. So the error is the message.
        if threading.current_thread().name != "QueueFeederThread":
            raise
        return _raise, (f"the sender of a tensor failed: {type(error).__name__}: {error}",)


def _rebuild_storage(rebuild: Callable[..., torch.UntypedStorage], args: Any) -> Any:
    return rebuild(*args).to(device=torch.device("nntile"))


def _raise(text: str) -> None:
    raise InvalidStateError(text)
