# SPDX-License-Identifier: BSD-3-Clause
"""What is refused in kernels, and that it is said where: parameter, shapes, dtypes, line."""

from __future__ import annotations

import inspect
import linecache
import os
import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from torch_nntile import In, InMut, Out, Scalar, Unused, index, kernel
from torch_nntile.kernels import jit

pytest.importorskip("numba")


def line_of(function: Any, text: str) -> int:
    """Line of the test file where `text` stands in a function."""
    lines, first = inspect.getsourcelines(function)
    return first + next(k for k, line in enumerate(lines) if text in line)


@kernel(points="a.shape", cut={"batch": 0})
def product(
    a: In("f32", (None, 3), axes=("batch", None)),
    b: In("f32", ("a", "a.size(1) + 1"), axes=("batch", None)),
    n: Scalar(int),
    y: Out("f32", "a"),
):
    i, j = index()
    y[i, j] = a[i, j] * b[i, j + 1] + n


A, B = torch.ones(2, 3), torch.ones(2, 4)


@pytest.mark.parametrize("device", ["cpu", "nntile"])
@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ((A.double(), B, 1), TypeError, "product: a is torch.float64, expected torch.float32"),
        ((A[0], B, 1), ValueError, r"product: a has shape \(3,\), expected 2 dims"),
        ((B, B, 1), ValueError, r"product: a has shape \(2, 4\), expected \(\*, 3\)"),
        ((A, A, 1), ValueError, r"product: b has shape \(2, 3\), expected \(2, 4\)"),
        ((A, B[:1], 1), ValueError, r"product: b has shape \(1, 4\), expected \(2, 4\)"),
        ((A, B), TypeError, r"product\(\): missing.*'n'"),
        ((A, B, 1, 2), TypeError, r"product\(\): too many"),
        ((A, 2.0, 1), TypeError, r"product\(\): b is float, expected a tensor"),
        ((A, B, 1.5), TypeError, r"product\(\): n is float, expected int"),
        ((A, B, "x"), TypeError, r"product\(\): n is str, expected int"),
    ],
)
def test_arguments(device: str, arguments: Any, error: type[Exception], said: str) -> None:
    assert product(A.to(device), B.to(device), 1).cpu().equal(torch.full((2, 3), 2.0))
    moved = [a.to(device) if isinstance(a, torch.Tensor) else a for a in arguments]
    with pytest.raises(error, match=said):
        product(*moved)


def test_unknown_argument() -> None:
    with pytest.raises(TypeError, match=r"product\(\): unexpected.*'c'"):
        product(A, b=B, n=1, c=3)


def test_a_compiled_call_is_refused_too() -> None:
    compiled = torch.compile(lambda a, b: product(a, b, 1), backend="eager")
    with pytest.raises(Exception, match=r"product: b has shape .*, expected"):
        compiled(A, A)


def test_devices() -> None:
    with pytest.raises(
        RuntimeError, match="product: Expected all tensors to be on the same device"
    ):
        product(A.to("nntile"), B, 1)


# ---- annotations and the decorator


def made(function: Callable[..., None], **options: Any) -> Any:
    return kernel(**{"points": "a.shape", **options})(function)


def plain(a, y):  # type: ignore[no-untyped-def]
    y[index()] = a[index()]


def annotated(**notes: Any) -> Callable[..., None]:
    def plain(a, y):  # type: ignore[no-untyped-def]
        y[index()] = a[index()]

    plain.__annotations__ = {"a": In("f32", (None,)), "y": Out("f32", "a"), **notes}
    return plain


@pytest.mark.parametrize(
    ("notes", "options", "error", "said"),
    [
        ({"a": 3}, {}, TypeError, "plain: parameter a is annotated by 3, expected In"),
        (
            {"a": In("f16", (None,))},
            {},
            TypeError,
            "kernels have no dtype 'f16'; there are float32",
        ),
        ({"a": In("f32", (-1,))}, {}, ValueError, "plain: a: -1 is no extent"),
        ({"a": In("f32", (2.5,))}, {}, ValueError, "plain: a: 2.5 is no extent"),
        ({"y": Out("f32", "b")}, {}, ValueError, "y: shape 'b' is no tensor parameter before it"),
        ({"y": Out("f32", (None,))}, {}, ValueError, "y: a result cannot have None"),
        ({"y": Out("f32", ("a +",))}, {}, ValueError, r"plain: y: 'a \+': invalid syntax"),
        ({"y": Out("f32", ("c + 1",))}, {}, ValueError, "column 1: no parameter 'c' is known here"),
        ({"y": Out("f32", ("a.T",))}, {}, ValueError, "shapes know no .T"),
        ({"y": Out("f32", ("a.numel() / 2",))}, {}, ValueError, "shapes have no Div"),
        ({"y": In("f32", "a")}, {}, ValueError, "plain: it has no Out and no InMut"),
        ({"a": int, "y": Out("f32", ("a",))}, {"points": "a"}, ValueError, "no tensor argument"),
        ({}, {"points": "b.shape"}, ValueError, "points: 'b.shape'.*no parameter 'b'"),
        ({}, {"points": None}, ValueError, "give one of points and n_threads"),
        ({}, {"n_threads": "1"}, ValueError, "give one of points and n_threads"),
        ({}, {"points": 3}, ValueError, "points and n_threads are expressions, not 3"),
        ({}, {"points": None, "n_threads": ["1"] * 4}, ValueError, "n_threads has 4 dims"),
        ({}, {"cut": {"batch": 0}}, ValueError, "y is written but has no axis 'batch'"),
        (
            {"a": In("f32", (None,), axes=("rows",))},
            {"cut": {"batch": 0}},
            ValueError,
            "a has an axis 'rows', cut has",
        ),
        (
            {"a": In("f32", (None,), axes=("batch", None))},
            {"cut": {"batch": 0}},
            ValueError,
            "a: axes .* for 1 dims",
        ),
        (
            {"a": In("f32", (None,), axes=("batch",))},
            {"cut": {"batch": 1}},
            ValueError,
            r"cut\['batch'\] is dim 1 of points, which have 1",
        ),
    ],
)
def test_annotations(notes: Any, options: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=f"(?s){said}"):
        made(annotated(**notes), **options)


def test_a_bare_decorator() -> None:
    with pytest.raises(TypeError, match=r"write @kernel\(points="):
        kernel(plain)


def test_jit_prints_its_loops(capsys: pytest.CaptureFixture[str]) -> None:
    jit(n_threads="a.numel()", verbose=True, cache_id="plain", max_registers=32)(annotated())
    assert "for _nt_i0 in range" in capsys.readouterr().out


def test_a_parameter_without_annotation() -> None:
    with pytest.raises(TypeError, match="plain: parameter a has no annotation"):
        made(plain)


# ---- the function


def sliced(a: In("f32", (None, None), ("b", None)), y: Out("f32", "a")):
    y[0:1, 0] = a[0, 0]


def whole(a: In("f32", (None, None), ("b", None)), y: Out("f32", "a")):
    y[0, 0] = a.sum()


def handed_on(a: In("f32", (None, None), ("b", None)), y: Out("f32", "a")):
    y[0, 0] = max(a)


def negative(a: In("f32", (None, None), ("b", None)), y: Out("f32", "a")):
    y[0, 0] = a[-1, 0]


def partly(a: In("f32", (None, None), (None, "b")), y: Out("f32", "a")):
    y[0, 0] = a[0][0]


def returning(a: In("f32", (None, None), ("b", None)), y: Out("f32", "a")):
    return a[0, 0]


def rebound(a: In("f32", (None, None), ("b", None)), y: Out("f32", "a")):
    y = a[0, 0]  # noqa: F841


def two_threads(a: In("f32", (None, None), ("b", None)), y: Out("f32", "a")):
    thread = cuda.grid(1)  # noqa: F821, F841


def shared(a: In("f32", (None, None), ("b", None)), y: Out("f32", "a")):
    block = cuda.shared.array(16, "float32")  # noqa: F821, F841


def waiting(a: In("f32", (None, None), ("b", None)), y: Out("f32", "a")):
    numba.cuda.syncthreads()  # noqa: F821


def atomic(a: In("f32", (None, None), ("b", None)), y: Out("f32", "a")):
    cuda.atomic.add(y, (0, 0), 1.0)  # noqa: F821


@pytest.mark.parametrize(
    ("function", "at", "said"),
    [
        (
            shared,
            "cuda.shared",
            "kernels have no cuda.shared.array: there are no blocks of threads",
        ),
        (waiting, "numba.cuda", "kernels have no numba.cuda.syncthreads: there are no blocks"),
        (atomic, "cuda.atomic", r"kernels have no cuda.atomic.add: .*write a\[i\] \+= value"),
        (sliced, "0:1", "'y' may be cut: index it by integers"),
        (whole, "a.sum", "'a' may be cut: it is there as a"),
        (handed_on, "max(a)", "'a' may be cut: it is there as a"),
        (negative, "-1", "'a' may be cut along dim 0: no index below zero there"),
        (partly, "a[0][0]", "'a' may be cut: index all of its dims"),
        (returning, "return a", "a kernel returns nothing"),
        (rebound, "y = a", "'y' is a parameter: write into its elements"),
        (two_threads, "cuda.grid", r"cuda.grid\(\) has to be cuda.grid\(2\) here"),
    ],
)
def test_what_a_kernel_cannot_do_is_refused_at_its_line(
    function: Callable[..., None], at: str, said: str
) -> None:
    place = f"{re.escape(__file__)}:{line_of(function, at)}: {function.__name__}: "
    with pytest.raises(ValueError, match=place + said):
        made(function, cut={"b": 1 if function is partly else 0})


@kernel(points="a.shape")
def unknown(a: In("f32", (None,)), y: Out("f32", "a")):
    i = index()
    y[i] = undefined_function(a[i])  # noqa: F821


@kernel(points="a.shape")
def mistyped(a: In("f32", (None,)), y: Out("f32", "a")):
    i = index()
    y[i] = a[i] + "text"


@pytest.mark.parametrize("device", ["cpu", "nntile"])
@pytest.mark.parametrize(
    ("call", "at", "said"),
    [
        (unknown, "undefined_function", "undefined_function"),
        (mistyped, '"text"', r"add\(float32, Literal\[str\]\(text\)\)"),
    ],
)
def test_what_does_not_compile_is_an_error_at_its_line(
    device: str, call: Any, at: str, said: str
) -> None:
    place = f"{re.escape(__file__)}:{line_of(call, at)}: {call.name}: Numba does not compile it"
    with pytest.raises(TypeError, match=f"(?s){place}.*{said}"):
        call(torch.ones(3, device=device))


def gather(
    a: In("f32", (None,)), place: In("i64", (None,), axes=("rows",)), y: Out("f32", "place")
):
    i = index()
    if place[i] == 77:
        raise ValueError("seventy-seven is not wanted")
    y[i] = a[place[i]]


checked = kernel(points="place.shape", cut={"rows": 0}, debug=True)(gather)
free = kernel(points="place.shape", cut={"rows": 0})(gather)


def neighbour(a: In("f32", (None,), axes=("rows",)), y: Out("f32", "a")):
    i = index()
    y[i] = a[i + 1] if i + 1 < len(a) else 0


@pytest.mark.parametrize("device", ["cpu", "nntile"])
def test_debug_checks_indices(device: str) -> None:
    a = torch.arange(4.0).to(device)
    for call in (checked, free):
        assert call(a, torch.tensor([3, -1, 0]).to(device)).tolist() == [3, 3, 0]
    place = f"{re.escape(__file__)}:{line_of(gather, 'a[place[i]]')}"
    for bad in (4, -5, 2**40):
        said = rf"gather: index {bad} is out of range \[0, 4\) in dim 0 of 'a' \({place}\)"
        with pytest.raises(IndexError, match=said):
            checked(a, torch.tensor([0, bad]).to(device)).tolist()
    assert checked(a, torch.tensor([1]).to(device)).tolist() == [1]


@pytest.mark.parametrize("device", ["cpu", "nntile"])
def test_what_a_kernel_raises(device: str) -> None:
    place = f"{re.escape(__file__)}:{line_of(gather, 'raise')}"
    for call in (checked, free):
        with pytest.raises(RuntimeError, match=rf"seventy-seven is not wanted \({place}\)"):
            call(torch.ones(3).to(device), torch.tensor([0, 77]).to(device)).tolist()


def test_debug_sees_an_index_beyond_the_part() -> None:
    """The neighbour is in the tensor, but a part of the call does not have it."""
    import torch_nntile

    call = kernel(points="a.shape", cut={"rows": 0}, debug=True)(neighbour)
    a = torch.arange(6.0)
    assert call(a).tolist() == [1, 2, 3, 4, 5, 0]
    moved = a.to("nntile")
    torch_nntile.set_axis_group_name(moved, {0: "neighbours"})
    torch_nntile.set_axis_group_tiling("neighbours", 3)
    with pytest.raises(IndexError, match=r"index 3 is out of range \[0, 3\) in dim 0 of 'a'"):
        call(moved).tolist()


# ---- gradients


def test_backward_names_what_it_uses() -> None:
    call = made(annotated())
    with pytest.raises(
        ValueError, match="plain: backward has a parameter x; there are grad_y, a, y"
    ):
        call.backward = lambda x: x
    with pytest.raises(TypeError, match="backward is a kernel or a function, not int"):
        call.backward = 3

    @kernel(points="grad_y.shape")
    def wrong(grad_y: In("f32", (None,)), grad_x: Out("f32", "grad_y")):
        grad_x[index()] = grad_y[index()]

    with pytest.raises(ValueError, match="backward has a result grad_x; there may be grad_a"):
        call.backward = wrong
    call.backward = lambda grad_y: (grad_y, grad_y)
    with pytest.raises(ValueError, match="its backward is set already"):
        call.backward = lambda grad_y: grad_y
    with pytest.raises(ValueError, match="backward gives 2 gradients, expected 1: a"):
        call(torch.ones(2, requires_grad=True)).sum().backward()

    @kernel(points="a.shape")
    def changes(a: InMut("f32", (None,)), unused: Unused):
        a[index()] = 0

    with pytest.raises(ValueError, match="a kernel with InMut has no gradient"):
        changes.backward = lambda a: a


# ---- what it is compiled with


def test_without_numba_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(ImportError, match=r"pip install 'torch_nntile\[kernels\]'"):
        kernel(points="a.shape")


SCRIPT = """
import torch
from torch_nntile import In, Out, index, kernel
FACTOR = {factor}

@kernel(points="a.shape")
def times(a: In("f32", (None,)), y: Out("f32", "a")):
    y[index()] = a[index()] * FACTOR

result = times(torch.ones(1)).item()
"""


def test_it_is_kept_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import numba

    from torch_nntile.kernels import compiled

    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))

    def run(factor: int) -> tuple[float, int]:
        script = tmp_path / "script.py"
        script.write_text(SCRIPT.format(factor=factor))
        os.utime(script, (1, 1))  # what Numba goes by
        linecache.checkcache()
        result = runpy.run_path(str(script))["result"]
        return result, compiled._alive[-1].cache_hits

    assert [run(2), run(2), run(3), run(3)] == [(2, 0), (2, 1), (3, 0), (3, 1)]
