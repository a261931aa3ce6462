# SPDX-License-Identifier: BSD-3-Clause
"""What a call of a kernel is: its parameters against their annotations, shapes, numbers, axes."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torch_nntile import _c
from torch_nntile.errors import DtypeError, InvalidArgumentError
from torch_nntile.kernels.annotations import Expr, In, InMut, Out, Scalar, Shaped, dtype_of
from torch_nntile.kernels.source import KernelArgument

__all__ = ["Call", "Rules"]

_Dim = int | Expr | str | None  # an extent, an expression, a tensor whose same dim it is, any


@dataclass
class Tensor:
    """A tensor parameter, read from its annotation."""

    name: str
    kind: str  # "in", "mut", "out"
    dtype: torch.dtype
    like: str | None  # has the shape of this one
    dims: tuple[_Dim, ...]
    axes: tuple[str | None, ...]
    init: float | None = None
    batched: bool = False  # it has a dim before all others, the batch of a vmap


@dataclass
class Call:
    """Of arguments with their annotated dtypes and right shapes."""

    results: list[tuple[torch.dtype, tuple[Any, ...]]]
    numbers: list[Any]


class Rules:
    """All that annotations say of calls of one kernel."""

    def __init__(
        self, name: str, annotations: Mapping[str, Any], points: Sequence[str],
        cut: Mapping[str, int], batched: frozenset[str] | None = None,
    ) -> None:  # fmt: skip
        """batched: inputs that have the batch of a vmap; the points and what is written have it too."""
        self.name, self.cut = name, dict(cut)
        self.vmapped = batched is not None
        self.tensors: dict[str, Tensor] = {}
        self.scalars: dict[str, torch.dtype] = {}
        self.unused: list[str] = []
        self.order = list(annotations)
        for parameter, note in annotations.items():
            if isinstance(note, Scalar):
                self.scalars[parameter] = dtype_of(note.dtype)
        integers = {n for n, dtype in self.scalars.items() if not dtype.is_floating_point}
        inputs = [n for n, note in annotations.items() if isinstance(note, (In, InMut))]
        known = {*inputs, *integers}
        for parameter, note in annotations.items():
            if isinstance(note, (In, InMut)):
                self.tensors[parameter] = self._tensor(parameter, note, known)
            elif isinstance(note, Out):
                self.tensors[parameter] = self._tensor(parameter, note, known)
                known.add(parameter)
            elif not isinstance(note, Scalar):
                self.unused.append(parameter)
        self.points = [Expr(text, dict.fromkeys(known), f"{name}: points") for text in points]
        self.inputs = [self.tensors[n] for n in inputs]
        self.outs = [t for t in self.tensors.values() if t.kind == "out"]
        if not self.outs and not any(t.kind == "mut" for t in self.inputs):
            raise InvalidArgumentError(f"{name}: it has no Out and no InMut, so it does nothing")
        if not self.inputs:
            raise InvalidArgumentError(f"{name}: it has no tensor argument, so no device")
        if batched is not None:
            self._add_batch(batched)
        self._check_axes()
        self.axis_numbers = {axis: k for k, axis in enumerate(self.cut)}

    def _add_batch(self, batched: frozenset[str]) -> None:
        axis = "batch of vmap"
        self.cut = {axis: 0, **{name: dim + 1 for name, dim in self.cut.items()}}
        for t in self.tensors.values():
            if t.kind != "in" or t.name in batched:
                t.axes, t.batched = (axis, *t.axes), True

    def _tensor(self, name: str, note: Any, known: set[str]) -> Tensor:
        owner = f"{self.name}: {name}"
        kind = "mut" if isinstance(note, InMut) else "in" if isinstance(note, In) else "out"
        dtype = dtype_of(note.dtype)
        if isinstance(note.shape, str):
            like = self.tensors.get(note.shape)
            if like is None:
                raise InvalidArgumentError(
                    f"{owner}: shape {note.shape!r} is no tensor parameter before it; "
                    f"there are {sorted(self.tensors)}"
                )
            axes = like.axes if note.axes is None else note.axes
            dims: tuple[_Dim, ...] = (None,) * len(like.dims)
        else:
            dims = tuple(self._dim(owner, each, kind, known) for each in note.shape)
            axes = (None,) * len(dims) if note.axes is None else tuple(note.axes)
            like = None
        if len(axes) != len(dims):
            raise InvalidArgumentError(f"{owner}: axes {axes} for {len(dims)} dims")
        init = getattr(note, "init", None)
        return Tensor(name, kind, dtype, like.name if like else None, dims, axes, init)

    def _dim(self, owner: str, dim: Any, kind: str, known: set[str]) -> _Dim:
        if dim is None:
            if kind == "out":
                raise InvalidArgumentError(f"{owner}: a result cannot have None in its shape")
            return None
        if isinstance(dim, str):
            return Expr(dim, dict.fromkeys(known), owner)
        if not isinstance(dim, int) or isinstance(dim, bool) or dim < 0:
            raise InvalidArgumentError(f"{owner}: {dim!r} is no extent, expression or None")
        return dim

    def _check_axes(self) -> None:
        for t in self.tensors.values():
            named = [axis for axis in t.axes if axis is not None]
            for axis in named:
                if axis not in self.cut:
                    raise InvalidArgumentError(
                        f"{self.name}: {t.name} has an axis '{axis}', cut has {list(self.cut)}"
                    )
            if len(set(named)) != len(named):
                raise InvalidArgumentError(f"{self.name}: {t.name} has an axis twice: {t.axes}")
        for axis, dim in self.cut.items():
            for t in self.tensors.values():
                if t.kind != "in" and axis not in t.axes:
                    raise InvalidArgumentError(
                        f"{self.name}: {t.name} is written but has no axis '{axis}': parts along it "
                        "would write the same elements"
                    )
            if not isinstance(dim, int) or dim < 0:
                raise InvalidArgumentError(
                    f"{self.name}: cut['{axis}'] is {dim!r}, no dim of points"
                )
        if len(set(self.cut.values())) != len(self.cut):
            raise InvalidArgumentError(f"{self.name}: cut has one dim of points twice: {self.cut}")

    # ---- of a call

    @property
    def points_rank(self) -> int:
        """Dims of the points, found with small shapes in the place of real ones."""
        values: dict[str, Any] = dict.fromkeys(self.scalars, 1)
        values |= {n: Shaped([1] * len(t.dims)) for n, t in self.tensors.items()}
        rank = len(self.points)
        if rank == 1:  # perhaps a shape; what divides by 1 - 1 is none
            with contextlib.suppress(InvalidArgumentError):
                rank = len(self._points(values))
        rank += self.vmapped
        for axis, dim in self.cut.items():
            if dim >= rank:
                raise InvalidArgumentError(
                    f"{self.name}: cut['{axis}'] is dim {dim} of points, which have {rank}"
                )
        return rank

    def _points(self, values: Mapping[str, Any]) -> list[Any]:
        found = [expr(values) for expr in self.points]
        if len(found) == 1 and isinstance(found[0], tuple):
            return list(found[0])
        for expr, value in zip(self.points, found, strict=True):
            if isinstance(value, (tuple, Shaped, float, bool)):
                raise InvalidArgumentError(f"{self.name}: points: {expr.text!r} is no integer")
        return found

    def call(self, arguments: Mapping[str, Any]) -> Call:
        """Check the arguments, by name, and find the rest.

        Raises:
            TypeError: a parameter with its dtype and the annotated one.
            ValueError: a parameter with its shape and what that has to be.
            RuntimeError: tensors on several devices.
        """
        values: dict[str, Any] = {n: arguments[n] for n in self.scalars}
        whole: dict[str, tuple[Any, ...]] = {}
        devices: dict[torch.device, str] = {}
        for t in self.inputs:
            found = arguments[t.name]
            if found.dtype != t.dtype:
                raise DtypeError(f"{self.name}: {t.name} is {found.dtype}, expected {t.dtype}")
            whole[t.name] = tuple(found.shape)
            values[t.name] = Shaped(found.shape[t.batched :])
            devices.setdefault(found.device, t.name)
        if len(devices) > 1:
            where = ", ".join(f"{name} on {device}" for device, name in devices.items())
            raise RuntimeError(
                f"{self.name}: Expected all tensors to be on the same device, but found {where}"
            )
        for t in self.inputs:
            self._check_shape(t, values)
        batch = [whole[t.name][0] for t in self.inputs if t.batched][:1]
        results = []
        for t in self.outs:
            shape = self._shape(t, values)
            values[t.name] = Shaped(shape)
            whole[t.name] = (*batch, *shape)
            results.append((t.dtype, whole[t.name]))
        points = [*batch, *self._points(values)]
        extents = {axis: points[dim] for axis, dim in self.cut.items()}
        for t in self.tensors.values():
            for d, axis in enumerate(t.axes):
                if axis is not None and whole[t.name][d] != extents[axis]:
                    raise InvalidArgumentError(
                        f"{self.name}: axis '{axis}' is dim {d} of {t.name}, with extent "
                        f"{whole[t.name][d]}, and {extents[axis]} in points"
                    )
        shapes = [n for t in self.tensors.values() for n in whole[t.name]]
        return Call(results, [*points, *shapes])

    def _wanted(self, t: Tensor, d: int, values: Mapping[str, Any]) -> Any:
        dim = t.dims[d]
        if isinstance(dim, Expr):
            dim = dim(values)
            if isinstance(dim, Shaped):
                if d >= dim.ndim:
                    raise InvalidArgumentError(f"{self.name}: {t.name}: dim {d} is of no such dim")
                dim = dim.shape[d]
        return dim

    def _check_shape(self, t: Tensor, values: Mapping[str, Any]) -> None:
        found = values[t.name].shape
        if t.like is not None:
            wanted = values[t.like].shape
            if found != wanted:
                raise InvalidArgumentError(
                    f"{self.name}: {t.name} has shape {found}, expected {wanted}, the shape of {t.like}"
                )
            return
        if len(found) != len(t.dims):
            raise InvalidArgumentError(
                f"{self.name}: {t.name} has shape {found}, expected {len(t.dims)} dims"
            )
        wanted = tuple(self._wanted(t, d, values) for d in range(len(found)))
        for have, want in zip(found, wanted, strict=True):
            if want is not None and have != want:
                shown = ", ".join("*" if w is None else str(w) for w in wanted)
                raise InvalidArgumentError(
                    f"{self.name}: {t.name} has shape {found}, expected ({shown})"
                )

    def _shape(self, t: Tensor, values: Mapping[str, Any]) -> tuple[Any, ...]:
        if t.like is not None:
            return tuple(values[t.like].shape)
        shape = tuple(self._wanted(t, d, values) for d in range(len(t.dims)))
        for n in shape:
            if not isinstance(n, (int, torch.SymInt)) or n < 0:
                raise InvalidArgumentError(f"{self.name}: {t.name} would have shape {shape}")
        return shape

    # ---- for the compiler and the recorder

    def operands(self) -> list[KernelArgument]:
        """As the compiled function gets them: see nntile_stub_register_kernel()."""
        changed = [t for t in self.inputs if t.kind == "mut"]
        read = [t for t in self.inputs if t.kind == "in"]
        first_out = len(changed) + len(read) + len(self.scalars)
        indices = {t.name: len(changed) + k for k, t in enumerate(read)}
        indices |= {n: len(changed) + len(read) + k for k, n in enumerate(self.scalars)}
        indices |= {t.name: first_out + k for k, t in enumerate([*changed, *self.outs])}
        found, at = [], self.points_rank
        for t in self.tensors.values():
            axes = tuple(-1 if axis is None else self.axis_numbers[axis] for axis in t.axes)
            dtype = str(t.dtype).removeprefix("torch.")
            found.append(
                KernelArgument(t.name, t.kind, indices[t.name], dtype, axes, at, t.init, t.batched)
            )
            at += len(axes)
        for n, number in self.scalars.items():
            found.append(
                KernelArgument(n, "scalar", indices[n], str(number).removeprefix("torch."))
            )
        return found

    def points_axes(self) -> list[int]:
        """Of each dim of the points, its axis or -1."""
        by_dim = {dim: self.axis_numbers[axis] for axis, dim in self.cut.items()}
        return [by_dim.get(d, -1) for d in range(self.points_rank)]

    def words(self, call: Call, address: int, signature: int) -> list[int]:
        """A call as the device wants it: see nntile_stub_register_kernel()."""
        changed = [t for t in self.inputs if t.kind == "mut"]
        read = [t for t in self.inputs if t.kind == "in"]
        axes = [
            -1 if axis is None else self.axis_numbers[axis]
            for t in [*changed, *read, *changed, *self.outs]
            for axis in t.axes
        ]
        words = [address, signature, len(call.numbers), *call.numbers, len(axes), *axes]
        for dtype, sizes in call.results:
            words += [_c.DTYPES[dtype], len(sizes), *sizes]
        return words

    def keyed(self) -> set[str]:
        """Numbers on which shapes depend."""
        exprs = [*self.points, *(d for t in self.tensors.values() for d in t.dims)]
        used = set().union(*(e.names for e in exprs if isinstance(e, Expr)))
        return used & set(self.scalars)
