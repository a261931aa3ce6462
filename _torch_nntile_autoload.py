# SPDX-License-Identifier: BSD-3-Clause
"""What `import torch` calls: the entry point of the group torch.backends.

A module of its own, so that a device that cannot be had is a warning there and not the end of
`import torch`. `import torch_nntile` raises the error itself.
"""

from __future__ import annotations

import warnings


def load() -> None:
    """Import torch_nntile. With `import torch_nntile` first, PyTorch asks half-way: then nothing."""
    try:
        import torch_nntile  # noqa: F401
    except Exception as error:  # whatever it is, PyTorch works without this device
        warnings.warn(f"Device 'nntile' is not there: {error}", RuntimeWarning, stacklevel=2)
