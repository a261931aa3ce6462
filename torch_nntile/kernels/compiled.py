# SPDX-License-Identifier: BSD-3-Clause
"""The functions of a kernel through Numba to a C pointer. The only module that imports Numba."""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np

from torch_nntile.errors import InvalidArgumentError
from torch_nntile.kernels.source import Program

__all__ = ["KernelCompileError", "compile_program", "fingerprint"]

numba: Any = importlib.import_module("numba")  # it may be missing where types are checked
carray, types = numba.carray, numba.types
_WORDS = types.CPointer(types.int64)
_SIGNATURE = types.int32(
    _WORDS, _WORDS, _WORDS, types.CPointer(types.voidptr), types.CPointer(types.uint8)
)
_TEXT_BYTES, _STATUS = 250, 255  # of the text; where the status is until it is returned
_alive: list[Any] = []  # a task may run a kernel that Python has dropped


class KernelCompileError(InvalidArgumentError, TypeError):
    """Numba does not compile a kernel; the text begins with the user's line."""


_OPTIONS = {"error_model": "numpy", "boundscheck": False}


def _jit(function: Callable[..., Any]) -> Any:
    return numba.njit(**_OPTIONS)(function)


@_jit
def _put_number(buffer: Any, at: int, value: int) -> int:
    if value < 0:
        buffer[at] = 45
        at += 1
    digits = 1
    rest = abs(value)
    while rest >= 10:
        digits += 1
        rest //= 10
    rest = abs(value)
    for k in range(digits):
        buffer[at + digits - 1 - k] = 48 + rest % 10
        rest //= 10
    return at + digits


@_jit
def _write(texts: Any, first: int, status: int, a: int, b: int, c: int, error: Any) -> None:
    """Text `texts[first:]` up to 0; bytes 1 in it are the next number."""
    buffer = carray(error, (256,), np.uint8)
    at, k, number = 0, first, 0
    while texts[k] != 0 and at < _TEXT_BYTES - 25:
        if texts[k] == 1:
            at = _put_number(buffer, at, a if number == 0 else b if number == 1 else c)
            number += 1
        else:
            buffer[at] = texts[k]
            at += 1
        k += 1
    buffer[at] = 0
    buffer[_STATUS] = status


@_jit
def _failed(error: Any) -> int:
    buffer = carray(error, (256,), np.uint8)
    status = buffer[_STATUS]
    buffer[_STATUS] = 0
    return 6 if status == 0 else status


def _sayers(program: Program) -> dict[str, Any]:
    """What the functions call to say that they fail, with the program's texts in it."""
    encoded = [text.encode()[: _TEXT_BYTES - 60] + b"\0" for _, text in program.texts]
    texts = np.frombuffer(b"".join(encoded) or b"\0", np.uint8).copy()
    starts = np.array(np.cumsum([0, *map(len, encoded)]), np.int64)
    statuses = np.array([status for status, _ in program.texts] or [0], np.int64)

    @_jit
    def say(code, a, b, c, error):  # type: ignore[no-untyped-def]
        _write(texts, starts[code], statuses[code], a, b, c, error)

    @_jit
    def at(i, start, size, cut, code, error):  # type: ignore[no-untyped-def]
        """Place of index i in a block; a whole dim counts from its end below zero."""
        place = i - start
        if place < 0 and not cut:
            place += size
        if place < 0 or place >= size:
            say(code, i, start, start + size, error)
            raise IndexError
        return place

    return {"_nt_say": say, "_nt_at": at, "_nt_failed": _failed, "_nt_carray": carray}


def _constant(value: Any, seen: set[int]) -> str:
    """A text of what a function sees by a global name; raises TypeError where none is exact."""
    if isinstance(value, (bool, int, float, str, bytes, type(None), type, np.dtype, np.generic)):
        return repr(value)
    if isinstance(value, tuple):
        return f"({', '.join(_constant(each, seen) for each in value)})"
    if isinstance(value, np.ndarray):
        return f"array {value.dtype} {value.shape} {value.tobytes().hex()}"
    if inspect.ismodule(value) or inspect.isbuiltin(value) or isinstance(value, np.ufunc):
        return str(getattr(value, "__name__", value))
    function = getattr(value, "py_func", value)
    if not inspect.isfunction(function):
        raise TypeError(type(value).__name__)
    if id(function) in seen:
        return function.__name__
    seen.add(id(function))
    cells = inspect.getclosurevars(function).nonlocals
    return inspect.getsource(function) + fingerprint(
        function, {**function.__globals__, **cells}, seen
    )


def _names_in(code: CodeType) -> set[str]:
    inner = [_names_in(const) for const in code.co_consts if isinstance(const, CodeType)]
    return {*code.co_names, *code.co_freevars}.union(*inner)


def fingerprint(function: Callable[..., Any], scope: Mapping[str, Any], seen: set[int]) -> str:
    """A text of all that a function sees of a scope. seen: functions that are in it already.

    Raises:
        TypeError, OSError: something has no exact text.
    """
    names = sorted(_names_in(function.__code__) & scope.keys())
    return "\n".join(f"{name} = {_constant(scope[name], seen)}" for name in names)


def _line_of(program: Program, text: str) -> int:
    """The user's line that an error of Numba means: the innermost one that it names."""
    file = re.escape(Path(program.file).name)
    for line in map(int, re.findall(rf'{file}(?:", line | \()(\d+)', text)):
        if line != program.line:
            return line
    name = re.search(r"name '(\w+)' is not defined", text)
    for node in ast.walk(program.tree):
        if name and isinstance(node, ast.Name) and node.id == name[1]:
            return node.lineno
    return program.line


def _error_of(name: str, program: Program, error: Exception) -> KernelCompileError:
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    lines = [line.strip() for line in text.splitlines()]
    skip = ("Failed in", "During:", "File ", "<source elided>")
    said = [line for line in lines if line and not line.startswith(skip)][:1]
    said += [line.removeprefix(">>> ") for line in lines if line.startswith(">>> ")][:1]
    place = f"{program.file}:{_line_of(program, text)}"
    return KernelCompileError(
        f"{place}: {name}: Numba does not compile it: {' '.join(said)}\n\n{text}"
    )


def compile_program(name: str, program: Program, scope: dict[str, Any], key: str | None) -> int:
    """The address of an nntile_stub_kernel. key: of all that the code depends
    on; None: it is not kept on disk.

    Raises:
        KernelCompileError: with the user's line.
    """
    ours = Path(__file__).read_bytes()  # what the functions call
    digest = hashlib.sha256(f"{numba.__version__} {key}".encode() + ours).hexdigest()[:20]
    scope = {**scope, **_sayers(program)}
    dtypes = ("float32", "float64", "int64", "int32", "int16", "int8", "uint8")
    scope |= {f"_nt_{d}": getattr(np, d) for d in dtypes} | {"_nt_bool": np.bool_}
    exec(compile(program.tree, program.file, "exec"), scope)
    try:
        for inner in ("_nt_point", "_nt_loops"):
            scope[inner] = _jit(scope[inner])
        entry = scope["_nt_entry"]
        # Numba finds what it keeps by this name.
        entry.__qualname__ = entry.__name__ = f"{name}_{digest}"
        made: Any = None
        if key is not None:
            try:
                made = numba.cfunc(_SIGNATURE, cache=True, **_OPTIONS)(entry)
            except RuntimeError as error:  # there is no place for it
                if "cannot cache" not in str(error):
                    raise
        made = made or numba.cfunc(_SIGNATURE, **_OPTIONS)(entry)
    except numba.core.errors.NumbaError as error:
        raise _error_of(name, program, error) from None
    _alive.append(made)
    return int(made.address)
