# SPDX-License-Identifier: BSD-3-Clause
"""Sparse tensors: their parts are on the device, what is computed with them runs on the host."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import torch_nntile

pytestmark = [
    pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta"),
    pytest.mark.filterwarnings("ignore:.*runs on the host"),
]


def dense(device: str) -> Tensor:
    return torch.tensor([[0.0, 1.0, 0.0], [2.0, 0.0, 3.0]]).to(device)


def fresh(x: Tensor) -> Tensor:
    result: Tensor = x.clone()
    return result


COO: dict[str, Callable[[Tensor], Any]] = {
    "to_dense": lambda s: s.to_dense(),
    "back": lambda s: s.cpu().to(s.device),
    "coalesce": lambda s: (s + s).coalesce(),
    "indices": lambda s: s.indices(),
    "values": lambda s: s.values(),
    "numbers": lambda s: (s._nnz(), s.sparse_dim(), s.dense_dim(), s.is_coalesced(), s.is_sparse),
    "mm": lambda s: torch.sparse.mm(s, torch.ones(3, 2, device=s.device)),
    "matmul": lambda s: s @ torch.ones(3, 2, device=s.device),
    "add_to_dense": lambda s: torch.ones(2, 3, device=s.device) + s,
    "add_to_dense_": lambda s: torch.ones(2, 3, device=s.device).add_(s, alpha=-2),
    "add": lambda s: s + s,
    "mul": lambda s: s * 2,
    "mul_": lambda s: fresh(s).mul_(2),
    "zero_": lambda s: fresh(s).zero_(),
    "neg": lambda s: -s,
    "t": lambda s: s.t(),
    "permute": lambda s: s.permute(1, 0),
    "unsqueeze": lambda s: s.unsqueeze(0),
    "select": lambda s: s[0],
    "index_select": lambda s: s.index_select(0, torch.tensor([1], device=s.device)),
    "sum": lambda s: torch.sparse.sum(s),
    "sum_of_rows": lambda s: torch.sparse.sum(s, 0),
    "softmax": lambda s: torch.sparse.softmax(s, 1),
    "cat": lambda s: torch.cat([s, s]),
    "double": lambda s: s.double(),
    "detach": lambda s: s.detach(),
    "deepcopy": lambda s: copy.deepcopy(s),
    "pickle": lambda s: pickle.loads(pickle.dumps(s)),
    "sparse_mask": lambda s: torch.ones(2, 3, device=s.device).sparse_mask(s),
    "made": lambda s: torch.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], device=s.device),
    "zeros": lambda s: torch.zeros(2, 3, layout=torch.sparse_coo, device=s.device),
    "csr": lambda s: s.to_sparse_csr(),
}
CSR: dict[str, Callable[[Tensor], Any]] = {
    "to_dense": lambda s: s.to_dense(),
    "back": lambda s: s.cpu().to(s.device),
    "parts": lambda s: (s.crow_indices(), s.col_indices(), s.values(), s._nnz()),
    "mm": lambda s: s @ torch.ones(3, 2, device=s.device),
    "mv": lambda s: s @ torch.ones(3, device=s.device),
    "mul": lambda s: s * 2,
    "add": lambda s: s + s,
    "relu_": lambda s: fresh(s).relu_(),
    "select": lambda s: s[1],
    "t": lambda s: s.t(),
    "coo": lambda s: s.to_sparse(),
    "csc": lambda s: s.to_sparse_csc(),
    "made": lambda s: torch.sparse_csr_tensor(
        torch.tensor([0, 1, 3]), torch.tensor([1, 0, 2]), torch.ones(3), (2, 3), device=s.device
    ),
}


@pytest.mark.parametrize("use", [*COO, *(f"csr {name}" for name in CSR)])
def test_it_is_the_same(use: str) -> None:
    csr = use.startswith("csr ")
    call = CSR[use.removeprefix("csr ")] if csr else COO[use]
    found, expected = (
        call(dense(device).to_sparse_csr() if csr else dense(device).to_sparse())
        for device in ("nntile", "cpu")
    )
    for f in found if isinstance(found, tuple) else (found,):
        assert not isinstance(f, Tensor) or f.device.type == "nntile"
    torch.testing.assert_close(found, expected, check_device=False, msg=use)


def test_it_prints() -> None:
    assert "device='nntile:0'" in repr(dense("nntile").to_sparse())


def test_other_devices_are_refused() -> None:
    with pytest.raises(RuntimeError, match="same device"):
        torch.sparse.mm(dense("nntile").to_sparse(), torch.ones(3, 2))


OPTIMIZERS: dict[str, Callable[[list[nn.Parameter]], torch.optim.Optimizer]] = {
    "SGD": lambda p: torch.optim.SGD(p, 0.1),
    "momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
    "Adagrad": lambda p: torch.optim.Adagrad(p, 0.1),
    "SparseAdam": lambda p: torch.optim.SparseAdam(p, 0.1),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("padding", [None, 1])
def test_an_embedding_trains(optimizer: str, padding: int | None) -> None:
    found = []
    for device in ("nntile", "cpu"):
        torch.manual_seed(0)
        table, head = nn.Embedding(10, 3, padding, sparse=True), nn.Linear(3, 2)
        table, head = table.to(device), head.to(device)
        steps = OPTIMIZERS[optimizer](list(table.parameters()))
        x = torch.tensor([[1, 2, 2], [9, 0, 1]]).to(device)
        for _ in range(3):
            steps.zero_grad()
            for _ in range(2):  # gradients accumulate
                head(table(x)).square().sum().backward()
            steps.step()
        assert table.weight.grad is not None and table.weight.grad.is_sparse
        found.append((table.weight.detach().cpu(), table.weight.grad.to_dense().cpu()))
    torch.testing.assert_close(*found)


def test_gradients() -> None:
    found = []
    for device in ("nntile", "cpu"):
        values = torch.tensor([1.0, 2.0, 3.0], device=device, requires_grad=True)
        w = torch.ones(3, 2, device=device, requires_grad=True)
        at = torch.tensor([[0, 1, 1], [1, 0, 2]], device=device)
        torch.sparse.mm(torch.sparse_coo_tensor(at, values, (2, 3)), w).square().sum().backward()
        assert values.grad is not None and w.grad is not None
        found.append((values.grad.cpu(), w.grad.cpu()))
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
def test_gradients_of_a_reducing_product(reduce: str) -> None:
    def gradients(device: str) -> list[Tensor]:
        s = torch.tensor([[1.0, 0, -2], [0, 3, 4]]).to_sparse_csr().to(device).requires_grad_()
        w = torch.arange(6.0).view(3, 2).to(device).requires_grad_()
        torch.sparse.mm(s, w, reduce).square().sum().backward()
        assert s.grad is not None
        assert w.grad is not None
        return [s.grad.to_dense().cpu(), w.grad.cpu()]

    for found, expected in zip(gradients("nntile"), gradients("cpu"), strict=True):
        torch.testing.assert_close(found, expected)


def test_what_has_no_kernel_says_so_without_the_host() -> None:
    s = dense("nntile").to_sparse()
    torch_nntile.fallback.set_cpu_fallback(False)
    try:
        with pytest.raises(NotImplementedError, match=r"aten::add.*cpu_fallback is off"):
            s + s
    finally:
        torch_nntile.fallback.set_cpu_fallback(True)
