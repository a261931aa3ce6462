# SPDX-License-Identifier: BSD-3-Clause
"""What a step uses besides its arguments, seen while it is recorded: modules, leaves, optimizers,
Python state, tensors on the CPU."""

from __future__ import annotations

import random
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim import Optimizer
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.overrides import TorchFunctionMode

from torch_nntile import _c
from torch_nntile.replay.numbers import Live, Numbers
from torch_nntile.replay.state import State, is_users_file

__all__ = ["Watch", "host_same"]

# Of a tensor on the CPU, what an optimizer makes a decision by.
_DECISIONS = (Tensor.__bool__, Tensor.__int__, Tensor.__float__, Tensor.tolist)
_READS = (*_DECISIONS, Tensor.item, Tensor.numpy, Tensor.__index__, Tensor.__array__)


def _flat(things: Any) -> Iterator[Any]:
    """Tensors and live numbers among arguments, lists included."""
    for thing in things:
        if isinstance(thing, (list, tuple)):
            yield from _flat(thing)
        elif isinstance(thing, (Tensor, Live)):
            yield thing


def is_leaf(tensor: Tensor) -> bool:
    """False for a view, as one that autograd has given up cannot even be asked; and for what a
    compiler puts in the place of a tensor."""
    return not isinstance(tensor, FakeTensor) and not tensor._is_view() and tensor.is_leaf


class Watch(TorchFunctionMode):
    """Active while a step is recorded. Leaves that are arguments are not counted as used besides.

    optimizers: those that earlier recordings have met.
    """

    def __init__(
        self, arguments: Sequence[Tensor], state: State, optimizers: Sequence[Optimizer] = ()
    ) -> None:
        super().__init__()
        self._arguments = {id(argument) for argument in arguments}
        self.numbers = Numbers()
        self._state = state
        self.why_not = ""  # a reason that no replay is possible
        self.optimizers = [*dict.fromkeys([*state.optimizers, *optimizers])]
        # Weak: what the step makes and drops is its own. Of leaves, whether they had a gradient before.
        self._modules: dict[int, weakref.ref[nn.Module]] = {}
        self._leaves: dict[int, tuple[weakref.ref[Tensor], bool]] = {}
        # Gradients that were there, until it is known what the function reads of them.
        self._gradients: dict[int, Tensor] = {}
        self._optimizer: Optimizer | None = None
        self._own_steps: dict[int, str] = {}  # tensors on the CPU in the optimizer's state
        # Groups whose numbers are live, what these were, and the live ones.
        self._groups: dict[int, tuple[Optimizer, int, dict[str, Any], dict[str, Any]]] = {}
        self._on_host: dict[int, tuple[Tensor, Any]] = {}  # tensors on the CPU from outside
        self._made_on_host: dict[int, Tensor] = {}
        self._reads_host = False
        self._write = ""  # what changes one of them first

    @contextmanager
    def active(self) -> Iterator[None]:
        hooks = [
            register_module_forward_pre_hook(self._module),
            register_optimizer_step_pre_hook(self._before_step),
            register_optimizer_step_post_hook(self._after_step),
        ]
        drawn = _generators()
        try:
            for optimizer in self.optimizers:
                self._make_live(optimizer)
            # What libraries ask before they look at data: transformers does, to warn and to save work.
            # PyTorch's optimizers ask, too, where there is a GPU, and would refuse to step.
            asked = mock.Mock(side_effect=lambda: self._optimizer is None)
            with self, mock.patch.object(torch.cuda, "is_current_stream_capturing", asked):
                yield
        finally:
            for hook in hooks:
                hook.remove()
            changed = self._restore()
        self.why_not = changed or self._effects(drawn)

    def _effects(self, drawn: tuple[Any, ...]) -> str:
        """What the function does that a replay would not."""
        if effect := self._state.effect():
            return f"the function changes Python state, which a replay does not: {effect}"
        if self._write:
            return (
                f"{self._write} changes a tensor on the CPU, which a replay does not: call it between two "
                "calls of the captured function, or move the tensor to the device"
            )
        now = _generators()
        numpy_drew = drawn[2] is not None and now[2] != drawn[2]  # None: it was not imported yet
        if now[1] != drawn[1] or numpy_drew or (now[0] != drawn[0] and self._reads_host):
            return (
                "the function draws random numbers on the CPU, which a replay does not: draw them on the "
                "device, or outside and give them as arguments"
            )
        return ""

    def host_guard(self) -> list[tuple[Tensor, Any]]:
        """Tensors on the CPU that the function reads, and what must still be in them."""
        return list(self._on_host.values())

    # ---- modules and leaves

    def _module(self, module: nn.Module, _args: Any) -> None:
        self._modules[id(module)] = weakref.ref(module)
        self._state.add_module(module)

    def modules(self) -> list[nn.Module]:
        """Modules that were called."""
        return [module for ref in self._modules.values() if (module := ref()) is not None]

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if torch.compiler.is_dynamo_compiling():  # it reads modes as well, before there is data
            return func(*args, **kwargs)
        flat = list(_flat(args)) + list(_flat(kwargs.values()))
        try:
            if self._optimizer is not None:
                return self._in_step(func, args, kwargs, flat)
            return self._outside_of_steps(func, args, kwargs, flat)
        except RuntimeError as error:
            _advise(error, func)
            raise

    def _outside_of_steps(
        self, func: Callable[..., Any], args: Any, kwargs: dict[str, Any], flat: list[Any]
    ) -> Any:
        for thing in flat:
            if isinstance(thing, Tensor) and thing.requires_grad and is_leaf(thing):
                self._note_leaf(thing)
        host = [t for t in flat if isinstance(t, Tensor) and t.device.type == "cpu"]
        before = [(t, _content(t)) for t in host]
        result = self._matched(func, args, kwargs, flat)
        for tensor, content in before:
            if id(tensor) not in self._made_on_host and _content(tensor) != content:
                self._write = self._write or f"{func.__name__} ({user_line()})"
        made = list(_flat(result if isinstance(result, (list, tuple)) else (result,)))
        if func.__name__ != "__get__" or made:  # what asks for a shape reads nothing
            self._note_on_host(func, before, made)
        return result

    def _note_on_host(
        self, func: Callable[..., Any], used: Sequence[tuple[Tensor, Any]], made: Sequence[Any]
    ) -> None:
        """Tensors on the CPU are state like numbers of Python, unless the function makes them."""
        self._reads_host |= bool(used) and func in _READS
        for tensor, content in used:
            if id(tensor) not in self._made_on_host:
                self._on_host.setdefault(id(tensor), (tensor, content))
        for tensor in made:
            on_host = isinstance(tensor, Tensor) and tensor.device.type == "cpu"
            if on_host and id(tensor) not in self._on_host:
                self._made_on_host[id(tensor)] = tensor

    def _note_leaf(self, leaf: Tensor) -> None:
        if leaf.device.type != "nntile" or id(leaf) in self._arguments:
            return
        known = self._leaves.get(id(leaf))
        if known is None or known[0]() is not leaf:
            self._leaves[id(leaf)] = (weakref.ref(leaf), leaf.grad is not None)
            if leaf.grad is not None:
                self._gradients[id(leaf)] = leaf.grad

    def leaves(self) -> list[tuple[Tensor, bool]]:
        """Leaves that are no arguments, and whether they had a gradient before."""
        return [(leaf, had) for ref, had in self._leaves.values() if (leaf := ref()) is not None]

    def take_gradients(self) -> list[tuple[Tensor, Tensor | None]]:
        """Those leaves, and the gradients that they had, which may end now."""
        found = [(leaf, self._gradients.get(id(leaf))) for leaf, _ in self.leaves()]
        self._gradients.clear()
        return found

    def state(self, leaves: Sequence[tuple[Tensor, bool]]) -> Any:
        """What a caller may change between two calls, and change back."""
        return (
            tuple((id(module), module.training) for module in self.modules()),
            tuple((id(leaf), leaf.requires_grad, had) for leaf, had in leaves),
        )

    # ---- optimizers

    def _make_live(self, optimizer: Optimizer) -> None:
        """The hyperparameters of an optimizer are live numbers from now to the end of the function."""
        numbers = self.numbers
        name = numbers.object(optimizer)
        numbers.require(f"len({name}.param_groups) == {len(optimizer.param_groups)}")
        for at, group in enumerate(optimizer.param_groups):
            if id(group) in self._groups:
                continue
            self._groups[id(group)] = (optimizer, at, dict(group), group)
            for key, value in group.items():
                place = f"{name}.param_groups[{at}][{key!r}]"
                if key == "params":
                    numbers.require(f"len({place}) == {len(value)}")
                elif type(value) is float:
                    group[key] = numbers.hyperparameter(optimizer, at, key)
                elif type(value) is tuple and all(type(v) is float for v in value):
                    group[key] = tuple(
                        numbers.hyperparameter(optimizer, at, key, k) for k in range(len(value))
                    )
                elif isinstance(value, (float, int, str, tuple, type(None))):
                    numbers.require(f"{place} == {numbers.object(value)}")
                else:
                    numbers.require(f"{place} is {numbers.object(value)}")
                    if isinstance(value, Tensor) and value.device.type == "cpu":
                        numbers.require(f"{place}.tolist() == {value.tolist()!r}")

    def _before_step(self, optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
        numbers = self.numbers
        if all(optimizer is not known for known in self.optimizers):
            self.optimizers.append(optimizer)
        self._make_live(optimizer)
        numbers.require(f"{numbers.object(optimizer)}.state is {numbers.object(optimizer.state)}")
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self._note_leaf(parameter)
        for state in optimizer.state.values():
            for key, value in state.items():
                if isinstance(value, Tensor) and value.device.type == "cpu":
                    self._own_steps[id(value)] = f"{numbers.object(state)}[{key!r}]"
        self._optimizer = optimizer

    def _after_step(self, _optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
        self._optimizer = None

    def _restore(self) -> str:
        """Hyperparameters are plain numbers again. Says which of them the function has changed."""
        changed = ""
        for optimizer, at, before, group in self._groups.values():
            for key, value in group.items():
                group[key] = now = _as_plain(value)
                old = before.get(key)
                if key == "params" or now is old:
                    continue
                if _repr(now) != _repr(old):
                    changed = changed or (
                        f"the function changes param_groups[{at}][{key!r}] of "
                        f"{type(optimizer).__name__} from {old} to {now}, which a "
                        "replay would not; do it outside, as LR schedulers between two calls"
                    )
                elif not _is_live(value):  # set to what it was: a replay must find the same
                    place = f"{self.numbers.object(optimizer)}.param_groups[{at}][{key!r}]"
                    self.numbers.require(f"{place} == {self.numbers.object(now)}")
        self._groups.clear()
        return changed

    def _in_step(
        self, func: Callable[..., Any], args: Any, kwargs: dict[str, Any], flat: list[Any]
    ) -> Any:
        tensors = [thing for thing in flat if isinstance(thing, Tensor)]
        if tensors and all(tensor.device.type == "cpu" for tensor in tensors):
            return self._on_cpu(func, args, kwargs, tensors)
        return self._matched(func, args, kwargs, flat)

    def _matched(
        self, func: Callable[..., Any], args: Any, kwargs: dict[str, Any], flat: list[Any]
    ) -> Any:
        """Call it; live numbers among its arguments are found among those that it records."""
        lives = [thing for thing in flat if isinstance(thing, Live)]
        if not lives:
            return func(*args, **kwargs)
        first = _c.get("nntile_capture_pending_numbers", _c.record(), 0, _c.ffi.NULL, 0)
        result = func(*args, **kwargs)
        self.numbers.match(lives, first, pending_numbers(first))
        return result

    def _on_cpu(
        self, func: Callable[..., Any], args: Any, kwargs: dict[str, Any], tensors: list[Tensor]
    ) -> Any:
        for tensor in tensors:
            place = self._own_steps.pop(id(tensor), None)
            if place:
                self.numbers.require(f"{place} is {self.numbers.object(tensor)}")
        if func is Tensor.item:
            return self.numbers.item(tensors[0])
        result = func(*args, **kwargs)
        if func in _DECISIONS:
            text = f"{self.numbers.object(func)}({self.numbers.object(tensors[0])}) == {result!r}"
            self.numbers.test(f"({text})", True, late=True)
        elif func.__name__ != "__get__" and (
            result is None or isinstance(result, (Tensor, list, tuple))
        ):
            self.numbers.call(func, args, kwargs, result)
        return result


def _advise(error: RuntimeError, func: Callable[..., Any]) -> None:
    """Say what to write where a read is refused."""
    text = str(error)
    if "inside of a captured function" not in text or "; " in text:
        return
    frame: FrameType | None = sys._getframe(2)
    if func.__name__ in ("__getitem__", "__setitem__", "nonzero", "masked_select", "backward"):
        advice = "what a mask selects has a shape that depends on data: use torch.where"
    elif frame is not None and not is_users_file(frame.f_code.co_filename):
        advice = "call what reads here between two calls of the captured function"
    else:
        advice = "return the tensor, and read it outside"
    error.args = (f"{text}; {advice}",)


def user_line() -> str:
    """The innermost line that is neither PyTorch's nor ours."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and not is_users_file(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}" if frame else "no line"


def _is_live(value: Any) -> bool:
    return isinstance(value, Live) or (isinstance(value, tuple) and any(map(_is_live, value)))


def _as_plain(value: Any) -> Any:
    """What a hyperparameter is without writing down how it came about."""
    if isinstance(value, Live):
        return float.__float__(value)
    if isinstance(value, tuple) and any(map(_is_live, value)):
        return tuple(map(_as_plain, value))
    return value


def _repr(value: Any) -> Any:
    return id(value) if isinstance(value, Tensor) else repr(value)


def _content(tensor: Tensor) -> Any:
    """What shows that a tensor on the CPU is another one: a few numbers, or that PyTorch wrote to it."""
    if tensor.numel() <= 8:
        return repr(tensor.tolist())  # no op: torch.load has tensors that no op takes
    return -1 if tensor.is_inference() else tensor._version


def host_same(tensors: Sequence[tuple[Tensor, Any]]) -> bool:
    """Whether tensors on the CPU are as they were."""
    return all(_content(tensor) == content for tensor, content in tensors)


def _generators() -> tuple[Any, ...]:
    """States of the generators on the CPU: PyTorch's, Python's, NumPy's."""
    numpy = sys.modules.get("numpy.random")
    state = numpy.get_state() if numpy else None
    return (
        torch.get_rng_state().numpy().tobytes(),
        random.getstate(),
        state and (state[1].tobytes(), *state[2:]),
    )


def pending_numbers(first: int) -> list[float]:
    """Run-time numbers of the open graph, from `first` on, as doubles."""
    count = _c.get("nntile_capture_pending_numbers", _c.record(), first, _c.ffi.NULL, 0) - first
    bits = _c.ffi.new("int64_t[]", max(count, 1))
    _c.get("nntile_capture_pending_numbers", _c.record(), first, bits, count)
    return list(_c.ffi.cast("double *", bits)[0:count]) if count else []
