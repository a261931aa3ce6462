# SPDX-License-Identifier: BSD-3-Clause
"""One recorded graph and what each of its slots stands for: the lower half of capture and compile."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from torch_nntile import _c
from torch_nntile.errors import NotFoundError

__all__ = ["Recording", "recording_now", "replay_first", "too_many"]

MOST_SIGNATURES = 512
MOST_OPS = 200_000  # of all recordings that are kept: at some 2 kB each

_active = False  # in some thread; others run what they call as it is
_byte_offset = _c.new("int64_t *")


def recording_now() -> bool:
    """Whether something is being recorded."""
    return _active


def too_many(kept: Sequence[Recording], signatures: int, most: int | None) -> bool:
    """Whether some must go. Without a number of the user: by the memory that their graphs take."""
    if most is not None:
        return signatures > most
    return signatures > MOST_SIGNATURES or sum(recording.ops for recording in kept) > MOST_OPS


def buffer_of(tensor: Tensor) -> Any:
    """The nntile_buffer of a tensor of the device; NULL: it has no bytes, or is elsewhere."""
    if tensor.device.type != "nntile":
        return _c.ffi.NULL
    tensor = _local(tensor)
    address = tensor.data_ptr() or tensor.untyped_storage().data_ptr()  # 0: without elements
    return _c.get("nntile_stub_buffer", address, _byte_offset)


def _local(tensor: Tensor) -> Tensor:
    """What a tensor is that wraps another one: of a DTensor the part of this process."""
    while is_traceable_wrapper_subclass(tensor):
        names, _ = tensor.__tensor_flatten__()
        tensor = getattr(tensor, names[0])
    return tensor


def _address(buffer: Any) -> int:
    return int(_c.ffi.cast("uintptr_t", buffer))


@dataclass(slots=True)
class _View:
    """A tensor that the function returns: of a storage that is made for it, or of an argument."""

    storage: int  # index of the storage
    argument: int | None
    shape: torch.Size
    stride: tuple[int, ...]
    offset: int
    dtype: torch.dtype


@dataclass(slots=True)
class _Gradient:
    """A slot that is the gradient of a leaf, wherever that is at a replay."""

    slot: int
    leaf: Tensor | int  # or the number of an argument
    strides: tuple[int, ...]
    reads: bool  # more is added to it

    def whose(self) -> int:
        return self.leaf if isinstance(self.leaf, int) else id(self.leaf)


@dataclass(frozen=True, slots=True)
class _Slot:
    buffer: int  # address; 0: it has ended
    reads: bool
    writes: bool
    made: bool  # while it was recorded


class Recording:
    """Calls a function once, recorded, and can replay what it did.

    The tensors of a replay are: arguments, which are given; results, which are made anew; gradients
    of leaves, wherever these are then. All others are those that were recorded.
    """

    def __init__(self) -> None:
        self._capture: Any = None
        self._views: list[Any] = []  # _View, or what is returned as it is
        self._storages: list[
            tuple[int, int]
        ] = []  # of results: the first result that has it, bytes
        self._arguments: list[tuple[int, int]] = []  # slot, number
        self._aliases: list[tuple[int, int]] = []  # arguments that are one storage
        self._results: list[tuple[int, int]] = []  # slot, storage
        self._gradients: list[_Gradient] = []
        # What wraps a tensor, as a DTensor does: arguments, gradients, and leaves that lose theirs.
        self._wrapped = False
        self._wrapped_gradients: list[_Gradient] = []
        self._wrapped_dropped: list[Tensor | int] = []
        self.handle = 0  # of what _replay() has in C++
        self._fixed: list[_Slot] = []
        self._made: set[int] = set()  # buffers
        self._drawn = 0  # numbers of the generator
        self.ops = 0
        self.why_not = ""  # a reason that no replay is possible

    # ---- recording

    def record(
        self,
        function: Callable[[], Sequence[Any]],
        arguments: Sequence[Tensor],
        leaves: Callable[[], Sequence[tuple[Tensor, Tensor | None]]] = tuple,
    ) -> list[Any]:
        """Run `function`, which returns a flat list. Its results have no graph of autograd.

        leaves: tensors that got gradients, with those that they had before.

        What is recorded runs at the end, also if `function` raises.
        """
        global _active
        seed, offset = _generator()
        outside = _c.get("nntile_stub_rng_outside")
        sizes = [argument.untyped_storage().nbytes() for argument in arguments]
        _c.call("nntile_capture_begin", _c.record(), seed, offset)
        _active = True
        try:
            results = [_leave(result, arguments) for result in function()]
        except BaseException:
            _active = False
            _c.call("nntile_capture_end", _c.record(), _c.ffi.NULL)
            raise
        _active = False
        self.ops = _c.get("nntile_record_pending", _c.record())
        slot = _c.new("nntile_capture **")
        _c.call("nntile_capture_end", _c.record(), slot)
        self._capture = _c.ffi.gc(slot[0], _c.function("nntile_capture_destroy"))
        self._drawn = _generator()[1] - offset
        if _c.get("nntile_stub_rng_outside") != outside or _generator()[0] != seed:
            self.why_not = "random numbers on the host, of another generator or after a new seed"
        if sizes != [argument.untyped_storage().nbytes() for argument in arguments]:
            self.why_not = "the storage of an argument gets another size"
        self._bind(arguments, results, leaves())
        return results

    def _slots(self) -> list[_Slot]:
        slots = []
        slot = _c.new_struct("nntile_capture_slot")
        for k in range(_c.get("nntile_capture_slots", self._capture)):
            _c.call("nntile_capture_slot_get", self._capture, k, slot)
            slots.append(
                _Slot(_address(slot.buffer), bool(slot.reads), bool(slot.writes), bool(slot.made))
            )
        return slots

    def _bind(
        self,
        arguments: Sequence[Tensor],
        results: list[Any],
        leaves: Sequence[tuple[Tensor, Tensor | None]],
    ) -> None:
        """Find what each slot stands for."""
        slots = self._slots()
        self._made = {slot.buffer for slot in slots if slot.made}
        by_argument: dict[int, int] = {}
        for k, tensor in enumerate(arguments):
            buffer = _address(buffer_of(tensor))
            if buffer and by_argument.setdefault(buffer, k) != k:
                self._aliases.append((k, by_argument[buffer]))
        gradients = {
            _address(buffer_of(grad)): (leaf, grad)
            for leaf, had in leaves
            for grad in (had, leaf.grad)
            if grad is not None and not self.made(leaf)
        }
        dropped = [
            _number_of(leaf, arguments)
            for leaf, had in leaves
            if had is not None and leaf.grad is None
        ]
        storages = self._view(results, by_argument, self._made.difference(gradients))
        taken: list[Tensor] = []  # gradients now
        for k, slot in enumerate(slots):
            if slot.buffer in by_argument:
                self._arguments.append((k, by_argument[slot.buffer]))
            elif slot.buffer in storages:
                self._results.append((k, storages[slot.buffer]))
            elif slot.buffer in gradients:
                leaf, grad = gradients[slot.buffer]
                whose = _number_of(leaf, arguments)
                self._gradients.append(_Gradient(k, whose, grad.stride(), slot.reads))
                taken.append(grad)
            else:
                self._fixed.append(slot)
                if slot.reads and not slot.buffer:
                    self.why_not = (
                        "it reads data that is no argument and is gone at its end: give it as an "
                        "argument, and return what takes its place"
                    )
        self._keep(arguments, results, taken, dropped)

    def _keep(
        self,
        arguments: Sequence[Tensor],
        results: Sequence[Any],
        gradients: Sequence[Tensor],
        dropped: Sequence[Tensor | int],
    ) -> None:
        """Hand it to C++, which replays it: csrc/replay. What wraps tensors stays here."""
        self._wrapped = any(map(is_traceable_wrapper_subclass, arguments))

        def wraps(leaf: Tensor | int) -> bool:
            return is_traceable_wrapper_subclass(_leaf(leaf, arguments))

        plain = [
            (gradient, now)
            for gradient, now in zip(self._gradients, gradients, strict=True)
            if not wraps(gradient.leaf)
        ]
        self._wrapped_gradients = [g for g in self._gradients if wraps(g.leaf)]
        self._wrapped_dropped = [leaf for leaf in dropped if wraps(leaf)]
        others = [leaf for leaf in dropped if not wraps(leaf)]
        views = [view for view in self._views if isinstance(view, _View)]
        made = [
            _local(result)
            for result, view in zip(results, self._views, strict=True)
            if isinstance(view, _View)
        ]
        spec = [int(_c.ffi.cast("intptr_t", self._capture)), self._drawn]
        lists = (
            self._aliases,
            self._arguments,
            self._results,
            [(gradient.slot,) for gradient in self._wrapped_gradients],
            self._storages,
        )
        for pairs in lists:
            spec += [len(pairs), *itertools.chain.from_iterable(pairs)]
        for view in views:
            spec += [view.storage, -1 if view.argument is None else view.argument]
        for gradient, _ in plain:
            spec += [gradient.slot, int(gradient.reads), _argument(gradient.leaf)]
        spec += map(_argument, others)
        self.handle = torch.ops.nntile._recording.default(
            spec,
            [_local(argument) for argument in arguments],
            made,
            [_leaf(gradient.leaf, arguments) for gradient, _ in plain],
            [now for _, now in plain],
            [_leaf(leaf, arguments) for leaf in others],
        )
        weakref.finalize(self, torch.ops.nntile._forget.default, self.handle)

    def _view(
        self, results: list[Any], by_argument: dict[int, int], made: set[int]
    ) -> dict[int, int]:
        """How results are made; gives the storages that they need, by their buffers."""
        storages: dict[int, int] = {}
        for result in results:
            buffer = _address(buffer_of(result)) if isinstance(result, Tensor) else 0
            argument = by_argument.get(buffer)
            if argument is None and buffer not in made:
                self._views.append(result)
                continue
            storage = -1 if argument is not None else storages.setdefault(buffer, len(storages))
            size, stride, offset = result.shape, result.stride(), result.storage_offset()
            view = _View(storage, argument, size, stride, offset, result.dtype)
            self._views.append(view)
            if storage == len(self._storages):
                nbytes = _local(result).untyped_storage().nbytes()
                self._storages.append((sum(isinstance(v, _View) for v in self._views) - 1, nbytes))
        return storages

    # ---- comparing

    def made(self, tensor: Tensor) -> bool:
        """Whether the tensor was made while this was recorded, or has no elements, so that nobody can say."""
        return not tensor.numel() or _address(buffer_of(tensor)) in self._made

    def aliases(self) -> tuple[tuple[int, int], ...]:
        """Pairs of arguments that are one storage."""
        return tuple(self._aliases)

    def difference(self, earlier: Recording, live: set[int]) -> str:
        """In what a replay of the one would not be the other; empty: in nothing.

        live: numbers that each replay gets anew.
        """
        numbers = _c.ffi.new("uint32_t[]", sorted(live))
        text = _c.owned_text(
            "nntile_capture_difference", earlier._capture, self._capture, numbers, len(numbers)
        )
        if text:
            return text
        if (self._arguments, self._results) != (earlier._arguments, earlier._results):
            return "other arguments or results are used"
        if [g.whose() for g in self._gradients] != [g.whose() for g in earlier._gradients]:
            return "gradients of other parameters"
        for a, b in zip(self._fixed, earlier._fixed, strict=True):
            if not a.made and a.buffer != b.buffer:
                return "tensors that are no arguments have been replaced"
        for a, b in zip(self._views, earlier._views, strict=True):
            if not _alike(a, b):
                return f"another result that is no tensor of its own: {b!r}, then {a!r}"
        return ""

    # ---- replaying

    def replay(
        self, arguments: Sequence[Tensor], live: Sequence[tuple[int, float]] = ()
    ) -> list[Any]:
        """Run it on other arguments, with other numbers.

        Raises:
            LookupError: arguments have other shapes or share storages in another way, data that was
                recorded is gone, or leaves are not as `require` has found them. Nothing has changed.
        """
        results = replay_first([self], arguments, live)
        if results is None:
            raise NotFoundError("replay: other arguments, or data that was recorded is gone")
        return results[1]

    def require(self, leaves: Sequence[tuple[Tensor, bool]]) -> None:
        """A replay needs these leaves as they are: where they lie, what requires a gradient, and, as
        the second says, what has one. None of them wraps a tensor."""
        state = [int(flag) for leaf, had in leaves for flag in (leaf.requires_grad, had)]
        torch.ops.nntile._require.default(self.handle, [leaf for leaf, _ in leaves], state)

    def _gradient(self, gradient: _Gradient, arguments: Sequence[Tensor]) -> Tensor:
        """The part of this process of a gradient that wraps it."""
        leaf = _leaf(gradient.leaf, arguments)
        if leaf.grad is None or leaf.grad.stride() != gradient.strides:
            if gradient.reads:
                raise NotFoundError("replay: a gradient is gone, or has another layout")
            leaf.grad = torch.empty_strided(
                leaf.shape, gradient.strides, dtype=leaf.dtype, device=leaf.device
            )
        return _local(leaf.grad)


def replay_first(
    recordings: Sequence[Recording],
    arguments: Sequence[Tensor],
    live: Sequence[tuple[int, float]] = (),
) -> tuple[int, list[Any]] | None:
    """Replay the first recording that was made of such arguments: its place, what it returns."""
    if not recordings:
        return None
    first = recordings[0]  # all are of one function, and so wrap alike
    place, made = torch.ops.nntile._replay.default(
        [recording.handle for recording in recordings],
        [_local(argument) for argument in arguments] if first._wrapped else arguments,
        [first._gradient(gradient, arguments) for gradient in first._wrapped_gradients],
        [number for number, _ in live],
        [value for _, value in live],
    )
    if place < 0:
        return None
    recording, results = recordings[place], iter(made)
    for leaf in recording._wrapped_dropped:
        _leaf(leaf, arguments).grad = None
    if len(made) == len(recording._views) and not first._wrapped:
        return place, made
    return place, [
        view if not isinstance(view, _View) else _given(view, arguments, next(results))
        for view in recording._views
    ]


def _given(view: _View, arguments: Sequence[Tensor], result: Tensor) -> Tensor:
    """An argument that wraps a tensor is returned as it is."""
    argument = None if view.argument is None else arguments[view.argument]
    wrapped = argument is not None and is_traceable_wrapper_subclass(argument)
    return argument if argument is not None and wrapped else result


def _argument(leaf: Tensor | int) -> int:
    return leaf if isinstance(leaf, int) else -1


def _number_of(leaf: Tensor, arguments: Sequence[Tensor]) -> Tensor | int:
    """The number of an argument, or a tensor that is none."""
    return next((n for n, argument in enumerate(arguments) if argument is leaf), leaf)


def _leaf(leaf: Tensor | int, arguments: Sequence[Tensor]) -> Tensor:
    return arguments[leaf] if isinstance(leaf, int) else leaf


def _leave(result: Any, arguments: Sequence[Tensor]) -> Any:
    """A result outside of the graph of autograd; an argument stays itself."""
    if not isinstance(result, Tensor) or any(result is argument for argument in arguments):
        return result
    return result.data  # detach() refuses views that autograd has given up


def _alike(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.data_ptr() == b.data_ptr()
    return a is b or (type(a) is type(b) and not isinstance(a, Tensor) and bool(a == b))


def _generator() -> tuple[int, int]:
    """Seed and offset of the default generator, as the C library takes them: signed."""
    words = _c.new("uint64_t[2]")
    _c.get("nntile_stub_rng_get", words, words + 1)
    seed, offset = words
    return seed - 2**64 * (seed >= 2**63), offset - 2**64 * (offset >= 2**63)
