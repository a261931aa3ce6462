# SPDX-License-Identifier: BSD-3-Clause
"""torch.autocast for the device: which ops run in the lower precision, and which must not.

The lists are PyTorch's own for accelerators. A kernel here runs only inside `torch.autocast("nntile")`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

__all__ = ["register"]

# Products: half the bytes, and the sum over k is kept in float32 anyway. Recurrent layers as a
# whole, as CUDA's are (the CPU's GRU alone keeps float32 between its products).
LOWER = (
    *("linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "addbmm", "mv", "addmv", "chain_matmul"),
    *("conv1d", "conv2d", "conv3d", "conv_tbc", "convolution"),
    *("conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input"),
    *("_convolution", "_convolution.deprecated", "prelu", "addr", "einsum"),
    *("scaled_dot_product_attention", "linalg_vecdot", "linalg_multi_dot"),
    *("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"),
    *("lstm.input", "lstm.data", "gru.input", "gru.data"),
    *("rnn_tanh.input", "rnn_tanh.data", "rnn_relu.input", "rnn_relu.data"),
)
# Small differences of large numbers, and long sums.
FLOAT32 = (
    *("exp", "expm1", "log", "log2", "log10", "log1p", "reciprocal", "rsqrt", "acos", "asin"),
    *("cosh", "sinh", "tan", "erfinv", "softplus", "logsumexp", "layer_norm", "native_layer_norm"),
    *("group_norm", "rms_norm", "softmax.int", "log_softmax.int", "cumsum", "cumprod", "renorm"),
    *("sum", "sum.dim_IntList", "prod", "prod.dim_int", "pow.Tensor_Scalar", "pow.Tensor_Tensor"),
    *("pow.Scalar", "norm.Scalar", "norm.ScalarOpt_dim", "linalg_vector_norm", "cdist", "pdist"),
    *("cosine_similarity", "poisson_nll_loss", "cosine_embedding_loss", "nll_loss", "nll_loss2d"),
    *("hinge_embedding_loss", "kl_div", "l1_loss", "smooth_l1_loss", "huber_loss", "mse_loss"),
    *("margin_ranking_loss", "multilabel_margin_loss", "soft_margin_loss", "triplet_margin_loss"),
    *("multi_margin_loss", "binary_cross_entropy_with_logits", "cross_entropy_loss", "dist"),
    *("binary_cross_entropy", "linalg_matrix_norm", "linalg_matrix_norm.str_ord"),
    *("frobenius_norm.dim", "nuclear_norm", "nuclear_norm.dim"),
    *("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_linear1d"),
    *("_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d"),
    *("upsample_bilinear2d", "_upsample_bilinear2d_aa", "upsample_trilinear3d"),
    *("upsample_bicubic2d", "_upsample_bicubic2d_aa"),
)
# Tensors of one call in the widest dtype among them.
WIDEST = (
    *("addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "vdot", "index_put", "stack"),
    *("cat", "grid_sampler", "scatter_add", "tensordot"),
)

_KEY = torch._C.DispatchKeySet(torch._C._dispatch_key_parse("AutocastPrivateUse1"))
_library = torch.library.Library("aten", "IMPL")


def register() -> None:
    """Register all policies. Called once, at import."""
    for names, dtype_of in ((LOWER, _lower), (FLOAT32, _float32), (WIDEST, _widest)):
        for name in names:
            _library.impl(name, _kernel(name, dtype_of), "AutocastPrivateUse1")


def _lower(tensors: list[torch.Tensor]) -> torch.dtype:
    return torch.get_autocast_dtype("nntile")


def _float32(tensors: list[torch.Tensor]) -> torch.dtype:
    return torch.float32


def _widest(tensors: list[torch.Tensor]) -> torch.dtype:
    wide = any(tensor.dtype == torch.float32 for tensor in tensors)
    return torch.float32 if wide else torch.get_autocast_dtype("nntile")


def _kernel(name: str, dtype_of: Callable[[list[torch.Tensor]], torch.dtype]) -> Callable[..., Any]:
    base, _, overload = name.partition(".")

    def kernel(*args: Any, **kwargs: Any) -> Any:
        tensors: list[torch.Tensor] = []

        def collect(tensor: torch.Tensor) -> torch.Tensor:
            if _is_eligible(tensor):
                tensors.append(tensor)
            return tensor

        tree_map_only(torch.Tensor, collect, (args, kwargs))
        dtype = dtype_of(tensors)

        def cast(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.to(dtype) if _is_eligible(tensor) else tensor

        with torch._C._ExcludeDispatchKeyGuard(_KEY):
            args, kwargs = tree_map_only(torch.Tensor, cast, (args, kwargs))
            return getattr(getattr(torch.ops.aten, base), overload or "default")(*args, **kwargs)

    return kernel


def _is_eligible(tensor: torch.Tensor) -> bool:
    """Floating tensors of the device; float64 keeps its precision."""
    return (
        tensor.device.type == "nntile"
        and tensor.is_floating_point()
        and tensor.dtype != torch.float64
    )
