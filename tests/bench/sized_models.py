# SPDX-License-Identifier: BSD-3-Clause
"""Models of the sizes that people start with: a step of each takes 30 to 150 ms on two cores.

Most are 256 wide, and batches are what the time allows. GPT-2 middle, 512 wide with its whole
vocabulary, takes two to four seconds. Each model gives its loss, and each input has the batch as
its first dim. Dropout is off, so that losses can be compared; weights are of the seed that is set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from stock_models import VAE, Classifier, Mixer, Transposed, Words, built
from stock_transformers import ROWS
from torch import Generator, Tensor, nn

__all__ = ["MODELS", "Sized"]

Inputs = Callable[[Generator], dict[str, Tensor]]
CLASSES = 10
WORDS = 4096


@dataclass(frozen=True)
class Sized:
    """`build()` gives the model, `inputs(generator)` a batch; `steps` of them take half a second."""

    build: Callable[[], nn.Module]
    inputs: Inputs
    batch: int
    steps: int


# ---- batches


def pictures(batch: int, *shape: int, name: str = "x", label: str = "y") -> Inputs:
    def inputs(generator: Generator) -> dict[str, Tensor]:
        x = torch.randn(batch, *shape, generator=generator)
        return {name: x, label: torch.randint(CLASSES, (batch,), generator=generator)}

    return inputs


def texts(batch: int, length: int, words: int = WORDS, name: str = "input_ids") -> Inputs:
    """Words of which the model is to say the next, or the same."""

    def inputs(generator: Generator) -> dict[str, Tensor]:
        x = torch.randint(words, (batch, length), generator=generator)
        return {name: x} if name == "x" else {name: x, "labels": x}

    return inputs


def digits(batch: int) -> Inputs:
    def inputs(generator: Generator) -> dict[str, Tensor]:
        x = torch.rand(batch, 784, generator=generator)
        return {"x": x, "noise": torch.randn(batch, 32, generator=generator)}

    return inputs


def scenes(batch: int, size: int) -> Inputs:
    return lambda generator: {"x": torch.randn(batch, 3, size, size, generator=generator)}


def clicks(batch: int, bags: int, words: int, count: int) -> Inputs:
    """Dense features, `count` categories in each of `bags`, and whether there was a click."""

    def inputs(generator: Generator) -> dict[str, Tensor]:
        return {
            "x": torch.randn(batch, 13, generator=generator),
            "categories": torch.randint(words, (batch, bags, count), generator=generator),
            "y": torch.randint(2, (batch, 1), generator=generator).float(),
        }

    return inputs


# ---- models in plain PyTorch


def convolution(channels: int, out: int, size: int = 3, stride: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(channels, out, size, stride, padding=size // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(out))


class Residual(nn.Module):
    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = convolution(channels, out, 3, stride), convolution(out, out)
        same = stride == 1 and channels == out
        self.side = nn.Identity() if same else convolution(channels, out, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.second(F.relu(self.first(x))) + self.side(x))


def resnet18() -> nn.Module:
    layers = [convolution(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for out in (64, 128, 256, 512):
        layers += [Residual(channels, out, 1 + (channels != out)), Residual(out, out, 1)]
        channels = out
    return Classifier(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, CLASSES))


class UNet(nn.Module):
    """Four times down and up, two convolutions at each size."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        sizes = [channels * 2**k for k in range(5)]
        self.down = nn.ModuleList(map(self.block, [3, *sizes], sizes))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * c, c, 2, 2) for c in sizes[-2::-1])
        self.join = nn.ModuleList(self.block(2 * c, c) for c in sizes[-2::-1])
        self.out = nn.Conv2d(channels, 1, 1)

    @staticmethod
    def block(channels: int, out: int) -> nn.Module:
        return nn.Sequential(
            convolution(channels, out), nn.ReLU(), convolution(out, out), nn.ReLU()
        )

    def forward(self, x: Tensor) -> Tensor:
        sides, y = [], x
        for level, block in enumerate(self.down):
            y = block(F.max_pool2d(y, 2) if level else y)
            sides.append(y)
        sides.pop()
        for up, join in zip(self.up, self.join, strict=True):
            y = join(torch.cat((up(y), sides.pop()), 1))
        return F.binary_cross_entropy_with_logits(self.out(y), (x[:, :1] > 0).to(y.dtype))


class Deep(nn.Module):
    """A layer of a deep perceptron."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.layer = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + F.gelu(self.layer(self.norm(x)))


def mlp_deep() -> nn.Module:
    return Classifier(*(Deep(384) for _ in range(32)), nn.Linear(384, CLASSES))


def mixer() -> nn.Module:
    patches = [nn.Conv2d(3, 256, 4, stride=4), nn.Flatten(2), Transposed()]
    pooled = [nn.LayerNorm(256), Transposed(), nn.AdaptiveAvgPool1d(1), nn.Flatten()]
    blocks = [Mixer(64, 256) for _ in range(6)]
    return Classifier(*patches, *blocks, *pooled, nn.Linear(256, CLASSES))


def lenet() -> nn.Module:
    def stage(channels: int, out: int, padding: int) -> list[nn.Module]:
        return [nn.Conv2d(channels, out, 5, padding=padding), nn.ReLU(), nn.MaxPool2d(2)]

    dense = [nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU()]
    return Classifier(
        *stage(1, 6, 2), *stage(6, 16, 0), nn.Flatten(), *dense, nn.Linear(84, CLASSES)
    )


class DLRM(nn.Module):
    """Bags of categories, and their products with dense features."""

    def __init__(self, bags: int, words: int, width: int) -> None:
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(words, width, mode="sum") for _ in range(bags))
        self.bottom = self.layers(13, 512, 256, width)
        self.top = self.layers(width + bags * (bags + 1) // 2, 512, 256, 1)[:-1]
        first, second = torch.triu_indices(bags + 1, bags + 1, offset=1)
        self.register_buffer("pairs", first * (bags + 1) + second)

    @staticmethod
    def layers(*widths: int) -> nn.Sequential:
        pairs = zip(widths, widths[1:])  # noqa: B905 RUF007
        return nn.Sequential(*(m for pair in pairs for m in (nn.Linear(*pair), nn.ReLU())))

    def forward(self, x: Tensor, categories: Tensor, y: Tensor) -> Tensor:
        dense = self.bottom(x)
        bags = (bag(categories[:, k]) for k, bag in enumerate(self.bags))
        features = torch.stack((dense, *bags), 1)
        products = (features @ features.transpose(1, 2)).flatten(1)[:, self.pairs]
        score = self.top(torch.cat((dense, products), 1))
        return F.binary_cross_entropy_with_logits(score, y)


# ---- models of transformers


def sized(name: str, **options: Any) -> Callable[[], nn.Module]:
    """A row of stock_transformers.py, larger."""
    row = ROWS[name]
    return lambda: built(replace(row, options=row.options | options))


WIDE = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4}
VISION = WIDE | {"num_hidden_layers": 6, "image_size": 36, "patch_size": 4, "num_labels": CLASSES}
SMALL = {"n_embd": 256, "n_layer": 4, "n_head": 4, "vocab_size": WORDS, "use_cache": False}
MIDDLE = {"n_embd": 512, "n_layer": 6, "n_head": 8, "n_positions": 256, "use_cache": False}
T5 = {"vocab_size": WORDS, "d_model": 256, "d_kv": 64, "d_ff": 1024, "use_cache": False}

MODELS: dict[str, Sized] = {
    "lstm": Sized(
        lambda: Words(nn.LSTM, words=3000, width=256), texts(32, 33, 3000, name="x"), 32, 8
    ),
    "resnet18": Sized(resnet18, pictures(8, 3, 72, 72), 8, 8),
    "unet": Sized(lambda: UNet(16), scenes(8, 64), 8, 10),
    "gpt2": Sized(sized("gpt2", **SMALL), texts(8, 64), 8, 5),
    "llama": Sized(
        sized("llama", **WIDE, intermediate_size=688, vocab_size=WORDS, use_cache=False),
        texts(8, 64),
        8,
        5,
    ),
    "mlp_deep": Sized(mlp_deep, pictures(64, 384), 64, 16),
    "vit": Sized(
        sized("vit", **VISION, intermediate_size=1024),
        pictures(8, 3, 36, 36, name="pixel_values", label="labels"),
        8,
        4,
    ),
    "vae": Sized(lambda: VAE(784, 512, 32), digits(768), 768, 18),
    "dlrm": Sized(lambda: DLRM(8, 1000, 64), clicks(2048, 8, 1000, 20), 2048, 10),
    "t5": Sized(sized("t5", **T5), texts(8, 64), 8, 5),
    "lenet": Sized(lenet, pictures(1024, 1, 28, 28), 1024, 12),
    "bert": Sized(
        sized("bert", **WIDE, intermediate_size=1024, vocab_size=WORDS), texts(8, 64), 8, 5
    ),
    "gpt2_middle": Sized(sized("gpt2", **MIDDLE, vocab_size=50257), texts(8, 256, 50257), 8, 1),
    "mixer": Sized(mixer, pictures(16, 3, 32, 32), 16, 5),
}
