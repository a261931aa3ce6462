# SPDX-License-Identifier: BSD-3-Clause
"""Makes the device known to PyTorch, in the order that PyTorch needs. Starts no runtime."""

from __future__ import annotations

import atexit
import threading

import torch

from torch_nntile import stubs

__all__ = ["version"]

stubs.choose(torch.__version__)

# Only now: importing them loads the stub, whose libraries would give errors of their own.
from torch_nntile import (  # noqa: E402
    _c,
    autocast,
    context,
    device,
    dispatch,
    distributed,
    places,
    processes,
    windows,
)


def version() -> str:
    """Version of libnntile_c and of the package: they are one."""
    return _c.text(_c.get("nntile_version_text"))


torch.utils.rename_privateuse1_backend("nntile")
torch._register_device_module("nntile", device)
torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
dispatch.register()
autocast.register()
processes.register()
distributed.register()
windows.register()
places.start()
context.apply_environment()
if threading.current_thread() is threading.main_thread():
    _c.let_signals_interrupt(True)
atexit.register(context.stop_at_exit)
