# SPDX-License-Identifier: BSD-3-Clause
"""What a step uses besides its arguments, seen while it is recorded: modules, leaves, optimizers."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim import Optimizer
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.overrides import TorchFunctionMode

from torch_nntile import _c
from torch_nntile.errors import InvalidStateError
from torch_nntile.replay.numbers import Live, Numbers

__all__ = ["Watch"]

# Of a tensor on the CPU, what an optimizer makes a decision by.
_DECISIONS = (Tensor.__bool__, Tensor.__int__, Tensor.__float__, Tensor.tolist)


def _flat(things: Any) -> Iterator[Any]:
    """Tensors and live numbers among arguments, lists included."""
    for thing in things:
        if isinstance(thing, (list, tuple)):
            yield from _flat(thing)
        elif isinstance(thing, (Tensor, Live)):
            yield thing


def is_leaf(tensor: Tensor) -> bool:
    """False for a view: one that autograd has given up cannot even be asked."""
    return not tensor._is_view() and tensor.is_leaf


class Watch(TorchFunctionMode):
    """Active while a step is recorded. Leaves that are arguments are not counted as used besides."""

    def __init__(self, arguments: Sequence[Tensor]) -> None:
        super().__init__()
        self._arguments = {id(argument) for argument in arguments}
        self.numbers = Numbers()
        # Weak: what the step makes and drops is its own. Of leaves, whether they had a gradient before.
        self._modules: dict[int, weakref.ref[nn.Module]] = {}
        self._leaves: dict[int, tuple[weakref.ref[Tensor], bool]] = {}
        self._optimizer: Optimizer | None = None
        self._own_steps: dict[int, str] = {}  # tensors on the CPU in the optimizer's state
        self._plain: list[tuple[dict[str, Any], dict[str, Any]]] = []  # groups, and their values
        self._seen: dict[int, tuple[Optimizer, list[dict[str, Any]]]] = {}

    @contextmanager
    def active(self) -> Iterator[None]:
        hooks = [
            register_module_forward_pre_hook(self._module),
            register_optimizer_step_pre_hook(self._before_step),
            register_optimizer_step_post_hook(self._after_step),
        ]
        try:
            # What libraries ask before they look at data: transformers does, to warn and to save work.
            with (
                self,
                mock.patch.object(torch.cuda, "is_current_stream_capturing", return_value=True),
            ):
                yield
            self._check_groups()
        finally:
            self._restore()
            for hook in hooks:
                hook.remove()

    # ---- modules and leaves

    def _module(self, module: nn.Module, _args: Any) -> None:
        self._modules[id(module)] = weakref.ref(module)

    def modules(self) -> list[nn.Module]:
        """Modules that were called."""
        return [module for ref in self._modules.values() if (module := ref()) is not None]

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        flat = list(_flat(args)) + list(_flat(kwargs.values()))
        if self._optimizer is not None:
            return self._in_step(func, args, kwargs, flat)
        for thing in flat:
            if isinstance(thing, Tensor) and thing.requires_grad and is_leaf(thing):
                self._note_leaf(thing)
        return func(*args, **kwargs)

    def _note_leaf(self, leaf: Tensor) -> None:
        if leaf.device.type != "nntile" or id(leaf) in self._arguments:
            return
        known = self._leaves.get(id(leaf))
        if known is None or known[0]() is not leaf:
            self._leaves[id(leaf)] = (weakref.ref(leaf), leaf.grad is not None)

    def leaves(self) -> list[tuple[Tensor, bool]]:
        """Leaves that are no arguments, and whether they had a gradient before."""
        return [(leaf, had) for ref, had in self._leaves.values() if (leaf := ref()) is not None]

    def state(self, leaves: Sequence[tuple[Tensor, bool]]) -> Any:
        """What a caller may change between two calls, and change back."""
        return (
            tuple((id(module), module.training) for module in self.modules()),
            tuple((id(leaf), leaf.requires_grad, had) for leaf, had in leaves),
        )

    # ---- optimizers

    def _before_step(self, optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
        numbers = self.numbers
        name = numbers.object(optimizer)
        numbers.require(f"{name}.state is {numbers.object(optimizer.state)}")
        numbers.require(f"len({name}.param_groups) == {len(optimizer.param_groups)}")
        self._seen.setdefault(
            id(optimizer), (optimizer, [dict(group) for group in optimizer.param_groups])
        )
        for at, group in enumerate(optimizer.param_groups):
            plain: dict[str, Any] = {}
            for key, value in group.items():
                place = f"{name}.param_groups[{at}][{key!r}]"
                if key == "params":
                    numbers.require(f"len({place}) == {len(value)}")
                    for parameter in value:
                        self._note_leaf(parameter)
                elif type(value) is float:
                    plain[key] = value
                    group[key] = numbers.hyperparameter(optimizer, at, key)
                elif type(value) is tuple and all(type(v) is float for v in value):
                    plain[key] = value
                    group[key] = tuple(
                        numbers.hyperparameter(optimizer, at, key, k) for k in range(len(value))
                    )
                elif isinstance(value, (float, int, str, tuple, type(None))):
                    numbers.require(f"{place} == {numbers.object(value)}")
                else:
                    numbers.require(f"{place} is {numbers.object(value)}")
                    if isinstance(value, Tensor) and value.device.type == "cpu":
                        numbers.require(f"{place}.tolist() == {value.tolist()!r}")
            self._plain.append((group, plain))
        for state in optimizer.state.values():
            for key, value in state.items():
                if isinstance(value, Tensor) and value.device.type == "cpu":
                    self._own_steps[id(value)] = f"{numbers.object(state)}[{key!r}]"
        self._optimizer = optimizer

    def _after_step(self, _optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
        self._optimizer = None
        self._restore()

    def _restore(self) -> None:
        for group, plain in self._plain:
            group.update(plain)
        self._plain.clear()

    def _check_groups(self) -> None:
        """A change of a hyperparameter would not happen in a replay."""
        for optimizer, groups in self._seen.values():
            for at, (group, before) in enumerate(zip(optimizer.param_groups, groups, strict=False)):
                for key, value in group.items():
                    if type(value) is float and value != before.get(key):
                        raise InvalidStateError(
                            f"capture: the function changes param_groups[{at}][{key!r}] of "
                            f"{type(optimizer).__name__} from {before.get(key)} to {value}, which a "
                            "replay would not; do it outside, as LR schedulers between two calls"
                        )

    def _in_step(
        self, func: Callable[..., Any], args: Any, kwargs: dict[str, Any], flat: list[Any]
    ) -> Any:
        tensors = [thing for thing in flat if isinstance(thing, Tensor)]
        lives = [thing for thing in flat if isinstance(thing, Live)]
        if tensors and all(tensor.device.type == "cpu" for tensor in tensors):
            return self._on_cpu(func, args, kwargs, tensors)
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


def pending_numbers(first: int) -> list[float]:
    """Run-time numbers of the open graph, from `first` on, as doubles."""
    count = _c.get("nntile_capture_pending_numbers", _c.record(), first, _c.ffi.NULL, 0) - first
    bits = _c.ffi.new("int64_t[]", max(count, 1))
    _c.get("nntile_capture_pending_numbers", _c.record(), first, bits, count)
    return list(_c.ffi.cast("double *", bits)[0:count]) if count else []
