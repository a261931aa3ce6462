# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch's own op_db for the ops that have rows: every sample, forward, backward, in-place and out=."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from op_calls import calls_of, dtype_of, entries, into_out, plain, refused, written
from parity import Cuts, assert_parity, data_of
from torch import Tensor

from torch_nntile import aten, fallback

NAMES = sorted(
    {
        plain(row.overload.partition(".")[0])
        for row in aten.ROWS
        if not row.flags & aten.FOREACH and "::" not in row.overload
    }
)
# PyTorch makes these of ops with rows, by itself or by its decomposition.
MADE_OF_ROWS = (
    *("matmul", "addmv", "dot", "mv", "linear", "cross_entropy", "stack", "clamp", "logsumexp"),
    *("mse_loss", "hardtanh", "logsigmoid", "var", "std", "nan_to_num"),
    *("tril", "triu", "prelu", "softshrink"),
    *("index_put", "take", "put", "masked_scatter", "scatter_reduce", "isin", "roll"),
    *("cummax", "cummin", "logcumsumexp", "median", "kthvalue", "argsort", "searchsorted"),
    *("polygamma", "nansum", "aminmax", "addbmm"),
    *(f"special.modified_bessel_i{n}" for n in (0, 1)),
    *("cross", "histc", "dist", "quantile", "bucketize"),
    *("cdist", "renorm", "grid_sampler_2d", "max_unpool2d"),
    *("channel_shuffle", "multi_margin_loss", "multilabel_margin_loss", "linspace"),
)

# op_db has no entry of this name, or its answers are random.
ELSEWHERE = {
    **dict.fromkeys(("bernoulli", "normal", "uniform", "random"), "random: test_random.py"),
    **dict.fromkeys(
        ("gelu_backward", "leaky_relu_backward", "sigmoid_backward", "silu_backward"),
        "gradient of an op with an entry",
    ),
    **dict.fromkeys(
        ("tanh_backward", "threshold_backward", "log_softmax_backward_data"),
        "gradient of an op with an entry",
    ),
    **dict.fromkeys(
        ("nll_loss_backward", "layer_norm_backward", "embedding_dense_backward"),
        "gradient of an op with an entry",
    ),
    **dict.fromkeys(
        (
            *("hardswish_backward", "hardsigmoid_backward", "hardtanh_backward", "logit_backward"),
            *("hardshrink_backward", "softshrink_backward", "softplus_backward"),
            *("log_sigmoid_backward", "prelu_kernel_backward"),
        ),
        "gradient of an op with an entry, and test_compositions.py",
    ),
    "prelu_kernel": "called by prelu",
    **dict.fromkeys(
        (f"special_modified_bessel_i{n}" for n in (0, 1)), "an entry has a dot in its name"
    ),
    "masked_scale": "gradient of dropout: test_random.py",
    **dict.fromkeys(
        (
            "scaled_dot_product_flash_attention_for_cpu",
            "scaled_dot_product_flash_attention_for_cpu_backward",
        ),
        "called by scaled_dot_product_attention: test_flash_attention.py",
    ),
    **dict.fromkeys(
        ("convolution", "convolution_backward"), "called by conv2d and others: test_convolution.py"
    ),
    **dict.fromkeys(
        (
            *(f"max_pool{n}d_with_indices" for n in (2, 3)),
            "max_pool3d_with_indices_backward",
            *(f"{kind}avg_pool{n}d_backward" for n in (2, 3) for kind in ("", "adaptive_")),
            *(f"adaptive_max_pool{n}d_backward" for n in (2, 3)),
        ),
        "called by max_pool2d and others, and gradients: test_pooling.py",
    ),
}
TESTED = [name for name in (*NAMES, *MADE_OF_ROWS) if name not in ELSEWHERE]
# PyTorch's formula of the gradient asks for more than rows; the host may serve it.
HOST_IN_BACKWARD = {
    "max": "scatter, from the dim that was reduced",
    "min": "likewise",
    "prod": "nonzero: is there a zero among the factors?",
    "sgn": "_efficientzerotensor",
    "index_fill": "unique, of the index",
}
WITHOUT_GRADIENT = {
    "softmax_backward_data": "terms cancel to nothing: only rounding is left to compare",
}
# Entry -> what to leave out of it and why: of rows of one or two numbers only rounding is left.
LEFT_OUT: dict[str, Callable[[list[Any]], bool]] = {
    "layer_norm": lambda leaves: leaves[0].numel() <= 2 or leaves[0].shape[-1] <= 2,
    # PyTorch's gradient of distances by products is a difference of what is much larger.
    "cdist": lambda leaves: any(x == "use_mm_for_euclid_dist" for x in leaves if type(x) is str),
}
# Row of the table of tolerances, where it is not the op's own: start + index * step is a sum.
TOLERANCE_OF = {"arange": "add"}


# A sample for an ordinary run, by name: a new entry moves no other. `-m slow` cuts all of them, in more ways.
# Left out: entries none of whose first samples has a dim that is a batch.
NO_BATCH = {
    "arange",
    "linspace",
    "fill",
    "zero",
    "max_pool2d_with_indices_backward",
    "cross",
    "histc",
}
IN_TWO = [name for name in sorted(set(TESTED) - NO_BATCH) if zlib.crc32(name.encode()) % 4 == 0]


@pytest.fixture(autouse=True)
def rows_only(request: pytest.FixtureRequest) -> Iterator[None]:
    before = fallback.cpu_fallback()
    name = request.node.callspec.params["name"] if hasattr(request.node, "callspec") else ""
    fallback.set_cpu_fallback(name in HOST_IN_BACKWARD)
    yield
    fallback.set_cpu_fallback(before)


def cuts_of(tensors: list[Tensor]) -> Cuts:
    """The first dim raggedly, the last one evenly."""
    cuts: dict[int, dict[int, Any]] = {}
    for k, tensor in enumerate(tensors):
        data = data_of(tensor)
        for dim, extent in enumerate(data.shape):
            if extent > 1:
                sizes = (1, extent - 1) if dim == 0 else (extent + 1) // 2
                cuts.setdefault(k, {})[dim] = sizes
    return cuts


def forms_of(op: Any) -> Iterator[tuple[str, Callable[..., Any], bool]]:
    """Name, function, whether it has a gradient."""
    yield "functional", op.op, op.supports_autograd
    if op.inplace_variant is not None:
        yield "in place", written(op.inplace_variant), op.supports_inplace_autograd
    if op.supports_out:
        yield "out=", into_out(op.op), False


def in_two(tensors: list[Tensor]) -> Cuts:
    """The first dim of each, where the batch is."""
    found = {k: data_of(x).shape[:1] for k, x in enumerate(tensors)}
    return {k: {0: (sizes[0] + 1) // 2} for k, sizes in found.items() if sizes and sizes[0] > 1}


def check_batches(name: str, few: int) -> None:
    """Some functional samples with the batch in two, eager."""
    done = 0
    for op in entries()[name]:
        if dtype_of(op) is None:
            continue
        for call, tensors in itertools.islice(calls_of(op, op.op, False), few):
            cuts = in_two(tensors)
            if not cuts or (name in LEFT_OUT and LEFT_OUT[name](call.leaves)):
                continue
            done += 1
            grad = op.supports_autograd and name not in WITHOUT_GRADIENT
            tolerance = TOLERANCE_OF.get(name, name)
            assert_parity(call, tensors, cuts=cuts, grad=grad, modes=("eager",), op=tolerance)
    assert done


def check(name: str, cut: bool) -> None:
    done, failed = 0, []
    for op in entries()[name]:
        if dtype_of(op) is None:
            continue
        for form, function, grad in forms_of(op):
            for call, tensors in calls_of(op, function, form == "in place"):
                if form == "in place" and refused(call, tensors):
                    continue
                if name in LEFT_OUT and LEFT_OUT[name](call.leaves):
                    continue
                done += 1
                try:
                    assert_parity(
                        call,
                        tensors,
                        cuts=cuts_of(tensors) if cut else None,
                        grad=grad and name not in WITHOUT_GRADIENT,
                        op=TOLERANCE_OF.get(name, name),
                    )
                except AssertionError as error:
                    failed.append(f"{op.name} {form}: {call!r}\n{error}")
    assert not failed, f"{len(failed)} of {done} samples of {name} fail; the first:\n{failed[0]}"
    assert done


@pytest.mark.parametrize("name", TESTED)
@pytest.mark.filterwarnings("ignore:.*nntile.*:UserWarning")
def test_op(name: str) -> None:
    check(name, cut=False)


@pytest.mark.parametrize("name", IN_TWO)
@pytest.mark.filterwarnings("ignore:.*nntile.*:UserWarning")
def test_op_with_its_batch_in_two(name: str) -> None:
    check_batches(name, few=8)


@pytest.mark.slow
@pytest.mark.parametrize("name", TESTED)
@pytest.mark.filterwarnings("ignore:.*nntile.*:UserWarning")
def test_op_cut(name: str) -> None:
    check(name, cut=True)


def test_only_what_op_db_lacks_is_left_out() -> None:
    random = {name for name, reason in ELSEWHERE.items() if reason.startswith("random")}
    assert not (entries().keys() & ELSEWHERE.keys()) - random
    assert set(NAMES) - entries().keys() <= ELSEWHERE.keys()
