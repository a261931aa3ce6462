# SPDX-License-Identifier: BSD-3-Clause
"""Models in plain PyTorch train as on the CPU: losses, parameters and buffers after three steps.

Whole, with the batch cut, and with batch and hidden cut raggedly; in eager and graph mode.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from parity import runtime_mode
from torch import Tensor, nn

import torch_nntile
from torch_nntile import set_axis_group_name, set_axis_group_tiling

STEPS = 3
BATCH, HIDDEN = 5, 8


@dataclass(frozen=True)
class Case:
    """A model and its data. `hidden` says which dims of which parameters the hidden cut is for."""

    model: Callable[[], nn.Module]
    inputs: Callable[[], Tensor]
    batch_dim: int = 0
    hidden: tuple[tuple[str, int], ...] = ()
    classes: int = 0  # of the last dim of the result; 0: a result to bring near to zero

    def loss(self, result: Tensor, inputs: Tensor) -> Tensor:
        if not self.classes:
            weights = torch.linspace(-1, 1, result.numel(), dtype=result.dtype)
            return F.mse_loss(result, weights.reshape(result.shape).to(result.device))
        labels = torch.arange(result.numel() // self.classes, device=result.device) % self.classes
        return F.cross_entropy(result.flatten(0, -2), labels)


class First(nn.Module):
    """What a recurrent layer says of each step, and its last state."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        result, state = self.layer(x)
        states = state if isinstance(state, tuple) else (state,)
        return result + sum(s.mean() for s in states)


class Attention(nn.Module):
    """Causal attention with heads, by PyTorch's function or by hand."""

    def __init__(self, width: int, heads: int, by_hand: bool) -> None:
        super().__init__()
        self.heads, self.by_hand = heads, by_hand
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.qkv(x).split(width, dim=2)
        )
        if self.by_hand:
            scores = q @ k.transpose(-2, -1) / (width // self.heads) ** 0.5
            future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
            y = scores.masked_fill(future, float("-inf")).softmax(-1) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, by_hand: bool) -> None:
        super().__init__()
        self.before, self.attention = nn.LayerNorm(width), Attention(width, heads, by_hand)
        self.mlp = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, 12),
            nn.GELU(approximate="tanh"),
            nn.Linear(12, width),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.before(x))
        return x + self.mlp(x)


class GPT(nn.Module):
    """Its output layer is its token embedding."""

    def __init__(self, by_hand: bool, words: int = 11, length: int = 6) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(words, HIDDEN), nn.Embedding(length, HIDDEN)
        self.blocks = nn.Sequential(*(Block(HIDDEN, 2, by_hand) for _ in range(2)))
        self.norm, self.head = nn.LayerNorm(HIDDEN), nn.Linear(HIDDEN, words, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.norm(self.blocks(self.tokens(tokens) + self.places(places))))


class SelfAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(HIDDEN, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        y, weights = self.attention(x, x, x)
        return y + weights.square().sum()


def transformer(batch_first: bool) -> nn.Module:
    layer = nn.TransformerEncoderLayer(HIDDEN, 2, 12, dropout=0.0, batch_first=batch_first)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, HIDDEN, 3, padding=1),
        nn.BatchNorm2d(HIDDEN),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.0),
        nn.Conv2d(HIDDEN, 6, 3, groups=2, bias=False),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(6, 3),
    )


def autoencoder() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, HIDDEN, 3, stride=2, padding=1),
        nn.SiLU(),
        nn.ConvTranspose2d(HIDDEN, 1, 2, stride=2),
        nn.Sigmoid(),
    )


def tokens() -> Tensor:
    return torch.randint(11, (BATCH, 6))


def numbers(*shape: int) -> Callable[[], Tensor]:
    return functools.partial(torch.randn, shape, dtype=torch.float64)


TRANSFORMER = (("layers.0.linear1.weight", 1), ("layers.1.self_attn.in_proj_weight", 1))
RECURRENT = (("layer.weight_hh_l0", 1),)
CASES = {
    "transformer": Case(lambda: transformer(True), numbers(BATCH, 4, HIDDEN), 0, TRANSFORMER),
    "transformer, sequence first": Case(
        lambda: transformer(False), numbers(4, BATCH, HIDDEN), 1, TRANSFORMER
    ),
    "cnn": Case(cnn, numbers(BATCH, 2, 8, 8), 0, (("0.weight", 0),), classes=3),
    "lstm": Case(
        lambda: First(nn.LSTM(3, HIDDEN, 2, batch_first=True)), numbers(BATCH, 4, 3), 0, RECURRENT
    ),
    "lstm, both ways": Case(
        lambda: First(nn.LSTM(3, HIDDEN, bidirectional=True)), numbers(4, BATCH, 3), 1, RECURRENT
    ),
    "gru": Case(lambda: First(nn.GRU(3, HIDDEN, 2)), numbers(4, BATCH, 3), 1, RECURRENT),
    "gpt": Case(lambda: GPT(False), tokens, 0, (("tokens.weight", 1),), classes=11),
    "gpt by hand": Case(lambda: GPT(True), tokens, 0, (("tokens.weight", 1),), classes=11),
    "attention": Case(
        SelfAttention, numbers(BATCH, 4, HIDDEN), 0, (("attention.in_proj_weight", 1),)
    ),
    "autoencoder": Case(autoencoder, numbers(BATCH, 1, 6, 6), 0, (("0.weight", 0),)),
}

# Extents of batch and hidden -> their cuts.
CUTS: dict[str, tuple[Sequence[int] | None, Sequence[int] | None]] = {
    "whole": (None, None),
    "batch": ((2, 3), None),
    "ragged": ((1, 3, 1), (3, 5)),
}

# In float32 Adam would make numbers of the size of 1 out of gradients that are rounding errors.
OPTIMIZERS = {
    "sgd": (torch.float32, lambda p: torch.optim.SGD(p, 0.1, momentum=0.9)),
    "adam": (torch.float64, lambda p: torch.optim.Adam(p, 0.01)),
}


def cut(case: Case, model: nn.Module, x: Tensor, cuts: str) -> None:
    """Groups that no other test knows, for the batch and for the hidden dims."""
    batch, hidden = CUTS[cuts]
    unique = uuid.uuid4().hex[:8]
    if batch is not None:
        set_axis_group_name(x, {case.batch_dim: f"batch_{unique}"})
        set_axis_group_tiling(f"batch_{unique}", batch)
    if hidden is not None:
        for name, dim in case.hidden:
            group = f"{name}_{unique}"
            set_axis_group_name(model.get_parameter(name), {dim: group})
            set_axis_group_tiling(group, hidden)


def train(name: str, optimizer: str, device: str, cuts: str = "whole") -> dict[str, Tensor]:
    """Losses of the steps, and what the model holds after them."""
    case, (dtype, make) = CASES[name], OPTIMIZERS[optimizer]
    torch.manual_seed(0)
    model, x = case.model(), case.inputs()
    model, x = model.to(device, dtype), x.to(dtype if x.is_floating_point() else x.dtype)
    x = x.to(device)
    if device == "nntile":
        cut(case, model, x, cuts)
    steps = make(model.parameters())
    found = {}
    for k in range(STEPS):
        steps.zero_grad()
        loss = case.loss(model(x), x)
        loss.backward()
        steps.step()
        found[f"loss {k}"] = loss.detach()
    return {name: each.cpu() for name, each in (found | model.state_dict()).items()}


expected = functools.cache(functools.partial(train, device="cpu"))


def check(name: str, optimizer: str, mode: str, cuts: str) -> None:
    with runtime_mode(mode):
        found = train(name, optimizer, "nntile", cuts)
    reference = expected(name, optimizer)
    assert found.keys() == reference.keys()
    for key, tensor in reference.items():
        torch.testing.assert_close(found[key], tensor, msg=lambda text, key=key: f"{key}: {text}")


pytestmark = pytest.mark.filterwarnings("ignore:nntile. .* runs on the host")


@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", CASES)
def test_trains_as_on_the_cpu(name: str, optimizer: str, cuts: str, mode: str) -> None:
    check(name, optimizer, mode, cuts)


@pytest.mark.parametrize("name", ["transformer", "cnn", "lstm", "gpt"])
def test_cuts_are_not_lost(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """More tiles, more tasks: what the test above compares is cut indeed."""
    tasks = []
    for cuts in CUTS:
        torch_nntile.wait()
        before = torch_nntile.stats().tasks
        check(name, "sgd", "graph", cuts)
        torch_nntile.wait()
        tasks.append(torch_nntile.stats().tasks - before)
    whole, batch, ragged = tasks
    with capsys.disabled():
        print(f"\ntasks of three steps of {name}:", dict(zip(CUTS, tasks, strict=True)))
    assert whole * 1.5 < batch < ragged
