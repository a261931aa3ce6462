# SPDX-License-Identifier: BSD-3-Clause
"""Every row of aten.py against CPU PyTorch: drawn inputs and cuts, eager and graph."""

from __future__ import annotations

import pytest
import strategies
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from parity import assert_parity, moved, run
from samples import SAMPLES, Sample
from torch.utils import _pytree as pytree

from torch_nntile import aten
from torch_nntile.schemas import siblings

# Served through compositions, or random: see the tests named here.
ELSEWHERE = {
    "nntile::int8_mm": "test_quantized.py",
    "nntile::clamp": "test_compositions.py",
    "nntile::draw": "multinomial: test_random.py",
    # PyTorch makes its operands alike before it calls it.
    "_prelu_kernel_backward": "test_compositions.py",
    "log_sigmoid_backward": "test_compositions.py",
    "nntile::clamp.Scalar": "test_compositions.py",
    "nntile::div_trunc": "test_compositions.py",
    "nntile::div_trunc.Scalar": "test_integers.py",
    "nntile::norm2": "norms: test_compositions.py and test_op_db_all.py",
    "nntile::foreach_norm2": "norms: test_compositions.py",
    **dict.fromkeys(
        ("nntile::embedding_bag", "nntile::embedding_bag_max", "nntile::bag_of"),
        "test_embedding_bag.py",
    ),
    **dict.fromkeys(("convolution", "convolution_backward"), "test_convolution.py"),
    **dict.fromkeys(
        (
            *(f"max_pool{n}d_with_indices{way}" for n in (2, 3) for way in ("", "_backward")),
            *(
                f"{kind}{n}d{way}"
                for kind in ("avg_pool", "_adaptive_avg_pool")
                for n in (2, 3)
                for way in ("", "_backward")
            ),
        ),
        "test_pooling.py",
    ),
    **dict.fromkeys(
        (
            f"nntile::{kind}{way}"
            for kind in ("lstm_sequence", "gru_sequence", "rnn_sequence", "lstm_cell", "gru_cell")
            for way in ("", "_backward")
        ),
        "test_recurrent.py",
    ),
    **dict.fromkeys(
        ("nntile::cross_entropy", "nntile::cross_entropy_backward"), "test_cross_entropy.py"
    ),
    "nntile::channel_sums": "norms and variances: test_layers.py and test_norms.py",
    "nntile::channel_blend": "norms: test_layers.py and test_norms.py",
    "nntile::batch_norm": "norms: test_layers.py and test_norms.py",
    "nntile::batch_norm_backward": "norms: test_layers.py and test_norms.py",
    **dict.fromkeys(
        (f"nntile::{kind}_norm{way}" for kind in ("rms", "group") for way in ("", "_backward")),
        "test_norms.py",
    ),
    **dict.fromkeys(
        ("nntile::index", "nntile::index_put_", "nntile::scatter_reduce", "nntile::index_reduce"),
        "test_indexing.py",
    ),
    **dict.fromkeys(
        (f"nntile::{name}" for name in ("logcumsumexp", "cummax", "cummin", "kthvalue")),
        "test_order.py",
    ),
    **dict.fromkeys(
        (f"adaptive_max_pool{n}d{way}" for n in (2, 3) for way in ("", "_backward")),
        "test_image_windows.py",
    ),
    "nntile::resample": "test_resample.py",
    **dict.fromkeys(("nntile::grid_sample", "nntile::grid_sample_backward"), "test_geometry.py"),
    "nntile::searchsorted": "test_order.py",
    **dict.fromkeys(
        (
            *("nntile::trigamma", "nntile::zeta", "special_zeta"),
            *(f"special_modified_bessel_i{n}" for n in (0, 1)),
        ),
        "polygamma and others: test_op_db.py",
    ),
    "nntile::nll_loss": "samples of nll_loss_forward with more dims",
    "nntile::nll_loss_backward": "likewise",
    "nntile::binary_cross_entropy": "test_compositions.py and test_answers_of_cpu.py",
    **{
        f"nntile::{name}": "parts of compositions: test_compositions.py and test_op_db.py"
        for name in (
            *("softshrink", "logit", "nan_to_num", "elu_backward"),
            *("smooth_l1", "smooth_l1_backward"),
            *("huber", "huber_backward", "mse", "mse_backward", "glu", "glu_gate_backward"),
            "binary_cross_entropy_backward",
        )
    },
    "nntile::dropout": "test_random.py",
    **dict.fromkeys(("uniform_", "normal_", "nntile::randint_", "bernoulli"), "test_random.py"),
    **{
        f"nntile::{name}_": "test_training.py and test_compositions.py"
        for name in ("sgd", "sgd_momentum", "adam", "adamw", "adam_amsgrad", "adamw_amsgrad")
    },
}


HOST_HAS_NONE = "_masked_scale"  # nothing to compare with
# PyTorch's Meta kernels of these refuse their own alpha. No function of torch leads to them.
REFUSED_BY_META = {"aten::add.Scalar_out", "aten::sub.Scalar_out"}


def base_name(row: aten.Row) -> str:
    return row.overload if row.overload in SAMPLES else row.overload.partition(".")[0]


def is_generated(row: aten.Row) -> bool:
    if row.overload in ELSEWHERE or row.overload == HOST_HAS_NONE or base_name(row) in SAMPLES:
        return False
    return strategies.op_of(row.op).rule == "map" or bool(row.flags & aten.FOREACH)


FORMS = [
    (name, row)
    for row in aten.ROWS
    if is_generated(row)
    for name in siblings(row.qualified)
    if name not in REFUSED_BY_META
]
CASES = [(name, k) for name, found in SAMPLES.items() for k in range(len(found))]


def is_differentiable(example: strategies.Example) -> bool:
    try:
        run(example.call, example.inputs, "cpu", {}, True)
    except RuntimeError:
        return False
    return True


def halve_from_0_9_to_1(data: torch.Tensor) -> None:
    """1 - erf(x) loses bits there, on the CPU as here."""
    data[(data.abs() > 0.9) & (data.abs() < 1)] /= 2


def leave_poles(data: torch.Tensor) -> None:
    """The CPU's trigamma of float32, the gradient, is as wrong as its argument is near to a whole number."""
    near = (data < 0) & ((data - data.round()).abs() < 0.1) & (data != data.round())
    data[near] = data[near].round() - 0.5


WELL_CONDITIONED = {"erfinv": halve_from_0_9_to_1, "digamma": leave_poles}


def dtypes_of(example: strategies.Example, device: str) -> list[torch.dtype]:
    results = example.call(*(moved(x, device) for x in example.inputs))
    return [x.dtype for x in pytree.tree_leaves(results) if x is not None]


@pytest.mark.parametrize(("name", "row"), FORMS, ids=[name for name, _ in FORMS])
@given(data=st.data())
def test_element_wise_row(name: str, row: aten.Row, data: st.DataObject) -> None:
    example = data.draw(strategies.aten_calls(row, name))
    if row.op == "gelu_backward":  # oneDNN's dies of an expanded operand beside one that broadcasts
        assume(len({x.shape for x in example.inputs[:2]}) == 1)
    try:
        on_cpu = dtypes_of(example, "cpu")
    except RuntimeError:
        assume(False)  # PyTorch refuses this dtype; test_errors.py looks at what is refused
    if name == "aten::gelu.out":  # the CPU leaves a strided out= of gelu as it was
        assume(all(x.is_contiguous() for x in example.inputs))
    if row.op in WELL_CONDITIONED:
        for x in example.inputs:
            if x.is_floating_point():  # x may be expanded
                WELL_CONDITIONED[row.op](x.new_empty(0).set_(x.untyped_storage()))
    if row.op == "gelu":  # oneDNN's gelu of inf is nan, that of the CPU's own loop is inf
        assume(not any(x.isinf().any() for x in example.inputs))
    assume(on_cpu == dtypes_of(example, "meta"))  # else PyTorch's own devices do not agree
    grad = example.grad and is_differentiable(example)
    assert_parity(
        example.call,
        example.inputs,
        cuts=data.draw(strategies.cuts_of(example.inputs)),
        grad=grad,
        modes=[data.draw(st.sampled_from(["eager", "graph"]))],
        length=max(x.numel() for x in example.inputs) if grad else 1,
        op=name.removeprefix("aten::").partition(".")[0].rstrip("_"),
        same_bits=not grad,  # a gradient may be a sum over broadcast dims
    )


@pytest.mark.parametrize(("name", "number"), CASES, ids=[f"{n}-{k}" for n, k in CASES])
def test_sample(name: str, number: int) -> None:
    sample = SAMPLES[name][number]
    assert_parity(sample.call, sample.inputs, grad=sample.grad, length=sample.length)


def empty_out_of(name: str, operand: torch.Tensor) -> torch.Tensor | None:
    """Result of an out= form: each tensor is `operand`, each number 1. None: it takes something else."""
    namespace, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    op = getattr(getattr(getattr(torch.ops, namespace), base), overload)
    given = {}
    for argument in op._schema.arguments:
        if argument.is_out:
            given[argument.name] = operand.new_empty(0)
        elif isinstance(argument.type, torch.TensorType):
            given[argument.name] = operand
        elif isinstance(argument.type, torch.NumberType | torch.FloatType | torch.IntType):
            given[argument.name] = 1
    try:
        return op(**given)
    except (RuntimeError, NotImplementedError):
        return None


OUT_FORMS = [name for name, _ in FORMS if "out" in name.partition(".")[2]]


@pytest.mark.parametrize("order", [(1, 0, 2), (2, 1, 0)])
@pytest.mark.parametrize("name", OUT_FORMS)
def test_empty_out_is_laid_as_the_cpu_lays_it(name: str, order: tuple[int, ...]) -> None:
    for dtype in (torch.float32, torch.int32, torch.bool):
        operand = torch.ones(2, 3, 4, dtype=dtype).permute(order)
        expected = empty_out_of(name, operand)
        if expected is not None:
            found = empty_out_of(name, operand.to("nntile"))
            assert found is not None
            assert found.stride() == expected.stride()


# Its calls take longer than those of element-wise rows.
@settings(max_examples=settings.default.max_examples // 2)
@pytest.mark.parametrize("name", SAMPLES)
@given(data=st.data())
def test_sample_cut(name: str, data: st.DataObject) -> None:
    sample: Sample = data.draw(st.sampled_from(SAMPLES[name]))
    assert_parity(
        sample.call,
        sample.inputs,
        cuts=data.draw(strategies.cuts_of(sample.inputs)),
        grad=sample.grad,
        modes=[data.draw(st.sampled_from(["eager", "graph"]))],
        length=sample.length,
    )


def test_every_row_is_tested() -> None:
    for row in aten.ROWS:
        tested = is_generated(row) or row.overload in ELSEWHERE or base_name(row) in SAMPLES
        assert tested or row.overload == HOST_HAS_NONE, f"no test reaches {row.qualified}"


def test_cases_are_of_rows() -> None:
    assert {base_name(row) for row in aten.ROWS} >= set(SAMPLES)
    assert {row.overload for row in aten.ROWS} >= set(ELSEWHERE)
    assert torch.get_default_dtype() == torch.float32
