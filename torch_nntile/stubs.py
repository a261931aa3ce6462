# SPDX-License-Identifier: BSD-3-Clause
"""Which stub serves the PyTorch that is here. A wheel has one for each minor version.

Imports no PyTorch and no library: `diagnose` asks it where neither loads.
"""

from __future__ import annotations

import importlib
import re
from types import ModuleType

from torch_nntile import _torch_build

__all__ = ["choose", "core", "load", "minor_of"]

# Libraries that a build from source takes from the system. A wheel of `make wheel` has copies, with eight
# digits in their names; the other libraries lie in the package folder in either case.
_PACKAGES = {"libgomp": "libgomp1", "libhwloc": "libhwloc15"}
_INSIDE = ("libdnnl", "libnntile_c", "libscipy_openblas", "libsleef")
_MISSING = re.compile(r"(lib\w+?)(-[0-9a-f]{8})?\.so[.\d]*: cannot open shared object file")

_OFF = "TORCH_DEVICE_BACKEND_AUTOLOAD=0 lets PyTorch start without it."
_BUILD = (
    "build torch_nntile from its source for the one that is here "
    "(pip install --no-build-isolation --no-deps --force-reinstall .)"
)


def minor_of(version: str) -> str:
    """ "2.13" of "2.13.0+cpu"."""
    found = re.match(r"\d+\.\d+", version)
    return found[0] if found else version


def _by_number(minor: str) -> tuple[int, ...]:
    return tuple(map(int, minor.split(".")))


def choose(found: str, stubs: dict[str, tuple[str, str, int]] = _torch_build.STUBS) -> str:
    """The minor version whose stub serves that PyTorch.

    A stub fills in PyTorch's C++ classes, whose layout changes with each minor version. What is
    no release (a nightly, a local build, "+git..") may have any layout: only a stub built for just
    that version serves it.

    Raises:
        ImportError: there is none; says which there are, and what to do.
    """
    minor = minor_of(found)
    release = re.fullmatch(r"\d+\.\d+(\.\d+)*(\.post\d+)?(\+(?!git).*)?", found) is not None
    if minor in stubs and (release or stubs[minor][0] == found):
        return minor
    served = sorted(stubs, key=_by_number)
    has = f"PyTorch {', '.join(served)}" if served else "no PyTorch"
    what = "" if release else ", which is no release"
    install = f"install one of them (pip install 'torch=={served[-1]}.*'), or " if served else ""
    raise ImportError(
        f"torch_nntile has stubs for {has}, but PyTorch {found} is installed{what}. "
        f"Please {install}{_BUILD}. {_OFF}"
    )


def core() -> ModuleType:
    """The C functions of libnntile_c.

    Raises:
        ImportError: it, or a library that it needs, does not load; says which.
    """
    try:
        return importlib.import_module("torch_nntile._capi")
    except ImportError as error:
        raise ImportError(
            f"torch_nntile's core does not load: {error}. {packages_of(str(error))}"
            f"`python -m torch_nntile.diagnose` says more. {_OFF}"
        ) from error


def packages_of(error: str) -> str:
    """What a loader's message about a missing library asks for, or ""."""
    missing = _MISSING.search(error)
    if missing is None:
        return ""
    library, copy = missing.groups()
    if copy or library in _INSIDE:
        again = "pip install --force-reinstall --no-deps"
        return f"It is a part of torch_nntile: please install that again ({again}). "
    if library in _PACKAGES:
        return f"Debian and Ubuntu have it in {_PACKAGES[library]}. "
    return ""


def load(found: str) -> ModuleType:
    """The C functions of the stub for that PyTorch, which must have been imported.

    Raises:
        ImportError: there is none, or it does not load.
    """
    minor = choose(found)
    try:
        return importlib.import_module(f"torch_nntile._stubapi_{minor.replace('.', '_')}")
    except ImportError as error:
        raise ImportError(
            f"torch_nntile's stub for PyTorch {_torch_build.STUBS[minor][0]} does not load with "
            f"PyTorch {found}: {error}. `python -m torch_nntile.diagnose` says more. {_OFF}"
        ) from error
