# SPDX-License-Identifier: BSD-3-Clause
"""What `import torch` calls: the entry point of the group torch.backends.

A module of its own, so that a device that cannot be had is a warning there and not the end of
`import torch`. `import torch_nntile` raises the error itself.
"""

from __future__ import annotations

import os
import warnings

# What NVIDIA's drivers make, on Linux and in WSL.
DRIVERS = ("/dev/nvidiactl", "/dev/dxg")


def cuda_is_in_use() -> bool:
    """Whether PyTorch's own device for GPUs may be what this process is for."""
    import torch

    return torch.backends.cuda.is_built() and any(map(os.path.exists, DRIVERS))


def load() -> None:
    """Import torch_nntile. With `import torch_nntile` first, PyTorch asks half-way: then nothing.

    PyTorch has one accelerator in a process: once a device of ours is registered, a backward pass
    on "cuda" ends in an internal error of its engine (seen with 2.11). So where PyTorch has a GPU
    of its own, the program says `import torch_nntile` if it wants this device.
    """
    if cuda_is_in_use():
        return
    try:
        import torch_nntile  # noqa: F401
    except Exception as error:  # whatever it is, PyTorch works without this device
        warnings.warn(f"Device 'nntile' is not there: {error}", RuntimeWarning, stacklevel=2)
