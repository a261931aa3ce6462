# SPDX-License-Identifier: BSD-3-Clause
"""torch.compile as a user writes it: backend="nntile", and what the default backend says."""

from __future__ import annotations

import copy
import subprocess
import sys
from typing import Any

import pytest
import torch
import torch._dynamo.testing
from torch import Tensor, nn
from torch.nn import functional as F

import torch_nntile


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.n, self.b = nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(self, x: Tensor, breaks: bool = False) -> Tensor:
        x = F.gelu(self.n(self.a(x)))
        if breaks and x.sum().item() > -1e9:  # Dynamo has to know the number: a graph break
            x = x * 2
        return self.b(x)


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


def losses_of(model: nn.Module, call: Any, device: str, **kwargs: bool) -> list[float]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for rows in (4, 5, 7):  # a new size each time
        x = (torch.arange(6.0 * rows).reshape(rows, 6) % 5).to(device)
        loss = F.cross_entropy(call(x, **kwargs), (torch.arange(rows) % 3).to(device))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize(
    ("settings", "breaks"),
    [({}, False), ({}, True), ({"fullgraph": True, "dynamic": True}, False)],
    ids=["plain", "graph break", "fullgraph dynamic"],
)
def test_a_model_trains_as_without_compile(settings: dict[str, bool], breaks: bool) -> None:
    torch.manual_seed(0)
    plain = Net()
    model = copy.deepcopy(plain).to("nntile")
    compiled = torch.compile(model, backend="nntile", **settings)
    expected = losses_of(plain, plain, "cpu", breaks=breaks)
    assert losses_of(model, compiled, "nntile", breaks=breaks) == pytest.approx(expected, rel=1e-5)


class Noisy(nn.Module):
    """Buffers that change, random numbers, a view of an argument among the results."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.n, self.b = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)
        self.c, self.m = nn.Linear(8, 8), nn.BatchNorm1d(8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.tanh(self.m(self.c(F.relu(self.n(self.a(x))))))
        return self.b(F.dropout(y * y, 0.3)), x.t()


@pytest.mark.usefixtures("calls_wait")
@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("dynamic", [None, True])
def test_a_replay_gives_the_same_bits(dynamic: bool | None, captured: bool) -> None:
    """As the model that is not compiled; no graph is lowered anew for sizes that were there."""

    def trained(backend: str | None) -> tuple[list[Any], list[int], list[int]]:
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = Noisy().to("nntile")
        optimizer = torch.optim.AdamW(model.parameters())
        call: Any = torch.compile(model, backend=backend, dynamic=dynamic) if backend else model

        def step(x: Tensor, y: Tensor) -> Tensor:
            optimizer.zero_grad()
            found, turned = call(x)
            loss = F.cross_entropy(found, y) + turned.sum() * 0
            loss.backward()
            optimizer.step()
            return loss

        step = torch_nntile.capture(step) if captured and backend else step
        seen, ops, lowered = [], [], []
        for k in range(18):
            rows = 4 + k % 3
            x, y = torch.randn(rows, 6).to("nntile"), (torch.arange(rows) % 3).to("nntile")
            torch_nntile.wait()
            before = torch_nntile.stats()
            seen.append(step(x, y).item())
            torch_nntile.wait()
            after = torch_nntile.stats()
            ops.append(after.ops - before.ops)
            lowered.append(after.lowerings - before.lowerings)
        return seen + [value.tolist() for value in model.state_dict().values()], ops, lowered

    expected, ops, _ = trained(None)
    found, fewer, lowered = trained("nntile")
    assert found == expected
    assert fewer[-1] == 0 if captured else fewer[-1] < ops[-1] - 20
    assert lowered[-3:] == [0, 0, 0]


def test_what_depends_on_data_runs_as_it_is_met() -> None:
    def function(x: Tensor) -> Tensor:
        return x[x > 1].sum() + x.nonzero().shape[0]

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(function, backend="nntile")
        for k in range(4):
            x = torch.arange(4.0, device="nntile") + k
            assert compiled(x).item() == function(x).item()


def test_an_index_of_positions_depends_on_no_data() -> None:
    """PyTorch's tags say of every index that it may; transformers' masks have four."""
    compiled = torch.compile(lambda x, at: (x * 2)[at, at] + 1, backend="nntile", fullgraph=True)
    x, at = torch.randn(4, 4).to("nntile"), torch.tensor([3, 0, 2]).to("nntile")
    for _ in range(3):
        before = torch_nntile.stats().ops
        found = compiled(x, at)
    assert torch_nntile.stats().ops == before
    torch.testing.assert_close(found.cpu(), (x.cpu() * 2)[at.cpu(), at.cpu()] + 1)


OPTIMIZERS: dict[str, Any] = {
    "adamw": lambda ps: torch.optim.AdamW(ps, lr=0.1),
    "capturable": lambda ps: torch.optim.AdamW(ps, lr=0.1, capturable=ps[0].device.type != "cpu"),
    "momentum": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, weight_decay=0.1),
    "nadam": lambda ps: torch.optim.NAdam(ps, lr=0.1),
    "adagrad": lambda ps: torch.optim.Adagrad(ps, lr=0.1),
}


@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_is_replayed(name: str, started: bool) -> None:
    """The host counts its steps; each of its parameters takes one task, as without compile."""

    def trained(device: str, backend: str) -> list[Tensor]:
        torch._dynamo.reset()
        torch.manual_seed(0)
        ps = [nn.Parameter(torch.randn(3, n + 1).to(device)) for n in range(4)]
        gradients = [[torch.randn(p.shape).to(device) for p in ps] for _ in range(7)]
        optimizer = OPTIMIZERS[name](ps)
        step = torch.compile(optimizer.step, backend=backend)
        for k, own in enumerate(gradients):
            for p, gradient in zip(ps, own, strict=True):
                p.grad = gradient
            before = torch_nntile.stats().ops
            optimizer.step() if started and k == 0 else step()
        # Dynamo takes the steps that are there to the device, but not NAdam's product of momenta.
        replayed = backend == "nntile" and not (started and name == "nadam")
        assert not replayed or torch_nntile.stats().ops == before
        return [p.detach().cpu() for p in ps]

    expected = trained("cpu", "aot_eager")
    for found, wanted in zip(trained("nntile", "nntile"), expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_train(mode: str) -> None:
    """PyTorch's Meta kernel says of a device's bags what ours are not."""
    torch.manual_seed(0)
    weight = torch.randn(7, 3)
    at, offsets = torch.tensor([1, 2, 4, 5, 4, 3]), torch.tensor([0, 2, 2, 5])

    def gradient(device: str, backend: str) -> Tensor:
        torch._dynamo.reset()
        table = weight.to(device).requires_grad_()
        bag = torch.compile(F.embedding_bag, backend=backend)
        for _ in range(3):
            table.grad = None
            bag(at.to(device), table, offsets.to(device), mode=mode).square().sum().backward()
        assert table.grad is not None
        return table.grad.cpu()

    torch.testing.assert_close(gradient("nntile", "nntile"), gradient("cpu", "eager"))


def test_numbers_of_the_host_in_a_graph() -> None:
    """Made on the host, and of what the device has computed."""

    def function(x: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
        m = n * 2 + 1
        return x * m + n, m

    def reads(x: Tensor, n: Tensor) -> Tensor:
        total = x.sum().cpu()
        return x * (total + n)

    x = torch.randn(3).to("nntile")
    for call in (function, reads):
        compiled: Any = torch.compile(call, backend="nntile")
        for k in range(4):
            n = torch.tensor(k + 0.5)
            torch.testing.assert_close(compiled(x, n), call(x, n))


def test_what_was_written_before_data_is_read_happens_once() -> None:
    def function(x: Tensor) -> Tensor:
        x.add_(1)
        return x * x.nonzero().shape[0] + torch.rand_like(x)

    x, y = torch.zeros(3, device="nntile"), torch.zeros(3, device="nntile")
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(function, backend="nntile")
        for _ in range(4):
            torch.manual_seed(1)
            found = compiled(x)
            torch.manual_seed(1)
            assert found.tolist() == function(y).tolist()
            assert x.tolist() == y.tolist()


def test_kernels_in_python_are_not_compiled() -> None:
    """What a graph breaks at may be one: Dynamo compiled its parts, and Hubert's masks raised."""

    def function(x: Tensor, mask: Tensor) -> Tensor:
        y = (x * 2)[mask]
        return y * y.multinomial(1)

    def graphs(device: str) -> int:
        torch._dynamo.reset()
        counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
        compiled = torch.compile(function, backend=counter)
        x = torch.rand(2, 3, 4).to(device).requires_grad_()[0]
        assert compiled(x, torch.tensor([True, False, True]).to(device)).shape == (2, 4)
        return int(counter.frame_count)

    assert graphs("nntile") == graphs("cpu")


def test_plans_of_lengths_are_bounded() -> None:
    model = nn.Linear(6, 3).to("nntile")
    compiled = torch.compile(model, backend="nntile", dynamic=True)
    for _ in range(2):
        for rows in range(2, 60):
            x = torch.ones(rows, 6, device="nntile")
            assert compiled(x).shape == (rows, 3)
    torch_nntile.wait()
    before = torch_nntile.stats().lowerings
    for rows in range(40, 60):
        compiled(torch.ones(rows, 6, device="nntile"))
    torch_nntile.wait()
    assert torch_nntile.stats().lowerings == before


def test_dynamic_shapes_share_a_graph() -> None:
    model = nn.Linear(6, 3).to("nntile")
    counter = torch._dynamo.testing.CompileCounterWithBackend("nntile")
    compiled = torch.compile(model, backend=counter, dynamic=True, fullgraph=True)
    for rows in (4, 5, 7):
        assert compiled(torch.ones(rows, 6, device="nntile")).shape == (rows, 3)
    assert counter.frame_count == 1


def test_fullgraph_refuses_a_break() -> None:
    compiled = torch.compile(Net().to("nntile"), backend="nntile", fullgraph=True)
    with pytest.raises(torch._dynamo.exc.TorchDynamoException):
        compiled(torch.ones(2, 6, device="nntile"), breaks=True)


def test_it_is_listed() -> None:
    assert "nntile" in torch._dynamo.list_backends()


@pytest.mark.parametrize(
    "setting", [{"mode": "max-autotune"}, {"options": {"trace.enabled": True}}]
)
def test_settings_of_inductor_are_refused(setting: Any) -> None:
    compiled = torch.compile(Net().to("nntile"), backend="nntile", **setting)
    name = next(iter(setting))
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match=f"has no {name}"):
        compiled(torch.ones(2, 6, device="nntile"))
    torch._dynamo.reset()
    default = torch.compile(Net().to("nntile"), backend="nntile", mode="default")
    assert default(torch.ones(2, 6, device="nntile")).shape == (2, 3)


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("program", ["model", "pointwise"])
def test_the_default_backend_names_those_that_work(grad: bool, program: str) -> None:
    x = torch.ones(2, 6, device="nntile", requires_grad=grad)
    function: Any = Net().to("nntile") if program == "model" else lambda x: x.sin() + 1
    with (
        torch.set_grad_enabled(grad),
        pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught,
    ):
        torch.compile(function)(x)
    sentence = next(line for line in str(caught.value).splitlines() if "UnsupportedError" in line)
    assert "backend='nntile'" in sentence and "aot_eager" in sentence
    assert str(caught.value).count("\n") < 6  # not the stack, not the operands
    inner = caught.value.inner_exception
    assert isinstance(inner, torch_nntile.errors.UnsupportedError)
    assert isinstance(inner, NotImplementedError)
    assert (x + 1).sum().item() == 24  # the next call works


def test_inductor_is_not_imported_with_the_device() -> None:
    code = (
        "import torch, torch_nntile, sys; torch.ones(2, device='nntile') + 1; print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = done.stdout.split()
    heavy = ("torch._inductor", "torch._dynamo", "accelerate", "transformers", "lightning")
    assert not [m for m in modules if m.startswith(heavy)]


def test_a_program_that_compiles_nothing_imports_no_compiler() -> None:
    """PyTorch's Meta kernels in Python import it when the first of them runs: a second and 80 MB."""
    code = """
import sys, torch, torch_nntile
from torch.nn import functional as F

model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).to("nntile")
x, y = torch.rand(5, 4, device="nntile"), torch.rand(5, 2, device="nntile")
before = set(sys.modules)
for loss in (F.mse_loss, F.smooth_l1_loss, F.huber_loss, lambda a, b: F.binary_cross_entropy(a.sigmoid(), b)):
    model.zero_grad()
    loss(F.glu(F.elu(model(x)).repeat(1, 2)), y).backward()
    for parameter in model.parameters():
        parameter.data.add_(parameter.grad, alpha=-0.1)
print(model(x).mean().item(), *set(sys.modules) - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = {module.partition(".")[0] for module in done.stdout.split()[1:]}
    assert not found & {"sympy", "mpmath"} and "torch._dynamo" not in done.stdout.split()
