# SPDX-License-Identifier: BSD-3-Clause
"""Answers that were not the CPU's: numbers, dtypes of statistics, refusals, filled memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils import _pytree as pytree

import torch_nntile

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
DTYPES = (torch.int64, torch.int32, torch.uint8, torch.float16, torch.bfloat16, torch.float32)


def same(call: Callable[[Any], Any]) -> None:
    """Values, dtypes and shapes of all results."""
    expected, found = (pytree.tree_leaves(call(device)) for device in ("cpu", "nntile"))
    for x, y in zip(found, expected, strict=True):
        torch.testing.assert_close(x.cpu(), y, equal_nan=True)


def refused(call: Callable[[Any], Tensor], words: str) -> None:
    for device in ("cpu", "nntile"):
        with pytest.raises(RuntimeError, match=words):
            call(device).cpu()
    assert torch.ones(2, device="nntile").sum().item() == 2, "the next call works"


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("shape", [(1,), (3,), (1, 3), (4, 3)])
def test_multilabel_margin_loss(shape: tuple[int, ...], reduction: str) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(shape), torch.full(shape, -1)
    y[..., 0] = shape[-1] - 1

    def call(device: str) -> tuple[Tensor, Tensor | None]:
        leaf = x.clone().to(device).requires_grad_()
        loss = F.multilabel_margin_loss(leaf, y.to(device), reduction=reduction)
        loss.sum().backward()
        return loss.detach(), leaf.grad

    same(call)


def test_a_leaf_may_be_read_in_a_backward_pass() -> None:
    """On a thread that runs no Python: who looks for a line of the user's finds none."""

    def call(device: str) -> Tensor | None:
        leaf = torch.tensor([1 + 2j, 3 - 1j], device=device, requires_grad=True)
        leaf.abs().sum().backward()
        return leaf.grad

    same(call)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("steps", [0, 1, 2, 7, 50])
def test_linspace(dtype: torch.dtype, steps: int) -> None:
    for start, end in ((0, 10), (1, 100), (90.2, 3.7)):
        expected = torch.linspace(start, end, steps, dtype=dtype)
        found = torch.linspace(start, end, steps, dtype=dtype, device="nntile")
        assert torch.equal(found.cpu(), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("parameters", [None, torch.float32])
def test_statistics_of_layer_norm(dtype: torch.dtype, parameters: torch.dtype | None) -> None:
    def call(device: str) -> Any:
        weight = None if parameters is None else torch.ones(3, dtype=parameters, device=device)
        x = torch.arange(6, dtype=dtype, device=device).reshape(2, 3)
        return torch.native_layer_norm(x, (3,), weight, None, 1e-5)

    same(call)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("training", [True, False])
def test_statistics_of_batch_norm(dtype: torch.dtype, training: bool) -> None:
    def call(device: str) -> Any:
        x = torch.arange(6, dtype=dtype, device=device).reshape(3, 2)
        mean, var = (torch.full((2,), v, dtype=dtype, device=device) for v in (0.0, 1.0))
        arguments = (x, None, None, mean, var)
        aten = torch.ops.aten
        results = list(aten._native_batch_norm_legit(*arguments, training, 0.1, 1e-5))
        if training:
            results += aten._batch_norm_with_update(*arguments, 0.1, 1e-5)
        return [*results, mean, var]

    same(call)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_soft_margin_loss(dtype: torch.dtype) -> None:
    def call(device: str) -> Any:
        x = torch.tensor([-30.0, 0.5, 15.0], dtype=dtype, device=device, requires_grad=True)
        y = torch.tensor([1.0, -1.0, 1.0], dtype=dtype, device=device)
        loss = F.soft_margin_loss(x, y, reduction="none")
        loss.backward(torch.ones_like(loss))
        return loss.detach(), F.soft_margin_loss(x, y).detach(), x.grad

    same(call)


@pytest.mark.parametrize("value", [2.0, -0.1, float("nan")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_what_is_no_probability(value: float, dtype: torch.dtype) -> None:
    def loss(device: str) -> Tensor:
        x = torch.tensor([0.5, value], dtype=dtype, device=device)
        return F.binary_cross_entropy(x, torch.ones_like(x))

    refused(loss, "between 0 and 1")
    refused(
        lambda device: torch.tensor([0.5, value], dtype=dtype, device=device).bernoulli(),
        "between 0 and 1|p_in",
    )


def test_conjugate_results_in_outputs() -> None:
    def call(device: str) -> Any:
        generator = torch.Generator().manual_seed(0)
        a, b = (torch.randn(3, 3, dtype=torch.complex64, generator=generator) for _ in range(2))
        lu, pivots = torch.linalg.lu_factor(a)
        out = torch.zeros(3, 3, dtype=torch.complex64).to(device)
        given = [x.to(device) for x in (lu, pivots, b)]
        return torch.linalg.lu_solve(*given, left=False, adjoint=True, out=out), out

    same(call)


def test_binary_cross_entropy() -> None:
    def call(device: str) -> Any:
        x = torch.tensor([0.0, 1e-3, 0.5, 1.0], device=device, requires_grad=True)
        y = torch.tensor([1.0, 0.0, 0.3, 0.0], device=device)
        loss = F.binary_cross_entropy(x, y, weight=y + 1)
        loss.backward()
        return loss.detach(), x.grad

    same(call)


@pytest.fixture
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("deterministic")
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.bool, torch.complex64])
def test_empty_is_filled(dtype: torch.dtype) -> None:
    def call(device: str) -> Any:
        x = torch.zeros(2, dtype=dtype, device=device)
        return [
            torch.empty(3, dtype=dtype, device=device),
            torch.empty_strided((2, 2), (1, 2), dtype=dtype, device=device),
            torch.empty_like(x),
            x.new_empty(3),
            x.clone().resize_(4),
        ]

    same(call)


def test_empty_is_not_filled_without_being_asked() -> None:
    before = torch_nntile.explain("graph")
    torch.empty(3, device="nntile")
    assert torch_nntile.explain("graph") == before


# ---- refusals


def test_an_output_that_overlaps_itself() -> None:
    def call(device: str) -> Tensor:
        out = torch.rand(5, 1, device=device).expand(5, 5)
        return torch.cumsum(torch.rand(5, 5, device=device), 1, out=out)

    refused(call, "more than one element of the written-to tensor")


@pytest.mark.parametrize("op", [torch.add, torch.hypot], ids=["row", "host"])
def test_an_output_that_is_an_operand_keeps_its_shape(op: Callable[..., Tensor]) -> None:
    def call(device: str) -> Tensor:
        a = torch.ones(5, 1, device=device)
        return op(a, torch.ones(5, 5, device=device), out=a)

    refused(call, r"output with shape \[5, 1\] doesn't match")


def test_arguments_of_a_call_without_results() -> None:
    refused(lambda device: torch.ones(3, device=device).multinomial(0), "n_sample <= 0")


def test_determinants_of_short_floats() -> None:
    refused(
        lambda device: torch.linalg.slogdet(torch.ones(0, 0, device=device).half())[0],
        "Low precision dtypes not supported. Got Half",
    )


def test_mode_into_outputs() -> None:
    def call(device: str) -> Any:
        values, indices = torch.empty(0, device=device), torch.empty(0, device=device).long()
        x = torch.tensor([[1.0, 2.0, 2.0], [3.0, 3.0, 1.0]], device=device)
        torch.mode(x, 1, out=(values, indices))
        return values, indices

    same(call)


@pytest.mark.parametrize("wide", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("short", [torch.float16, torch.bfloat16], ids=str)
def test_a_wider_output_takes_what_the_operands_can_hold(
    short: torch.dtype, wide: torch.dtype
) -> None:
    largest = torch.finfo(short).max
    x, y = torch.tensor([65000.0, 1.0, largest]), torch.tensor([984.0, 2.0**-12, largest / 100])

    def call(device: Any) -> Any:
        a, b = x.to(device, short), y.to(device, short)
        outs = [torch.empty(3, dtype=wide, device=device) for _ in range(3)]
        torch.exp(torch.tensor([1, 20, 3], device=device), out=outs[2])
        return torch.add(a, b, out=outs[0]), torch.mul(a, b, out=outs[1]), outs[2]

    same(call)


@pytest.mark.parametrize("wide", [torch.int32, torch.int64, torch.float32], ids=str)
@pytest.mark.parametrize("narrow", [torch.uint8, torch.int8, torch.bool], ids=str)
def test_whole_numbers_wrap_before_they_go_into_a_wider_output(
    narrow: torch.dtype, wide: torch.dtype
) -> None:
    def call(device: Any) -> Any:
        a, b = (torch.tensor(x, device=device).to(narrow) for x in ([100, 5, 1], [100, 8, 1]))
        outs = [torch.empty(3, dtype=wide, device=device) for _ in range(3)]
        first = torch.add(a, b, out=outs[0]), torch.mul(a, b, out=outs[1])
        return first if narrow == torch.bool else (*first, torch.sub(a, b, out=outs[2]))

    same(call)


@pytest.mark.parametrize("arguments", [(0,), (1,), (7,), (7, False), (7, True, 3.0)], ids=str)
def test_kaiser_window(arguments: tuple[Any, ...]) -> None:
    same(lambda device: torch.kaiser_window(*arguments, device=device))


@pytest.mark.parametrize("shape", [(0, 3), (0,), (2, 0, 4)])
def test_kthvalue_along_an_empty_dim(shape: tuple[int, ...]) -> None:
    dim = shape.index(0)
    for device in ("cpu", "nntile"):
        with pytest.raises(IndexError, match=f"reduction dim {dim} to have non-zero size"):
            torch.kthvalue(torch.ones(shape, device=device), 1, dim)


def test_an_index_into_an_empty_dim() -> None:
    for device in ("cpu", "nntile"):
        with pytest.raises(IndexError, match="out of bounds for dimension with size 0"):
            torch.empty(10, 0, device=device)[:, [0, 1]]
    same(lambda device: torch.empty(10, 0, device=device)[[1, 2]])


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.complex64], ids=str)
@pytest.mark.parametrize("value", [2.5, 7, True, 1j])
def test_one_number_of_another_dtype_at_a_mask(dtype: torch.dtype, value: Any) -> None:
    def call(device: Any) -> Tensor:
        x = torch.ones(3, 2, dtype=dtype, device=device)
        x[torch.tensor([True, False, True], device=device)] = torch.tensor([[value]], device=device)
        return x

    if isinstance(value, complex) and not dtype.is_complex:
        refused(call, "without overflow")
    else:
        same(call)


def test_numbers_of_another_dtype_at_a_mask() -> None:
    def call(device: Any) -> Tensor:
        x = torch.ones(3, device=device)
        x[torch.tensor([True, False, True], device=device)] = torch.tensor([1, 2], device=device)
        return x

    refused(call, "got Float for the destination and Long for the source")


def test_nonzero_into_outputs() -> None:
    same(
        lambda d: torch.nonzero(
            torch.ones(3, device=d), out=torch.empty((), dtype=torch.int64, device=d)
        )
    )
    refused(
        lambda d: torch.nonzero(torch.ones(3, device=d), out=torch.empty((), device=d)),
        "scalar type Long",
    )


def test_complex_of_two_dtypes() -> None:
    for op in (torch.complex, torch.polar):
        for device in ("cpu", "nntile"):
            x = torch.ones(2, device=device)
            with pytest.raises(RuntimeError, match="Expected object of scalar type Float but got"):
                op(x, x.double())  # at the call, not where it is read


def test_nothing_joined_along_a_dim_that_it_does_not_have() -> None:
    same(lambda device: torch.cat([torch.empty(0, device=device)] * 2, 1))
    same(
        lambda device: torch.cat(
            [torch.empty(0, device=device), torch.ones(2, 3, device=device)], 1
        )
    )


@pytest.mark.parametrize("dim", range(4))
def test_index_add_into_empty_dims(dim: int) -> None:
    shape = (0, 1, 2, 0)

    def call(device: Any) -> Any:
        n = min(shape[dim], 1)
        index = torch.zeros(n, dtype=torch.int64, device=device)
        source = torch.ones(
            [n if d == dim else size for d, size in enumerate(shape)], device=device
        )
        x = torch.ones(shape, device=device)
        return x.index_add_(dim, index, source), x.index_reduce(dim, index, source, "mean")

    same(call)


def test_the_largest_unsigned_number() -> None:
    same(lambda device: torch.full((2,), 2**64 - 1, dtype=torch.uint64, device=device))


def test_a_grid_of_another_number_of_dims() -> None:
    def call(device: Any) -> Tensor:
        return F.grid_sample(
            torch.ones(1, 1, 2, 2, device=device), torch.zeros(1, 2, 2, 3, device=device)
        )

    refused(call, r"grid_sampler\(\): expected grid to have size 2 in last dimension")


def test_lazy_clone() -> None:
    same(lambda device: torch._lazy_clone(torch.ones(2, device=device)).add_(1))


@pytest.mark.parametrize("dtype", [torch.complex64, torch.float32, torch.int64], ids=str)
@pytest.mark.parametrize(
    "op", [torch.add, torch.div, torch.eq, torch.pow], ids=lambda op: op.__name__
)
def test_a_number_of_the_cpu_comes_first(op: Callable[..., Tensor], dtype: torch.dtype) -> None:
    number, x = torch.tensor(2, dtype=dtype), torch.tensor(3, dtype=dtype)
    for _ in range(2):  # the first call of a dtype that the host computes runs at once
        found = op(number, x.to("nntile"))
        assert found.device.type == "nntile"
        torch.testing.assert_close(found.cpu(), op(number, x))


@pytest.mark.parametrize("extent", [0, 1, 255, 256, 300, 65535, 70000])
def test_eye(extent: int) -> None:
    assert torch.equal(torch.eye(extent, 2, device="nntile").cpu(), torch.eye(extent, 2))
    for dtype in (torch.bool, torch.int64, torch.bfloat16):
        found = torch.empty(3, dtype=dtype, device="nntile")
        torch.eye(min(extent, 300), out=found)
        assert torch.equal(found.cpu(), torch.eye(min(extent, 300), dtype=dtype))
