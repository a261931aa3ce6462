# SPDX-License-Identifier: BSD-3-Clause
"""A kernel's source as three functions: one point of it, the loops over a part, the C entry.

A task sees blocks. In a tensor that may be cut, the user's indices are global, so the start of the
part is taken off each of them; `.shape` is that of the whole tensor. All nodes keep the user's
lines, so that errors of the compiler are at his line.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch_nntile.errors import InvalidArgumentError

__all__ = ["KernelArgument", "Program", "build", "cuda", "index"]


def index() -> Any:
    """Return, inside a kernel, the current point: one integer, or one for each dim of `points`."""
    raise RuntimeError("index() is of kernels: call it inside of one")


class cuda:  # noqa: N801
    """For kernels in the style of Numba-CUDA: `cuda.grid(ndim)` returns (x, y, z) of `n_threads`."""

    @staticmethod
    def grid(ndim: int) -> Any:
        """Return, inside a kernel, the thread: an integer, or a tuple of ndim integers."""
        raise RuntimeError("cuda.grid() is of kernels: call it inside of one")


@dataclass
class KernelArgument:
    """A parameter as the compiled function gets it. kind: "in", "mut", "out", "scalar"."""

    name: str
    kind: str
    index: int  # in `data`
    dtype: str  # of numpy
    axes: tuple[int, ...] = ()  # of each dim, or -1
    sizes: int = 0  # where its shape begins in `numbers`
    init: float | None = None
    batched: bool = False  # its first dim is not the user's: point 0 is the place in it

    @property
    def is_cut(self) -> bool:
        return any(axis >= 0 for axis in self.axes)


@dataclass
class Program:
    """Three functions as a module, and what they say when they fail."""

    tree: ast.Module
    file: str
    line: int  # of the user's function
    texts: list[tuple[int, str]] = field(default_factory=list)  # status, text


def _is(node: ast.expr, wanted: Any, scope: dict[str, Any]) -> bool:
    """Whether a name or a chain of attributes is that object."""
    if isinstance(node, ast.Name):
        return scope.get(node.id) is wanted
    if not isinstance(node, ast.Attribute):
        return False
    first, *names = ast.unparse(node).split(".")
    return functools.reduce(lambda o, n: getattr(o, n, None), names, scope.get(first)) is wanted


def _no_cuda(words: list[str]) -> str:
    """What to write for a name of Numba-CUDA that is not cuda.grid."""
    if "atomic" in words:
        return "the points of a task run one after another, so write a[i] += value"
    return "there are no blocks of threads and no shared memory, each point computes by itself"


class _Point(ast.NodeTransformer):
    """The user's function as a function of one point."""

    def __init__(self, build: _Build) -> None:
        self.build = build
        self.cut = {o.name: o for o in build.operands if o.is_cut}
        self.arrays = {o.name: o for o in build.operands if o.kind != "scalar"}

    def refuse(self, node: Any, what: str) -> InvalidArgumentError:
        return InvalidArgumentError(f"{self.build.place(node)}: {self.build.name}: {what}")

    def visit_Call(self, node: ast.Call) -> ast.AST:
        scope, first = self.build.scope, self.build.first
        n = self.build.n_points - first
        grid = _is(node.func, cuda.grid, scope) or (
            isinstance(node.func, ast.Attribute) and ast.unparse(node.func) == "cuda.grid"
        )
        if grid or _is(node.func, index, scope):
            points: list[ast.expr] = [ast.Name(f"_nt_i{first + d}", ast.Load()) for d in range(n)]
            if grid:
                points.reverse()
                if [ast.unparse(argument) for argument in node.args] != [str(n)]:
                    raise self.refuse(node, f"cuda.grid() has to be cuda.grid({n}) here")
            result = points[0] if n == 1 else ast.Tuple(points, ast.Load())
            return ast.copy_location(result, node)
        if isinstance(node.func, ast.Name) and node.func.id == "len" and len(node.args) == 1:
            owner = node.args[0]
            if isinstance(owner, ast.Name) and owner.id in self.cut:
                return ast.copy_location(self.code(f"_nt_shape_{owner.id}[0]"), node)
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        words = ast.unparse(node).split(".")
        if (words[0] == "cuda" and "cuda" not in self.arrays) or words[:2] == ["numba", "cuda"]:
            raise self.refuse(node, f"kernels have no {'.'.join(words)}: {_no_cuda(words)}")
        if isinstance(node.value, ast.Name) and node.value.id in self.cut:
            name = node.value.id
            shape = f"_nt_shape_{name}"
            ndim = len(self.cut[name].axes) - self.cut[name].batched
            known = {"shape": shape, "ndim": str(ndim)}
            known["size"] = " * ".join(f"{shape}[{d}]" for d in range(ndim))
            if node.attr not in known:
                raise self.refuse(node, self.only(name))
            return ast.copy_location(self.code(f"({known[node.attr]})"), node)
        return self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        owner = node.value
        if not isinstance(owner, ast.Name) or owner.id not in self.arrays:
            return self.generic_visit(node)
        o = self.arrays[owner.id]
        place = self.visit(node.slice)
        dims = list(place.elts) if isinstance(place, ast.Tuple) else [place]
        if o.is_cut and any(axis >= 0 for axis in o.axes[len(dims) + o.batched :]):
            raise self.refuse(node, f"'{o.name}' may be cut: index all of its dims")
        if o.is_cut or self.build.debug:
            plain = len(dims) + o.batched <= len(o.axes) and not any(
                isinstance(d, (ast.Slice, ast.Starred)) or getattr(d, "value", 0) in (None, ...)
                for d in dims
            )
            if o.is_cut and not plain:
                raise self.refuse(
                    node, f"'{o.name}' may be cut: index it by integers, one for each dim"
                )
            if plain:
                dims = [self.index_of(o, d, at) for d, at in enumerate(dims)]
        if o.batched:
            dims.insert(0, self.code(f"_nt_i0 - _nt_s{o.axes[0]}"))
        tuple_ = o.batched or isinstance(place, ast.Tuple)
        new = ast.Tuple(dims, ast.Load()) if tuple_ else dims[0]
        node.slice = ast.copy_location(new, node)
        return node

    def index_of(self, o: KernelArgument, d: int, at: ast.expr) -> ast.expr:
        axis = o.axes[d + o.batched]
        start = f"_nt_s{axis}" if axis >= 0 else "0"
        if axis >= 0 and isinstance(at, ast.UnaryOp) and isinstance(at.op, ast.USub):
            raise self.refuse(at, f"'{o.name}' may be cut along dim {d}: no index below zero there")
        if self.build.debug:
            text = f"index \1 is out of range [\1, \1) in dim {d} of '{o.name}'"
            code = self.build.text(8, f"{text} ({self.build.short_place(at)})")
            call = f"_nt_at(0, {start}, {o.name}.shape[{d + o.batched}], {axis >= 0}, {code}, _nt_error)"
            checked = self.code(call)
            assert isinstance(checked, ast.Call)
            checked.args[0] = at
            return ast.copy_location(checked, at)
        if axis < 0:
            return at
        return ast.copy_location(ast.BinOp(at, ast.Sub(), self.code(start)), at)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self.arrays and not isinstance(node.ctx, ast.Load):
            raise self.refuse(node, f"'{node.id}' is a parameter: write into its elements")
        if node.id in self.cut:
            raise self.refuse(node, self.only(node.id))
        return node

    def only(self, name: str) -> str:
        return (
            f"'{name}' may be cut: it is there as {name}[..], {name}.shape, .ndim, .size and len()"
        )

    def visit_Return(self, node: ast.Return) -> ast.AST:
        if node.value is not None:
            raise self.refuse(node, "a kernel returns nothing: write into its Out parameters")
        return node

    def visit_Raise(self, node: ast.Raise) -> list[ast.stmt]:
        what = "an exception" if node.exc is None else ast.unparse(node.exc)
        if isinstance(node.exc, ast.Call) and len(node.exc.args) == 1:
            value = getattr(node.exc.args[0], "value", None)
            what = value if isinstance(value, str) else what
        code = self.build.text(6, f"{what[:80]} ({self.build.short_place(node)})")
        says = ast.parse(f"_nt_say({code}, 0, 0, 0, _nt_error)").body
        return [ast.copy_location(says[0], node), node]

    def code(self, text: str) -> ast.expr:
        return ast.parse(text, mode="eval").body


class _Build:
    def __init__(
        self, function: Callable[..., Any], scope: dict[str, Any], operands: list[KernelArgument],
        n_points: int, debug: bool,
    ) -> None:  # fmt: skip
        self.name, self.scope, self.operands = function.__name__, scope, operands
        self.n_points, self.debug = n_points, debug
        self.first = int(any(o.batched for o in operands))  # of the user's points
        self.file = inspect.getsourcefile(function) or "?"
        try:
            lines, first = inspect.getsourcelines(function)
        except (OSError, TypeError):
            raise InvalidArgumentError(
                f"{self.name}: its source is not found: define kernels in a file or a notebook"
            ) from None
        tree = ast.parse(textwrap.dedent("".join(lines)))
        ast.increment_lineno(tree, first - 1)
        body = tree.body[0]
        if not isinstance(body, ast.FunctionDef):
            raise InvalidArgumentError(f"{self.name}: a kernel is a function made by def")
        self.user = body
        self.texts: list[tuple[int, str]] = []

    def place(self, node: Any) -> str:
        return f"{self.file}:{node.lineno}"

    def short_place(self, node: Any) -> str:
        """For texts of tasks, which have 255 bytes."""
        most = 100
        file = self.file if len(self.file) <= most else f"..{self.file[2 - most :]}"
        return f"{file}:{node.lineno}"

    def text(self, status: int, text: str) -> int:
        self.texts.append((status, text))
        return len(self.texts) - 1

    def program(self, points_axes: list[int]) -> Program:
        axes = sorted({a for o in self.operands for a in o.axes if a >= 0})
        cut = [o for o in self.operands if o.is_cut]
        names = [f"_nt_i{d}" for d in range(self.n_points)] + [f"_nt_s{a}" for a in axes]
        names += [f"_nt_shape_{o.name}" for o in cut] + [o.name for o in self.operands]
        visitor = _Point(self)
        statements: list[ast.stmt] = []
        for statement in self.user.body:
            new = visitor.visit(statement)
            statements += new if isinstance(new, list) else [new]
        point = ast.parse(f"def _nt_point({', '.join([*names, '_nt_error'])}): pass").body[0]
        assert isinstance(point, ast.FunctionDef)
        point.body = statements
        loops = ast.parse("\n".join(self.loops(points_axes, axes, cut))).body
        for top in loops:
            for node in ast.walk(top):
                if isinstance(node, (ast.stmt, ast.expr, ast.arg, ast.excepthandler)):
                    node.lineno = node.end_lineno = self.user.lineno
        point.lineno = point.end_lineno = self.user.lineno
        for node in ast.walk(point):  # nodes that were made from texts stand at line 1
            for child in ast.iter_child_nodes(node):
                if getattr(child, "lineno", self.user.lineno) < self.user.lineno:
                    ast.copy_location(child, node)
        module = ast.fix_missing_locations(ast.Module([point, *loops], []))
        return Program(module, self.file, self.user.lineno, self.texts)

    def loops(
        self, points_axes: list[int], axes: list[int], cut: list[KernelArgument]
    ) -> list[str]:
        lines = ["def _nt_loops(_nt_numbers, _nt_starts, _nt_sizes, _nt_data, _nt_error):"]
        for a in axes:
            lines.append(f" _nt_s{a} = _nt_starts[{a}]")
        for o in self.operands:
            if o.kind == "scalar":
                wide = "_nt_float64" if o.dtype.startswith("float") else "_nt_int64"
                value = f"_nt_carray(_nt_data[{o.index}], (1,), {wide})[0]"
                lines.append(f" {o.name} = _nt_{o.dtype}({value})")
                continue
            own = [
                f"_nt_sizes[{axis}]" if axis >= 0 else f"_nt_numbers[{o.sizes + d}]"
                for d, axis in enumerate(o.axes)
            ]
            whole = [f"_nt_numbers[{o.sizes + d}]" for d in range(len(o.axes))]
            shape = f"({''.join(size + ', ' for size in own)})"
            lines.append(f" {o.name} = _nt_carray(_nt_data[{o.index}], {shape}, _nt_{o.dtype})")
            if o.is_cut:
                lines.append(
                    f" _nt_shape_{o.name} = ({''.join(size + ', ' for size in whole[o.batched :])})"
                )
            if o.init is not None:
                lines.append(f" {o.name}[{':' if o.axes else '()'}] = {o.init!r}")
        points = []
        for d, axis in enumerate(points_axes):
            many = f"_nt_sizes[{axis}]" if axis >= 0 else f"_nt_numbers[{d}]"
            lines.append(" " * (d + 1) + f"for _nt_i{d} in range({many}):")
            points.append(f"_nt_i{d} + _nt_s{axis}" if axis >= 0 else f"_nt_i{d}")
        arguments = [*points, *(f"_nt_s{a}" for a in axes), *(f"_nt_shape_{o.name}" for o in cut)]
        arguments += [*(o.name for o in self.operands), "_nt_error"]
        lines.append(" " * (len(points_axes) + 1) + f"_nt_point({', '.join(arguments)})")
        return [
            *lines,
            "def _nt_entry(_nt_numbers, _nt_starts, _nt_sizes, _nt_data, _nt_error):",
            " try:",
            "  _nt_loops(_nt_numbers, _nt_starts, _nt_sizes, _nt_data, _nt_error)",
            " except Exception:",
            "  return _nt_failed(_nt_error)",
            " return 0",
        ]


def build(
    function: Callable[..., Any], scope: dict[str, Any], operands: list[KernelArgument],
    points_axes: list[int], debug: bool,
) -> Program:  # fmt: skip
    """The functions of a kernel. points_axes: of each dim of `points`, its axis or -1.

    Raises:
        ValueError: what a kernel cannot do, at its line.
    """
    return _Build(function, scope, operands, len(points_axes), debug).program(points_axes)
