# SPDX-License-Identifier: BSD-3-Clause
"""Every layer of torch.nn: results, gradients of input and parameters, buffers; whole and cut."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from parity import assert_parity
from torch import Tensor, nn
from torch.func import functional_call

Make = Callable[[], nn.Module]

# By the shape of the input.
LAYERS: dict[tuple[int, ...], dict[str, Make]] = {
    (4, 6): {
        "Linear": lambda: nn.Linear(6, 5),
        "Softmax": lambda: nn.Softmax(1),
        "LogSoftmax": lambda: nn.LogSoftmax(0),
        "Softmin": lambda: nn.Softmin(1),
        "GLU": lambda: nn.GLU(1),
        "PReLU": lambda: nn.PReLU(6),
        "RMSNorm": lambda: nn.RMSNorm(6),
        "LayerNorm without bias": lambda: nn.LayerNorm(6, bias=False),
        "BatchNorm1d": lambda: nn.BatchNorm1d(6),
        "LSTMCell": lambda: nn.LSTMCell(6, 3),
        "GRUCell": lambda: nn.GRUCell(6, 3),
        "RNNCell": lambda: nn.RNNCell(6, 3),
        "weight_norm": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(6, 3)),
        "spectral_norm": lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(6, 3)),
        "orthogonal": lambda: nn.utils.parametrizations.orthogonal(nn.Linear(6, 6)),
        "Unflatten": lambda: nn.Unflatten(1, (2, 3)),
        "CosineSimilarity": lambda: Pair(nn.CosineSimilarity()),
        "PairwiseDistance": lambda: Pair(nn.PairwiseDistance()),
        "Bilinear": lambda: Pair(nn.Bilinear(6, 6, 2)),
        "EmbeddingBag": lambda: Indices(nn.EmbeddingBag(7, 3)),
        "EmbeddingBag of maxima": lambda: Indices(nn.EmbeddingBag(7, 3, mode="max")),
        "Embedding": lambda: Indices(nn.Embedding(7, 3, padding_idx=2)),
        "Embedding with a norm": lambda: Indices(nn.Embedding(7, 3, max_norm=0.5)),
    },
    (3, 4, 6): {
        "Conv1d": lambda: nn.Conv1d(4, 3, 3, padding="same"),
        "ConvTranspose1d": lambda: nn.ConvTranspose1d(4, 3, 3, 2),
        "MaxPool1d": lambda: nn.MaxPool1d(2),
        "AvgPool1d": lambda: nn.AvgPool1d(3, 2, 1),
        "LPPool1d": lambda: nn.LPPool1d(2, 2),
        "AdaptiveMaxPool1d": lambda: nn.AdaptiveMaxPool1d(4),
        "AdaptiveAvgPool1d": lambda: nn.AdaptiveAvgPool1d(4),
        "InstanceNorm1d": lambda: nn.InstanceNorm1d(4, affine=True, track_running_stats=True),
        "GroupNorm": lambda: nn.GroupNorm(2, 4),
        "RNN": lambda: Head(nn.RNN(6, 5, 2, nonlinearity="relu")),
        "LSTM with projections": lambda: Head(nn.LSTM(6, 5, proj_size=2)),
        "LSTM without bias": lambda: Head(nn.LSTM(6, 5, bias=False)),
        "GRU without bias": lambda: Head(nn.GRU(6, 5, bias=False, bidirectional=True)),
        "LSTM of packed": lambda: Packed(nn.LSTM(6, 5, 2)),
        "GRU of packed": lambda: Packed(nn.GRU(6, 5, bidirectional=True)),
        "MultiheadAttention": lambda: Itself(nn.MultiheadAttention(6, 2)),
        "MultiheadAttention with more": lambda: Itself(
            nn.MultiheadAttention(6, 3, add_bias_kv=True, add_zero_attn=True, batch_first=True)
        ),
        "TransformerDecoderLayer": lambda: Pair(nn.TransformerDecoderLayer(6, 2, 7, dropout=0.0)),
        "Transformer": lambda: Pair(nn.Transformer(6, 2, 1, 1, 7, dropout=0.0)),
        "ReflectionPad1d": lambda: nn.ReflectionPad1d(2),
        "ReplicationPad1d": lambda: nn.ReplicationPad1d(2),
        "CircularPad1d": lambda: nn.CircularPad1d(2),
        "ConstantPad1d": lambda: nn.ConstantPad1d((2, 1), 3.5),
        "Upsample": lambda: nn.Upsample(scale_factor=2, mode="linear"),
    },
    (2, 4, 6, 6): {
        "Conv2d": lambda: nn.Conv2d(4, 3, 3, 2, 1),
        "Conv2d of each channel": lambda: nn.Conv2d(4, 8, 3, groups=4),
        "Conv2d, dilated": lambda: nn.Conv2d(4, 2, 2, dilation=2, padding_mode="circular"),
        "Conv2d, 1 x 1": lambda: nn.Conv2d(4, 2, 1, bias=False),
        "ConvTranspose2d": lambda: nn.ConvTranspose2d(4, 2, 3, 2, 1, output_padding=1),
        "LazyConv2d": lambda: nn.LazyConv2d(2, 3),
        "BatchNorm2d": lambda: nn.BatchNorm2d(4),
        "BatchNorm2d, evaluated": lambda: nn.BatchNorm2d(4).eval(),
        "BatchNorm2d without statistics": lambda: nn.BatchNorm2d(4, track_running_stats=False),
        "BatchNorm2d with a mean of all": lambda: nn.BatchNorm2d(4, momentum=None),
        "InstanceNorm2d": lambda: nn.InstanceNorm2d(4),
        "GroupNorm": lambda: nn.GroupNorm(2, 4),
        "LocalResponseNorm": lambda: nn.LocalResponseNorm(2),
        "MaxPool2d": lambda: nn.MaxPool2d(3, 2, 1, ceil_mode=True),
        "MaxPool2d and back": lambda: Unpooled(),
        "AvgPool2d": lambda: nn.AvgPool2d(2, 2, 1, count_include_pad=False),
        "LPPool2d": lambda: nn.LPPool2d(2, 2),
        "FractionalMaxPool2d": lambda: nn.FractionalMaxPool2d(
            2, 3, _random_samples=torch.full((2, 4, 2), 0.4)
        ),
        "AdaptiveAvgPool2d": lambda: nn.AdaptiveAvgPool2d(4),
        "AdaptiveAvgPool2d to one": lambda: nn.AdaptiveAvgPool2d(1),
        "AdaptiveMaxPool2d": lambda: nn.AdaptiveMaxPool2d((2, 3)),
        "ReflectionPad2d": lambda: nn.ReflectionPad2d((1, 2, 0, 3)),
        "ReplicationPad2d": lambda: nn.ReplicationPad2d(1),
        "ZeroPad2d": lambda: nn.ZeroPad2d((1, -1, 2, 0)),
        "Upsample": lambda: nn.Upsample(scale_factor=2),
        "Upsample, bilinear": lambda: nn.Upsample(size=(7, 9), mode="bilinear"),
        "Upsample, bicubic": lambda: nn.Upsample(size=9, mode="bicubic", align_corners=True),
        "PixelShuffle": lambda: nn.PixelShuffle(2),
        "PixelUnshuffle": lambda: nn.PixelUnshuffle(3),
        "ChannelShuffle": lambda: nn.ChannelShuffle(2),
        "Unfold": lambda: nn.Unfold(3, padding=1),
        "Softmax2d": lambda: nn.Softmax2d(),
        "channels last": lambda: ChannelsLast(),
    },
    (2, 4, 9): {"Fold": lambda: nn.Fold((4, 4), 2)},
    (2, 2, 3, 4, 4): {
        "Conv3d": lambda: nn.Conv3d(2, 3, 2),
        "ConvTranspose3d": lambda: nn.ConvTranspose3d(2, 3, 2, 2),
        "BatchNorm3d": lambda: nn.BatchNorm3d(2),
        "MaxPool3d": lambda: nn.MaxPool3d(2),
        "AvgPool3d": lambda: nn.AvgPool3d(2),
        "AdaptiveAvgPool3d": lambda: nn.AdaptiveAvgPool3d(2),
        "Upsample, trilinear": lambda: nn.Upsample(scale_factor=2, mode="trilinear"),
        "ReplicationPad3d": lambda: nn.ReplicationPad3d(1),
    },
}

ACTIVATIONS = (
    "ELU CELU SELU ReLU ReLU6 LeakyReLU RReLU GELU SiLU Mish Softplus Softsign Softshrink Hardshrink "
    "Tanhshrink Hardtanh Hardsigmoid Hardswish LogSigmoid Sigmoid Tanh Identity Flatten"
)
LAYERS[4, 6] |= {name: getattr(nn, name) for name in ACTIVATIONS.split()}


class Pair(nn.Module):
    """A layer of two inputs: x, and x backward."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Any:
        return self.layer(x, x.flip(0))


class Head(Pair):
    """All results of a recurrent layer."""

    def forward(self, x: Tensor) -> Any:
        return self.layer(x)


class Itself(Pair):
    """Attention of x to x."""

    def forward(self, x: Tensor) -> Any:
        return self.layer(x, x, x)


class Packed(Pair):
    """A recurrent layer of sequences of several lengths."""

    def forward(self, x: Tensor) -> Any:
        lengths = torch.tensor([1, 3, 2, 3])
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
        result, state = self.layer(packed)
        return nn.utils.rnn.pad_packed_sequence(result)[0], state


class Indices(Pair):
    """A layer of integers; x only says how many."""

    def forward(self, x: Tensor) -> Any:
        indices = torch.arange(x.numel(), device=x.device).reshape(x.shape) * 3 % 7
        return self.layer(indices) + x.sum() * 0


class ChannelsLast(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Conv2d(4, 3, 3, bias=False), nn.BatchNorm2d(3), nn.MaxPool2d(2))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.contiguous(memory_format=torch.channels_last))


class Unpooled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y, places = nn.functional.max_pool2d(x, 2, return_indices=True)
        return nn.functional.max_unpool2d(y, places, 2)


def check(make: Make, shape: tuple[int, ...], cuts: list[dict[int, Any]]) -> None:
    torch.manual_seed(1)
    layer = make()
    if isinstance(layer, nn.RReLU):
        layer.eval()  # else it draws random numbers
    x = torch.randn(shape)
    if any(isinstance(p, nn.UninitializedParameter) for p in layer.parameters()):
        layer(x)
    names = [name for name, _ in layer.named_parameters()]
    layers: dict[str, nn.Module] = {}

    def call(x: Tensor, *parameters: Tensor) -> Any:
        device = x.device.type
        layers[device] = copy.deepcopy(layer).to(device)
        results = functional_call(layers[device], dict(zip(names, parameters, strict=True)), (x,))
        buffers = dict(layers[device].named_buffers())
        return results, {name: b for name, b in buffers.items() if not b.requires_grad}

    assert_parity(call, [x, *(p.detach() for p in layer.parameters())], cuts=[{0: c} for c in cuts])


ALL = [(shape, name) for shape, layers in LAYERS.items() for name in layers]

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize(("shape", "name"), ALL, ids=str)
def test_layer(shape: tuple[int, ...], name: str) -> None:
    last = len(shape) - 1
    check(LAYERS[shape][name], shape, [{0: 1, 1: (1, shape[1] - 1)}, {last: (2, shape[last] - 2)}])
