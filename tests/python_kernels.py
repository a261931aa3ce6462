# SPDX-License-Identifier: BSD-3-Clause
"""Kernels that several tests use. It needs Numba."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from torch_nntile import In, InMut, Out, Scalar, Unused, index, kernel, stats, wait
from torch_nntile.kernels import cuda, jit

# ---- the examples of pytorch_numba_extension_jit, with another import


@jit(n_threads="a.numel()")
def copy(
    a: In(dtype="f32", shape=(None,)),
    result: Out(dtype="f32", shape="a"),
):
    x = cuda.grid(1)
    if x < a.shape[0]:
        result[x] = a[x]


@kernel(n_threads="result.numel()")
def mymuladd_2d(
    a: In(torch.float32, (None, None)),
    b: In("f32", ("a.size(0)", "a.size(1)")),
    c: float,
    result: Out("float32", "a"),
):
    idx = cuda.grid(1)
    y, x = divmod(idx, result.shape[0])
    if y < result.shape[0]:
        result[y, x] = a[y, x] * b[y, x] + c


@jit(n_threads=("result.size(1)", "result.size(0)"), to_extension=True, threads_per_block=(16, 16))
def mymuladd_grid(
    a: In("f32", (None, None)),
    b: In("f32", ("a.size(0)", "a.size(1)")),
    c: float,
    result: Out("f32", "a"),
):
    # always use this order for names to be consistent with CUDA terminology:
    x, y = cuda.grid(2)

    if y < result.shape[0] and x < result.shape[1]:
        result[y, x] = a[y, x] * b[y, x] + c


@kernel(points="a.shape", cut={"batch": 0})
def scaled(
    a: In("f32", (None, None), axes=("batch", None)), s: Scalar("f32"), out: Out("f32", "a")
):
    i, j = index()
    out[i, j] = a[i, j] * s


@kernel(points="x.shape", cut={"rows": 0, "columns": 1})
def swish(
    x: In("f32", (None, None), axes=("rows", "columns")),
    beta: Scalar("f32"),
    y: Out("f32", "x"),
):
    i, j = index()
    y[i, j] = x[i, j] / (1 + math.exp(-beta * x[i, j]))


@kernel(points="x.shape", cut={"rows": 0, "columns": 1})
def swish_backward(
    grad_y: In("f32", (None, None), axes=("rows", "columns")),
    x: In("f32", "grad_y"),
    beta: Scalar("f32"),
    grad_x: Out("f32", "x"),
):
    i, j = index()
    sigmoid = 1 / (1 + math.exp(-beta * x[i, j]))
    grad_x[i, j] = grad_y[i, j] * sigmoid * (1 + beta * x[i, j] * (1 - sigmoid))


swish.backward = swish_backward


@kernel(points=("a.size(0)", "a.size(1)"), cut={"batch": 0, "width": 1})
def numbered(
    a: In("f32", (None, None, 3), axes=("batch", "width", None)),
    row: In("i64", ("a.size(1)",), axes=("width",)),
    table: In("f32", (5,)),
    y: Out("f32", ("a", "a"), axes=("batch", "width")),
    place: Out("i64", (2, "a.size(0)", "a.size(1)"), axes=(None, "batch", "width")),
):
    i, j = index()
    y[i, j] = table[i % 5] + len(a) + a.shape[1] + a.ndim
    for k in range(3):
        y[i, j] += a[i, j, k] * row[j]
    place[0, i, j] = i
    place[1, i, j] = j


@kernel(points="x.shape", cut={"rows": 0})
def step_of_sgd(
    p: InMut("f64", (None,), axes=("rows",)),
    x: In("f64", "p"),
    n: Scalar(int),
    half: Scalar(bool),
    nothing: Unused,
    moved: Out("bool", "p"),
):
    i = index()
    if nothing is None and i >= n:
        p[i] -= x[i] * (0.5 if half else 1.0)
        moved[i] = True
    else:
        moved[i] = False


def tasks_of(call: Callable[[], Any]) -> tuple[int, int]:
    """Tasks and copies of a call whose plan is made already."""
    kept = [call()]
    wait()
    before = stats()
    kept.append(call())  # what nobody has is not computed
    wait()
    after = stats()
    return after.tasks - before.tasks, after.copies - before.copies
