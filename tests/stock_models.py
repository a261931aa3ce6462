# SPDX-License-Identifier: BSD-3-Clause
"""Stock models, a row each: how to make one, and a batch for it.

>>> for family in families():
...     model, batch = family.build(), family.inputs()
...     loss_of(model, batch).backward()

Weights are of the seed that is set. Dropout is off, so that numbers can be compared.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from stock_inputs import noise
from stock_transformers import GENERATE, ROWS, Row
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils import _pytree as pytree

__all__ = ["GENERATE", "PROMPTS", "Family", "families", "family", "loss_of", "moved"]

PROMPTS = frozenset(
    {"input_ids", "attention_mask", "input_features"}
)  # what words are generated from


@dataclass(frozen=True)
class Family:
    """`build()` gives the model, `inputs()` what to call it with; `note` says what of it is random.

    `double`: its numbers can be compared in float64 only.
    """

    name: str
    library: str  # that the model is of: "transformers" or "torch"
    build: Callable[[], nn.Module]
    inputs: Callable[[], dict[str, Any]]
    note: str = ""
    double: bool = False


def loss_of(model: nn.Module, inputs: dict[str, Any]) -> Tensor:
    result = model(**inputs)
    return result if isinstance(result, Tensor) else result.loss


def moved(
    inputs: dict[str, Any], device: str, dtype: torch.dtype = torch.float32
) -> dict[str, Any]:
    """The batch on a device, its floating numbers in a dtype."""

    def move(x: Tensor) -> Tensor:
        return x.to(device, dtype if x.is_floating_point() else x.dtype)

    return pytree.tree_map_only(Tensor, move, inputs)


def built(row: Row) -> nn.Module:
    if sys.version_info < (3, 11):
        pytest.skip("pyproject.toml's transformers is not for Python 3.10")
    import transformers  # takes seconds

    return getattr(transformers, row.model)(getattr(transformers, row.config)(**row.options))


def families() -> list[Family]:
    """All of them; each trains in a second or so on the CPU."""

    def of(name: str, row: Row) -> Family:
        return Family(name, "transformers", lambda: built(row), row.inputs, row.note, row.double)

    plain = [Family(name, "torch", *pair) for name, pair in PLAIN.items()]
    return [of(name, row) for name, row in ROWS.items()] + plain


def family(name: str) -> Family:
    return next(f for f in families() if f.name == name)


# ---- models in plain PyTorch; each gives its loss


def picture() -> dict[str, Any]:
    return {"x": noise(4, 1, 16, 16).sigmoid()}


def labelled(*shape: int) -> Callable[[], dict[str, Any]]:
    return lambda: {"x": noise(*shape), "y": torch.arange(shape[0]) % 5}


def tokens(batch: int = 3, length: int = 7) -> dict[str, Any]:
    return {"x": torch.arange(batch * length).reshape(batch, length) * 5 % 23}


class Classifier(nn.Module):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(self.layers(x), y)


def lenet() -> nn.Module:
    pool = [nn.Tanh(), nn.AvgPool2d(2)]
    features = [nn.Conv2d(1, 6, 5, padding=2), *pool, nn.Conv2d(6, 16, 5), *pool, nn.Flatten()]
    return Classifier(*features, nn.Linear(64, 20), nn.Tanh(), nn.Linear(20, 5))


def vgg() -> nn.Module:
    def stage(i: int, o: int) -> list[nn.Module]:
        return [nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(True), nn.MaxPool2d(2)]

    return Classifier(
        *stage(1, 8), *stage(8, 16), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, 5)
    )


def video_net() -> nn.Module:
    layers = [nn.Conv3d(2, 6, 3, padding=1), nn.GroupNorm(2, 6), nn.SiLU(), nn.MaxPool3d(2)]
    return Classifier(*layers, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(6, 5))


class Mixer(nn.Module):
    """A block of MLP-Mixer."""

    def __init__(self, patches: int, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.mix = nn.ModuleList(
            nn.Sequential(nn.Linear(n, 2 * n), nn.GELU(), nn.Linear(2 * n, n))
            for n in (patches, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.mix[0](self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        return x + self.mix[1](self.norms[1](x))


class Transposed(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2)


def mlp_mixer() -> nn.Module:
    patches = [nn.Conv2d(1, 24, 4, stride=4), nn.Flatten(2), Transposed()]
    pooled = [Transposed(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(24, 5)]
    return Classifier(*patches, Mixer(16, 24), Mixer(16, 24), *pooled)


class Words(nn.Module):
    """A recurrent language model; `kind` is its layer."""

    def __init__(self, kind: type[nn.RNNBase], words: int = 23, width: int = 16, **kw: Any) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.rnn = kind(width, width, 2, batch_first=True, **kw)
        self.head = nn.Linear(width * (1 + self.rnn.bidirectional), words)

    def forward(self, x: Tensor) -> Tensor:
        logits = self.head(self.rnn(self.embedding(x[:, :-1]))[0])
        return F.cross_entropy(logits.flatten(0, 1), x[:, 1:].flatten())


class Packed(nn.Module):
    """Sequences of different lengths through a GRU, their last states to classes."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.GRU(6, 8, batch_first=True, bidirectional=True), nn.Linear(16, 5)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        lengths = torch.tensor([7, 5, 4, 2])
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        states = self.rnn(packed)[1]
        return F.cross_entropy(self.head(torch.cat((states[0], states[1]), 1)), y)


class Translator(nn.Module):
    """nn.Transformer, with masks."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(23, 16), nn.Linear(16, 23)
        self.transformer = nn.Transformer(16, 4, 1, 1, 32, dropout=0.0, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        source, target = self.embedding(x), self.embedding(x[:, :-1])
        future = nn.Transformer.generate_square_subsequent_mask(target.shape[1], device=x.device)
        y = self.transformer(source, target, tgt_mask=future, src_key_padding_mask=x == 0)
        return F.cross_entropy(self.head(y).flatten(0, 1), x[:, 1:].flatten())


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList((self.block(1, 8), self.block(8, 16)))
        self.bottom = self.block(16, 16)
        self.up = nn.ModuleList((nn.ConvTranspose2d(16, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)))
        self.join = nn.ModuleList((self.block(32, 16), self.block(16, 8)))
        self.out = nn.Conv2d(8, 1, 1)

    @staticmethod
    def block(i: int, o: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.InstanceNorm2d(o), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        sides, y = [], x
        for block in self.down:
            sides.append(block(y))
            y = F.max_pool2d(sides[-1], 2)
        y = self.bottom(y)
        for up, join in zip(self.up, self.join, strict=True):
            y = join(torch.cat((up(y), sides.pop()), 1))
        return F.binary_cross_entropy_with_logits(self.out(y), (x > 0.5).to(x.dtype))


class VAE(nn.Module):
    """The noise is an input, that numbers can be compared."""

    def __init__(self, pixels: int = 256, hidden: int = 32, code: int = 4) -> None:
        super().__init__()
        first, last = nn.Linear(pixels, hidden), nn.Linear(hidden, pixels)
        self.encoder = nn.Sequential(nn.Flatten(), first, nn.ReLU(), nn.Linear(hidden, 2 * code))
        self.decoder = nn.Sequential(nn.Linear(code, hidden), nn.ReLU(), last, nn.Sigmoid())

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        mean, log_variance = self.encoder(x).chunk(2, dim=1)
        y = self.decoder(mean + noise * (log_variance / 2).exp())
        kl = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum()
        return (F.binary_cross_entropy(y, x.flatten(1), reduction="sum") + kl) / len(x)


class DCGAN(nn.Module):
    """Generator and critic in one step: each gets the gradient of its own loss."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = nn.Sequential(
            nn.ConvTranspose2d(6, 16, 4), nn.BatchNorm2d(16), nn.ReLU(),
            nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.BatchNorm2d(8), nn.ReLU(),
            nn.ConvTranspose2d(8, 1, 4, 2, 1), nn.Tanh(),
        )  # fmt: skip
        critic = [nn.Conv2d(1, 8, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(8, 16, 4, 2, 1)]
        self.critic = nn.Sequential(*critic, nn.LeakyReLU(0.2), nn.Conv2d(16, 1, 4), nn.Flatten())

    def forward(self, x: Tensor, z: Tensor) -> Tensor:
        fake, judge = self.generator(z), F.binary_cross_entropy_with_logits
        real_score, fake_score = self.critic(x), self.critic(fake.detach())
        fixed = {name: p.detach() for name, p in self.critic.named_parameters()}
        fooled = functional_call(self.critic, fixed, fake)
        ones, zeros = torch.ones_like(fooled), torch.zeros_like(fooled)
        return judge(real_score, ones) + judge(fake_score, zeros) + judge(fooled, ones)


class GraphNet(nn.Module):
    """Graph convolutions: messages are gathered along edges and added up at their ends."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList((nn.Linear(6, 12), nn.Linear(12, 5)))

    def forward(self, x: Tensor, edges: Tensor, y: Tensor) -> Tensor:
        source, target = edges
        count = torch.zeros(len(x), device=x.device)
        count = count.scatter_add(0, target, torch.ones(len(target), device=x.device)).clamp(min=1)
        for layer in self.layers:
            messages = torch.zeros(len(x), layer.out_features, device=x.device)
            x = messages.index_add(0, target, layer(x)[source]) / count[:, None]
            x = F.elu(x)
        return F.nll_loss(x.log_softmax(1), y)


def graph() -> dict[str, Any]:
    nodes = torch.arange(30) % 10
    edges = torch.stack((nodes, (nodes * 3 + torch.arange(30) // 10) % 10))
    return {"x": noise(10, 6), "edges": edges, "y": torch.arange(10) % 5}


class DLRM(nn.Module):
    """Bags of categories, and their products with dense features."""

    def __init__(self) -> None:
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(11, 8, mode=m) for m in ("sum", "mean"))
        self.bottom = nn.Sequential(nn.Linear(6, 8), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(8 + 3, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, x: Tensor, categories: Tensor, offsets: Tensor) -> Tensor:
        features = torch.stack((self.bottom(x), *(b(categories, offsets) for b in self.bags)), 1)
        products = features @ features.transpose(1, 2)
        i, j = torch.triu_indices(3, 3, offset=1, device=x.device)
        score = self.top(torch.cat((features[:, 0], products[:, i, j]), 1))
        return F.binary_cross_entropy(score.sigmoid(), (x[:, :1] > 0).to(x.dtype))


class Autoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        inner = [nn.Linear(256, 32), nn.Hardswish(), nn.Linear(32, 3), nn.Linear(3, 32), nn.Mish()]
        self.layers = nn.Sequential(nn.Flatten(), *inner, nn.Linear(32, 256))

    def forward(self, x: Tensor) -> Tensor:
        return F.smooth_l1_loss(self.layers(x), x.flatten(1))


class Siamese(nn.Module):
    """Pictures of a class are brought together, others apart."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Flatten(), nn.Linear(256, 32), nn.PReLU(), nn.Linear(32, 8)
        )

    def forward(self, x: Tensor) -> Tensor:
        anchor, positive, negative = (self.features(part) for part in (x, x * 0.9, x.flip(0)))
        apart = F.cosine_embedding_loss(anchor, negative, -x.new_ones(len(x)), margin=0.1)
        return F.triplet_margin_loss(anchor, positive, negative) + apart


class SkipGram(nn.Module):
    """word2vec with negative samples."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.contexts = nn.Embedding(23, 8), nn.Embedding(23, 8)

    def forward(self, x: Tensor) -> Tensor:
        word, near, far = self.words(x[:, 0]), self.contexts(x[:, 1]), self.contexts(x[:, 2:])
        scores = torch.einsum("bd,bnd->bn", word, far)
        return -(F.logsigmoid((word * near).sum(1)) + F.logsigmoid(-scores).sum(1)).mean()


class Diffusion(nn.Module):
    """Denoises; the noise and the times are inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.time, self.first = nn.Linear(8, 12), nn.Conv2d(1, 12, 3, padding=1)
        self.second, self.norm = nn.Conv2d(12, 1, 3, padding=1), nn.GroupNorm(3, 12)

    def forward(self, x: Tensor, noise: Tensor, times: Tensor) -> Tensor:
        angles = times[:, None] * torch.exp(-math.log(100) * torch.arange(4, device=x.device) / 4)
        kept = torch.cumprod(1 - torch.linspace(1e-3, 0.2, 20, device=x.device), 0)
        kept = kept[times].reshape(-1, 1, 1, 1)
        when = self.time(torch.cat((angles.sin(), angles.cos()), 1))[:, :, None, None]
        y = self.first(kept.sqrt() * x + (1 - kept).sqrt() * noise)
        return F.mse_loss(self.second(F.silu(self.norm(y) + when)), noise)


class ActorCritic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.actor, self.critic = nn.Linear(6, 16), nn.Linear(16, 5), nn.Linear(16, 1)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        state = self.body(x).tanh()
        policy, value = (
            torch.distributions.Categorical(logits=self.actor(state)),
            self.critic(state),
        )
        advantage = (x.sum(1, keepdim=True) - value).squeeze(1)
        ratio = (policy.log_prob(y) - policy.log_prob(y).detach()).exp()
        gain = torch.min(ratio * advantage.detach(), ratio.clamp(0.8, 1.2) * advantage.detach())
        return advantage.square().mean() - gain.mean() - 0.01 * policy.entropy().mean()


PLAIN: dict[str, tuple[Callable[[], nn.Module], Callable[[], dict[str, Any]]]] = {
    "lenet": (lenet, labelled(4, 1, 16, 16)),
    "vgg": (vgg, labelled(4, 1, 16, 16)),
    "conv3d": (video_net, labelled(3, 2, 4, 8, 8)),
    "mlp_mixer": (mlp_mixer, labelled(4, 1, 16, 16)),
    "lstm": (lambda: Words(nn.LSTM), tokens),
    "gru": (lambda: Words(nn.GRU, bidirectional=True), tokens),
    "elman": (lambda: Words(nn.RNN, nonlinearity="relu"), tokens),
    "packed_gru": (Packed, labelled(4, 7, 6)),
    "nn.Transformer": (Translator, tokens),
    "unet": (UNet, picture),
    "vae": (VAE, lambda: picture() | {"noise": noise(4, 4)}),
    "dcgan": (DCGAN, lambda: picture() | {"z": noise(4, 6, 1, 1)}),
    "graph_net": (GraphNet, graph),
    "dlrm": (
        DLRM,
        lambda: {"x": noise(4, 6), "categories": torch.arange(10), "offsets": torch.arange(4) * 2},
    ),
    "autoencoder": (Autoencoder, picture),
    "siamese": (Siamese, picture),
    "word2vec": (SkipGram, tokens),
    "diffusion": (
        Diffusion,
        lambda: picture() | {"noise": noise(4, 1, 16, 16), "times": torch.tensor([0, 5, 11, 19])},
    ),
    "actor_critic": (ActorCritic, labelled(5, 6)),
}
