# SPDX-License-Identifier: BSD-3-Clause
"""What places in Python objects held at one time, and what they hold now."""

from __future__ import annotations

import numbers
import operator
import weakref
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["Guard", "Held", "plain"]

_ATOMS = (str, bytes, numbers.Number, type(None), torch.dtype, torch.device, Enum, range, slice)


def plain(value: Any) -> bool:
    """Whether a value cannot change, so that it is known by what it says."""
    if isinstance(value, (tuple, frozenset)):
        return all(map(plain, value))
    return isinstance(value, _ATOMS)


def _equal(a: Any, b: Any) -> bool:
    """-0.0 is not 0.0 and True not 1, but nan is nan. A list or dict may be made anew of the same objects, as
    DistributedDataParallel does with its buffers."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(
            x is y for x, y in zip(a.values(), b.values(), strict=True)
        )
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))
    return plain(a) and repr(a) == repr(b)


_GONE = object()  # stands for what a place held, where nothing is any more


class Held:
    """Some places in one object: what they hold now, and how to name them to a user."""

    __slots__ = ("container", "effects", "keys", "label", "names", "own", "sized")

    def __init__(
        self,
        label: str,
        container: Any = None,
        keys: Sequence[Any] = (),
        *,
        read: Callable[[], Sequence[Any]] | None = None,
        names: Sequence[str] | None = None,
        sized: bool = False,
        effects: Callable[[Any], bool] | None = None,
    ) -> None:
        self.label = label  # "x[" or "x." before the name; without names the place itself
        self.container = container  # a dict or list; None: ask `read`
        self.keys = keys
        self.own = read
        self.names = keys if names is None and container is not None else names
        self.sized = sized  # it has no other items
        self.effects = effects  # which changes the function must not make; None: any

    def read(self) -> Sequence[Any]:
        if self.own is not None:
            return self.own()
        found = []
        for key in self.keys:
            try:
                found.append(self.container[key])
            except LookupError:
                found.append(_GONE)
        return found

    def size(self) -> int:
        return len(self.container) if self.sized else 0

    def text(self, k: int) -> str:
        if self.names is None:
            return self.label
        if not self.label.endswith("["):
            return f"{self.label}{self.names[k]}"
        return f"{self.label}{self.names[k]!r}]"


def _weakly(value: Any) -> Any:
    """Tensors may end; parameters are kept by every recording that uses them."""
    if isinstance(value, Tensor) and not isinstance(value, nn.Parameter):
        return weakref.ref(value)
    return value


def _short(value: Any) -> str:
    if value is _GONE:
        return "gone"
    if isinstance(value, weakref.ref):
        value = value()
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    text = repr(value) if plain(value) else f"an object of {type(value).__name__}"
    return text if len(text) < 60 else text[:57] + "..."


class _Then:
    """What places held at one time."""

    __slots__ = ("held", "size", "values")

    def __init__(self, held: Held) -> None:
        self.held = held
        self.values = [_weakly(value) for value in held.read()]
        self.size = held.size()

    def change(self, *, effects: bool = False) -> str:
        """The first place that does not hold what it held; "": each holds the same, or an equal number."""
        held = self.held
        try:
            now, size = list(held.read()), held.size()
        except (ValueError, RuntimeError):  # an empty cell; a container that changes meanwhile
            return f"`{held.text(0)}` is gone"
        for k, (new, old) in enumerate(zip(now, self.values, strict=False)):
            if new is old or (isinstance(old, weakref.ref) and old() is new) or _equal(new, old):
                continue
            if effects and held.effects is not None and not held.effects(new):
                continue
            if isinstance(new, Tensor) and isinstance(old, weakref.ref):
                text, advice = "is another tensor", "write into it in place, or return it"
            else:
                text = f"is {_short(new)} and was {_short(old)}"
                advice = "change it between two calls; what the function needs of it is an argument"
            return f"`{held.text(k)}` {text}" + f": {advice}" * effects
        if size != self.size or len(now) != len(self.values):
            items = f"{size or len(now)} items and had {self.size or len(self.values)}"
            advice = ": do that between two calls, with what the function returns" * effects
            return f"`{held.label.rstrip('[')}` has {items}{advice}"
        return ""


class Guard:
    """What places held at one time, ready to be compared before each replay."""

    def __init__(self, held: Sequence[Held]) -> None:
        self._then = then = [_Then(h) for h in held]
        # Most places are compared by loops of C: items, sizes. The rest are few.
        items = [
            (t.held.container, key, value)
            for t in then
            for key, value in zip(t.held.keys, t.values, strict=False)
            if value is not _GONE and not isinstance(value, weakref.ref)
        ]
        self._containers = tuple(container for container, _, _ in items)
        self._keys = tuple(key for _, key, _ in items)
        self._values = tuple(value for _, _, value in items)
        self._empty = tuple(t.held.container for t in then if t.held.sized and not t.size)
        self._sized = tuple(t.held.container for t in then if t.size)
        self._sizes = tuple(t.size for t in then if t.size)
        self._rest = [
            t
            for t in then
            if t.held.container is None
            or any(v is _GONE or isinstance(v, weakref.ref) for v in t.values)
        ]

    def holds(self) -> bool:
        try:
            items = map(operator.getitem, self._containers, self._keys)
            same = all(map(operator.is_, items, self._values))
        except LookupError:
            return False
        if (
            same
            and not any(self._empty)
            and all(map(operator.eq, map(len, self._sized), self._sizes))
        ):
            return not any(then.change() for then in self._rest)
        return not self.change()

    def change(self) -> str:
        """The first place that does not hold what it held then."""
        return next((text for then in self._then if (text := then.change())), "")

    def effect(self) -> str:
        """The first place that the function has changed since."""
        return next((text for then in self._then if (text := then.change(effects=True))), "")

    def held(self) -> list[Held]:
        return [then.held for then in self._then]
