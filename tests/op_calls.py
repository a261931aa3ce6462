# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch's own op_db as calls of tensors, for test_op_db.py and test_op_db_views.py."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from parity import data_of, moved
from torch import Tensor
from torch.utils import _pytree as pytree

from torch_nntile.conformance.calls import into_out

__all__ = ["Call", "calls_of", "dtype_of", "entries", "into_out", "plain", "refused", "written"]


def plain(name: str) -> str:
    """ "aten::_log_softmax" and "nn.functional.log_softmax" -> "log_softmax"."""
    name = name.removeprefix("nn.functional.").strip("_").removeprefix("native_")
    return name.removesuffix("_forward")


@functools.cache
def entries() -> dict[str, list[Any]]:
    """Entries of op_db by plain name; PyTorch needs seconds to make them."""
    from torch.testing._internal.common_methods_invocations import op_db

    found: dict[str, list[Any]] = {}
    for op in op_db:
        for name in {plain(op.name), plain(op.aten_name or op.name)}:
            found.setdefault(name, []).append(op)
    return found


def dtype_of(op: Any, *more: torch.dtype) -> torch.dtype | None:
    """float32, or the first dtype that the op takes instead."""
    dtypes = (torch.float32, torch.int64, torch.bool, *more)
    return next((dtype for dtype in dtypes if dtype in op.dtypes), None)


@dataclass(frozen=True)
class Call:
    """A sample as a call of its tensors."""

    function: Callable[..., Any]
    spec: pytree.TreeSpec
    leaves: list[Any]  # tensors with requires_grad are those that the sample differentiates

    def __call__(self, *tensors: Tensor) -> Any:
        given = iter(tensors)
        device = tensors[0].device

        def fill(leaf: Any) -> Any:
            if isinstance(leaf, Tensor):
                return next(given) if leaf.requires_grad else next(given).detach()
            return device if is_device(leaf) else leaf

        leaves = [fill(leaf) for leaf in self.leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        with device:  # for what makes tensors of nothing
            return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        texts = [f"{tuple(x.shape)}" if isinstance(x, Tensor) else repr(x) for x in self.leaves]
        return f"{self.function} of ({', '.join(texts)})"


def is_device(leaf: Any) -> bool:
    return isinstance(leaf, torch.device) or (isinstance(leaf, str) and leaf == "cpu")


def calls_of(
    op: Any, function: Callable[..., Any], in_place: bool, dtype: torch.dtype | None = None
) -> Iterator[tuple[Call, list[Tensor]]]:
    """Calls of all samples, and their tensors; those without any get one that only names the device."""
    dtype = dtype or dtype_of(op) or torch.float32
    grad = op.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
    for sample in op.sample_inputs("cpu", dtype, requires_grad=grad):
        if in_place and sample.broadcasts_input:
            continue
        tree = ((sample.input, *sample.args), sample.kwargs)
        leaves, spec = pytree.tree_flatten(tree)
        tensors = [dense(x) for x in leaves if isinstance(x, Tensor)] or [torch.zeros(())]
        yield Call(function, spec, leaves), tensors


def dense(tensor: Tensor) -> Tensor:
    """Detached; as a view of dense data only if it is one."""
    try:
        data_of(tensor)
    except AssertionError:
        return tensor.detach().clone(memory_format=torch.contiguous_format)
    return tensor


def refused(call: Call, tensors: list[Tensor]) -> bool:
    """Whether PyTorch itself does not take the call: a result that is wider, or strides."""
    try:
        call(*(moved(x, "cpu") for x in tensors))
    except RuntimeError:
        return True
    return False


def written(function: Callable[..., Any]) -> Callable[..., Any]:
    """The in-place form on a copy: op_db's sample may be used again, and a leaf is not written."""
    return lambda x, *args, **kwargs: function(x.clone(), *args, **kwargs)
