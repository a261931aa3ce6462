# SPDX-License-Identifier: BSD-3-Clause
"""What programs call beside PyTorch. A printed script holds the source of those that it uses."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def numbers(shape: tuple[int, ...], dtype: torch.dtype, factor: int, device: str) -> Tensor:
    """Small integers from -5 to 5; bools, and no negative numbers where the dtype has none."""
    data = torch.arange(torch.Size(shape).numel()) * factor % 11
    if dtype != torch.uint8:
        data = data - 5
    data = data > 0 if dtype == torch.bool else data.to(dtype)
    return data.reshape(shape).clone().to(device)  # clone(): no view on the CPU either


def leaf(shape: tuple[int, ...], dtype: torch.dtype, factor: int, device: str) -> Tensor:
    return numbers(shape, dtype, factor, device).requires_grad_()


def filled(shape: tuple[int, ...], strides: tuple[int, ...], value: int, device: str) -> Tensor:
    """Undefined numbers, then defined ones; also in the gaps of the layout."""
    x = torch.empty_strided(shape, strides, device=device)
    x.as_strided((x.untyped_storage().nbytes() // x.element_size(),), (1,)).fill_(0)
    return x.fill_(value)


def resized(x: Tensor, shape: tuple[int, ...], value: int) -> None:
    """In place; numbers that the storage did not have are undefined, so all are set."""
    x.resize_(shape).fill_(value)


def regrown(x: Tensor, value: int) -> None:
    """Frees the memory of a storage and fills it anew, as sharded training does."""
    storage = x.untyped_storage()
    size = storage.nbytes()
    storage.resize_(0)
    storage.resize_(size)
    x.new_empty(0).set_(storage, 0, (size // x.element_size(),)).fill_(value)


def set_(
    x: Tensor, y: Tensor, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    """Within the storage: what it would grow by is undefined."""
    last = offset + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
    if offset < 0 or last >= y.untyped_storage().nbytes() // y.element_size():
        raise ValueError("outside the storage")
    x.set_(y.untyped_storage(), offset, shape, strides)


def cut(x: Tensor, dim: int, name: str, sizes: Any) -> None:
    """Names a dim and cuts it; the CPU knows no cuts."""
    right = sum(sizes) == x.shape[dim] if isinstance(sizes, list) else sizes == "auto" or sizes > 0
    if x.shape[dim] < 2 or not right:
        raise IndexError("no such cut")
    if x.device.type == "nntile":
        import torch_nntile

        try:
            torch_nntile.set_axis_group_name(x, {dim: name})
        except ValueError as error:  # a slice, or several dims in one
            if "no whole dim" not in str(error):
                raise
        else:
            torch_nntile.set_axis_group_tiling(name, sizes)


def run(x: Tensor) -> None:
    if x.device.type == "nntile":
        import torch_nntile

        torch_nntile.run_graph()


def compile_graph(x: Tensor) -> None:
    if x.device.type == "nntile":
        import torch_nntile

        torch_nntile.compile_graph()


def backward(x: Tensor, factor: int, retain: bool) -> None:
    """With small integers as gradient of x, so that most gradients are exact."""
    data = torch.arange(x.numel()) * factor % 5 - 2
    x.backward(data.reshape(x.shape).to(x.device, x.dtype), retain_graph=retain)


def gradient(x: Tensor, leaf: Tensor, twice: bool) -> Tensor:
    """Of the sum of x; `twice`: of the sum of squares of the gradient.

    Dense: PyTorch's Meta and CPU kernels give other strides to the gradient of log_softmax().
    """
    (found,) = torch.autograd.grad(x.sum(), leaf, create_graph=twice)
    if twice:
        (found,) = torch.autograd.grad(found.square().sum(), leaf, retain_graph=True)
    return found.clone(memory_format=torch.contiguous_format)  # a zero gradient has no storage


class Doubled(torch.autograd.Function):
    """A user's function that saves a tensor and writes its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grads[0] * 2 + x * 0


def doubled(x: Tensor) -> Tensor:
    result: Tensor = Doubled.apply(x)
    return result


def hook(x: Tensor, factor: int) -> None:
    """Not on a view: PyTorch 2.13 crashes there if the base was written since."""
    if x._is_view():
        raise TypeError("a view")
    x.register_hook(lambda grad: grad * factor)


def hook_view(x: Tensor) -> None:
    """Returns a view that overlaps itself."""
    if x._is_view():
        raise TypeError("a view")
    x.register_hook(lambda grad: grad.sum().expand_as(grad))


def checkpointed(x: Tensor, y: Tensor) -> Tensor:
    from torch.utils.checkpoint import checkpoint

    result: Tensor = checkpoint(lambda a, b: (a * b).relu() + a, x, y, use_reentrant=False)
    return result


def step(x: Tensor, rate: float) -> None:
    """What an optimizer does."""
    if x.grad is not None:
        with torch.no_grad():
            x.sub_(x.grad, alpha=rate)
        x.grad = None


def into(out: Tensor, name: str, x: Tensor, y: Tensor) -> None:
    getattr(torch, name)(x, y, out=out)


def mode(x: Tensor, name: str) -> None:
    """Changes the runtime mode in the middle of a program."""
    if x.device.type == "nntile":
        import torch_nntile

        torch_nntile.modes.set_mode(torch_nntile.modes.number_of(name))


def dense(name: str, *args: Any) -> Tensor:
    """For calls where the strides of PyTorch's Meta and CPU kernels differ, or mean nothing.

    A copy: contiguous() keeps the strides of dims of one element, which choose a memory format later.
    """
    result: Tensor = getattr(torch, name)(*args)
    return result.clone(memory_format=torch.contiguous_format)


def tolist(x: Tensor) -> Any:
    """By way of .data: reading a device goes through autograd, which may have given a view up."""
    return x.data.tolist()


def embedding(index: Tensor, weight: Tensor) -> Tensor:
    """Of a copy of the index: the CPU's backward writes anywhere if the index has changed since."""
    return torch.nn.functional.embedding(index.clone(), weight)


def extreme(name: str, *args: Any) -> Any:
    """Which of 0 and -0 is larger is not said; view(dtype) would show it."""
    found = getattr(torch, name)(*args)
    values = found if isinstance(found, Tensor) else found[0]
    positive = values + 0 if values.is_floating_point() else values
    return positive if values is found else (positive, found[1])


def foreach(x: Tensor, y: Tensor, name: str) -> None:
    getattr(torch, name)([x], [y])


def topk(x: Tensor, k: int, dim: int) -> Tensor:
    """Values only: which of equal ones is taken is not said."""
    return x.topk(k, dim)[0]


def batch_norm(x: Tensor, mean: Tensor, var: Tensor) -> tuple[Tensor, ...]:
    """Returns what it wrote, too. Dense: the strides of Meta and CPU kernels differ."""
    found = torch.nn.functional.batch_norm(x, mean, var, training=x.numel() > x.shape[1])
    return found.clone(memory_format=torch.contiguous_format), mean, var


def attention(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
    """With a copy of its gradient, since the CPU's fast kernel has no second one.

    The gradient itself is a view here and none on the CPU, which in-place calls see.
    """
    with torch.enable_grad():
        q = q.detach().requires_grad_()
        found = torch.nn.functional.scaled_dot_product_attention(q, k.detach(), v.detach())
        (gradient,) = torch.autograd.grad(found.sum(), q)
    return found.detach(), gradient.clone()


def cross_entropy(x: Tensor, target: Tensor) -> Tensor:
    """Of logits that nobody else has: they are kept for backward, and the CPU keeps its probabilities."""
    return torch.nn.functional.cross_entropy(x.clone(), target)


def conv2d(x: Tensor, weight: Tensor, stride: int, padding: int) -> Tensor:
    """Dense: whether channels are last is a guess where a dim has one element."""
    found = torch.nn.functional.conv2d(x, weight, None, stride, padding)
    return found.clone(memory_format=torch.contiguous_format)


def round_trip(x: Tensor, device: str) -> Tensor:
    """By way of the host."""
    return x.detach().cpu().clone().to(device)


def copied(x: Tensor) -> Tensor:
    """Views too: their storage is copied as a whole."""
    import copy

    return copy.deepcopy(x.detach())


def loaded(x: Tensor) -> Tensor:
    """Saved to a file and loaded; a copy, since the CPU corrupts its heap if what it loaded grows."""
    import io

    file = io.BytesIO()
    torch.save(x.detach(), file)
    file.seek(0)
    result: Tensor = torch.load(file)
    return result.clone()
