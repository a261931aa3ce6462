# SPDX-License-Identifier: BSD-3-Clause
"""All of op_db with dtypes that the CPU may refuse: refused in its class, or the same numbers."""

from __future__ import annotations

import contextlib
import itertools
import warnings
from typing import Any

import pytest
import torch
from op_calls import entries
from torch import Tensor
from torch.utils import _pytree as pytree

import torch_nntile

DTYPES = (torch.bool, torch.uint8, torch.int32, torch.complex64)
SAMPLES = 2

RANDOM = "random numbers, or none"
LEFT_OUT = {
    **dict.fromkeys(("bernoulli", "rand_like", "randn_like", "randint_like", "randint"), RANDOM),
    **dict.fromkeys(("multinomial", "normal", "uniform", "cauchy", "exponential"), RANDOM),
    **dict.fromkeys(("geometric", "log_normal", "rrelu", "dropout_backward"), RANDOM),
    **dict.fromkeys(("dropout", "dropout2d", "dropout3d", "alpha_dropout"), RANDOM),
    **dict.fromkeys(("feature_alpha_dropout", "fractional_max_pool2d"), RANDOM),
    **dict.fromkeys(("fractional_max_pool3d", "svd_lowrank", "pca_lowrank"), RANDOM),
    **dict.fromkeys(("empty", "empty_like", "new_empty", "empty_strided"), RANDOM),
    **dict.fromkeys(("new_empty_strided", "empty_permuted"), RANDOM),
    **dict.fromkeys(("sparse.mm", "sparse.sampled_addmm", "to_sparse"), "no sparse tensors here"),
    **{name: "only for CUDA" for name in entries() if name.startswith("jiterator")},
    **dict.fromkeys(("polygamma", "special.polygamma"), "at its poles only rounding is left"),
    "tensor_split": "wants its indices on the CPU, whatever the device of self",
    "histc": "counts integers, too, as on other accelerators: transformers asks for it there",
    "max_pool1d": "without gradients the CPU has a kernel of its own, which takes no integers",
}

# Else the order of equals is left open, and the CPU has one of its own.
STABLE = {"sort", "argsort"}


def outcome(op: Any, args: Any, kwargs: Any, device: str) -> Any:
    def copy(x: Any) -> Any:
        if isinstance(x, Tensor):
            return x.detach().clone().to(device)
        return torch.device(device) if isinstance(x, torch.device) or x == "cpu" else x

    args, kwargs = pytree.tree_map(copy, (args, kwargs))
    try:
        result = op.op(*args, **kwargs)
        return [x.cpu() for x in pytree.tree_leaves(result) if isinstance(x, Tensor)]
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        with contextlib.suppress(RuntimeError, IndexError):
            torch_nntile.wait()  # other tasks of a refused op may fail, too
        return error


def converted(values: Any, dtype: torch.dtype) -> Any:
    """Every floating tensor and dtype among the arguments is one of `dtype`."""

    def cast(x: Any) -> Any:
        if isinstance(x, Tensor):
            return x.detach().to(dtype) if x.is_floating_point() else x
        return dtype if isinstance(x, torch.dtype) and x.is_floating_point else x

    return pytree.tree_map(cast, values)


def samples_of(op: Any) -> list[Any]:
    try:
        return list(op.sample_inputs("cpu", torch.float32))[:SAMPLES]
    except Exception:  # it makes none of this dtype
        return []


@pytest.mark.parametrize("name", sorted(set(entries()) - set(LEFT_OUT)))
def test_dtypes(name: str) -> None:
    for op in entries()[name]:
        for sample, dtype in itertools.product(samples_of(op), DTYPES):
            args, kwargs = converted(((sample.input, *sample.args), sample.kwargs), dtype)
            if name in STABLE:
                kwargs = {**kwargs, "stable": True}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                expected = outcome(op, args, kwargs, "cpu")
                found = outcome(op, args, kwargs, "nntile")
            where = f"{op.name} of {args}, {kwargs}: {found}, expected {expected}"
            if isinstance(expected, Exception):
                # A composite op may be refused by another part of it.
                kind = RuntimeError if isinstance(expected, RuntimeError) else type(expected)
                assert isinstance(found, kind), where
                continue
            assert not isinstance(found, Exception), where
            for x, y in zip(found, expected, strict=True):
                torch.testing.assert_close(x, y, equal_nan=True, msg=lambda m, w=where: f"{w}\n{m}")
