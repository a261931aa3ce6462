# SPDX-License-Identifier: BSD-3-Clause
"""The table: which op of libnntile_c serves which overload of PyTorch. Pure data.

A row names the functional overload; dispatch.py finds its in-place and `out=` forms by schema.
A row that names an in-place or `out=` overload stands for itself alone. `arguments` are words:

    self:x       argument `self` is the op's input or attribute `x`
    alpha        short for alpha:alpha
    train:-      ignored
    v=0          the op's input or attribute `v` is this constant

dtype, layout, device, pin_memory, memory_format, non_blocking and generator need no word. A list
for an integer attribute stands for its length, a number for a text attribute for the word of that
place. An element-wise op needs a line here and one in libnntile_c/src/kernels/map.def, no more.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_nntile import versions

__all__ = ["ANY_ORDER", "FOREACH", "RANDOM", "ROWS", "SATURATES", "UNIFORM", "WIDE", "Row"]

# Numbers of nntile_stub_row_flag.
FOREACH = 1  # lists are walked in parallel: one node for each element
RANDOM = 2  # attributes seed and offset come from the generator
UNIFORM = 4  # operands of other dtypes are refused, as PyTorch does
ANY_ORDER = (
    8  # of one operand, whose dims may be taken as they lie: attributes of integers are dims
)
SATURATES = (
    16  # bounds `lo` and `hi` that the dtype does not hold become the nearest ones; else wrapped
)
WIDE = 32  # floats of 16 bits are refused, as PyTorch does

BOUNDS = SATURATES if versions.BOUNDS_SATURATE else 0


@dataclass(frozen=True, slots=True)
class Row:
    """overload: "add.Tensor" of namespace aten, or "nntile::clamp". op: name in libnntile_c."""

    overload: str
    op: str
    arguments: str = ""
    flags: int = 0

    @property
    def qualified(self) -> str:
        """ "aten::add.Tensor"."""
        return self.overload if "::" in self.overload else f"aten::{self.overload}"


def _own(op: str, arguments: str) -> Row:
    """An op of namespace nntile serves the row of its name."""
    return Row(f"nntile::{op}", op, arguments)


def _same(names: str, arguments: str, *overloads: str) -> tuple[Row, ...]:
    """Rows whose op has the name of the overload: "neg", "nntile::huber", "eq.Tensor" and "eq.Scalar"."""
    return tuple(
        Row(f"{name}.{overload}" if overload else name, name.removeprefix("nntile::"), arguments)
        for name in names.split()
        for overload in overloads or ("",)
    )


ARITHMETIC = (
    *_same("add sub", "self:a other:b alpha", "Tensor", "Scalar"),
    Row("rsub.Tensor", "sub", "self:b other:a alpha"),
    Row("rsub.Scalar", "sub", "self:b other:a alpha"),
    *_same("mul div", "self:a other:b", "Tensor", "Scalar"),
    *_same("remainder", "self:a other:b", "Tensor", "Scalar", "Scalar_Tensor"),
    *_same("fmod", "self:a other:b", "Tensor", "Scalar"),
    Row("floor_divide", "div_floor", "self:a other:b"),
    Row("floor_divide.Scalar", "div_floor", "self:a other:b"),
    *_same("pow", "self:a exponent:b", "Tensor_Tensor", "Scalar"),
    *_same("pow", "self:a exponent:b number=1", "Tensor_Scalar"),
    *_same("xlogy", "self:a other:b", "Tensor"),
    *_same("logaddexp atan2", "self:a other:b"),
    *_same("lerp", "self:a end:b weight:w", "Tensor", "Scalar"),
    *_same("addcmul addcdiv", "self:a tensor1:b tensor2:c value"),
    *_same("maximum minimum fmax fmin logaddexp2", "self:a other:b"),
    *_same("copysign", "self:a other:b", "Tensor", "Scalar"),
    Row("special_xlog1py", "xlog1py", "self:a other:b"),
    Row("clamp_min", "clamp_min", "self:x min:lo", BOUNDS),
    Row("clamp_min.Tensor", "clamp_min", "self:x min:lo"),
    Row("clamp_max", "clamp_max", "self:x max:hi", BOUNDS),
    Row("clamp_max.Tensor", "clamp_max", "self:x max:hi"),
    _own("clamp", "self:x min:lo max:hi"),
    Row("nntile::clamp.Scalar", "clamp", "self:x min:lo max:hi", BOUNDS),
    _own("div_trunc", "self:a other:b"),
    Row("nntile::div_trunc.Scalar", "div_trunc", "self:a other:b"),
)

UNARY = (
    "neg abs sign floor ceil round trunc reciprocal sqrt rsqrt exp exp2 expm1 log log2 log10 log1p "
    "sin cos tan asin acos atan sinh cosh asinh acosh atanh tanh erf erfc relu silu sigmoid"
)
FUNCTIONS = (
    *_same(UNARY, "self:x"),
    Row("sgn", "sign", "self:x"),
    *_same("erfinv lgamma digamma angle i0 nntile::trigamma hardswish hardsigmoid mish", "self:x"),
    *(Row(f"special_{name}", name, "self:x") for name in ("i1", "i0e", "i1e")),
    *(Row(f"special_modified_bessel_i{n}", f"i{n}", "self:x", WIDE) for n in (0, 1)),
    Row("special_zeta", "zeta", "self:a other:b", WIDE),
    _own("zeta", "self:a other:b"),  # of polygamma, which is of short floats too
    *_same("gelu", "self:x approximate"),
    *_same("leaky_relu", "self:x negative_slope"),
    *_same("softplus", "self:x beta threshold"),
    *_same("elu", "self:x alpha scale input_scale"),
    *_same("hardshrink nntile::softshrink", "self:x lambd"),
    *_same("nntile::logit", "self:x low high"),
    *_same("nntile::nan_to_num", "self:x nan posinf neginf"),
    Row("_prelu_kernel", "prelu", "self:x weight:w"),
    *_same("threshold", "self:x threshold value"),
    *_same("threshold_backward", "grad_output:dy self:x threshold"),
    *_same("gelu_backward", "grad_output:dy self:x approximate"),
    *_same("silu_backward hardswish_backward hardsigmoid_backward", "grad_output:dy self:x"),
    *_same("sigmoid_backward tanh_backward", "grad_output:dy output:y"),
    *_same("hardtanh_backward", "grad_output:dy self:x min_val max_val"),
    Row("hardshrink_backward", "shrink_backward", "grad_out:dy self:x lambd"),
    Row("softshrink_backward", "shrink_backward", "grad_output:dy self:x lambd"),
    *_same("softplus_backward", "grad_output:dy self:x beta threshold"),
    *_same("log_sigmoid_backward", "grad_output:dy self:x buffer:z"),
    *_same("logit_backward", "grad_output:dy self:x eps"),
    Row("_prelu_kernel_backward", "prelu_backward", "grad_output:dy self:x weight:w"),
    _own("elu_backward", "grad_output:dy self:x by alpha scale input_scale"),
    _own("binary_cross_entropy", "self:x target:t"),
    _own("binary_cross_entropy_backward", "grad_output:dy self:x target:t count"),
    _own("glu", "self:a gate"),
    _own("glu_gate_backward", "grad_output:dy self:a gate"),
    *_same("nntile::smooth_l1 nntile::huber", "self:a target:b width"),
    *_same(
        "nntile::smooth_l1_backward nntile::huber_backward",
        "grad_output:dy self:a target:b norm width",
    ),
    _own("mse", "self:a target:b"),
    _own("mse_backward", "grad_output:dy self:a target:b norm"),
    # The slope is positive where self may be the result, so both have one sign.
    *_same("leaky_relu_backward", "grad_output:dy self:x negative_slope self_is_result:-"),
)

CHOICES = (
    *_same("eq ne lt le gt ge", "self:a other:b", "Tensor", "Scalar"),
    *_same("isnan isinf signbit logical_not bitwise_not", "self:x"),
    *_same("heaviside", "self:a values:b"),
    *_same("logical_and logical_or logical_xor", "self:a other:b"),
    *_same("bitwise_and bitwise_or bitwise_xor", "self:a other:b", "Tensor", "Scalar"),
    *_same("where", "condition:c self:a other:b", "self"),
    *_same("masked_fill", "self:x mask:m value:v", "Scalar", "Tensor"),
)

FILLS = (
    Row("fill_.Scalar", "fill", "self:- value:v"),
    Row("zero_", "fill", "self:- v=0"),
    Row("arange.start_out", "arange", "start end:- step"),
    Row("uniform_", "uniform", "self:- from:low to:high", RANDOM),
    Row("normal_", "normal", "self:- mean std", RANDOM),
    Row("nntile::randint_", "randint", "self:- low high", RANDOM),
    Row("bernoulli", "bernoulli", "self:p", RANDOM),
)

REDUCTIONS = (
    *_same("sum mean", "self:x"),
    *_same("sum", "self:x dim:dims keepdim", "dim_IntList"),
    *_same("mean", "self:x dim:dims keepdim", "dim"),
    *_same("prod any all", "self:x"),
    *_same("prod", "self:x dim:dims keepdim", "dim_int"),
    *_same("any all", "self:x dim:dims keepdim", "dim"),
    *_same("amax amin argmax argmin logsumexp", "self:x dim:dims keepdim"),
    *_same("var std var_mean std_mean", "self:x dim:dims correction keepdim", "correction"),
    _own("norm2", "self:x dim:dims keepdim"),
    Row("nntile::foreach_norm2", "norm2", "self:x", FOREACH),
    Row("max", "amax", "self:x"),
    Row("min", "amin", "self:x"),
)

PRODUCTS = (
    Row("mm", "matmul", "self:a mat2:b", UNIFORM),
    Row("bmm", "matmul", "self:a mat2:b", UNIFORM),
    Row("nntile::int8_mm", "matmul_int8", "self:a mat2:b"),
    Row("addmm", "addmm", "self:c mat1:a mat2:b beta alpha", UNIFORM),
    Row("baddbmm", "addmm", "self:c batch1:a batch2:b beta alpha", UNIFORM),
)

_WINDOW = "kernel_size stride padding dilation ceil_mode"
_MEAN = "kernel_size stride padding ceil_mode count_include_pad divisor_override"
NETWORKS = (
    Row("_softmax", "softmax", "self:x dim half_to_float:-"),
    Row("_log_softmax", "log_softmax", "self:x dim half_to_float:-"),
    Row("_softmax_backward_data", "softmax_backward", "grad_output:dy output:y dim input_dtype:-"),
    Row(
        "_log_softmax_backward_data",
        "log_softmax_backward",
        "grad_output:dy output:y dim input_dtype:-",
    ),
    Row("nll_loss_forward", "nll_loss", "self:x target weight reduction ignore_index"),
    *_same(
        "nll_loss_backward nntile::nll_loss_backward",
        "grad_output:dy self:x target weight reduction ignore_index total_weight",
    ),
    _own("nll_loss", "self:x target weight reduction ignore_index"),
    _own("cross_entropy", "self:x target weight reduction ignore_index label_smoothing"),
    _own(
        "cross_entropy_backward",
        "grad_output:dy self:x target weight logsumexp total_weight reduction ignore_index "
        "label_smoothing",
    ),
    Row(
        "convolution",
        "convolution",
        "input:x weight:w bias stride padding dilation transposed output_padding groups",
        UNIFORM,
    ),
    Row(
        "convolution_backward",
        "convolution_backward",
        "grad_output:dy input:x weight:w bias_sizes:- stride padding dilation transposed "
        "output_padding groups output_mask:-",
        UNIFORM,
    ),
    Row("embedding", "embedding", "weight indices padding_idx:- scale_grad_by_freq:- sparse:-"),
    *(
        Row(
            f"nntile::{name}",
            name,
            "weight indices offsets per_sample_weights:weights mode include_last_offset padding_idx",
        )
        for name in ("embedding_bag", "embedding_bag_max")
    ),
    _own("bag_of", "offsets num_indices"),
    Row(
        "embedding_dense_backward",
        "embedding_backward",
        "grad_output:dy indices num_weights padding_idx scale_grad_by_freq",
    ),
    Row(
        "native_layer_norm",
        "layer_norm",
        "input:x normalized_shape:normalized_ndim weight bias eps",
    ),
    Row(
        "native_layer_norm_backward",
        "layer_norm_backward",
        "grad_out:dy input:x normalized_shape:normalized_ndim mean rstd weight bias:- "
        "output_mask:-",
    ),
    _own("group_norm", "input:x weight bias eps"),
    _own("group_norm_backward", "grad_out:dy input:x mean rstd weight"),
    _own("rms_norm", "input:x normalized_shape:normalized_ndim weight eps"),
    _own("rms_norm_backward", "grad_out:dy input:x normalized_shape:normalized_ndim rstd weight"),
    *(
        row
        for n in (2, 3)
        for row in (
            Row(f"max_pool{n}d_with_indices", "max_pool", f"self:x {_WINDOW} spatial={n}"),
            Row(
                f"max_pool{n}d_with_indices_backward",
                "max_pool_backward",
                f"grad_output:dy self:x indices {_WINDOW} spatial={n}",
            ),
            Row(f"avg_pool{n}d", "avg_pool", f"self:x {_MEAN} spatial={n}"),
            Row(
                f"avg_pool{n}d_backward",
                "avg_pool_backward",
                f"grad_output:dy self:x {_MEAN} spatial={n}",
            ),
            Row(f"adaptive_max_pool{n}d", "max_pool", f"self:x output_size spatial={n}"),
            Row(
                f"adaptive_max_pool{n}d_backward",
                "max_pool_backward",
                f"grad_output:dy self:x indices adaptive=1 spatial={n}",
            ),
            Row(f"_adaptive_avg_pool{n}d", "avg_pool", f"self:x output_size spatial={n}"),
            Row(
                f"_adaptive_avg_pool{n}d_backward",
                "avg_pool_backward",
                f"grad_output:dy self:x adaptive=1 spatial={n}",
            ),
        )
    ),
    *(
        Row(
            f"nntile::{kind}_cell",
            f"{kind}_cell",
            f"input_gates:x hidden_gates:added {state} input_bias:x_bias hidden_bias:added_bias",
        )
        for kind, state in (("lstm", "cx"), ("gru", "hx"))
    ),
    _own(
        "lstm_cell_backward",
        "grad_hy:dhy grad_cy:dcy cx cy workspace:gates",
    ),
    _own("gru_cell_backward", "grad_hy:dhy workspace:kept"),
    _own("lstm_sequence", "self:x weight:w hx cx reverse"),
    _own("lstm_sequence_backward", "grad_y:dy grad_cy:dcy weight:w cx cells gates reverse"),
    _own("gru_sequence", "self:x weight:w bias hx reverse"),
    _own("gru_sequence_backward", "grad_y:dy weight:w hx y kept reverse"),
    _own("rnn_sequence", "self:x weight:w hx reverse nonlinearity"),
    _own("rnn_sequence_backward", "grad_y:dy weight:w y reverse nonlinearity"),
    _own(
        "batch_norm",
        "input:x weight bias running_mean running_var dim training momentum eps",
    ),
    _own("batch_norm_backward", "grad_out:dy input:x weight mean spread dim training eps"),
    _own("channel_sums", "self:x other:y shift kept"),
    _own("channel_blend", "self:a other:b p q s r kept"),
    Row(
        "_scaled_dot_product_flash_attention_for_cpu",
        "attention",
        "query:q key:k value:v dropout_p is_causal attn_mask:mask scale",
    ),
    Row(
        "_scaled_dot_product_flash_attention_for_cpu_backward",
        "attention_backward",
        "grad_out:dy query:q key:k value:v out:y logsumexp dropout_p:- is_causal attn_mask:mask "
        "scale",
    ),
    Row("nntile::dropout", "dropout", "self:x p", RANDOM),
    Row("native_dropout_backward", "masked_scale", "grad_output:dy mask scale"),
    Row("_masked_scale", "masked_scale", "self:dy mask scale"),
    Row("cat", "cat", "tensors dim"),
)

_SCATTER = "self:y dim index"
INDICES = (
    Row("gather", "gather", "self:x dim index sparse_grad:-"),
    Row("scatter.src", "scatter", f"{_SCATTER} src:x"),
    Row("scatter.value", "scatter", f"{_SCATTER} value:x"),
    Row("scatter_add", "scatter", f"{_SCATTER} src:x mode=sum"),
    Row("nntile::scatter_reduce", "scatter", f"{_SCATTER} src:x mode include_self"),
    Row("index_select", "index_select", "self:x dim index"),
    Row("index_add", "index_add", f"{_SCATTER} source:x alpha mode=sum"),
    Row("index_copy", "index_add", f"{_SCATTER} source:x"),
    *(
        Row(f"index_fill.int_{kind}", "index_add", f"{_SCATTER} value:x wrap=1")
        for kind in ("Scalar", "Tensor")
    ),
    Row("nntile::index_reduce", "index_add", f"{_SCATTER} source:x mode include_self"),
    _own("index", "self:x indices dims"),
    Row("nntile::index_put_", "index_put", "self:y values:x indices dims how:mode"),
)
ORDER = (
    *_same("cumsum cumprod", "self:x dim"),
    *(Row(f"nntile::{name}", name, "self:x dim") for name in ("logcumsumexp", "cummax", "cummin")),
    Row("sort.stable", "sort", "self:x stable:- dim descending"),
    *_same("topk", "self:x k dim largest sorted"),
    _own("kthvalue", "self:x k dim"),
    Row("flip", "flip", "self:x dims", ANY_ORDER),
    *_same("tril triu", "self:x diagonal"),
    _own(
        "resample",
        "self:x dims size mode align_corners antialias transposed left scale scale_2 scale_3",
    ),
    _own("grid_sample", "self:x grid mode padding align_corners"),
    _own("grid_sample_backward", "grad_output:dy self:x grid mode padding align_corners"),
    _own("searchsorted", "sequence self:x out_int32 right sorter"),
    _own("draw", "p u"),
)


def _foreach(names: str, arguments: str, *overloads: str) -> tuple[Row, ...]:
    return tuple(
        Row(
            f"_foreach_{name}.{overload}" if overload else f"_foreach_{name}",
            name,
            arguments,
            FOREACH,
        )
        for name in names.split()
        for overload in overloads or ("",)
    )


_ADAM = (
    "self:p grads:g exp_avgs:m exp_avg_sqs:v state_steps:step "
    "lr beta1 beta2 eps weight_decay maximize"
)
OPTIMIZERS = (
    *_foreach(
        "neg abs sign floor ceil round trunc reciprocal sqrt rsqrt exp expm1 log log2 log10 log1p "
        "sin cos tan asin acos atan sinh cosh tanh erf erfc sigmoid",
        "self:x",
    ),
    *_foreach("add sub", "self:a other:b alpha", "List"),
    *_foreach("add", "self:a other:b alpha", "Tensor"),
    *_foreach("mul div maximum minimum", "self:a other:b", "List"),
    *_foreach("mul div", "self:a other:b", "Tensor"),
    *_foreach("add sub mul div", "self:a scalar:b", "Scalar"),
    *_foreach("add sub mul div", "self:a scalars:b", "ScalarList"),
    Row("_foreach_maximum.Scalar", "clamp_min", "self:x scalar:lo", FOREACH | BOUNDS),
    Row("_foreach_maximum.ScalarList", "clamp_min", "self:x scalars:lo", FOREACH | BOUNDS),
    Row("_foreach_minimum.Scalar", "clamp_max", "self:x scalar:hi", FOREACH | BOUNDS),
    Row("_foreach_minimum.ScalarList", "clamp_max", "self:x scalars:hi", FOREACH | BOUNDS),
    *_foreach("pow", "self:a exponent:b", "List"),
    *_foreach("pow", "self:a exponent:b number=1", "Scalar", "ScalarList"),
    *_foreach("addcmul addcdiv", "self:a tensor1:b tensor2:c value", "Scalar"),
    *_foreach("addcmul addcdiv", "self:a tensor1:b tensor2:c scalars:value", "ScalarList"),
    *_foreach("lerp", "self:a tensors1:b weights:w", "List"),
    *_foreach("lerp", "self:a tensors1:b weight:w", "Scalar", "ScalarList"),
    Row("_foreach_clamp_min.Scalar", "clamp_min", "self:x scalar:lo", FOREACH | BOUNDS),
    Row("_foreach_clamp_max.Scalar", "clamp_max", "self:x scalar:hi", FOREACH | BOUNDS),
    Row("_foreach_zero_", "fill", "self:- v=0", FOREACH),
    Row("_foreach_copy_", "copy", "self:y src:x", FOREACH),
    # The fused optimizers without grad_scale and found_inf, which compositions/train.py takes care of.
    Row("nntile::sgd_", "sgd", "self:p grads:g lr weight_decay maximize", FOREACH),
    Row(
        "nntile::sgd_momentum_",
        "sgd_momentum",
        "self:p grads:g bufs:buf lr momentum dampening weight_decay nesterov maximize first",
        FOREACH,
    ),
    Row("nntile::adam_", "adam", f"{_ADAM} mode=adam", FOREACH),
    Row("nntile::adamw_", "adam", f"{_ADAM} mode=adamw", FOREACH),
    Row(
        "nntile::adam_amsgrad_", "adam_amsgrad", f"{_ADAM} max_exp_avg_sqs:max_v mode=adam", FOREACH
    ),
    Row(
        "nntile::adamw_amsgrad_",
        "adam_amsgrad",
        f"{_ADAM} max_exp_avg_sqs:max_v mode=adamw",
        FOREACH,
    ),
)

ROWS: tuple[Row, ...] = (
    *ARITHMETIC,
    *FUNCTIONS,
    *CHOICES,
    *FILLS,
    *REDUCTIONS,
    *PRODUCTS,
    *NETWORKS,
    *INDICES,
    *ORDER,
    *OPTIMIZERS,
)
