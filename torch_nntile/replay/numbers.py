# SPDX-License-Identifier: BSD-3-Clause
"""Numbers that a replay must make anew: learning rates, step counts and what is computed of them.

While a step is captured, an optimizer's hyperparameters are `Live`: floats that write down the
arithmetic that is done on them. The result is a small Python function, `Numbers`, which gives the
run-time numbers of a replay without running the optimizer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, SupportsIndex

import torch
from torch import Tensor

__all__ = ["ChangedError", "Live", "Numbers"]


class ChangedError(Exception):
    """A guard of a captured step does not hold: it must be recorded again."""


class Live(float):
    """A float that a replay makes anew. Arithmetic with plain numbers gives another one; whatever
    needs its value here and now (a comparison, `int()`) is a guard of the replay."""

    __slots__ = ("late", "name", "numbers")
    numbers: Numbers
    name: str
    late: bool  # depends on data that the replay changes

    def __float__(self) -> float:
        return self.numbers.pin(self)

    def __int__(self) -> int:
        return int(self.numbers.pin(self))

    def __bool__(self) -> bool:
        return self.numbers.test(f"bool({self.name})", float.__bool__(self), self.late)

    def __hash__(self) -> int:
        return hash(self.numbers.pin(self))

    def __round__(self, digits: SupportsIndex | None = None) -> Any:
        return round(self.numbers.pin(self), digits)

    def __trunc__(self) -> int:
        return math.trunc(self.numbers.pin(self))

    def __floor__(self) -> int:
        return math.floor(self.numbers.pin(self))

    def __ceil__(self) -> int:
        return math.ceil(self.numbers.pin(self))


def _text(number: float) -> str | None:
    """How source code says a plain or live number; None: it cannot."""
    if isinstance(number, Live):
        return number.name
    if type(number) in (int, float, bool) and math.isfinite(number):
        return repr(number)
    return None


def _arithmetic(name: str, symbol: str, *, reflected: bool) -> Callable[[Live, Any], Any]:
    plain = getattr(float, name)

    def method(self: Live, other: Any) -> Any:
        value = plain(self, other)
        text = _text(other) if type(value) is float else None
        if text is None:
            return value if value is NotImplemented else plain(self.numbers.pin(self), other)
        left, right = (text, self.name) if reflected else (self.name, text)
        late = self.late or (isinstance(other, Live) and other.late)
        return self.numbers.value(f"{left} {symbol} {right}", value, late=late)

    return method


def _comparison(name: str, symbol: str) -> Callable[[Live, Any], Any]:
    plain = getattr(float, name)

    def method(self: Live, other: Any) -> Any:
        value, text = plain(self, other), _text(other)
        if value is NotImplemented or text is None:
            return value
        late = self.late or (isinstance(other, Live) and other.late)
        return self.numbers.test(f"({self.name} {symbol} {text})", value, late)

    return method


def _pinned(name: str) -> Callable[..., Any]:
    plain = getattr(float, name)

    def method(self: Live, *others: Any) -> Any:
        return plain(self.numbers.pin(self), *others)

    return method


for _name, _symbol in {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "pow": "**"}.items():
    setattr(Live, f"__{_name}__", _arithmetic(f"__{_name}__", _symbol, reflected=False))
    setattr(Live, f"__r{_name}__", _arithmetic(f"__r{_name}__", _symbol, reflected=True))
for _name, _symbol in {
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "eq": "==",
    "ne": "!=",
}.items():
    setattr(Live, f"__{_name}__", _comparison(f"__{_name}__", _symbol))
for _name in ("floordiv", "rfloordiv", "mod", "rmod", "divmod", "rdivmod"):
    setattr(Live, f"__{_name}__", _pinned(f"__{_name}__"))


def _unary(symbol: str) -> Callable[[Live], Any]:
    def method(self: Live) -> Any:
        value = float.__float__(self)
        value = -value if symbol == "-" else abs(value)
        return self.numbers.value(f"{symbol}({self.name})", value, late=self.late)

    return method


for _name, _symbol in {"neg": "-", "abs": "abs"}.items():
    setattr(Live, f"__{_name}__", _unary(_symbol))


class Numbers:
    """Written while a step is captured; `compile()` makes the function that a replay calls."""

    def __init__(self) -> None:
        self._early: list[str] = []  # lines that depend on hyperparameters only
        self._late: list[str] = []  # those that follow a change of a tensor on the CPU
        self._late_guards = False
        self._known: dict[str, Live] = {}
        self._objects: dict[str, Any] = {}
        self._names: dict[int, str] = {}
        self._changed: list[Tensor] = []
        self.scalars: dict[int, str] = {}  # number of the graph -> text
        self._hyperparameters: dict[str, float] = {}  # text -> value when it was recorded
        self.followed: set[str] = (
            set()
        )  # hyperparameters that are known to be only where they are live

    # ---- what is written down

    def value(self, text: str, value: float, *, late: bool = False) -> Live:
        """The live number that an expression gives."""
        known = self._known.get(text)
        if known is not None and not late:
            return known
        live = Live(value)
        live.numbers, live.late, live.name = self, late, f"v{len(self._known)}"
        (self._late if late else self._early).append(f"{live.name} = {text}")
        self._known[text if not late else f"{live.name}: {text}"] = live
        return live

    def object(self, thing: Any) -> str:
        """The name of an object in the source."""
        name = self._names.get(id(thing))
        if name is None:
            name = self._names[id(thing)] = f"o{len(self._objects)}"
            self._objects[name] = thing
        return name

    def hyperparameter(
        self, optimizer: Any, group: int, key: str, index: int | None = None
    ) -> Live:
        """`optimizer.param_groups[group][key]`, a float, or the `index`th of a tuple of floats."""
        value = optimizer.param_groups[group][key]
        at = "" if index is None else f"[{index}]"
        text = f"{self.object(optimizer)}.param_groups[{group}][{key!r}]{at}"
        live = self.value(text, value if index is None else value[index])
        self._hyperparameters[text] = float.__float__(live)
        return live

    def require(self, text: str) -> None:
        """A guard: an expression that must be true, before anything is changed."""
        line = f"if not ({text}): raise ChangedError"
        if line not in self._early:
            self._early.append(line)

    def pin(self, live: Live) -> float:
        """Make a live number a plain one: a replay needs the same value."""
        value = float.__float__(live)
        self.test(f"({live.name} == {value!r})", True, live.late)
        return value

    def test(self, text: str, outcome: bool, late: bool) -> bool:
        line = f"if {text} is not {outcome}: raise ChangedError"
        if line not in self._early and line not in self._late:
            (self._late if late else self._early).append(line)
            self._late_guards |= late
        return outcome

    def call(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        result: Any,
    ) -> None:
        """A call on tensors of the CPU, which a replay repeats: counts of steps."""
        words = [self._argument(arg) for arg in args]
        words += [f"{key}={self._argument(arg)}" for key, arg in kwargs.items()]
        text = f"{self.object(function)}({', '.join(words)})"
        if isinstance(result, Tensor) and id(result) not in self._names:
            name = self._names[id(result)] = f"t{len(self._names)}"
            self._objects[f"keep {name}"] = result  # so that its id is its own
            text = f"{name} = {text}"
        self._late.append(text)
        for arg in args[:1]:
            for tensor in arg if isinstance(arg, (list, tuple)) else [arg]:
                if isinstance(tensor, Tensor) and all(t is not tensor for t in self._changed):
                    self._changed.append(tensor)

    def item(self, tensor: Tensor) -> Live:
        """`tensor.item()` of a tensor on the CPU."""
        return self.value(f"{self._argument(tensor)}.item()", tensor.item(), late=True)

    def _argument(self, thing: Any) -> str:
        if isinstance(thing, (list, tuple)):
            return "[" + ", ".join(self._argument(t) for t in thing) + "]"
        if isinstance(thing, float) and (text := _text(thing)) is not None:
            return text
        return self.object(thing)

    def match(self, lives: Sequence[Live], first: int, numbers: Sequence[float]) -> None:
        """Find the live ones among the numbers that one call has recorded, by their values.

        One that cannot be found is pinned. Whatever is found wrongly, or computed from a live number
        out of sight, shows when it has another value: see `follow`.
        """
        by_value: dict[float, list[Live]] = {}
        for live in lives:
            by_value.setdefault(float.__float__(live), []).append(live)
        for value, same in by_value.items():
            places = [first + k for k, number in enumerate(numbers) if number == value]
            names = [live.name for live in same]
            if places and len(set(names)) == 1:
                self.scalars.update(dict.fromkeys(places, names[0]))
            elif len(places) == len(names):
                self.scalars.update(zip(places, names, strict=True))
            else:
                for live in same:
                    self.pin(live)

    # ---- what becomes of it

    def follow(self, earlier: Numbers) -> None:
        """`earlier` is of a recording that differs in live numbers only: a hyperparameter that has another
        value by now went nowhere else. Of the others nobody knows, and a replay needs their values."""
        values = earlier._hyperparameters
        changed = {text for text, value in self._hyperparameters.items() if values[text] != value}
        self.followed = earlier.followed | changed

    def source(self) -> str:
        """The function's text; equal texts on equal objects do the same."""
        body = [
            *self._early,
            *self._late,
            f"return ({''.join(f'{v}, ' for v in self.scalars.values())})",
        ]
        return "def numbers():\n" + "".join(f"    {line}\n" for line in body)

    def _guarded(self) -> str:
        unknown = [(t, v) for t, v in self._hyperparameters.items() if t not in self.followed]
        guards = "".join(
            f"    if {text} != {value!r}: raise ChangedError\n" for text, value in unknown
        )
        return self.source().replace("\n", "\n" + guards, 1)

    def same_as(self, other: Numbers) -> bool:
        """Whether a replay by either does the same."""

        def alike(a: Any, b: Any) -> bool:
            if a is b:
                return True
            if isinstance(a, Tensor) and isinstance(b, Tensor):  # a constant made in the step
                return a.shape == b.shape and a.dtype == b.dtype and bool(torch.equal(a, b))
            return bool(type(a) is type(b) and not isinstance(a, Tensor) and a == b)

        if list(self.scalars) != list(other.scalars) or self.source() != other.source():
            return False
        names = [name for name in self._objects if not name.startswith("keep ")]
        return all(alike(self._objects[n], other._objects.get(n)) for n in names)

    def compile(self) -> Callable[[], tuple[float, ...]]:
        """Values for `slots`, in their order. Raises ChangedError; nothing is changed then."""
        space: dict[str, Any] = {**self._objects, "ChangedError": ChangedError}
        exec(self._guarded(), space)
        function: Callable[[], tuple[float, ...]] = space["numbers"]
        return function

    def keeper(self) -> Callable[[], Callable[[], None]]:
        """Keeps what `compile()`'s function changes, at each call; its result brings that back."""
        changed = self._changed
        # Counts of steps: one call for all of them takes a fifth of the time.
        alike = len({(tensor.dtype, tensor.shape) for tensor in changed}) == 1

        def keep() -> Callable[[], None]:
            copies = torch.stack(changed) if alike else [tensor.clone() for tensor in changed]

            def restore() -> None:
                for tensor, value in zip(changed, copies, strict=True):
                    tensor.copy_(value)

            return restore

        return keep


del _name, _symbol
