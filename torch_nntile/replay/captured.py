# SPDX-License-Identifier: BSD-3-Clause
"""torch_nntile.capture: a step is recorded as a whole, then replayed without its Python code."""

from __future__ import annotations

import functools
import weakref
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, overload

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from torch_nntile.errors import InvalidArgumentError, InvalidStateError, NotFoundError
from torch_nntile.notices import warn
from torch_nntile.replay.guard import Guard
from torch_nntile.replay.numbers import ChangedError, Live
from torch_nntile.replay.recording import Recording, recording_now, too_many
from torch_nntile.replay.state import State
from torch_nntile.replay.watch import Watch, host_same

__all__ = ["Captured", "capture"]

MOST_RECORDINGS = 5  # of one signature, until two in a row are the same
MOST_ENTRIES = 4  # of one signature: by training flags, parameters, gradients that are there or not
MANY_RECORDINGS = 128  # without one replay: worth a word


@dataclass(slots=True)
class _Entry:
    """A recording that was the same twice, and what must still be so for it to stand for a call."""

    recording: Recording
    numbers: Callable[[], tuple[float, ...]]
    scalars: list[int]  # numbers of the graph, in the order of numbers()
    saved: Callable[[], Callable[[], None]]
    guard: Guard
    on_host: list[tuple[Tensor, Any]]
    # Leaves that wrap a tensor: address, requires_grad, has a gradient. At the others the replay
    # itself looks: it raises NotFoundError.
    wrapped: list[tuple[Tensor, int, bool, bool]]
    spec: pytree.TreeSpec  # of the result

    def holds(self) -> bool:
        return (
            self.guard.holds()
            and (not self.on_host or host_same(self.on_host))
            and all(
                leaf.data_ptr() == address
                and leaf.requires_grad is requires_grad
                and (leaf.grad is None) is not has_gradient
                for leaf, address, requires_grad, has_gradient in self.wrapped
            )
        )


@dataclass(slots=True)
class _Last:
    """The last recording of a signature, to be compared with the next one."""

    recording: Recording
    watch: Watch
    times: int
    guard: Guard


class Captured:
    """The result of `capture`: call it like the function.

    Attributes:
        recordings: number of calls so far that ran the function's code.
        replays: number of calls that did not.
        why: how the latest recording differed from the one before; empty if it did not.
    """

    def __init__(self, function: Callable[..., Any], *, signatures: int | None = None) -> None:
        if not callable(function):
            raise InvalidArgumentError(
                f"capture: expected a function, got {type(function).__name__}"
            )
        wrong = isinstance(signatures, bool) or not isinstance(signatures, int) or signatures < 1
        if signatures is not None and wrong:
            raise InvalidArgumentError(f"capture: signatures must be 1 or more, got {signatures!r}")
        functools.update_wrapper(self, function, updated=())
        self._function = function
        self._signatures = signatures
        self._entries: OrderedDict[Any, list[_Entry]] = OrderedDict()
        self._last: OrderedDict[Any, _Last] = OrderedDict()
        self._optimizers: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        self._kept = Counter[Any]()  # recordings that became entries, since the last replay
        self._warned = False
        self.recordings = 0
        self.replays = 0
        self.why = ""

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def reset(self) -> None:
        """Forget all recordings."""
        self._entries.clear()
        self._last.clear()
        self._kept.clear()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if recording_now():
            return self._function(*args, **kwargs)
        leaves: list[Any] = []
        spec = None
        form = _flatten(args, leaves), _flatten(kwargs, leaves)
        if _UNKNOWN in form:
            leaves, spec = pytree.tree_flatten((args, kwargs))
        leaves = [_on_device(leaf) for leaf in leaves]
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        key = (spec or form, tuple(map(_key_of, leaves)), _global_state())
        entries = self._entries.get(key)
        if entries:
            self._entries.move_to_end(key)
            for entry in entries:
                if entry.holds():
                    try:
                        result = self._replay(entry, tensors)
                    except (ChangedError, NotFoundError):
                        continue
                    if self._kept:
                        self._kept.pop(key, None)
                    return result
        return self._record(key, leaves, spec or pytree.tree_structure((args, kwargs)), tensors)

    def _replay(self, entry: _Entry, tensors: list[Tensor]) -> Any:
        restore = entry.saved()
        try:
            live = list(zip(entry.scalars, entry.numbers(), strict=True))
            results = entry.recording.replay(tensors, live)
        except BaseException:
            restore()
            raise
        self.replays += 1
        return pytree.tree_unflatten(results, entry.spec)

    def _record(
        self, key: Any, leaves: list[Any], spec: pytree.TreeSpec, tensors: list[Tensor]
    ) -> Any:
        args, kwargs = pytree.tree_unflatten(leaves, spec)
        state = State(self._function, [leaf for leaf in leaves if not isinstance(leaf, Tensor)])
        watch, recording = Watch(tensors, state, list(self._optimizers)), Recording()
        result_spec: Any = None

        def function() -> list[Any]:
            nonlocal result_spec
            with watch.active():
                flat, result_spec = pytree.tree_flatten(self._function(*args, **kwargs))
                return [watch.numbers.pin(x) if isinstance(x, Live) else x for x in flat]

        had = [(t, t.grad) for t in tensors if t.requires_grad and t.is_leaf]

        def leaves_used() -> list[tuple[Tensor, Tensor | None]]:
            return watch.take_gradients() + had

        results = recording.record(function, tensors, leaves_used)
        self.recordings += 1
        self._optimizers.update(watch.optimizers)
        self._compare(key, watch, recording, state.guard(), result_spec)
        if self.recordings == MANY_RECORDINGS and not self.replays:
            warn(
                f"capture: {self._name()} was recorded {self.recordings} times and never replayed: its "
                "arguments have another shape or Python value each time; give numbers as tensors, and pad "
                "to a few shapes"
            )
        return pytree.tree_unflatten(results, result_spec)

    def _name(self) -> str:
        return str(getattr(self, "__name__", "the function"))

    def _compare(
        self, key: Any, watch: Watch, recording: Recording, guard: Guard, spec: Any
    ) -> None:
        """Two recordings in a row that do the same are an entry; too many that differ an error."""
        # Calls that find other training flags or gradients, or one tensor twice, may take turns.
        leaves = [(leaf, had) for leaf, had in watch.leaves() if not recording.made(leaf)]
        kind = (key, watch.state(leaves), recording.aliases())
        last = self._last.pop(kind, None)
        reasons = [watch.why_not, recording.why_not]
        if last is None:
            reasons.append("" if any(reasons) else "the first of its kind")
        else:
            numbers = watch.numbers
            differs = recording.difference(last.recording, set(numbers.scalars))
            if not differs and not numbers.same_as(last.watch.numbers):
                differs = (
                    "other hyperparameters, or numbers that are computed from them in another way"
                )
            reasons += [differs, last.guard.change() if differs and not watch.why_not else ""]
        why = "; ".join(filter(None, reasons))
        if not why and last is not None:
            numbers.follow(last.watch.numbers)
            self._keep(key, watch, recording, guard, leaves, spec)
        self.why = why
        times = (last.times + 1 if last else 1) if why else 0
        if times >= MOST_RECORDINGS:
            raise InvalidStateError(
                f"capture: {self._name()} cannot be replayed: it was recorded {times} times, and each "
                f"differs from the one before; the last one: {why}"
            )
        self._last[kind] = _Last(recording, watch, times, guard)
        self._trim()

    def _trim(self) -> None:
        """Drop the signatures used longest ago, if there are too many."""
        dropped = False
        kept = [entry.recording for entries in self._entries.values() for entry in entries]
        while len(self._entries) > 1 and too_many(kept, len(self._entries), self._signatures):
            _, entries = self._entries.popitem(last=False)
            kept = kept[len(entries) :]
            dropped = True
        most = self._signatures and self._signatures * MOST_ENTRIES
        kept = [last.recording for last in self._last.values()]
        while len(kept) > 1 and too_many(kept, len(kept), most):
            self._last.popitem(last=False)
            del kept[0]
            dropped = True
        if dropped and not self._warned:
            self._warned = True
            warn(
                f"capture: {self._name()} drops recordings of the arguments that were used longest ago, "
                f"since it has {len(self._entries)} kinds of arguments by now; these will be recorded "
                "again. Pad to a few shapes, give numbers as tensors, or see capture(signatures=)"
            )

    def _keep(
        self,
        key: Any,
        watch: Watch,
        recording: Recording,
        guard: Guard,
        leaves: list[tuple[Tensor, bool]],
        spec: Any,
    ) -> None:
        entries = self._entries.setdefault(key, [])
        change = entries[0].guard.change() if entries else ""
        self._kept[key] += 1
        if self._kept[key] > MOST_ENTRIES and change:
            raise InvalidStateError(
                f"capture: {self._name()} cannot be replayed: it was recorded {self._kept[key]} times in a "
                f"row, since Python state that it reads changes from call to call: {change}. Give it as an "
                "argument, as a tensor if it has many values"
            )
        entry = _Entry(
            recording=recording,
            numbers=watch.numbers.compile(),
            scalars=list(watch.numbers.scalars),
            saved=watch.numbers.keeper(),
            guard=guard,
            on_host=watch.host_guard(),
            wrapped=[
                (leaf, leaf.data_ptr(), leaf.requires_grad, had_gradient)
                for leaf, had_gradient in leaves
                if is_traceable_wrapper_subclass(leaf)
            ],
            spec=spec,
        )
        recording.require([own for own in leaves if not is_traceable_wrapper_subclass(own[0])])
        entries.insert(0, entry)
        del entries[MOST_ENTRIES:]
        self._entries.move_to_end(key)


_LEAVES = frozenset({Tensor, nn.Parameter, int, float, bool, str, type(None)})
_UNKNOWN = object()


def _flatten(tree: Any, leaves: list[Any]) -> Any:
    """What is left of a tree when its leaves are taken, in the order of pytree.tree_flatten: for two
    tensors 1.5 us instead of 9. _UNKNOWN: the tree has things that arguments seldom have."""
    kind = type(tree)
    if kind in _LEAVES:
        leaves.append(tree)
        return None
    if kind is dict:
        parts = [_flatten(value, leaves) for value in tree.values()]
        form: tuple[Any, ...] = (dict, *tree, *parts)
    elif kind is tuple or kind is list:
        parts = [_flatten(value, leaves) for value in tree]
        form = (kind, *parts)
    else:
        return _UNKNOWN
    return _UNKNOWN if _UNKNOWN in parts else form


def _on_device(leaf: Any) -> Any:
    return leaf.to("nntile") if isinstance(leaf, Tensor) and leaf.is_cpu else leaf


def _key_of(leaf: Any) -> Any:
    if isinstance(leaf, Tensor):
        own = id(leaf) if isinstance(leaf, nn.Parameter) else 0
        gradient = leaf.requires_grad and leaf.is_leaf and leaf.grad is not None
        return (
            leaf.shape,
            leaf.stride(),
            leaf.storage_offset(),
            leaf.dtype,
            leaf.requires_grad,
            own,
            gradient,
        )
    return (type(leaf), leaf if leaf.__hash__ else _Same(leaf))


class _Same:
    """Equal to itself only, for what has no hash."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.thing is other.thing

    def __hash__(self) -> int:
        return id(self.thing)


def _global_state() -> tuple[Any, ...]:
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("nntile") and torch.get_autocast_dtype("nntile"),
        torch.are_deterministic_algorithms_enabled(),
        torch.get_default_dtype(),
    )


@overload
def capture(function: Callable[..., Any], *, signatures: int | None = None) -> Captured: ...
@overload
def capture(
    function: None = None, *, signatures: int | None = None
) -> Callable[[Callable[..., Any]], Captured]: ...


def capture(function: Any = None, *, signatures: int | None = None) -> Any:
    """Record a step while its Python code runs a few times, then replay the recorded graph.

    >>> @torch_nntile.capture
    ... def step(x, y):
    ...     optimizer.zero_grad()
    ...     loss = cross_entropy(model(x), y)
    ...     loss.backward()
    ...     optimizer.step()
    ...     return loss

    The first calls run as written, each as one graph. Once two of these recordings match, later
    calls replay the graph. A replay copies nothing and runs no Python code of the step. It reads
    the arguments and all other tensors with their current data. It computes learning rates, step
    counts, bias corrections and offsets of the generator anew. It returns new tensors, without an
    autograd graph, and puts gradients into `.grad`. It gives the same bits as graph mode without
    capture, and as eager mode if the cuts are the same. Eager mode sees a few calls at a time and
    may choose other automatic cuts, so that sums round differently.

    A call makes another recording, next to the first, if any of these differ: shapes, dtypes,
    layouts or Python values of arguments; training flags; `requires_grad`; parameters or modules;
    whether there are gradients; grad mode; autocast; hyperparameters that are not floats; and
    numbers in the Python state that the function's code reads. You may change axis cuts.

    Reading data inside (`.item()`, `print`, `if loss > 0`) is an error at its line. Changing Python
    state inside is an error too, because a replay would not change it. So count calls and step an LR
    scheduler between two calls, and pass numbers that change each time as tensors.

    Args:
        function: a function of any arguments. Tensors on the CPU are moved to the device first.
        signatures: for how many kinds of arguments to keep recordings, the latest ones; None: as
            many as fit, up to 512. A warning says once that recordings are dropped.

    Raises:
        RuntimeError: at a call, after five recordings of which no two in a row match, or five in a
            row with other numbers. The message says what differs, and where. Inside the
            function: your code reads data.
        ValueError: `function` is not callable, or `signatures` is below 1.
    """
    if function is None:
        return functools.partial(capture, signatures=signatures)
    return Captured(function, signatures=signatures)
