# SPDX-License-Identifier: BSD-3-Clause
"""`@kernel`: a function in Python as an operator of PyTorch, compiled by Numba, run in tiles."""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import inspect
import re
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from torch_nntile import _c
from torch_nntile.errors import DtypeError, InvalidArgumentError, class_of
from torch_nntile.kernels.annotations import In, InMut, Out, Scalar, Unused
from torch_nntile.kernels.batches import register_vmap
from torch_nntile.kernels.calls import Rules
from torch_nntile.kernels.gradients import register_backward
from torch_nntile.kernels.source import build

__all__ = ["Kernel", "jit", "kernel"]

SPACE = "nntile_kernels"
_lock = threading.Lock()
_library: torch.library.Library | None = None
_names: set[str] = set()


def _new_name(function: Callable[..., Any]) -> str:
    """A name of an op that no kernel has: kernels of one name get a number."""
    base = re.sub(r"\W", "_", function.__name__)
    name, number = base, 1
    while name in _names:
        number += 1
        name = f"{base}_{number}"
    _names.add(name)
    return name


def _annotations(function: Callable[..., Any], scope: Mapping[str, Any]) -> dict[str, Any]:
    """Of each parameter in order; `from __future__ import annotations` makes them texts."""
    found: dict[str, Any] = {}
    name = function.__name__
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
            raise InvalidArgumentError(f"{name}: parameter {parameter.name} is not a plain one")
        note = parameter.annotation
        if note is parameter.empty:
            raise DtypeError(f"{name}: parameter {parameter.name} has no annotation")
        if isinstance(note, str):
            try:
                note = eval(note, dict(scope))
            except Exception as error:
                raise DtypeError(f"{name}: annotation of {parameter.name}: {error}") from error
        if isinstance(note, (In, InMut, Out, Scalar)) or note is Unused or isinstance(note, Unused):
            found[parameter.name] = note
            continue
        with contextlib.suppress(TypeError):
            found[parameter.name] = Scalar(note) if note in (float, int, bool) else None
        if found.get(parameter.name) is None:
            raise DtypeError(
                f"{name}: parameter {parameter.name} is annotated by {note!r}, expected In, InMut, "
                "Out, Scalar, Unused, float, int or bool"
            )
    return found


class Kernel:
    """An operator made from a function. Call it like a function; `op` is the operator in torch.ops.

    backward: set it once, to another kernel or to a function that computes the gradients. Its
    parameters are matched by name: parameters and results of this kernel, and `grad_` with the name
    of a result. A kernel names its results `grad_` with the name of an input. A function returns one
    tensor, or None, for each floating `In`, in order.
    """

    def __init__(
        self, function: Callable[..., Any], notes: Mapping[str, Any], points: Sequence[str],
        cut: Mapping[str, int], debug: bool, batched: frozenset[str] | None = None,
    ) -> None:  # fmt: skip
        functools.update_wrapper(self, function)
        self.__qualname__: str = function.__qualname__
        self.name = function.__name__
        self._made_from = (function, notes, points, cut, debug)
        self._scope = {**function.__globals__, **inspect.getclosurevars(function).nonlocals}
        self.rules = Rules(self.name, notes, points, cut, batched)
        self._scope |= dict.fromkeys(self.rules.unused)
        self._function, self._debug = function, debug
        self._program = build(
            function, self._scope, self.rules.operands(), self.rules.points_axes(), debug
        )
        self._arguments = [
            n for n in self.rules.order
            if n in self.rules.scalars or any(t.name == n for t in self.rules.inputs)
        ]  # fmt: skip
        self._address: int | None = None
        digest = hashlib.sha256(self._source_key().encode()).digest()
        self._signature = int.from_bytes(digest[:7], "big")
        self._seen = self._fingerprint(self._scope)
        self._backward: Any = None
        self._register()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self.op(*args, **kwargs)
        except RuntimeError:
            self._check_arguments(args, kwargs)
            raise

    def _check_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raise TypeError, with the parameter, for a call that the dispatcher has refused."""
        call = f"{self.name}()"
        if len(args) > len(self._arguments):
            raise DtypeError(f"{call}: too many arguments, it takes {len(self._arguments)}")
        named = {**dict(zip(self._arguments, args, strict=False)), **kwargs}
        for name in named:
            if name not in self._arguments:
                raise DtypeError(f"{call}: unexpected argument '{name}'")
        for name in self._arguments:
            if name not in named:
                raise DtypeError(f"{call}: missing argument '{name}'")
            dtype = self.rules.scalars.get(name)
            found = type(named[name]).__name__
            if dtype is None and not isinstance(named[name], torch.Tensor):
                raise DtypeError(f"{call}: {name} is {found}, expected a tensor")
            kinds = (int, float) if dtype is not None and dtype.is_floating_point else int
            if dtype is not None and not isinstance(named[name], kinds):
                wanted = "bool" if dtype is torch.bool else "float" if kinds is not int else "int"
                raise DtypeError(f"{call}: {name} is {found}, expected {wanted}")

    def __repr__(self) -> str:
        return f"<kernel {self._schema}>"

    def __reduce__(self) -> str:
        """As functions, it is copied and pickled by its name: models with kernels are copied."""
        return self.__qualname__

    @property
    def backward(self) -> Any:
        return self._backward

    @backward.setter
    def backward(self, backward: Any) -> None:
        if self._backward is not None:
            raise InvalidArgumentError(f"{self.name}: its backward is set already")
        assert _library is not None
        register_backward(self, backward, _library)
        self._backward = backward

    def with_batch(self, batched: frozenset[str]) -> Kernel:
        """The kernel for a batch: these inputs and all that is written have one dim more, the first.

        Raises:
            ValueError: the function uses such a tensor otherwise than by its elements.
        """
        return Kernel(*self._made_from, batched)

    # ---- compiling

    def loops(self) -> str:
        """The loops that Numba compiles, as text."""
        return ast.unparse(self._program.tree)

    @property
    def address(self) -> int:
        """Of the compiled function."""
        with _lock:
            if self._address is None:
                self._address = self._compiled()
        return self._address

    def _compiled(self) -> int:
        from torch_nntile.kernels.compiled import compile_program

        names = self._function.__globals__  # that were defined after the kernel
        later = {name: value for name, value in names.items() if name not in self._scope}
        seen = (self._seen, self._fingerprint(later))
        key = None if None in seen else f"{seen} {self._source_key()}"
        return compile_program(self.name, self._program, {**later, **self._scope}, key)

    def _fingerprint(self, scope: Mapping[str, Any]) -> str | None:
        """A text of what the function sees of a scope; None: there is no exact one."""
        from torch_nntile.kernels.compiled import fingerprint

        try:
            return fingerprint(self._function, scope, set())
        except (TypeError, OSError):
            return None

    def _source_key(self) -> str:
        return f"{ast.dump(self._program.tree)} {self._program.texts}"

    # ---- the operator

    def _register(self) -> None:
        global _library
        with _lock:
            if _library is None:
                _library = torch.library.Library(SPACE, "DEF")
            op = _new_name(self._function)
        library, rules = _library, self.rules
        arguments: list[str] = []
        for name in self._arguments:
            if name in rules.scalars:
                dtype = rules.scalars[name]
                kind = (
                    "float"
                    if dtype.is_floating_point
                    else "bool"
                    if dtype is torch.bool
                    else "SymInt"
                )
            else:
                mutable = rules.tensors[name].kind == "mut"
                kind = (
                    f"Tensor({'abcdefghijklmnopqrstuvwxyz'[len(arguments) % 26]}!)"
                    if mutable
                    else "Tensor"
                )
            arguments.append(f"{kind} {name}")
        left = ", ".join(arguments)
        right = ["Tensor"] * len(rules.outs)
        result = right[0] if len(right) == 1 else f"({', '.join(right)})"
        self._schema = f"{op}({left}) -> {result}"
        self.qualified = f"{SPACE}::{op}"
        library.define(self._schema, tags=(torch.Tag.pt2_compliant_tag,))
        library.define(f"{op}.plan({left}) -> int[]")
        library.impl(f"{op}.plan", self._plan, "CompositeExplicitAutograd")
        library.impl(op, self._on_cpu, "CPU")
        torch.library.register_fake(self.qualified, self._fake, lib=library)
        self.op = getattr(getattr(torch.ops, SPACE), op).default
        keyed = sum(1 << k for k, name in enumerate(self._arguments) if name in rules.keyed())
        _c.call("nntile_stub_register_kernel", self.qualified.encode(), keyed)
        if not rules.vmapped:
            register_vmap(self, library)
        if any(t.kind == "mut" for t in rules.inputs):
            library.impl(op, self._count_versions, "ADInplaceOrView", with_keyset=True)

    def _named(self, arguments: Sequence[Any]) -> dict[str, Any]:
        return dict(zip(self._arguments, arguments, strict=True))

    def _plan(self, *arguments: Any) -> list[int]:
        call = self.rules.call(self._named(arguments))
        return self.rules.words(call, self.address, self._signature)

    def _results(self, made: list[torch.Tensor]) -> Any:
        return made[0] if len(made) == 1 else tuple(made)

    def _fake(self, *arguments: Any) -> Any:
        call = self.rules.call(self._named(arguments))
        device = next((a.device for a in arguments if isinstance(a, torch.Tensor)), None)
        return self._results(
            [torch.empty(sizes, dtype=dtype, device=device) for dtype, sizes in call.results]
        )

    def _count_versions(self, keys: Any, *arguments: Any) -> Any:
        named = self._named(arguments)
        torch.autograd.graph.increment_version(
            [named[t.name] for t in self.rules.inputs if t.kind == "mut"]
        )
        with torch._C._AutoDispatchBelowADInplaceOrView():
            return self.op.redispatch(keys & torch._C._after_ADInplaceOrView_keyset, *arguments)

    def _on_cpu(self, *arguments: Any) -> Any:
        """The same function on whole tensors."""
        named, rules = self._named(arguments), self.rules
        call = rules.call(named)
        results = [torch.empty(sizes, dtype=dtype) for dtype, sizes in call.results]
        named |= {t.name: made for t, made in zip(rules.outs, results, strict=True)}
        operands = rules.operands()
        data = [0] * (1 + max(o.index for o in operands))
        kept: list[Any] = []
        for o in operands:
            value = named[o.name]
            if o.kind == "scalar":
                wide = torch.float64 if o.dtype.startswith("float") else torch.int64
                value = torch.tensor(value, dtype=wide)
            kept.append(value.contiguous().resolve_neg())
            data[o.index] = kept[-1].data_ptr()
        extents = [call.numbers[d] for d in rules.cut.values()]
        status, text = _c.run_kernel(self.address, call.numbers, extents, data)
        if status:
            raise class_of(status)(f"{self.name}: {text or 'the kernel failed'}")
        for o, value in zip(operands, kept, strict=True):
            if o.kind == "mut" and value is not named[o.name]:
                named[o.name].copy_(value)
        return self._results(results)


def _points_of(points: Any, n_threads: Any) -> list[str]:
    if (points is None) == (n_threads is None):
        raise InvalidArgumentError("kernel: give one of points and n_threads")
    given = n_threads if points is None else points
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, (tuple, list)) or not all(isinstance(text, str) for text in texts):
        raise InvalidArgumentError(f"kernel: points and n_threads are expressions, not {given!r}")
    if points is None and len(texts) > 3:
        raise InvalidArgumentError(f"kernel: n_threads has {len(texts)} dims, at most 3")
    return list(texts) if points is not None else list(texts)[::-1]


def kernel(
    function: None = None,
    /,
    *,
    points: str | Sequence[str] | None = None,
    n_threads: str | Sequence[str] | None = None,
    cut: Mapping[str, int] | None = None,
    debug: bool = False,
) -> Callable[[Callable[..., None]], Kernel]:
    """Make an operator from a function that computes one point of its results.

    Numba compiles the function at its first call and keeps the result on disk. Annotate each
    parameter with `In`, `InMut`, `Out`, `Scalar` or `Unused`. The operator takes the inputs and
    numbers in order and returns the `Out`s. In the function, `index()` returns the point.

    Args:
        points: the points to compute: "a.shape" of a tensor parameter, or an expression for each
            dim.
        n_threads: the same as in Numba-CUDA, instead of `points`: one to three expressions in the
            order x, y, z, for `cuda.grid()`. The kernel computes exactly these points.
        cut: axes along which the device may cut the call into tiles: a name, and its dim of points.
            Every tensor that the kernel writes must have all these axes in its `axes`. Only points
            with index i along an axis may use an element with index i.
        debug: check each index of a tensor; a wrong one raises an IndexError with the line.

    Raises:
        ImportError: Numba is not installed.
        TypeError, ValueError: an annotation or the function is not valid. The message has the name
            and the line.
    """
    if function is not None:
        raise DtypeError(
            "kernel: it must know which points are computed: write @kernel(points=...) or "
            "@kernel(n_threads=...)"
        )
    return _decorator(_points_of(points, n_threads), dict(cut or {}), debug)


def jit(
    *,
    n_threads: str | Sequence[str],
    to_extension: bool = False,
    cache_id: str | None = None,
    verbose: bool = False,
    threads_per_block: int | Sequence[int] | None = None,
    max_registers: int | None = None,
) -> Callable[[Callable[..., None]], Kernel]:
    """`kernel(n_threads=...)` under the name and with the options of `pytorch_numba_extension_jit`.

    Args:
        n_threads: as for `kernel`.
        to_extension, cache_id: have no effect. Numba compiles every kernel and keeps it on disk.
        verbose: print the loops that Numba compiles.
        threads_per_block, max_registers: have no effect. They are for GPUs.

    Raises:
        The errors of `kernel`. Kernels have no shared memory, blocks or atomics: the error says what
        to write instead.
    """
    return _decorator(_points_of(None, n_threads), {}, False, verbose)


def _decorator(
    texts: list[str], cut: dict[str, int], debug: bool, verbose: bool = False
) -> Callable[[Callable[..., None]], Kernel]:
    try:
        import numba  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "kernels in Python are compiled by Numba: pip install 'torch_nntile[kernels]'"
        ) from error

    def decorate(function: Callable[..., None]) -> Kernel:
        # Annotations may use local names of the caller, of which there are no cells.
        names = {**function.__globals__, **sys._getframe(1).f_locals}
        names |= inspect.getclosurevars(function).nonlocals
        made = Kernel(function, _annotations(function, names), texts, cut, debug)
        if verbose:
            print(made.loops())
        return made

    return decorate
