# SPDX-License-Identifier: BSD-3-Clause
"""What PyTorch's switches allow GPUs to do with numbers: TF32 and cuDNN."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch
from emulated_devices import alone, emulated
from torch import Tensor

import torch_nntile

pytestmark = pytest.mark.skipif(
    os.environ.get("STARPU_NCUDA", "0") == "0", reason="no CUDA workers: make test-cuda"
)


@pytest.fixture(autouse=True)
def _switches(runtime: None) -> Iterator[None]:
    before = torch.backends.cuda.matmul.allow_tf32
    yield
    torch.backends.cuda.matmul.allow_tf32 = before


def error(got: Tensor, a: Tensor, b: Tensor) -> float:
    """The largest one, of the largest element."""
    exact = a.double() @ b.double()
    return float((got.cpu() - exact).abs().max() / exact.abs().max())


# Factors with 10 bits of fraction instead of 23.
EXACT, SHORT = 2e-6, 5e-5


def test_products_are_in_tf32_where_pytorch_allows_it() -> None:
    torch.manual_seed(0)
    a, b = torch.randn(70, 90), torch.randn(90, 50)
    there, other = a.to("nntile"), b.to("nntile")
    before = there @ other  # recorded, and perhaps not run
    torch.set_float32_matmul_precision("high")
    allowed = there @ other
    torch.set_float32_matmul_precision("highest")
    after = there @ other
    assert error(before, a, b) < EXACT
    assert SHORT < error(allowed, a, b) < 2e-3
    assert error(after, a, b) < EXACT


def test_a_replay_follows_the_switch() -> None:
    torch.manual_seed(0)
    a, b = torch.randn(70, 90), torch.randn(90, 50)
    product = torch_nntile.capture(lambda x, y: x @ y)
    there, other = a.to("nntile"), b.to("nntile")
    for precision in ("highest", "highest", "high", "highest"):
        torch.set_float32_matmul_precision(precision)
        found = error(product(there, other), a, b)
        assert (found > SHORT) == (precision == "high"), (precision, found)


def test_other_dtypes_are_as_they_were() -> None:
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    for dtype in (torch.float64, torch.bfloat16):
        a, b = torch.randn(40, 30).to(dtype), torch.randn(30, 20).to(dtype)
        got = (a.to("nntile") @ b.to("nntile")).cpu()
        torch.testing.assert_close(got, a @ b)


CONVOLUTIONS = """
import copy, sys
import cffi
import torch, torch_nntile
from torch import nn

ffi = cffi.FFI()
ffi.cdef("extern long long emulation_convolutions;")
torch_nntile.init_context(ncpu=1, ncuda=1)
torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 24, 3, stride=2, groups=2),
    nn.ConvTranspose2d(24, 9, 3, stride=2), nn.Conv2d(9, 10, (1, 3), dilation=(1, 2)), nn.Flatten(2),
    nn.Conv1d(10, 8, 5, padding=2),
)
x = torch.randn(2, 3, 13, 11)


def results(device):
    own = copy.deepcopy(model).to(device)
    batch = x.clone().to(device).requires_grad_()
    y = own(batch)
    y.square().mean().backward()
    return [t.detach().cpu() for t in (y, batch.grad, *(p.grad for p in own.parameters()))]


want = results("cpu")
for allowed in (False, True):
    torch.backends.cudnn.allow_tf32 = allowed
    pairs = list(zip(results("nntile"), want))
    print(max(float((got - w).abs().max() / w.abs().max()) for got, w in pairs))
dnn = ffi.dlopen("libcudnn.so.9")
print(dnn.emulation_convolutions)
with torch.backends.cudnn.flags(enabled=False, allow_tf32=True):
    results("nntile")
torch_nntile.wait()
print(dnn.emulation_convolutions)
half, image = copy.deepcopy(model).bfloat16(), x.bfloat16().to(memory_format=torch.channels_last)
got, want = half.to("nntile")(image.to("nntile")).cpu(), half.cpu()(image)
assert (got - want).abs().max() < 0.01 * want.abs().max()  # rounded at each layer
print(dnn.emulation_convolutions)
print(torch_nntile.show_config())
"""


@emulated
def test_convolutions_by_cudnn() -> None:
    here = os.environ["LD_LIBRARY_PATH"]
    there = f"{here}{os.pathsep}{here}/cudnn"
    text = alone(CONVOLUTIONS, LD_LIBRARY_PATH=there, EMULATION_MEMORY_MB="512")
    exact, short, both, without, half = text.splitlines()[:5]
    assert float(exact) < 1e-5
    assert 5e-5 < float(short) < 5e-3
    assert int(both) == int(without) >= 2 * 3 * 4
    assert int(half) > int(without)
    assert "cuDNN 9.13.0" in text


@emulated
def test_convolutions_without_cudnn() -> None:
    text = alone(CONVOLUTIONS.split("dnn = ffi")[0] + "print(torch_nntile.show_config())")
    exact, same = map(float, text.splitlines()[:2])
    assert max(exact, same) < 1e-5
    assert "no cuDNN" in text
