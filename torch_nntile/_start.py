# SPDX-License-Identifier: BSD-3-Clause
"""Makes the device known to PyTorch, in the order that PyTorch needs. Starts no runtime."""

from __future__ import annotations

import atexit
import threading

import torch

from torch_nntile import _torch_build

__all__ = ["check_torch", "version"]


def _minor(version: str) -> tuple[str, ...]:
    return tuple(version.split("+")[0].split(".")[:2])


def check_torch(found: str = torch.__version__, built: str = _torch_build.VERSION) -> None:
    """The stub holds PyTorch's C++ classes, whose layout changes with each minor version.

    Raises:
        ImportError: another minor version than at build; says what to do.
    """
    if _minor(found) == _minor(built):
        return
    raise ImportError(
        f"torch_nntile was built for PyTorch {built}, but PyTorch {found} is installed. Either "
        f"install the former (pip install 'torch=={'.'.join(_minor(built))}.*'), or build "
        "torch_nntile again for the latter (pip install --no-build-isolation --force-reinstall "
        "--no-deps .). TORCH_DEVICE_BACKEND_AUTOLOAD=0 lets PyTorch start without it."
    )


check_torch()

# Only now: importing them loads the stub.
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
