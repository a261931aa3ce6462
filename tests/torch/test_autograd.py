# SPDX-License-Identifier: BSD-3-Clause
"""What PyTorch's autograd offers, on the device: the same values, classes and messages as on the CPU."""

from __future__ import annotations

import copy
import io
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from parity import assert_close, runtime_mode
from torch import Tensor, nn
from torch.func import functional_call, grad, hessian, jacrev, jvp, vjp, vmap
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

BOTH = pytest.mark.parametrize("mode", ["eager", "graph"])


def numbers(*shape: int) -> Tensor:
    return torch.linspace(-1, 2, torch.Size(shape).numel()).reshape(shape).clone()


def leaf(device: str, *shape: int) -> Tensor:
    return numbers(*shape).to(device).requires_grad_()


def mlp(device: str) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 6), nn.GELU()).to(device)


class Cube(torch.autograd.Function):
    """Saves input and result, says what needs a gradient, and has a second derivative."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: float) -> Tensor:
        y = x**3 * scale
        ctx.save_for_backward(x, y)
        ctx.scale = scale
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, None]:
        x, y = ctx.saved_tensors
        assert y.device == x.device == dy.device
        return dy * 3 * x * x * ctx.scale, None


class AddOne(torch.autograd.Function):
    """In place."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.mark_dirty(x)
        return x.add_(1)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        return dy * 10


def retained(device: str) -> Any:
    x = leaf(device, 3, 4)
    y = (x.exp() * x).sum()
    y.backward(retain_graph=True)
    first = x.grad.clone()
    y.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()
    return first, x.grad


def twice(device: str) -> Any:
    x, w = leaf(device, 3, 4), leaf(device, 4, 2)
    y = torch.tanh(x @ w).pow(3).sum()
    (dx,) = torch.autograd.grad(y, x, create_graph=True)
    dx.square().sum().backward()
    return dx.detach(), x.grad, w.grad


def thrice(device: str) -> Any:
    y = x = leaf(device, 5)
    found = []
    y = (x.sin() * x.exp()).sum()
    for _ in range(3):
        (y,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        found.append(y.detach())
    return found


def convolved_twice(device: str) -> Any:
    x, w = leaf(device, 2, 2, 5, 5), leaf(device, 3, 2, 3, 3)
    y = F.conv2d(x, w, padding=1).tanh().sum()
    dx, dw = torch.autograd.grad(y, (x, w), create_graph=True)
    return torch.autograd.grad(dx.square().sum() + dw.square().sum(), (x, w))


def recurrent_twice(device: str) -> Any:
    torch.manual_seed(0)
    layers = nn.LSTM(3, 4).to(device), nn.GRU(3, 4).to(device)
    x = leaf(device, 3, 2, 3)
    found = []
    for layer in layers:
        (dx,) = torch.autograd.grad(layer(x)[0].sum(), x, create_graph=True)
        found += torch.autograd.grad(dx.square().sum(), list(layer.parameters()), allow_unused=True)
    return found


def hooks(device: str) -> Any:
    seen: list[Tensor] = []
    model, x = mlp(device), leaf(device, 2, 4)
    x.register_hook(lambda g: g * 2)
    model[0].weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
    model[0].register_forward_pre_hook(lambda _, args: (args[0] + 1,))
    model[1].register_forward_hook(lambda _, args, y: y * 0.5)
    model[2].register_full_backward_hook(lambda _, dx, dy: (dx[0] * 3,))
    y = model(x)
    y.retain_grad()
    y.sum().backward()
    return x.grad, y.grad, seen, [p.grad for p in model.parameters()]


def packed(device: str) -> Any:
    """Saved tensors go to the CPU and come back."""
    x = leaf(device, 3, 4)
    with torch.autograd.graph.saved_tensors_hooks(Tensor.cpu, lambda t: t.to(device)):
        y = (x.exp() @ x.t()).sum()
    y.backward()
    z = leaf(device, 3, 4)
    with torch.autograd.graph.save_on_cpu():
        (z.exp() @ z.t()).sum().backward()
    return x.grad, z.grad


def functions(device: str) -> Any:
    x = leaf(device, 3, 4)
    (dx,) = torch.autograd.grad(Cube.apply(x, 2.0).sum(), x, create_graph=True)
    (ddx,) = torch.autograd.grad(dx.sum(), x)
    z = leaf(device, 3)
    AddOne.apply(z * 2).square().sum().backward()
    return dx.detach(), ddx, z.grad


def checkpointed(device: str) -> Any:
    found = []
    for reentrant in (True, False):
        model, x = mlp(device), leaf(device, 2, 4)
        checkpoint(model, x, use_reentrant=reentrant).sum().backward()
        found += [x.grad, *(p.grad for p in model.parameters())]
        y = leaf(device, 2, 4)
        checkpoint_sequential(model, 2, y, use_reentrant=reentrant).sum().backward()
        found.append(y.grad)
    return found


def without_grad(device: str) -> Any:
    x = leaf(device, 3)
    with torch.no_grad():
        a = x * 2
        x.mul_(2)  # a leaf, allowed here
    with torch.inference_mode():
        b = x * 3
        c = b.view(3, 1).add_(1)
    assert not a.requires_grad and not b.requires_grad and b.is_inference() and c.is_inference()
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        (x * b).sum().backward()
    with torch.set_grad_enabled(False):
        assert not (x + 1).requires_grad
    return x.detach(), a, b, c


def in_place(device: str) -> Any:
    x = leaf(device, 4, 5)
    y = x * 2
    y[1:, ::2].mul_(3)
    y.t()[0].copy_(x[0, 0].expand(4))
    y.select(0, 2).zero_()
    z = y.view(-1)[3:9].relu_()
    (y.square().sum() + z.sum()).backward()
    return y.detach(), x.grad


def accumulated(device: str) -> Any:
    x = leaf(device, 3, 4)
    for k in range(3):
        ((x * k).sum() + (x.t() @ x).sum()).backward()
    kept = x.grad
    x.grad = None
    x.sum().backward()
    return kept, x.grad


def functional(device: str) -> Any:
    model, x = mlp(device), numbers(5, 4).to(device)
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def loss(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        return functional_call(model, parameters, (x,)).square().mean()

    return (
        grad(loss)(parameters, x),
        vmap(grad(loss), in_dims=(None, 0))(parameters, x),
        vmap(lambda row: row @ row)(x),
        vmap(torch.mm, in_dims=(0, None))(x.reshape(5, 2, 2), x[:2, :2]),
        jvp(lambda v: (v.sin() * v).sum(0), (x,), (torch.ones_like(x),)),
        vjp(lambda v: v.exp().sum(1), x)[1](x[:, 0]),
        jacrev(torch.tanh)(x[0]),
        hessian(lambda v: (v.tanh() ** 2).sum())(x[0]),
    )


def forward_mode(device: str) -> Any:
    x, t = numbers(3, 4).to(device), torch.ones(3, 4, device=device)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, t)
        y = torch.softmax(dual @ dual.t(), 1)
        return torch.autograd.forward_ad.unpack_dual(y).tangent


def branches(device: str) -> Any:
    """detach, requires_grad_ and freezing; unused and missing gradients."""
    model, x = mlp(device), numbers(2, 4).to(device)
    model[0].requires_grad_(False)
    (model(x) + model(x).detach() * 2).sum().backward()
    assert model[0].weight.grad is None
    a, b = leaf(device, 2), leaf(device, 2)
    assert torch.autograd.grad(a.sum(), (a, b), allow_unused=True)[1] is None
    zeros = torch.autograd.grad(a.sum(), (a, b), materialize_grads=True)[1]
    jacobian = torch.autograd.functional.jacobian(torch.sin, a)
    batched = torch.autograd.grad(a * 3, a, torch.eye(2, device=device), is_grads_batched=True)
    return model[2].weight.grad, zeros, jacobian, batched


CASES: dict[str, Callable[[str], Any]] = {
    case.__name__: case
    for case in (
        *(retained, twice, thrice, convolved_twice, recurrent_twice, hooks, packed, functions),
        *(checkpointed, without_grad, in_place, accumulated, functional, forward_mode, branches),
    )
}

pytestmark = pytest.mark.filterwarnings("ignore")


@BOTH
@pytest.mark.parametrize("name", CASES)
def test_as_on_the_cpu(name: str, mode: str) -> None:
    expected = pytree.tree_leaves(CASES[name]("cpu"))
    with runtime_mode(mode):
        found = pytree.tree_leaves(CASES[name]("nntile"))
        assert len(found) == len(expected)
        for f, e in zip(found, expected, strict=True):
            if e is not None:
                assert f.device.type == "nntile"
                assert_close(f.detach().cpu(), e.detach(), length=100)


# ---- copies, files, threads


@BOTH
def test_a_model_is_copied_saved_and_loaded(mode: str) -> None:
    x = numbers(2, 4)
    with runtime_mode(mode):
        model = mlp("nntile")
        steps = torch.optim.Adam(model.parameters(), 0.1)
        model(x.to("nntile")).sum().backward()
        steps.step()
        expected = model(x.to("nntile")).detach().cpu()

        twin = copy.deepcopy(model)
        assert twin[0].weight.data_ptr() != model[0].weight.data_ptr()
        file = io.BytesIO()
        torch.save({"model": model.state_dict(), "steps": steps.state_dict()}, file)
        with torch.no_grad():
            for p in model.parameters():
                p.zero_()
        assert torch.equal(twin(x.to("nntile")).detach().cpu(), expected)

        for where in (None, "cpu", "nntile"):
            file.seek(0)
            state = torch.load(file, map_location=where)
            kind = where or "nntile"
            assert {t.device.type for t in state["model"].values()} == {kind}
            fresh = mlp(kind)
            fresh.load_state_dict(state["model"])
            found = fresh(x.to(kind)).detach().cpu()
            torch.testing.assert_close(found, expected)
        file = io.BytesIO()
        torch.save(twin, file)
        file.seek(0)
        whole = torch.load(file, weights_only=False)
        assert torch.equal(whole(x.to("nntile")).detach().cpu(), expected)
        assigned = mlp("cpu")
        assigned.load_state_dict(twin.state_dict(), assign=True)
        assert assigned[0].weight.device.type == "nntile"


def test_data_and_grad_are_assigned() -> None:
    p = nn.Parameter(numbers(3).to("nntile"))
    (p * 2).sum().backward()
    p.data = numbers(2, 2).to("nntile")
    assert p.shape == (2, 2)
    p.grad = None
    p.square().sum().backward()
    assert_close(p.grad.cpu(), numbers(2, 2) * 2)
    p.data = p.data.cpu()
    assert p.device.type == "cpu"


@BOTH
def test_threads_record_at_once(mode: str) -> None:
    """Each has its own model; gradients are summed into a common one too."""
    common = leaf("nntile", 4)
    found: dict[int, Tensor] = {}
    errors: list[BaseException] = []

    def work(k: int) -> None:
        try:
            x = (numbers(2, 4) + k).to("nntile")
            model = mlp("nntile") if k % 2 else models[k]
            for _ in range(5):
                loss = (model(x) * (k + 1)).sum()
                loss.backward()
                found[k] = x.exp().sum(0).cpu()
            (common * (k + 1)).sum().backward()
            found[k] = model[0].weight.grad.cpu()
        except BaseException as error:
            errors.append(error)

    with runtime_mode(mode):
        models = {k: mlp("nntile") for k in range(4)}
        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
    assert not errors
    assert_close(common.grad.cpu(), torch.full((4,), 10.0))
    for k in range(0, 4, 2):
        model = mlp("cpu")
        for _ in range(5):
            (model(numbers(2, 4) + k) * (k + 1)).sum().backward()
        assert_close(found[k], model[0].weight.grad, length=100)


@pytest.mark.parametrize("inference", [False, True])
def test_backward_runs_where_it_is_called(inference: bool) -> None:
    """As on the CPU; also after inference mode, which brings back a thread's earlier state."""
    seen = []

    def call() -> None:
        if inference:
            with torch.inference_mode():
                torch.ones(2, device="nntile") + 1
        x = torch.ones(3, device="nntile", requires_grad=True)
        x.register_hook(lambda _: seen.append(threading.get_ident()))
        (x * 2).sum().backward()
        seen.append(threading.get_ident())

    call()
    other = threading.Thread(target=call)
    other.start()
    other.join()
    assert seen[0] == seen[1] != seen[2] == seen[3]
