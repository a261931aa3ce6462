# SPDX-License-Identifier: BSD-3-Clause
"""Python state that a captured function reads: numbers, containers and objects in reach of its code.

A replay runs no Python, so a number that the function would read must still be what it was, and one
that the function changes cannot be replayed. What can be reached is found from the code: cells,
globals and attributes by the names that it says, containers with all they hold. Of code that is not
the user's (PyTorch, installed packages) only the objects are looked at, with all of their attributes.
"""

from __future__ import annotations

import array
import functools
import itertools
import math
import operator
import sys
import sysconfig
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from torch_nntile.replay.guard import Guard, Held, plain

__all__ = ["State", "is_users_file"]

MOST_ITEMS = 1000  # of a container, to be looked at one by one
DEEPEST = 8  # objects in objects
_OF_MODULE = (
    "_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks", "_backward_hooks",
)  # fmt: skip
_ANY_NAME = {"getattr", "setattr", "vars", "__dict__", "attrgetter"}
_LIBRARIES = tuple(
    {str(Path(sysconfig.get_paths()[name])) + "/" for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    | {str(Path(torch.__file__).parent) + "/", str(Path(__file__).parents[1]) + "/", "<frozen"}
)  # fmt: skip


@functools.cache
def is_users_file(name: str) -> bool:
    """Whether code is neither Python's, PyTorch's, ours, nor of an installed package."""
    return not name.startswith(_LIBRARIES)


def _is_users(thing: Any) -> bool:
    """Whether the code of a class or module is the user's."""
    name = thing.__name__ if isinstance(thing, ModuleType) else thing.__module__
    module = sys.modules.get(name)
    if name in sys.builtin_module_names or module is None:
        return False
    return is_users_file(getattr(module, "__file__", None) or "")


@functools.cache
def _names_of(code: CodeType) -> frozenset[str]:
    """Globals and attributes that code says, with what is defined in it."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _names_of(constant)
    return frozenset(found)


def _position(iterator: Iterator[Any]) -> Any:
    if isinstance(iterator, GeneratorType):
        frame = iterator.gi_frame
        return frame and (frame.f_lasti, tuple(v for v in frame.f_locals.values() if plain(v)))
    known = isinstance(iterator, itertools.count)
    return repr(iterator) if known else operator.length_hint(iterator, -1)


class State:
    """Places in reach of a function and of its arguments that are no tensors."""

    def __init__(self, function: Any, arguments: Sequence[Any], names: Iterable[str] = ()) -> None:
        self._held: list[Held] = []
        self.optimizers: list[Optimizer] = []
        self._guards: list[Guard] = []
        self._called: dict[int, tuple[weakref.ref[nn.Module], list[Guard]]] = {}
        self._seen: dict[int, Any] = {}
        self._names: set[str] = set(names)
        self._any = False  # the code reads attributes by names that it computes
        self._objects: list[tuple[Any, str]] = []  # of the user's classes: by names
        self._queue: deque[tuple[Any, str, int]] = deque()
        self._functions: list[tuple[FunctionType, int]] = []
        self._queue.append((function, getattr(function, "__name__", type(function).__name__), 0))
        for argument in arguments:
            self._queue.append((argument, type(argument).__name__, 0))
        self._find()

    # ---- what becomes of it

    def effect(self) -> str:
        """What the function has changed, which a replay would not."""
        for key in [*self._called]:  # in this order: what has ended kept what it is made of
            if self._called[key][0]() is None:
                del self._called[key]
        return next((text for guard in self._all() if (text := guard.effect())), "")

    def guard(self) -> Guard:
        """What a replay must find."""
        return Guard([held for guard in self._all() for held in guard.held()])

    def _all(self) -> list[Guard]:
        return [*self._guards, *(guard for _, guards in self._called.values() for guard in guards)]

    def add_module(self, module: nn.Module) -> None:
        """A module that is about to be called. Those that the function makes itself may end."""
        ref, _ = self._called.get(id(module), (None, ()))
        if id(module) in self._seen or (ref is not None and ref() is module):
            return
        own = State(module, (), self._names)
        self._called[id(module)] = weakref.ref(module), own._guards
        for thing in own._seen.values():
            if isinstance(thing, nn.Module) and thing is not module:
                self._called.setdefault(id(thing), (weakref.ref(thing), []))

    # ---- finding places

    def _find(self) -> None:
        """What is in reach of the queue holds now what the function will find."""
        known, functions, objects = -1, len(self._functions), len(self._objects)
        while self._queue or known != len(self._names):
            known = len(self._names)
            while self._queue:
                self._visit(*self._queue.popleft())
            for function, depth in self._functions:
                self._globals(function, depth)
            for thing, text in self._objects:
                self._attributes(thing, text)
        for function, _ in self._functions[functions:]:
            space = function.__globals__
            names = [n for n in sorted(_names_of(function.__code__)) if n in space]
            names = [n for n in names if not isinstance(space[n], (ModuleType, type))]
            self._add_named(space, names, "")
        for thing, text in self._objects[objects:]:
            self._add_named(_dict_of(thing), self._said(thing), text + ".")
        self._guards.append(Guard(self._held))
        self._held = []

    def _add_named(self, space: Any, names: Sequence[str], label: str) -> None:
        if names:
            self._held.append(Held(label, space, names))

    def _visit(self, thing: Any, text: str, depth: int) -> None:
        if id(thing) in self._seen or isinstance(thing, Tensor) or plain(thing):
            return
        if isinstance(thing, nn.Module):
            self._module(thing, text, depth)
            return
        self._seen[id(thing)] = thing
        if isinstance(thing, Optimizer):
            self.optimizers.append(thing)
        elif isinstance(thing, FunctionType):
            self._function(thing, depth)
        elif isinstance(thing, MethodType):
            self._push(thing.__func__, text, depth)
            # A package that captures a method of its own knows what else is in the object.
            code = getattr(thing.__func__, "__code__", None)
            own = code is not None and not is_users_file(code.co_filename) and depth == 0
            if not own or isinstance(thing.__self__, nn.Module) or _is_users(type(thing.__self__)):
                self._push(thing.__self__, text.rpartition(".")[0] or "self", depth)
        elif isinstance(thing, functools.partial):
            for part in (thing.func, *thing.args, *thing.keywords.values()):
                self._push(part, text, depth)
            self._container(thing.keywords, text, depth)
        elif isinstance(thing, (property, staticmethod, classmethod)):
            part = thing.fget if isinstance(thing, property) else thing.__func__
            self._push(part, text, depth)
        elif isinstance(thing, (Mapping, list, tuple, set, frozenset, deque)):
            self._container(thing, text, depth)
        elif isinstance(thing, Iterator):
            self._held.append(Held(text, read=lambda: (_position(thing),)))
        elif isinstance(thing, (bytearray, array.array)) or type(thing).__module__ == "numpy":
            self._bytes(thing, text)
        elif isinstance(thing, (type, ModuleType)):
            if _is_users(thing):
                self._objects.append((thing, text))
        elif hasattr(thing, "_function") and type(thing).__name__ == "Captured":
            self._push(thing._function, text, depth)
        else:
            self._object(thing, text, depth)

    def _push(self, thing: Any, text: str, depth: int) -> None:
        """Look at it, if nobody has yet, and there is anything to see."""
        known = id(thing) in self._seen or depth >= DEEPEST or isinstance(thing, Tensor)
        if not known and not plain(thing):
            self._queue.append((thing, text, depth + 1))

    def _function(self, function: FunctionType, depth: int) -> None:
        code = function.__code__
        if not is_users_file(code.co_filename):
            # What a library wraps (`functools.wraps`, `torch.no_grad()`) is a function of the user.
            for cell in function.__closure__ or ():
                if isinstance(inner := _contents(cell), (FunctionType, MethodType)):
                    self._push(inner, inner.__name__, depth)
            return
        self._names |= _names_of(code)
        self._any |= bool(_names_of(code) & _ANY_NAME)
        cells = [(n, c) for n, c in zip(code.co_freevars, function.__closure__ or (), strict=True)]
        filled = [(n, c) for n, c in cells if _contents(c) is not _EMPTY]
        if filled:
            known, names = [cell for _, cell in filled], [name for name, _ in filled]
            self._held.append(Held("", read=lambda: [c.cell_contents for c in known], names=names))
        for name, cell in filled:
            self._push(cell.cell_contents, name, depth)
        for name, default in (function.__kwdefaults__ or {}).items():
            self._push(default, name, depth)
        for default in function.__defaults__ or ():
            self._push(default, f"a default of {function.__name__}", depth)
        if function.__defaults__:
            text = f"the defaults of {function.__name__}"
            self._held.append(Held(text, read=lambda: (function.__defaults__,)))
        self._functions.append((function, depth))

    def _globals(self, function: FunctionType, depth: int) -> None:
        space = function.__globals__
        for name in _names_of(function.__code__):
            if name in space:
                self._push(space[name], name, depth)

    def _container(self, thing: Any, text: str, depth: int) -> None:
        if len(thing) > MOST_ITEMS:
            self._held.append(Held(f"len({text})", read=lambda: (len(thing),)))
            return
        if isinstance(thing, Mapping):
            if type(thing) is dict:  # others may do more than look up
                self._held.append(Held(text + "[", thing, list(thing), sized=True))
            else:
                read = lambda: [*thing.keys(), *thing.values()]  # noqa: E731
                self._held.append(Held(text, read=read))
            for key, value in thing.items():
                self._push(value, f"{text}[{key!r}]", depth)
            return
        if isinstance(thing, list):
            self._held.append(Held(text + "[", thing, range(len(thing)), sized=True))
        elif isinstance(thing, (set, deque)):
            self._held.append(Held(text, read=lambda: list(thing)))
        for k, value in enumerate(thing):
            self._push(value, f"{text}[{k}]", depth)

    def _bytes(self, thing: Any, text: str) -> None:
        as_bytes = bytes if isinstance(thing, bytearray) else getattr(type(thing), "tobytes", None)
        if as_bytes and math.prod(getattr(thing, "shape", (len(thing),))) <= MOST_ITEMS:
            self._held.append(Held(text, read=lambda: (as_bytes(thing),)))

    def _object(self, thing: Any, text: str, depth: int) -> None:
        if _is_users(type(thing)):
            self._objects.append((thing, text))
            self._push(type(thing), type(thing).__name__, depth)
            for base in type(thing).__mro__[1:]:
                self._push(base, base.__name__, depth)
            call = vars(type(thing)).get("__call__")
            if call is not None:
                self._push(call, text, depth)
            return
        space = getattr(thing, "__dict__", None)
        if isinstance(space, dict) and space:
            # Its methods are not looked into, so they may read and change any number.
            self._add_named(space, [n for n, v in space.items() if plain(v)], text + ".")
            inside = [n for n, v in space.items() if _of_numbers(v)]
            read = lambda: [_frozen(space.get(name)) for name in inside]  # noqa: E731
            if inside:
                self._held.append(Held(text + ".", read=read, names=inside))

    def _said(self, thing: Any) -> list[str]:
        """Attributes of an object that the code says, and that are no methods."""
        space, of_class = _dict_of(thing), dict[str, Any]()
        if not isinstance(thing, (type, ModuleType)):
            for base in reversed(type(thing).__mro__[:-1]):
                of_class |= {n: v for n, v in vars(base).items() if plain(v)}
        names = [*space] if self._any and not isinstance(thing, (type, ModuleType)) else []
        names += [n for n in self._names if (n in space or n in of_class) and n not in names]
        methods = (FunctionType, property, staticmethod, classmethod, type, ModuleType)
        return sorted(n for n in names if not isinstance(space.get(n), methods))

    def _attributes(self, thing: Any, text: str) -> None:
        space = _dict_of(thing)
        for name in [*space] if self._any and not isinstance(thing, ModuleType) else self._names:
            if (value := space.get(name)) is not None:
                self._push(value, f"{text}.{name}", 1)

    def _module(self, module: nn.Module, text: str, depth: int) -> None:
        """All numbers of a module, what it is made of, and objects such as a configuration."""
        self._seen[id(module)] = module
        space = vars(module)
        names = [n for n, v in space.items() if plain(v) and not n.startswith("_is_full")]
        self._add_named(space, names, text + ".")
        for name in _OF_MODULE:
            part = space.get(name)
            if isinstance(part, dict):
                made = lambda new: not isinstance(new, (Tensor, nn.Module))  # noqa: E731
                label = f"{text}.{name}["
                self._held.append(Held(label, part, list(part), sized=True, effects=made))
        users = _is_users(type(module))
        if users:
            for base in type(module).__mro__:
                self._push(base, base.__name__, depth)
                if "forward" in vars(base):
                    self._push(vars(base)["forward"], text, depth)
        others = [n for n, v in space.items() if n not in names and n not in _OF_MODULE]
        others = [n for n in others if not n.startswith("_")]
        if others:
            # Packages keep tensors that they have computed; the user's own are his results.
            tolerant = None if users else (lambda new: not isinstance(new, Tensor))
            self._held.append(Held(text + ".", space, others, effects=tolerant))
        for name in others:
            value = space[name]
            if isinstance(value, (list, dict, deque)) or hasattr(value, "__dict__"):
                self._push(value, f"{text}.{name}", depth)
        for name, child in module._modules.items():
            self._push(child, f"{text}.{name}", 0)


def _of_numbers(thing: Any) -> bool:
    if not isinstance(thing, (list, dict, set, deque)) or len(thing) > MOST_ITEMS:
        return False
    return all(map(plain, thing.values() if isinstance(thing, dict) else thing))


def _frozen(thing: Any) -> Any:
    return repr(thing) if _of_numbers(thing) else None


class _Empty:
    pass


_EMPTY = _Empty()


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _EMPTY


def _dict_of(thing: Any) -> Any:
    """Attributes of an object, of which there may be slots."""
    space = getattr(thing, "__dict__", None)
    if space is not None:
        return space
    return _Slots(thing)


class _Slots:
    """Attributes in slots, as a mapping."""

    def __init__(self, thing: Any) -> None:
        self._thing = thing
        self._slots = {
            name
            for base in type(thing).__mro__
            for name in _words(vars(base).get("__slots__", ()))
            if hasattr(thing, name)
        }

    def __getitem__(self, name: str) -> Any:
        if name not in self._slots:
            raise KeyError(name)
        return getattr(self._thing, name)

    def get(self, name: str, default: Any = None) -> Any:
        return getattr(self._thing, name, default) if name in self._slots else default

    def __contains__(self, name: object) -> bool:
        return name in self._slots

    def __iter__(self) -> Iterator[str]:
        return iter(self._slots)


def _words(slots: Any) -> Sequence[str]:
    return (slots,) if isinstance(slots, str) else tuple(slots)
