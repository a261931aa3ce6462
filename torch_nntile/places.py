# SPDX-License-Identifier: BSD-3-Clause
"""Where the ops of a program come from: its lines, and the modules whose `forward` runs.

Lines are found by the stub at each call. Modules are looked at only while somebody wants to know:
a profile, or NNTILE_BLOCKING.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.nn.modules import module as hooks

from torch_nntile import _c

__all__ = ["block", "line_of", "module_now", "module_of", "start", "watch_modules"]

_OWN = str(Path(__file__).parent) + os.sep
_LIBRARIES = (str(Path(torch.__file__).parent) + os.sep, _OWN, "<frozen", "<eval_with_key>")
_EXAMPLES = (_OWN + "models", _OWN + "train")  # a program of its own each


def start(fast: bool = True) -> bool:
    """Let each call find its line. False: by Python's functions, as in versions from 3.14 on.

    They need Python's lock and make an object of each frame: 0.15 us for each call, 0.8 in a module
    that is ten deep. In 3.10 to 3.13 frames are read without, in some ten nanoseconds.

    Args:
        fast: False: as if it were a version that nobody has looked at.
    """
    here = str(Path.cwd()) + os.sep
    lines = [*_LIBRARIES, *("+" + name for name in _EXAMPLES), "=" + here]
    return bool(_c.get("nntile_stub_places", "\n".join(lines).encode(), int(fast)))


def _text(function: str, place: int) -> str:
    size = _c.get(function, place, _c.ffi.NULL, 0)
    room = _c.new(f"char[{size}]")
    _c.get(function, place, room, size)
    return _c.text(room)


def line_of(place: int) -> str:
    """ "model.py:14", without the working directory of the import; "" where it is not known."""
    return _text("nntile_stub_place_line", place)


def module_of(place: int) -> str:
    """ "GPT.layers.3.attn": class of the module that was called, and the path in it; or ""."""
    return _text("nntile_stub_place_module", place)


class _Thread(threading.local):
    def __init__(self) -> None:
        self.stack: list[tuple[dict[int, int], int]] = []  # names of the root, number of the module


_thread = _Thread()
_names: WeakKeyDictionary[torch.nn.Module, dict[int, int]] = WeakKeyDictionary()


_module_names = {0: ""}
_module_is = _c.function("nntile_stub_module")  # of this thread; looked up once: each call asks


def _number(name: str) -> int:
    number = int(_c.get("nntile_stub_module_number", name.encode()))
    _module_names[number] = name
    return number


def module_now() -> str:
    """The module whose `forward` runs, while somebody watches; or ""."""
    return _module_names[_thread.stack[-1][1]] if _thread.stack else ""


def _names_in(root: torch.nn.Module) -> dict[int, int]:
    found = _names.get(root)
    if found is None:
        kind = type(root).__name__
        found = {
            id(module): _number(f"{kind}.{name}" if name else kind)
            for name, module in root.named_modules()
        }
        _names[root] = found
    return found


def _enter(module: torch.nn.Module, inputs: Any) -> None:
    stack = _thread.stack
    names = stack[-1][0] if stack else None
    if names is None or id(module) not in names:
        names = _names_in(module)
    number = names[id(module)]
    stack.append((names, number))
    _module_is(number)


def _leave(module: torch.nn.Module, inputs: Any, output: Any) -> None:
    stack = _thread.stack
    if stack:  # else it was entered before somebody wanted to know
        stack.pop()
    _module_is(stack[-1][1] if stack else 0)


def watch_modules() -> Callable[[], None]:
    """Notes the module of each call from now on; the result ends that."""
    handles = [
        hooks.register_module_forward_pre_hook(_enter),
        hooks.register_module_forward_hook(_leave, always_call=True),
    ]

    def end() -> None:
        for handle in handles:
            handle.remove()
        _thread.stack.clear()
        _names.clear()
        _c.get("nntile_stub_module", 0)

    return end


def block() -> None:
    """Wait after each call from now on, and raise the error of its tasks there."""
    watch_modules()
    _c.get("nntile_stub_blocking", 1)
