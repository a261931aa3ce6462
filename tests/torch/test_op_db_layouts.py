# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch's op_db with operands of random layouts: values, dtypes and strides are the CPU's.

Every tensor of a sample becomes a view of dense data in a random order of dims, may be of every other
element, or stays as it is. An ordinary run takes few samples of each entry, `-m slow` many of four dtypes.
"""

from __future__ import annotations

import functools
import random
from typing import Any

import pytest
import torch
from op_calls import calls_of, plain, refused
from parity import assert_parity, moved
from torch import Tensor

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
DTYPES = (torch.float32, torch.int32, torch.bool, torch.float16)

RANDOM = (
    *("bernoulli", "cauchy", "empty", "empty_like", "empty_permuted", "empty_strided"),
    *("exponential", "geometric", "log_normal", "multinomial", "new_empty", "new_empty_strided"),
    *("nn.functional.alpha_dropout", "nn.functional.dropout", "nn.functional.dropout2d"),
    *("nn.functional.dropout3d", "nn.functional.feature_alpha_dropout.with_train"),
    *("nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d"),
    *("nn.functional.multi_head_attention_forward", "nn.functional.rrelu"),
    *("nn.functional.scaled_dot_product_attention", "normal", "normal.in_place"),
    *("normal.number_mean", "pca_lowrank", "rand_like", "randint", "randint_like", "randn"),
    *("randn_like", "svd_lowrank", "uniform"),
)
LEFT_OUT = {
    **dict.fromkeys(RANDOM, "random numbers, or dropout: test_random.py, test_attention.py"),
    **dict.fromkeys(
        ("linalg.eig", "linalg.lstsq", "linalg.lstsq.grad_oriented"),
        "LAPACK's order of columns is not in PyTorch's Meta kernel",
    ),
    **dict.fromkeys(
        ("_native_batch_norm_legit", "_batch_norm_with_update"),
        "for torch.export; batch_norm() asks for native_batch_norm",
    ),
    "ldexp": "PyTorch's kernel for all devices; the CPU's order where a dim is expanded differs",
    "native_group_norm": "the CPU refuses layouts that group_norm() never gives to it",
    "nn.functional.max_pool1d": "without gradients the CPU has a kernel of its own, for no other device",
    "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu": (  # in op_db since 2.14
        "the CPU's kernel takes last dims for dense: test_flash_attention.py"
    ),
    "tensor_split": "PyTorch wants indices on the CPU; a sample's tensors all go to the device",
}
# The minor version of PyTorch since which op_db has it.
SINCE = {
    "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu": 14,
    "native_group_norm": 13,
}
# In float16 exp() overflows on the CPU, which computes in it.
NOT_IN_HALF = {"nn.functional.soft_margin_loss"}
# Sparse tensors, and kernels compiled for CUDA.
OTHER_DEVICES = ("jiterator", "sparse", "to_sparse")
# Complex results are compared bit by bit, and the FFT rounds by layout.
ROUNDED = ("fft.",)


@functools.cache
def ops() -> dict[str, Any]:
    from torch.testing._internal.common_methods_invocations import op_db

    found = {f"{op.name}.{op.variant_test_name}".rstrip("."): op for op in op_db}
    return {n: op for n, op in found.items() if not n.startswith((*OTHER_DEVICES, *ROUNDED))}


def laid_out(tensor: Tensor, rng: random.Random) -> Tensor:
    """The same numbers, as a view of dense data."""
    data = tensor.detach().clone(memory_format=torch.contiguous_format)
    kind = rng.choice(("dense", "permuted", "permuted", "step"))
    if kind == "dense" or not tensor.dim() or not tensor.numel():
        return data
    order = rng.sample(range(tensor.dim()), tensor.dim())
    memory = data.permute(order).contiguous()
    view = memory
    if kind == "step":
        memory = memory.repeat_interleave(2, -1)
        view = memory[..., ::2]
    return view.permute([order.index(d) for d in range(data.dim())])


def check(name: str, dtypes: tuple[torch.dtype, ...], samples: int, layouts: int) -> None:
    rng = random.Random(name)
    torch.manual_seed(0)  # op_db draws its numbers from it
    op, done, failed = ops()[name], 0, []
    for dtype in dtypes:
        if dtype not in op.dtypes or (dtype == torch.float16 and name in NOT_IN_HALF):
            continue
        calls = list(calls_of(op, op.op, False, dtype))
        for call, tensors in rng.sample(calls, min(samples, len(calls))):
            for _ in range(layouts):
                operands = [laid_out(x, rng) for x in tensors]
                done += 1
                try:
                    if refused(call, operands):
                        with pytest.raises(RuntimeError):
                            call(*(moved(x, "nntile") for x in operands))
                        continue
                    assert_parity(call, operands, grad=False, op=plain(op.name))
                except AssertionError as error:
                    layouts_of = [(tuple(x.shape), x.stride(), x.dtype) for x in operands]
                    failed.append(f"{call!r} {layouts_of}\n{error}")
    assert not failed, f"{len(failed)} of {done} calls of {name} fail; the first:\n{failed[0]}"


@pytest.mark.parametrize("name", sorted(ops().keys() - LEFT_OUT.keys()))
def test_op(name: str) -> None:
    """In the first dtype that the op takes."""
    check(name, tuple(d for d in DTYPES if d in ops()[name].dtypes)[:1], samples=2, layouts=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ops().keys() - LEFT_OUT.keys()))
def test_op_many(name: str) -> None:
    check(name, DTYPES, samples=8, layouts=2)


def test_left_out_are_entries() -> None:
    minor = int(torch.__version__.split(".")[1])
    later = {name for name, since in SINCE.items() if minor < since}
    assert LEFT_OUT.keys() - later <= ops().keys()
