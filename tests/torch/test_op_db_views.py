# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch's op_db for views, moves of data and in-place forms: as on the CPU, whole and cut at random.

Every in-place form also runs on a strided view of larger data, so that the rest of it is compared.
Ordinary runs take a few samples of each op; `-m slow` takes all, with strided inputs and more cuts.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from op_calls import Call, calls_of, dtype_of, entries, plain, refused, written
from parity import Cuts, assert_parity, data_of
from torch import Tensor

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*nntile.*:UserWarning", "ignore:.*resize:UserWarning"
)

VIEWS = (
    *("as_strided", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_tensors"),
    *("broadcast_to", "chunk", "conj", "diagonal", "dsplit", "expand", "expand_as", "flatten"),
    *("getitem", "H", "hsplit", "imag", "linalg.diagonal", "meshgrid", "mH", "movedim", "mT"),
    *("narrow", "permute", "positive", "ravel", "real", "reshape", "reshape_as", "resolve_conj"),
    *("resolve_neg", "select", "slice", "split", "split_with_sizes", "squeeze", "T", "t"),
    *("tensor_split", "transpose", "unbind", "unflatten", "unfold", "unsqueeze", "view"),
    *("view_as", "view_as_complex", "view_as_real", "vsplit"),
)
# What copies elements, among them the functional forms of ops that IN_PLACE has too.
MOVES = (
    *("alias_copy", "as_strided_copy", "as_strided_scatter", "block_diag", "cat"),
    *("channel_shuffle", "clone", "column_stack", "contiguous", "diag", "diag_embed"),
    *("diagonal_copy", "diagonal_scatter", "dstack", "expand_copy", "flip", "fliplr", "flipud"),
    *("gather", "hstack", "index_add", "index_copy", "index_fill", "index_put", "index_reduce"),
    *("index_select", "item", "masked_fill", "masked_scatter", "masked_select", "narrow_copy"),
    *("nonzero", "pad", "permute_copy", "pixel_shuffle", "pixel_unshuffle", "put", "repeat"),
    *("repeat_interleave", "roll", "rot90", "scatter", "scatter_add", "scatter_reduce"),
    *("select_scatter", "slice_scatter", "split_with_sizes_copy", "squeeze_copy", "stack"),
    *("t_copy", "take", "take_along_dim", "tile", "to", "trace", "transpose_copy", "tril"),
    *("triu", "unbind_copy", "unfold_copy", "unsqueeze_copy", "view_copy", "vstack", "where"),
)
IN_PLACE = (
    *("abs", "acos", "acosh", "add", "addbmm", "addcdiv", "addcmul", "addmm", "addmv", "addr"),
    *("as_strided", "asin", "asinh", "atan", "atan2", "atanh", "baddbmm", "bitwise_and"),
    *("bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor"),
    *("ceil", "celu", "clamp", "clamp_max", "clamp_min", "conj_physical", "copysign", "cos"),
    *("cosh", "cumprod", "cumsum", "deg2rad", "digamma", "div", "elu", "eq", "erf", "erfc"),
    *("erfinv", "exp", "exp2", "expm1", "fill", "floor", "floor_divide", "fmod", "frac", "gcd"),
    *("ge", "gt", "hardsigmoid", "heaviside", "hypot", "i0", "igamma", "igammac", "index_add"),
    *("index_copy", "index_fill", "index_put", "index_reduce", "lcm", "ldexp", "le"),
    *("leaky_relu", "lerp", "lgamma", "log", "log10", "log1p", "log2", "logical_and"),
    *("logical_not", "logical_or", "logical_xor", "logit", "lt", "masked_fill", "masked_scatter"),
    *("mish", "mul", "mvlgamma", "nan_to_num", "ne", "neg", "nextafter", "polygamma", "pow"),
    *("put", "rad2deg", "reciprocal", "remainder", "renorm", "resize", "resize_as", "round"),
    *("rsqrt", "scatter", "scatter_add", "scatter_reduce", "selu", "sgn", "sigmoid", "sign"),
    *("silu", "sin", "sinc", "sinh", "sqrt", "square", "squeeze", "sub", "t", "tan", "tanh"),
    *("threshold", "transpose", "tril", "triu", "true_divide", "trunc", "unsqueeze", "xlogy"),
    *("zero",),
)
# The device has random numbers of its own: test_random.py.
RANDOM = (
    *("alpha_dropout", "cauchy", "dropout", "dropout2d", "dropout3d", "exponential"),
    *("feature_alpha_dropout", "geometric", "log_normal", "normal", "rrelu", "uniform"),
)
# Entry -> which of its samples are left out, and why.
LEFT_OUT: dict[str, tuple[str, Callable[[list[Any]], bool]]] = {
    "tensor_split": (
        "PyTorch wants indices on the CPU; a sample's tensors all go to the device",
        lambda leaves: any(isinstance(x, Tensor) for x in leaves[1:]),
    ),
}
# In-place forms that PyTorch never takes for float32 numbers.
NEVER = {"float_power": "its result is float64"}
# On a view these change sizes and strides, so there is no rest of the data to look at.
CHANGE_SHAPE = {"as_strided", "resize", "resize_as", "squeeze", "t", "transpose", "unsqueeze"}


def random_cuts(tensors: list[Tensor], source: random.Random) -> Cuts:
    """Most dims of the data, evenly or raggedly; axes of complex data have no names."""
    cuts: dict[int, dict[int, Any]] = {}
    for k, tensor in enumerate(tensors):
        for dim, extent in enumerate(data_of(tensor).shape):
            if extent < 2 or tensor.is_complex() or source.random() > 0.7:
                continue
            at = source.randint(1, extent - 1)
            ragged = source.random() < 0.5
            cuts.setdefault(k, {})[dim] = (at, extent - at) if ragged else at
    return cuts


def on_a_view(function: Callable[..., Any]) -> Callable[..., Any]:
    """The in-place form on every second element of data twice as large, which is returned too."""

    def call(x: Tensor, *args: Any, **kwargs: Any) -> Any:
        data = torch.stack((x, x), dim=-1)
        return function(data.select(-1, 1), *args, **kwargs), data

    return call


def strided(tensor: Tensor) -> Tensor:
    """The same values as a transposed view with a step, of data with a border."""
    if tensor.dim() == 0 or tensor.numel() == 0 or tensor._base is not None:
        return tensor
    *front, last = tensor.shape
    data = tensor.new_zeros(last + 1, *front, 2)
    view = data[1:, ..., 1].movedim(0, -1)
    view.copy_(tensor)
    return view


def forms_of(op: Any, name: str) -> Iterator[tuple[str, Callable[..., Any], bool]]:
    """Name, function, whether it has a gradient."""
    if name in VIEWS or name in MOVES:
        yield "functional", op.op, op.supports_autograd
    if op.inplace_variant is not None and name in IN_PLACE:
        grad = op.supports_inplace_autograd
        yield "in place", written(op.inplace_variant), grad
        if name not in CHANGE_SHAPE:
            yield "in place on a view", on_a_view(op.inplace_variant), grad


def samples_of(
    op: Any, name: str, form: str, function: Callable[..., Any], source: random.Random
) -> Iterator[tuple[Call, list[Tensor]]]:
    """Calls and their inputs in random order; each as it is, then as strided views."""
    # Of complex numbers views only: rounding of complex arithmetic is in no table of ours.
    dtype = dtype_of(op, torch.complex64) if name in VIEWS else dtype_of(op)
    if dtype is None:
        return
    _, left_out = LEFT_OUT.get(name, ("", lambda _: False))
    found = list(calls_of(op, function, form != "functional", dtype))
    for call, tensors in source.sample(found, len(found)):
        if left_out(call.leaves):
            continue
        if not refused(call, tensors):
            yield call, tensors
        views = [strided(x) for x in tensors]
        if not name.startswith("as_strided") and not refused(call, views):  # has its own strides
            yield call, views


def check(name: str, every: bool) -> None:
    done, failed = 0, []
    for op in entries()[name]:
        for form, function, grad in forms_of(op, name):
            source = random.Random(f"{op.full_name} {form}")
            few = None if every else 2 if form == "functional" else 1
            samples = samples_of(op, name, form, function, source)
            for call, inputs in itertools.islice(samples, few):
                done += 1
                cuts = [random_cuts(inputs, source) for _ in range(3 if every else 1)]
                try:
                    assert_parity(call, inputs, cuts=cuts, grad=grad, op=name)
                except AssertionError as error:
                    failed.append(f"{op.full_name} {form}: {call!r}\n{error}")
    assert not failed, f"{len(failed)} of {done} samples of {name} fail; the first:\n{failed[0]}"
    assert done


NAMES = sorted({*VIEWS, *MOVES, *IN_PLACE})


@pytest.mark.parametrize("name", NAMES)
def test_some_samples(name: str) -> None:
    check(name, every=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_all_samples(name: str) -> None:
    check(name, every=True)


def copied(
    into: Callable[[Tensor], Tensor], source: Callable[[Tensor], Tensor] = Tensor.clone
) -> Any:
    """copy_, which op_db has not, into a part of a temporary."""

    def call(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        data = x * 2
        return into(data).copy_(source(y)), data

    return call


COPIES = {
    "all": copied(lambda x: x),
    "part": copied(lambda x: x[1:4, ::2], lambda y: y[2:, :3]),
    "transposed": copied(lambda x: x.t(), lambda y: y.t()),
    "into rows": copied(lambda x: x.t(), lambda y: y.reshape(6, 5)),
    "a row everywhere": copied(lambda x: x, lambda y: y[2]),
    "a number": copied(lambda x: x[:, 3], lambda y: y.sum()),
    "diagonal": copied(lambda x: x.diagonal(), lambda y: y[:, 0]),
    "narrower": copied(lambda x: x[1:], lambda y: y[1:].bfloat16()),
    "wider": copied(lambda x: x[1:], lambda y: y[1:].double()),
    "heads": copied(lambda x: x.view(5, 3, 2).transpose(0, 1), lambda y: y.view(3, 5, 2)),
}


@pytest.mark.parametrize("name", COPIES)
def test_copy(name: str) -> None:
    source = random.Random(name)
    inputs = [torch.arange(30.0).reshape(5, 6), torch.arange(30.0, 60).reshape(5, 6) / 7]
    cuts = [random_cuts(inputs, source) for _ in range(4)]
    assert_parity(COPIES[name], inputs, cuts=cuts)


def test_every_in_place_form_is_listed() -> None:
    listed = {*IN_PLACE, *RANDOM, *NEVER}
    found = {plain(op.name) for ops in entries().values() for op in ops if op.inplace_variant}
    assert found - listed == set()
    assert listed - found == set()


@pytest.mark.slow
def test_every_view_is_listed() -> None:
    found = {plain(op.name) for ops in entries().values() for op in ops if gives_a_view(op)}
    assert found - {*VIEWS, *RANDOM} == set()


def gives_a_view(op: Any) -> bool:
    dtype = dtype_of(op, torch.complex64)
    if dtype is None or "jiterator" in op.name:  # those are for GPUs
        return False
    for sample in itertools.islice(op.sample_inputs("cpu", dtype), 6):
        x = sample.input
        if not isinstance(x, Tensor) or x.numel() == 0:
            continue
        results = op(x, *sample.args, **sample.kwargs)
        for y in results if isinstance(results, (tuple, list)) else [results]:
            if isinstance(y, Tensor) and y._is_view() and torch._C._is_alias_of(x, y):
                return True
    return False
