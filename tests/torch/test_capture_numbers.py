# SPDX-License-Identifier: BSD-3-Clause
"""Numbers of Python in a captured step, wherever they live and whenever they change.

A call gives what the uncaptured function gives, bit by bit, or an error. Never another number.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import torch_nntile

DEVICE = "nntile"
Get = Callable[[], Any]
Set = Callable[[Any], None]

# ---- where a number lives

a_global: Any = 0


class OfClass:
    number: Any = 0


class Slots:
    __slots__ = ("number",)


class WithProperty:
    def __init__(self) -> None:
        self._hidden = 0

    @property
    def number(self) -> Any:
        return self._hidden


class Holder:
    """An object of an object."""

    def __init__(self) -> None:
        self.options = SimpleNamespace(number=0)

    def read(self) -> Any:
        return self.options.number


class Module(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.number: Any = 0

    def forward(self) -> Any:
        return self.number


def in_list() -> tuple[Get, Set]:
    n = [0]
    return lambda: n[0], lambda v: n.__setitem__(0, v)


def in_dict_of_dict() -> tuple[Get, Set]:
    n: dict[str, Any] = {"a": {"b": 0}}
    return lambda: n["a"]["b"], lambda v: n["a"].__setitem__("b", v)


def in_ordered_dict() -> tuple[Get, Set]:
    n: OrderedDict[str, Any] = OrderedDict(b=0)
    return lambda: n["b"], lambda v: n.__setitem__("b", v)


def in_deque() -> tuple[Get, Set]:
    n = deque([0])
    return lambda: n[0], lambda v: n.__setitem__(0, v)


def in_cell() -> tuple[Get, Set]:
    n = 0

    def put(v: Any) -> None:
        nonlocal n
        n = v

    return lambda: n, put


def in_global() -> tuple[Get, Set]:
    def put(v: Any) -> None:
        global a_global
        a_global = v

    return lambda: a_global, put


def in_class() -> tuple[Get, Set]:
    thing = OfClass()
    return lambda: thing.number, lambda v: setattr(OfClass, "number", v)


def over_class() -> tuple[Get, Set]:
    """An attribute of the object, where there was one of the class."""
    thing = OfClass()
    return lambda: thing.number, lambda v: setattr(thing, "number", v)


def in_slots() -> tuple[Get, Set]:
    thing = Slots()
    thing.number = 0
    return lambda: thing.number, lambda v: setattr(thing, "number", v)


def behind_property() -> tuple[Get, Set]:
    thing = WithProperty()
    return lambda: thing.number, lambda v: setattr(thing, "_hidden", v)


def by_computed_name() -> tuple[Get, Set]:
    thing, name = SimpleNamespace(number=0), "num" + "ber"
    return lambda: getattr(thing, name), lambda v: setattr(thing, name, v)


def behind_method() -> tuple[Get, Set]:
    thing = Holder()
    return thing.read, lambda v: setattr(thing.options, "number", v)


def in_module() -> tuple[Get, Set]:
    module = nn.Sequential(Module())
    return lambda: module[0](), lambda v: setattr(module[0], "number", v)


def in_hyperparameter() -> tuple[Get, Set]:
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], 0.1)
    group = optimizer.param_groups[0]
    return lambda: group["lr"], lambda v: group.__setitem__("lr", v)


def in_array() -> tuple[Get, Set]:
    n = np.zeros(3)
    return lambda: float(n[1]), lambda v: n.__setitem__(1, v)


def on_cpu() -> tuple[Get, Set]:
    n = torch.zeros((), dtype=torch.float64)
    return lambda: n.item(), lambda v: n.fill_(v)


def on_cpu_as_scalar() -> tuple[Get, Set]:
    n = torch.zeros(2, dtype=torch.float64)
    return lambda: float(n[1]), lambda v: n.__setitem__(1, v)


HOMES = [
    in_list, in_dict_of_dict, in_ordered_dict, in_deque, in_cell, in_global, in_class, over_class,
    in_slots, behind_property, by_computed_name, behind_method, in_module, in_hyperparameter, in_array,
    on_cpu, on_cpu_as_scalar,
]  # fmt: skip


# ---- what it does


@dataclass
class Task:
    """A step that uses a number in one place."""

    weight: nn.Parameter
    optimizer: torch.optim.Optimizer

    def grouped(self, key: str, value: Any) -> None:
        for group in self.optimizer.param_groups:
            group[key] = value


def rate(task: Task, x: Tensor, n: float) -> Tensor:
    task.grouped("lr", 0.1 * n)
    return x


def betas(task: Task, x: Tensor, n: float) -> Tensor:
    task.grouped("betas", (0.5 + n / 20, 0.9))
    return x


def decay(task: Task, x: Tensor, n: float) -> Tensor:
    task.grouped("weight_decay", 0.1 * n)
    return x


def epsilon(task: Task, x: Tensor, n: float) -> Tensor:
    task.grouped("eps", 1e-3 * n)
    return x


PLACES: dict[str, Callable[[Task, Tensor, Any], Tensor]] = {
    "learning rate": rate,
    "betas": betas,
    "weight decay": decay,
    "eps": epsilon,
    "factor": lambda task, x, n: x * n,
    "in place": lambda task, x, n: x.clone().mul_(n),
    "alpha": lambda task, x, n: torch.add(x, x, alpha=n),
    "full": lambda task, x, n: x * torch.full((), float(n), device=DEVICE),
    "tensor": lambda task, x, n: x * torch.tensor(float(n)).to(DEVICE),
    "exponent": lambda task, x, n: x.abs().pow(1 + n / 8),
    "clip": lambda task, x, n: x.clamp(max=n / 4),
    "dropout": lambda task, x, n: F.dropout(x, n / 16),
    "arange": lambda task, x, n: x * torch.arange(int(n) + 1, device=DEVICE).float().sum(),
    "slice": lambda task, x, n: x[: int(n) + 1],
    "if": lambda task, x, n: x * 2 if n > 3 else x,
    "loop": lambda task, x, n: sum((x * k for k in range(int(n))), x),
    "string": lambda task, x, n: x if f"{n:.0f}" == "1" else -x,
    "nothing": lambda task, x, n: x,
}

SCHEDULES = st.one_of(
    st.just([1.0] * 9),
    st.integers(1, 8).map(lambda k: [1.0] * k + [2.0] * (9 - k)),  # constant, then another
    st.integers(1, 6).map(lambda k: [1.0] * k + [float(j + 2) for j in range(9 - k)]),  # then each
    st.integers(2, 4).map(lambda k: [float(1 + j % k) for j in range(9)]),
    st.integers(2, 4).map(lambda k: [float(1 + j // k) for j in range(9)]),  # every k-th call
    st.lists(st.sampled_from([0.0, 1.0, 2.0, 5.0]), min_size=9, max_size=9),
)


def run(
    home: Callable[[], tuple[Get, Set]],
    place: str,
    when: str,
    values: Sequence[float],
    capture: Any,
) -> Iterator[Any]:
    """What each call gives."""
    torch.manual_seed(0)
    weight = nn.Parameter(torch.linspace(0.5, 1.5, 9).to(DEVICE))
    task = Task(weight, torch.optim.Adam([weight], 0.1))
    read, write = home()
    use = PLACES[place]
    changes = iter(values[1:])  # of the uncaptured function

    def step(x: Tensor) -> Tensor:
        if when == "at its begin":
            write(next(changes, 1.0))
        task.optimizer.zero_grad()
        loss = use(task, x * task.weight, read()).square().sum()
        loss.backward()
        nn.utils.clip_grad_norm_([task.weight], 2.0)
        task.optimizer.step()
        if when == "at its end":
            write(next(changes, 1.0))
        return loss

    write(values[0])
    function = capture(step)
    for k in range(len(values) - 1):
        if when == "outside":
            write(values[k])
        x = torch.linspace(-1, 1, 9).to(DEVICE) * (k + 1)
        yield function(x).item(), task.weight.tolist()
    if capture is torch_nntile.capture:
        yield function


def check(home: Any, place: str, when: str, values: Sequence[float]) -> None:
    expected = list(run(home, place, when, values, lambda function: function))
    found, refused, function = [], "", None
    try:
        for result in run(home, place, when, values, torch_nntile.capture):
            if isinstance(result, torch_nntile.Captured):
                function = result
            else:
                found.append(result)
    except RuntimeError as error:
        refused = str(error)
    assert repr(found) == repr(expected[: len(found)]), (len(found), refused)  # nan is nan
    assert not refused or "capture" in refused
    if when == "outside" and len(set(values)) == 1:
        assert not refused
        assert function
        assert function.replays >= 4


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(
    home=st.sampled_from(HOMES),
    place=st.sampled_from(sorted(PLACES)),
    when=st.sampled_from(["at its begin", "at its end", "outside"]),
    values=SCHEDULES,
)
@example(in_list, "learning rate", "at its begin", [1.0, 1.0, 1.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
@example(in_cell, "slice", "outside", [1.0] * 5 + [2.0] * 4)
def test_never_another_number(home: Any, place: str, when: str, values: Sequence[float]) -> None:
    check(home, place, when, values)


@pytest.mark.parametrize("home", HOMES, ids=lambda home: home.__name__)
@pytest.mark.parametrize("when", ["at its begin", "at its end", "outside"])
def test_a_number_that_changes_late(home: Any, when: str) -> None:
    """The same in the calls that are recorded, then another: nothing but its home shows it."""
    check(home, "factor", when, [1.0] * 5 + [2.0] * 3 + [3.0])


@pytest.mark.parametrize("place", PLACES)
def test_a_number_in_each_place(place: str) -> None:
    check(in_list, place, "outside", [1.0] * 5 + [2.0] * 4)
    check(in_list, place, "outside", [1.0] * 9)
