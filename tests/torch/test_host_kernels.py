# SPDX-License-Identifier: BSD-3-Clause
"""Ops without a row: values, gradients and errors of CPU PyTorch, on whole and on cut tensors."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from parity import runtime_mode
from torch import Tensor
from torch.utils import _pytree as pytree

import torch_nntile
from torch_nntile import stats

Case = Callable[[Tensor], Any]


def three(x: Tensor) -> Tensor:
    return torch.arange(3, device=x.device)


def zeros(x: Tensor) -> Tensor:
    return torch.zeros(x.shape, dtype=torch.int64, device=x.device)


def square(x: Tensor) -> Tensor:
    return x[:, :, :5]


def positive(x: Tensor) -> Tensor:
    return x @ x.mT + 9 * torch.eye(5, dtype=x.dtype, device=x.device)


def assigned(x: Tensor) -> Tensor:
    y = x.clone()
    y[y > 1] = -1
    y[three(x)[:2], :, 1] = x[:2, :, 2]
    y[[0, 1]] += x[1]
    y[..., -1] *= 2
    y[1:, None] = 7
    return y


# By name; x is [4, 5, 6].
CASES: dict[str, Case] = {
    "indices": lambda x: (x[[0, 2]], x[three(x), three(x)], x[:, three(x), 1:], x[x > 0]),
    "assignments": assigned,
    "index_put": lambda x: x.index_put((three(x) // 2,), x[:3], accumulate=True),
    "masked_scatter": lambda x: x.masked_scatter(x > 0, x.flip(0)),
    "gather": lambda x: (x.gather(1, zeros(x)), x.take(three(x)), x.index_select(1, three(x))),
    "scatter": lambda x: x.scatter(0, zeros(x)[:1], x[:1]),
    "scatter_add": lambda x: x.scatter_add(0, zeros(x), x),
    "scatter_reduce": lambda x: x.scatter_reduce(0, zeros(x), x, "amax"),
    "index_add": lambda x: x.index_add(0, three(x), x[:3]),
    "index_copy": lambda x: x.index_copy(0, three(x), x[1:]).index_fill(1, three(x), 2.0),
    "sort": lambda x: (x.sort(2), x.sort(dim=1, descending=True, stable=True), x.topk(2, 1)),
    "order statistics": lambda x: (x.kthvalue(2, 1), x.median(), x.median(1), x.quantile(0.3, 1)),
    "scans": lambda x: (x.cumsum(1), x.cumprod(2), x.cummax(0), x.logcumsumexp(1)),
    "sizes that depend on data": lambda x: (
        (x > 0).nonzero(),
        x.detach().round().unique(return_counts=True),
        x.abs().long().flatten().bincount(),
        torch.where(x > 0),
    ),
    "counts": lambda x: (x.histc(5), torch.bucketize(x, three(x) - 1.0), torch.isin(x, x[0])),
    "moves": lambda x: (x.roll((1, 2), (0, 1)), x.rot90(), x.repeat(2, 1, 3), x.tile(2)),
    "repeat_interleave": lambda x: x.repeat_interleave(2, 1),
    "einsum": lambda x: torch.einsum("abc,adc->bd", x, x),
    "cdist": lambda x: torch.cdist(x, x.flip(1) + 1),
    "svdvals": lambda x: torch.linalg.svdvals(x),
    "inv": lambda x: torch.linalg.inv(square(x)),
    "solve": lambda x: torch.linalg.solve(square(x), x[..., -1:]),
    "cholesky": lambda x: torch.linalg.cholesky(positive(x)),
    "eigvalsh": lambda x: torch.linalg.eigvalsh(positive(x)),
    "matrix_exp": lambda x: torch.linalg.matrix_exp(square(x) / 9),
    "det": lambda x: torch.linalg.det(square(x)),
    "det of dense": lambda x: torch.linalg.det(square(x).contiguous()),
    "det of transposed": lambda x: torch.linalg.det(square(x).contiguous().mT),
    "slogdet": lambda x: torch.linalg.slogdet(square(x)),
    "slogdet of dense": lambda x: torch.linalg.slogdet(square(x).contiguous()),
    "fft": lambda x: (torch.fft.fft(x).abs(), torch.fft.irfft(torch.fft.rfft(x))),
    "complex": lambda x: torch.view_as_real(torch.polar(x.abs(), x) * 2j),
    "conjugate product": lambda x: (torch.complex(x, x) @ torch.complex(x, -x).mH).real,
    "functions": lambda x: (x.abs().lgamma(), (x / 9).erfinv(), torch.atan2(x, x.flip(0))),
    "more functions": lambda x: (x.digamma(), torch.i0(x), torch.hypot(x, x), x.frexp()),
    "integers": lambda x: (x.long() << 2, ~x.long(), torch.gcd(x.long(), x.long() * 2)),
    "attention": lambda x: F.scaled_dot_product_attention(
        x[None], x[None, :2], x[None, :2], enable_gqa=True
    ),
    "grid_sample": lambda x: F.grid_sample(x[None], x[None, :, :, :2].tanh(), align_corners=False),
    "ctc_loss": lambda x: F.ctc_loss(
        x.log_softmax(2).transpose(0, 1),
        torch.tensor([[1, 2]] * 4).to(x.device),
        torch.tensor([5] * 4),
        torch.tensor([2] * 4),
    ),
    "embedding_bag": lambda x: F.embedding_bag(
        three(x), x[0], torch.tensor([0, 2]).to(x.device), mode="mean"
    ),
    "fold": lambda x: F.fold(F.unfold(x[None], 2), (5, 6), 2),
    "isin": lambda x: (torch.isin(x.round(), three(x)), torch.isin(1, x.round())),
    "renorm": lambda x: x.renorm(2, 0, 1.0),
    "pad_sequence": lambda x: torch.nn.utils.rnn.pad_sequence([x[0], x[1, :2]]),
}

CUTS = {"whole": (), "cut": ((1, 3), 2, (2, 4))}


def cut(x: Tensor, sizes: tuple[Any, ...]) -> Tensor:
    unique = uuid.uuid4().hex[:8]
    for dim, size in enumerate(sizes):
        torch_nntile.set_axis_group_name(x, {dim: f"{dim}_{unique}"})
        torch_nntile.set_axis_group_tiling(f"{dim}_{unique}", size)
    return x


def run(call: Case, x: Tensor) -> list[Any]:
    """Results, and the gradient of x."""
    x.requires_grad_()
    results = pytree.tree_leaves(call(x))
    weighted = [
        (r * torch.linspace(-1, 1, r.numel(), dtype=r.dtype).reshape(r.shape).to(r.device)).sum()
        for r in results
        if isinstance(r, Tensor) and r.requires_grad
    ]
    if weighted:
        results += torch.autograd.grad(sum(weighted), x)
    return results


pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize("name", CASES)
def test_as_on_the_cpu(name: str, cuts: str, mode: str) -> None:
    torch.manual_seed(15)
    x = torch.randn(4, 5, 6, dtype=torch.float64)
    expected = run(CASES[name], x.clone())
    with runtime_mode(mode):
        for _ in range(2):  # the first call of an overload may take another way
            found = run(CASES[name], cut(x.to("nntile"), CUTS[cuts]))
            torch.testing.assert_close(
                pytree.tree_map(host, found), pytree.tree_map(host, expected)
            )


def host(value: Any) -> Any:
    return value.detach().cpu() if isinstance(value, Tensor) else value


@pytest.mark.parametrize("shape", [(3,), (2, 3)], ids=str)
@pytest.mark.parametrize("call", [torch.linalg.det, torch.linalg.slogdet])
def test_determinants_of_what_is_not_square(call: Case, shape: tuple[int, ...]) -> None:
    with pytest.raises(RuntimeError) as expected:
        call(torch.ones(shape))
    with pytest.raises(RuntimeError) as found:
        call(torch.ones(shape, device="nntile"))
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
def test_integers_are_counted(dtype: torch.dtype) -> None:
    """The CPU refuses; routers of experts count this way on all other devices."""
    x = torch.tensor([[0, 3, 3], [7, 9, 4]], dtype=dtype)
    counts = torch.histc(x.to("nntile"), bins=8, min=0, max=7)
    assert counts.cpu().tolist() == [1, 0, 0, 2, 1, 0, 0, 1]
    assert counts.dtype == dtype
    assert torch.histc(x.to("nntile"), bins=3).cpu().tolist() == [1, 3, 2]


@pytest.fixture
def library() -> Iterator[torch.library.Library]:
    with torch.library._scoped_library("nntile_host_test", "FRAGMENT") as made:
        yield made


def test_a_kernel_sees_the_values_of_its_user_only(library: torch.library.Library) -> None:
    """PyTorch's CPU kernels trust indices, so that invented ones may lead anywhere."""
    seen: list[list[float]] = []

    def double(x: Tensor) -> Tensor:
        seen.append(x.flatten().tolist())
        return x * 2

    library.define("double(Tensor x) -> Tensor")
    library.impl("double", double, "CPU")  # and nothing for Meta
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    y = torch.ops.nntile_host_test.double(x.to("nntile"))
    assert torch.equal(y.cpu(), x * 2)
    assert seen == [[1.0, 2.0, 3.0, 4.0]]


def test_ctc_loss() -> None:
    torch.manual_seed(16)
    x = torch.randn(49, 2, 32, dtype=torch.float64)
    labels, steps, lengths = (
        torch.randint(1, 32, (12,)),
        torch.tensor([49, 40]),
        torch.tensor([7, 5]),
    )

    def loss(x: Tensor) -> Tensor:
        of = [t.to(x.device) for t in (labels, steps, lengths)]
        return F.ctc_loss(x.log_softmax(-1), of[0], of[1], of[2], reduction="sum")

    for found, expected in zip(run(loss, x.to("nntile")), run(loss, x.clone()), strict=True):
        torch.testing.assert_close(host(found), host(expected))


@pytest.mark.parametrize(
    "call",
    [
        lambda x, k: torch.poisson(x),
        lambda x, k: torch.special.chebyshev_polynomial_t(x, k),
    ],
    ids=["poisson", "chebyshev"],
)
def test_numbers_of_a_call_make_no_plan(call: Callable[[Tensor, int], Tensor]) -> None:
    """Seeds, offsets and numbers are data of the run; only shapes and dtypes make a plan."""
    x = torch.linspace(0.1, 0.9, 12, device="nntile").view(3, 4)
    call(x, 0).cpu()
    before = stats()
    for k in range(1, 5):
        call(x, k).cpu()
    after = stats()
    assert after.lowerings == before.lowerings and after.host_calls == before.host_calls + 4


# Compositions whose formula is for real floating numbers, of others. x is complex, [4, 5].
OF_OTHERS: dict[str, Case] = {
    "vdot": lambda x: torch.vdot(x[0], x[1]),
    "addr": lambda x: torch.addr(x[:, :4], x[:, 0], x[:, 1]),
    "addr.out": lambda x: torch.addr(x[:, :4], x[:, 0], x[:, 1], out=x.new_empty(0)),
    "addr_": lambda x: x[:, :4].clone().addr_(x[:, 0], x[:, 1]),
    "linalg_vector_norm": lambda x: torch.linalg.vector_norm(x, dim=1),
    "upsample_bilinear2d": lambda x: F.interpolate(
        torch.view_as_real(x)[None].abs().mul(90).byte(), size=(3, 2), mode="bilinear"
    ),
}


@pytest.mark.parametrize("name", OF_OTHERS)
def test_a_composition_of_other_numbers_is_an_op_of_the_host(name: str) -> None:
    """Counted, forbidden, refused and recorded as others of these are."""
    case, counted = OF_OTHERS[name], f"aten::{name}"
    x, y = (torch.randn(4, 5, dtype=torch.complex64) for _ in range(2))
    torch_nntile.reset_fallback_report()
    for given in (x, y, x):  # at once, then as tasks
        torch.testing.assert_close(case(given.to("nntile")).cpu(), case(given))
    assert [r.calls for r in torch_nntile.fallback_report() if r.overload == counted] == [3]

    captured = torch_nntile.capture(case)
    for given in (x, y, x):
        torch.testing.assert_close(captured(given.to("nntile")).cpu(), case(given))

    torch_nntile.fallback.set_cpu_fallback(False)
    try:
        with pytest.raises(NotImplementedError, match=rf"{counted}.*cpu_fallback is off"):
            case(x.to("nntile"))
    finally:
        torch_nntile.fallback.set_cpu_fallback(True)


@pytest.mark.parametrize(
    "case",
    [
        lambda x: torch.addr(x[:, :4], x[:, 0], x[:, 1]),  # with these dtypes for the first time
        lambda x: torch.view_as_real(x).unique(),
        lambda x: torch.view_as_real(x).to_sparse(),
    ],
    ids=["composition", "no row", "sparse"],
)
def test_what_runs_at_once_is_refused_in_a_capture(case: Case) -> None:
    x = torch.randn(4, 5, dtype=torch.complex128, device="nntile")
    with pytest.raises(RuntimeError, match="not possible inside of a captured function"):
        torch_nntile.capture(case)(x)
