# SPDX-License-Identifier: BSD-3-Clause
"""The helpers of the tests find what they look for: each mistake here must make them fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import parity
import pytest
import strategies
import torch
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from parity import FACTORS, assert_close, assert_parity, moved, tolerance
from samples import SAMPLES
from torch import Tensor

from torch_nntile import aten


def on_device(x: Tensor) -> bool:
    return x.device.type == "nntile"


class Doubled(torch.autograd.Function):
    """x * 1 with a gradient that is wrong on the device."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 1

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad * 2 if on_device(grad) else grad


def last_is_wrong(x: Tensor) -> Tensor:
    y = x * 2
    if on_device(x):
        y.view(-1)[-1] += 1e-4
    return y


def forgets_to_write(x: Tensor) -> Tensor:
    return x + 1 if on_device(x) else x.add_(1)


def writes_too_much(x: Tensor) -> Tensor:
    result = x + 1
    if on_device(x):
        (x if x._base is None else x._base).zero_()
    return result


def drops_a_result(x: Tensor) -> list[Tensor]:
    return [x + 1] if on_device(x) else [x + 1, x + 2]


def has_no_gradient(x: Tensor) -> Tensor:
    return x.detach() * 2 + 0 * x.sum().detach() if on_device(x) else x * 2


def nan_for_inf(x: Tensor) -> Tensor:
    return x / 0 - (x / 0 if on_device(x) else 0)


MISTAKES: dict[str, tuple[Callable[..., Any], bool, str]] = {
    "value": (last_is_wrong, True, r"result 0: Tensor-likes are not close"),
    "inf and nan": (nan_for_inf, False, "result 0: Tensor-likes are not close"),
    "dtype": (
        lambda x: x.double() if on_device(x) else x * 1,
        False,
        r"dtype torch.float64, expected",
    ),
    "shape": (
        lambda x: x[:2] if on_device(x) else x * 1,
        False,
        r"shape torch.Size\(\[2, 5\]\), expected",
    ),
    "stride": (lambda x: x.t().contiguous().t() if on_device(x) else x * 1, False, "strides"),
    "device": (lambda x: x.cpu() * 1, False, "result 0 is on cpu"),
    "number of results": (drops_a_result, False, "expected .'result 0', 'result 1'"),
    "gradient": (Doubled.apply, True, "gradient 0: Tensor-likes are not close"),
    "no gradient": (has_no_gradient, True, "got .*expected .*'gradient 0'"),
    "missing write": (forgets_to_write, False, "data of input 0: Tensor-likes are not close"),
    "write beside the view": (
        writes_too_much,
        False,
        "data of input 0: Tensor-likes are not close",
    ),
    "number": (
        lambda x: 3.0 if on_device(x) else 2.0,
        False,
        "result 0: Scalars are not close|not close",
    ),
    "error": (lambda x: x @ x if on_device(x) else x * 1, False, "RuntimeError: "),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found(name: str) -> None:
    call, grad, message = MISTAKES[name]
    view = torch.randn(7, 5, generator=torch.Generator().manual_seed(0))[2:6]
    with pytest.raises(AssertionError, match=message) as caught:
        assert_parity(call, [view], grad=grad)
    text = str(caught.value)
    assert "mode: eager" in text and "parity.assert_parity(call, inputs" in text


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_a_mistake_of_one_mode_is_found(mode: str) -> None:
    def call(x: Tensor) -> Tensor:
        return x + (1 if on_device(x) and parity.torch_nntile.runtime_mode() == mode else 0)

    with pytest.raises(AssertionError, match=f"mode: {mode}"):
        assert_parity(call, [torch.ones(3)], grad=False)
    assert parity.torch_nntile.runtime_mode() == "eager", "a failure leaves the mode as it was"


def test_a_mistake_of_a_cut_run_is_found() -> None:
    runs = []

    def call(x: Tensor) -> Tensor:
        if on_device(x):
            runs.append(x)
        return x + (1 if len(runs) == 2 else 0)  # the whole run, then the cut one

    with pytest.raises(AssertionError, match=r"cuts: \{0: \{0: 2\}\}"):
        assert_parity(call, [torch.ones(3)], cuts={0: {0: 2}}, grad=False)


def test_other_bits_of_a_cut_run_are_found() -> None:
    runs = []

    def call(x: Tensor) -> Tensor:
        if on_device(x):
            runs.append(x)
        return x * (1 + torch.finfo(x.dtype).eps * (len(runs) == 2))

    cuts = {0: {0: 2}}
    assert_parity(call, [torch.ones(3)], cuts=cuts, grad=False)  # near enough
    runs.clear()
    with pytest.raises(AssertionError, match="the bits of a cut run differ"):
        assert_parity(call, [torch.ones(3)], cuts=cuts, grad=False, same_bits=True)
    zeros = [torch.tensor([0.0]), torch.tensor([-0.0])]
    assert not torch.equal(*map(parity.bits, zeros))


def small_is_wrong(x: Tensor) -> Tensor:
    y = x.exp()
    if on_device(x):
        y[0] *= 1.01  # of 2e-9 beside 2e4
    return y


def test_a_wrong_small_element_of_an_elementwise_op_is_found() -> None:
    x = torch.linspace(-20, 10, 31)
    with pytest.raises(AssertionError, match="result 0: Tensor-likes are not close"):
        assert_parity(small_is_wrong, [x], grad=False, op="exp")
    assert_parity(torch.exp, [x], op="exp")


def test_elementwise_ops_follow_from_the_table() -> None:
    found = parity.elementwise()
    assert {"exp", "add", "_foreach_mul", "gelu", "where"} <= found
    assert not {"sum", "mm", "softmax", "_softmax", "cat"} & found


def test_cuts_reach_the_tiles() -> None:
    tiles = []

    def call(x: Tensor) -> Tensor:
        y = x.exp()
        if on_device(x):
            parity.torch_nntile.wait()
            tiles.append(parity.torch_nntile.explain("tiles").count("map {exp}"))
        return y

    cuts = [{0: {0: (1, 2, 4)}}, {0: {0: 4, 1: 3}}]
    assert_parity(call, [torch.ones(7, 6)], cuts=cuts, grad=False, modes=["eager"])
    assert tiles == [1, 3, 4]


def test_the_snippet_of_a_failure_runs() -> None:
    view = torch.arange(6.0).reshape(2, 3).t()
    inputs = [view, torch.tensor([float("inf"), float("nan")])]
    call = strategies.AtenCall("aten::add.Tensor", (strategies.Slot(0), 1), {})
    text = parity.snippet(call, inputs, {0: {1: 2}}, "eager")
    assert text.endswith("cuts={0: {1: 2}}, modes=('eager',))")
    scope: dict[str, Any] = {"strategies": strategies}
    exec(text.rpartition("\n")[0] + f"\ncall = {call!r}", scope)
    for found, expected in zip(scope["inputs"], inputs, strict=True):
        assert found.stride() == expected.stride()
        assert torch.equal(found.nan_to_num(5), expected.nan_to_num(5))
    assert torch.equal(scope["call"](*scope["inputs"]), view + 1)


# ---- tolerances


def test_tolerances_are_small_and_follow_the_dtype() -> None:
    assert tolerance(torch.int64) == tolerance(torch.bool, 100) == 0.0
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        eps = torch.finfo(dtype).eps
        assert tolerance(dtype) == 8 * eps
        assert tolerance(dtype, 100) == pytest.approx(80 * eps)
        assert tolerance(dtype, 0) == tolerance(dtype, 1)
    assert max(rounding.factor for rounding in FACTORS.values()) <= 32
    ops = {row.overload.partition(".")[0] for row in aten.ROWS}
    assert set(FACTORS) - {""} <= ops, "a factor of an op that has no row"


def test_close_is_relative_to_terms_only_where_they_cancel() -> None:
    big = torch.tensor([1000.0, 1e-3])
    off = big + torch.tensor([0.0, 1e-4])
    for arguments in ({}, {"op": "mul"}):
        with pytest.raises(AssertionError):
            assert_close(off, big, **arguments)
    assert_close(off, big, op="add")
    assert_close(off, big, length=2)
    nan = torch.tensor([float("nan")])
    assert_close(nan, nan)
    with pytest.raises(AssertionError):
        assert_close(nan, torch.zeros(1))
    with pytest.raises(AssertionError):
        assert_close(torch.tensor([1]), torch.tensor([2]), length=10**6)


def test_moved_keeps_layout_and_borders() -> None:
    data = torch.arange(40.0).reshape(5, 8).clone()
    view = data[1:4, ::2].t()
    for device in ("cpu", "nntile", "meta"):
        copy = moved(view, device)
        assert copy.device.type == device
        assert (copy.shape, copy.stride()) == (view.shape, view.stride())
        assert copy.storage_offset() == view.storage_offset()
        assert copy.data_ptr() != view.data_ptr()
        if device != "meta":
            assert copy._base is not None and torch.equal(copy._base.cpu(), data)


# ---- strategies draw what they promise

Shape = tuple[int, ...]
SHAPES: dict[str, Callable[[Shape], bool]] = {
    "scalar": lambda s: s == (),
    "one": lambda s: 1 in s,
    "empty": lambda s: 0 in s,
    "primes": lambda s: 7 in s and 13 in s,
    "three dims": lambda s: len(s) == 3 and min(s) > 1,
}
SEARCH = settings(
    max_examples=3000,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name: str) -> None:
    find(strategies.shapes(), SHAPES[name], settings=SEARCH)


def drawn() -> st.SearchStrategy[Tensor]:
    return strategies.tensors((4, 3), torch.float32, special=True)


TENSORS: dict[str, Callable[[Tensor], bool]] = {
    "dense": lambda x: x._base is None and x.is_contiguous(),
    "transposed": lambda x: x.stride() == (1, 4),
    "sliced": lambda x: x._base is not None and x._base.numel() > 12 and x.storage_offset() > 0,
    "with a step": lambda x: x.stride()[1] == 2,
    "expanded": lambda x: 0 in x.stride(),
    "nan": lambda x: bool(x.isnan().any()),
    "inf": lambda x: bool(x.isinf().any()),
    "minus zero": lambda x: bool((torch.signbit(x) & (x == 0)).any()),
}


@pytest.mark.parametrize("name", TENSORS)
def test_tensors(name: str) -> None:
    find(drawn(), TENSORS[name], settings=SEARCH)


@given(x=strategies.tensors((4, 3), torch.int64, written=True, divisor=True))
def test_what_is_written_does_not_overlap_and_divisors_are_not_zero(x: Tensor) -> None:
    assert 0 not in x.stride()
    assert not (x == 0).any()
    assert x.shape == (4, 3)
    parity.data_of(x)


def sizes(cuts: dict[int, dict[int, Any]]) -> list[Any]:
    return list(cuts.get(0, {}).values())


CUTS: dict[str, Callable[[Any], bool]] = {
    "none": lambda cuts: not cuts,
    "uniform": lambda cuts: any(isinstance(s, int) for s in sizes(cuts)),
    "ragged": lambda cuts: any(isinstance(s, tuple) and len(set(s)) == 3 for s in sizes(cuts)),
    "tile of one": lambda cuts: any(isinstance(s, tuple) and 1 in s for s in sizes(cuts)),
    "both dims": lambda cuts: len(sizes(cuts)) == 2,
    "both inputs": lambda cuts: set(cuts) == {0, 1},
}


@pytest.mark.parametrize("name", CUTS)
def test_cuts(name: str) -> None:
    find(strategies.cuts_of([torch.ones(7, 8), torch.ones(9)]), CUTS[name], settings=SEARCH)


@given(data=st.data())
def test_cuts_sum_to_the_extent_of_the_data(data: st.DataObject) -> None:
    x = torch.ones(6, 9)[1:4, ::2]
    cuts = data.draw(strategies.cuts_of([x]))
    for dim, size in cuts.get(0, {}).items():
        extent = (6, 9)[dim]
        assert 0 < size < extent if isinstance(size, int) else sum(size) == extent and min(size) > 0


def test_calls_cover_dtypes_broadcasting_and_forms() -> None:
    row = next(row for row in aten.ROWS if row.overload == "add.Tensor")

    def seen(overload: str, condition: Callable[[strategies.Example], bool]) -> None:
        find(strategies.aten_calls(row, overload), condition, settings=SEARCH)

    functional = "aten::add.Tensor"
    for dtype in strategies.op_of("add").dtypes:
        seen(functional, lambda e, d=dtype: e.inputs[0].dtype == d)
    seen(functional, lambda e: e.inputs[0].dtype != e.inputs[1].dtype)
    seen(functional, lambda e: e.inputs[0].shape != e.inputs[1].shape)
    seen(functional, lambda e: e.grad)
    seen(functional, lambda e: e.call.kwargs["alpha"] not in (0, 1))
    seen("aten::add_.Tensor", lambda e: not e.grad and e.inputs[0].numel() > 0)
    seen("aten::add.out", lambda e: len(e.inputs) == 3 and e.inputs[2].shape == (0,))
    seen("aten::add.out", lambda e: len(e.inputs) == 3 and e.inputs[2].numel() > 1)


def test_samples_are_what_parity_takes() -> None:
    for name, found in SAMPLES.items():
        assert found, name
        for sample in found:
            for tensor in sample.inputs:
                parity.data_of(tensor)
            sample.call(*(moved(x, "cpu") for x in sample.inputs))
