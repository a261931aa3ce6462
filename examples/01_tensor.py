# SPDX-License-Identifier: BSD-3-Clause
"""Tensors on device "nntile": make, compute, view, write in place, read, save."""

from __future__ import annotations

import io

import torch

import torch_nntile  # noqa: F401 - `import torch` finds it by itself where it is installed


def main() -> None:
    a = torch.arange(6.0, device="nntile").reshape(2, 3)
    b = torch.ones(2, 3).to("nntile")
    print("a + b =", a + b, sep="\n")

    # Nothing above was waited for. A host read waits, for what it reads: print, .cpu(), .item().
    total = (a @ b.t()).sum().item()
    print("sum of a @ b.T =", total)

    # Views share memory, as anywhere in PyTorch; writing through one changes the other.
    column = a.t()[1]
    column.mul_(10)
    print("a after a.t()[1].mul_(10) =", a, sep="\n")

    # Autograd is PyTorch's own.
    x = torch.tensor([1.0, 2.0, 3.0], device="nntile", requires_grad=True)
    (x**2).sum().backward()
    print("gradient of sum(x ** 2) =", x.grad)

    # A tensor is saved with its device, and loaded to wherever you say.
    file = io.BytesIO()
    torch.save(a, file)
    file.seek(0)
    loaded = torch.load(file, map_location="cpu")

    assert total == 30
    assert torch.equal(a.cpu(), torch.tensor([[0.0, 10, 2], [3, 40, 5]]))
    assert x.grad is not None and torch.equal(x.grad.cpu(), torch.tensor([2.0, 4, 6]))
    assert loaded.device.type == "cpu" and torch.equal(loaded, a.cpu())


if __name__ == "__main__":
    main()
