# SPDX-License-Identifier: BSD-3-Clause
"""x[i, :, mask], x[i] = v and what is made of them, as on the CPU; nothing runs on the host."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from parity import assert_parity, runtime_mode
from torch import Tensor

from torch_nntile import wait
from torch_nntile.compositions import forms

DTYPES = (
    *(torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32),
    *(torch.uint8, torch.bool),
)
FIRST, SECOND = torch.tensor([4, 0, -1, 2]), torch.tensor([[1], [-3]])


pytestmark = pytest.mark.usefixtures("rows_only")


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    made = torch.randint(0, 100, shape, generator=generator)
    return (made % 2 == 0 if dtype == torch.bool else made).to(dtype)


def is_real(dtype: torch.dtype) -> bool:
    return dtype in (torch.float32, torch.float64)


READS: dict[str, Callable[..., Any]] = {
    "first": lambda x, i, j: x[i],
    "middle": lambda x, i, j: x[:, i],
    "last": lambda x, i, j: x[..., i % 3],
    "apart": lambda x, i, j: x[i, :, i % 3],
    "beside": lambda x, i, j: x[i, i],
    "all": lambda x, i, j: x[i, i, i % 3],
    "broadcast": lambda x, i, j: x[:, i, j],
    "new dims": lambda x, i, j: x[j, None, i],
    "number": lambda x, i, j: x[i[0], :, j],
    "none": lambda x, i, j: x[i[:0]],
    "int32": lambda x, i, j: x[i.int(), j.int()],
    "mask": lambda x, i, j: x[x > 40],
    "mask of rows": lambda x, i, j: x[x[:, 0, 0] > 40],
    "mask and index": lambda x, i, j: x[:, x[0, :, 0] > 40, j[:, 0, None]],
    "take": lambda x, i, j: x.take(j * 7),
    "take_along_dim": lambda x, i, j: torch.take_along_dim(x, x.argsort(1), 1),
    "view": lambda x, i, j: x.transpose(0, 2)[i % 3],
}


@pytest.mark.parametrize("cuts", [{}, {0: {0: (1, 4), 1: 2, 2: 2}}, {0: {1: (4, 1, 1)}, 1: {0: 3}}])
@pytest.mark.parametrize("name", READS)
def test_reads(name: str, cuts: Any) -> None:
    inputs = [numbers(5, 6, 3), FIRST, SECOND]
    assert_parity(READS[name], inputs, cuts=cuts, grad=False, same_bits=True)
    assert_parity(READS[name], inputs, cuts=cuts)


@pytest.mark.parametrize("dtype", DTYPES)
def test_reads_of_all_dtypes(dtype: torch.dtype) -> None:
    for name in ("middle", "apart", "broadcast", "mask of rows"):
        assert_parity(
            READS[name], [numbers(5, 6, 3, dtype=dtype), FIRST, SECOND], grad=is_real(dtype)
        )


def put(x: Tensor, v: Tensor, *where: Any, accumulate: bool = False) -> Tensor:
    y = x.clone()
    return y.index_put_(where, v, accumulate)


WRITES: dict[str, Callable[..., Any]] = {
    "rows": lambda x, v, i, j: put(x, v[:4], i),
    "broadcast": lambda x, v, i, j: put(x, v[0, 0], i, j),
    "apart": lambda x, v, i, j: _assigned(x, v[:4, :, 0], (i, slice(None), i % 3)),
    "number": lambda x, v, i, j: _assigned(x, 7, (i,)),
    "mask": lambda x, v, i, j: _assigned(x, 7, (x > 40,)),
    "mask of rows": lambda x, v, i, j: _assigned(x, v[0], (x[:, 0, 0] > 40,)),
    "added": lambda x, v, i, j: put(x, v[:4], i % 2, accumulate=True),
    "added to all": lambda x, v, i, j: put(x, v[:4, 0, 0], i % 2, i % 2, i % 2, accumulate=True),
    "added by mask": lambda x, v, i, j: put(x, v[0, 0, 0], x > 40, accumulate=True),
    "view": lambda x, v, i, j: _of_view(x, v, i),
    "put": lambda x, v, i, j: x.put(i, v[:4, 0, 0]),
    "put added": lambda x, v, i, j: x.put(i % 2, v[:4, 0, 0], accumulate=True),
    "masked_scatter": lambda x, v, i, j: x.masked_scatter(x > 40, v),
    "nothing": lambda x, v, i, j: put(x, v[:0], i[:0]),
}


def _assigned(x: Tensor, v: Any, where: tuple[Any, ...]) -> Tensor:
    y = x.clone()
    y[where] = v
    return y


def _of_view(x: Tensor, v: Tensor, i: Tensor) -> Tensor:
    """What is beside the view stays."""
    y = x.clone()
    y.transpose(0, 1)[1:4][i[1:3] % 3] = v[0, 0, 0]
    return y


@pytest.mark.parametrize("cuts", [{}, {0: {0: (1, 4), 1: 2, 2: 2}}, {1: {1: 4}, 2: {0: 3}}])
@pytest.mark.parametrize("name", WRITES)
def test_writes(name: str, cuts: Any) -> None:
    x, v = numbers(5, 6, 3), numbers(5, 6, 3) - 50
    assert_parity(WRITES[name], [x, v, FIRST, SECOND], cuts=cuts, grad=False, same_bits=True)
    assert_parity(WRITES[name], [x, v, FIRST, SECOND], cuts=cuts)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
@pytest.mark.parametrize("index", [[2, 0, 2], [[1, 1], [-1, 0]], []], ids=str)
def test_tables_whose_dims_lie_in_another_order(order: tuple[int, ...], index: Any) -> None:
    """Rows, read with the CPU's strides; of each dim, written with and without a broadcast."""
    generator = torch.Generator().manual_seed(7)
    sizes = (3, 19, 17)  # what one index leads to is worth a copy of its own
    x = torch.rand([sizes[d] for d in order], generator=generator)
    x = x.permute([order.index(d) for d in range(3)])
    at = torch.tensor(index, dtype=torch.int64)
    assert_parity(lambda x, i: x[i], [x, at])
    for dim in range(3):
        shape = (*sizes[:dim], *at.shape, *sizes[dim + 1 :])
        for values in (torch.rand(shape, generator=generator), torch.rand(1)):
            assert_parity(
                lambda x, v, i, d=dim: torch.ops.aten.index_put(x, [*[None] * d, i], v, True),
                [x, values, at],
            )


@pytest.mark.parametrize("shape", [(37, 5), (3, 21, 40), (1, 7), (2, 0)], ids=str)
def test_indices_that_lie_across_their_lines(shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(3)
    x, y = (torch.rand(shape, generator=generator) for _ in range(2))
    at = torch.randint(0, max(shape[-1], 1), shape, generator=generator)
    at = at.mT.contiguous().mT
    assert_parity(lambda x, y, i: x.scatter_add(-1, i, y), [x, y, at])
    assert_parity(lambda x, y, i: x.gather(-1, i) * y, [x, y, at])
    if shape[-1] > 1:
        at[..., -1, -2] = shape[-1]
        with pytest.raises(RuntimeError, match=f"index {shape[-1]} is out of bounds"):
            x.to("nntile").scatter_add(-1, at.to("nntile"), y.to("nntile")).cpu()


@pytest.mark.parametrize("dtype", DTYPES)
def test_writes_of_all_dtypes(dtype: torch.dtype) -> None:
    x = numbers(5, 6, 3, dtype=dtype)
    for name in ("rows", "broadcast", "mask of rows", "added", "masked_scatter"):
        assert_parity(
            lambda x, v, i, j, n=name: WRITES[n](x, v, i, j),
            [x, x.flip(0).clone(), FIRST, SECOND]
            if "masked" not in name
            else [x > 40, x > 20, FIRST, SECOND],
            grad=is_real(dtype) and "masked" not in name,
        )


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.int8])
def test_scatter_reduce(reduce: str, include_self: bool, dtype: torch.dtype) -> None:
    x, source = numbers(5, 4, dtype=dtype) % 5, numbers(9, 4, dtype=dtype) % 3
    places = torch.arange(36).reshape(9, 4) * 7 % 5
    options: dict[str, Any] = {"include_self": include_self}
    cuts = {0: {1: (1, 3)}, 1: {1: 2, 0: 4}}
    assert_parity(
        lambda x, s, i: x.scatter_reduce(0, i, s, reduce, **options),
        [x, source, places],
        cuts=cuts,
        grad=False,
    )
    if reduce != "sum":
        assert_parity(
            lambda x, s, i: x.index_reduce(0, i[:, 0], s, reduce, **options),
            [x, source, places],
            cuts=cuts,
            grad=False,
        )


def test_a_sum_has_the_same_bits_for_any_cut() -> None:
    """Its terms come in the order of the indices, whatever the tiles are."""
    generator = torch.Generator().manual_seed(1)
    x, source = (torch.randn(n, 33, generator=generator) for n in (3, 400))
    places = torch.arange(400) * 31 % 3
    expected = x.index_add(0, places, source)
    for cuts in ({}, {0: {1: (5, 28)}}, {1: {0: 7}}, {1: {0: (399, 1), 1: 8}, 2: {0: 100}}):
        assert_parity(
            lambda x, s, i: x.index_add(0, i, s),
            [x, source, places],
            cuts=cuts,
            grad=False,
            same_bits=True,
        )
    found = x.to("nntile").index_add(0, places.to("nntile"), source.to("nntile"))
    assert torch.equal(found.cpu(), expected)


ERRORS: dict[str, tuple[type[Exception], Callable[..., Any]]] = {
    "index": (IndexError, lambda x, bad: x[bad]),
    "negative": (IndexError, lambda x, bad: x[-bad - 1]),
    "second": (IndexError, lambda x, bad: x[:, bad]),
    "put": (IndexError, lambda x, bad: put(x, x[:1], bad)),
    "added": (IndexError, lambda x, bad: put(x, x[:1], bad, accumulate=True)),
    "gather": (RuntimeError, lambda x, bad: x.gather(0, bad.view(1, 1))),
    "gather negative": (RuntimeError, lambda x, bad: x.gather(0, -bad.view(1, 1))),
    "scatter": (RuntimeError, lambda x, bad: x.scatter(0, bad.view(1, 1), 1.0)),
    "index_select": (IndexError, lambda x, bad: x.index_select(0, bad)),
    "index_select negative": (IndexError, lambda x, bad: x.index_select(0, -bad)),
    # Of more dims the CPU's class depends on which of its loops runs.
    "index_add": (IndexError, lambda x, bad: x[:, 0].clone().index_add(0, bad, x[:1, 0])),
    "index_copy": (IndexError, lambda x, bad: x.index_copy(0, bad, x[:1])),
    "take": (IndexError, lambda x, bad: x.take(bad * 100)),
    "masked_scatter": (RuntimeError, lambda x, bad: x.masked_scatter(x == x, x[:1])),
}


@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize("name", ERRORS)
def test_an_index_out_of_range(name: str, mode: str) -> None:
    error, call = ERRORS[name]
    x = numbers(4, 3)
    with runtime_mode(mode):
        for bad in (5, 2**40):
            with pytest.raises(error):
                call(x, torch.tensor([bad]))
            with pytest.raises(error) as found:
                call(x.to("nntile"), torch.tensor([bad], device="nntile")).cpu()
            assert not isinstance(found.value, ValueError)
            wait()
        assert torch.equal((x.to("nntile") + 1).cpu(), x + 1)


REFUSED: dict[str, Callable[..., Any]] = {
    "dtype": lambda x: x[torch.ones(2, device=x.device)],
    "too many": lambda x: x[(torch.zeros(1, dtype=torch.int64, device=x.device),) * 3],
    "mask": lambda x: x[torch.ones(3, dtype=torch.bool, device=x.device)],
    "shapes": lambda x: x[
        torch.zeros(2, dtype=torch.int64, device=x.device),
        torch.zeros(3, dtype=torch.int64, device=x.device),
    ],
    "values": lambda x: put(
        x, x.new_zeros(2, 3), torch.zeros(3, dtype=torch.int64, device=x.device)
    ),
    "dtype of values": lambda x: put(
        x, x.long(), torch.zeros(1, dtype=torch.int64, device=x.device)
    ),
    "gather rank": lambda x: x.gather(0, torch.zeros(2, dtype=torch.int64, device=x.device)),
    "scatter dtype": lambda x: x.scatter(0, torch.zeros_like(x, dtype=torch.int64), x.double()),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_as_on_the_cpu(name: str) -> None:
    with pytest.raises(Exception) as expected:  # noqa: PT011 - its class is what is compared
        REFUSED[name](numbers(4, 3))
    with pytest.raises(expected.type):
        REFUSED[name](numbers(4, 3).to("nntile"))


def test_sizes_that_depend_on_data_are_read() -> None:
    """As item() is: no function of the host computes, so cpu_fallback=False takes them."""
    x = numbers(5, 6).to("nntile")
    host = x.cpu()
    assert torch.equal(x.nonzero().cpu(), host.nonzero())
    assert torch.equal((x > 40).nonzero().cpu(), (host > 40).nonzero())
    counts = torch.tensor([2, 0, 1, 3, 1])
    found = x.repeat_interleave(counts.to("nntile"), 0)
    assert torch.equal(found.cpu(), host.repeat_interleave(counts, 0))


def test_a_large_table_is_changed_where_it_lies() -> None:
    """A cache of keys: what is not written is not copied, in place or not."""
    x = numbers(6, 4).to("nntile")
    before = x.data_ptr()
    for step in range(6):
        x.index_copy_(0, torch.tensor([step], device="nntile"), x.new_full((1, 4), step))
    assert x.data_ptr() == before
    assert torch.equal(x.cpu(), torch.arange(6.0)[:, None].expand(6, 4))


def test_a_mask_that_is_written_through_is_compiled() -> None:
    """Of our own op nothing is returned: a functional graph takes no result that is an operand."""

    def call(x: Tensor, mask: Tensor, w: Tensor) -> Tensor:
        y = x * 2
        y[mask] = w
        return y.sum(1)

    x, w = torch.arange(12.0).reshape(3, 4), torch.tensor([7.0, 8.0, 9.0, 1.0])
    mask = torch.tensor([True, False, True])
    expected = call(x, mask, w)
    compiled = torch.compile(call, backend="nntile")
    found = compiled(*(t.to("nntile") for t in (x, mask, w)))
    torch.testing.assert_close(found.cpu(), expected)


# ---- a temporary in two places of a call


def base_and_source(kind: str, a: Tensor, index: Tensor, swap: Tensor) -> Tensor:
    """The result may take the memory of the first operand, but the second one reads it elsewhere."""
    a = a * 2
    calls: dict[str, Callable[[], Tensor]] = {
        "scatter": lambda: a.scatter(1, index, a),
        "scatter_add": lambda: a.scatter_add(1, index, a),
        "scatter_reduce": lambda: a.scatter_reduce(1, index, a, "amax"),
        "index_add": lambda: a.index_add(0, swap, a),
        "index_copy": lambda: a.index_copy(0, swap, a),
        "index_put": lambda: a.index_put((swap,), a),
        "accumulate": lambda: a.index_put((swap,), a, accumulate=True),
        "baddbmm": lambda: torch.baddbmm(a[None], a[None], a[None])[0],
        "masked_scatter": lambda: a.masked_scatter(a > 20, a),
        "host": lambda: torch.put(a, index.flatten(), a.flatten()),
    }
    return calls[kind]()


KINDS = (
    *("scatter", "scatter_add", "scatter_reduce", "index_add", "index_copy", "index_put"),
    *("accumulate", "baddbmm", "masked_scatter", "host"),
)


@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_temporary_is_base_and_source(kind: str, mode: str) -> None:
    a = numbers(8, 8)
    index = torch.rand(8, 8, generator=torch.Generator().manual_seed(1)).argsort(1)
    swap = torch.tensor([3, 1, 7, 0, 2, 6, 5, 4])
    with runtime_mode(mode):
        found = base_and_source(kind, *(t.to("nntile") for t in (a, index, swap))).cpu()
    assert torch.equal(found, base_and_source(kind, a, index, swap))


def test_the_host_is_asked_once_for_a_kind_of_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    ask = forms._ask

    def noting(op: Any, args: Any, kwargs: Any) -> bool:
        asked.append(op)
        return ask(op, args, kwargs)

    monkeypatch.setattr(forms, "_ask", noting)
    x = torch.randn(7, 3, dtype=torch.float64, device="nntile")
    for _ in range(4):
        x[x > 0]
        x.masked_select(x > 0)
    assert len(asked) <= 2
