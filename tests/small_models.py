# SPDX-License-Identifier: BSD-3-Clause
"""Small models in plain PyTorch, as their authors wrote them; no extent is the square of another."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["GPT2", "Llama", "encoder", "resnet"]

LENGTH, WIDTH, HEADS, INNER, WORDS = 5, 12, 3, 20, 11


def encoder(batch_first: bool) -> nn.Module:
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, INNER, dropout=0.0, batch_first=batch_first)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


class GPT2Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.c_attn, self.c_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.c_fc, self.c_out = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)

    def attention(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, HEADS, -1).transpose(1, 2)
            for part in self.c_attn(x).split(width, dim=2)
        )
        future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        scores = (q @ k.transpose(-1, -2) / 2).masked_fill(future, float("-inf"))
        y = scores.softmax(-1) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(batch, length, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.ln_1(x))
        return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class GPT2(nn.Module):
    """Its output layer is its token embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(WORDS, WIDTH), nn.Embedding(7, WIDTH)
        self.h, self.ln_f = nn.Sequential(GPT2Block(), GPT2Block()), nn.LayerNorm(WIDTH)

    def forward(self, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.ln_f(self.h(self.wte(tokens) + self.wpe(places))) @ self.wte.weight.t()


class Llama(nn.Module):
    """A block with RMSNorm, rotary places, two key heads for four query heads, and SwiGLU."""

    heads, key_heads, size = 4, 2, 4

    def __init__(self) -> None:
        super().__init__()
        width, keys = self.heads * self.size, self.key_heads * self.size
        self.norm_1, self.norm_2 = nn.RMSNorm(width, eps=1e-6), nn.RMSNorm(width, eps=1e-6)
        self.q, self.o = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(width, keys, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, INNER, bias=False) for _ in range(2))
        self.down = nn.Linear(INNER, width, bias=False)

    def split(self, x: Tensor, heads: int) -> Tensor:
        return x.view(*x.shape[:2], heads, self.size).transpose(1, 2)

    def rotated(self, x: Tensor) -> Tensor:
        places, steps = (torch.arange(n, device=x.device) for n in (x.shape[2], self.size // 2))
        angles = places[:, None] * torch.tensor(0.5, device=x.device) ** steps
        angles = torch.cat((angles, angles), dim=-1)
        first, second = x.chunk(2, dim=-1)
        return x * angles.cos() + torch.cat((-second, first), dim=-1) * angles.sin()

    def repeated(self, x: Tensor) -> Tensor:
        batch, heads, length, size = x.shape
        x = x[:, :, None].expand(batch, heads, self.heads // heads, length, size)
        return x.reshape(batch, self.heads, length, size)

    def attention(self, x: Tensor) -> Tensor:
        q = self.rotated(self.split(self.q(x), self.heads))
        k = self.repeated(self.rotated(self.split(self.k(x), self.key_heads)))
        v = self.repeated(self.split(self.v(x), self.key_heads))
        y = (q @ k.transpose(2, 3) * 0.5).softmax(-1) @ v
        return self.o(y.transpose(1, 2).reshape(x.shape))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm_1(x))
        y = self.norm_2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class BasicBlock(nn.Module):
    def __init__(self, channels: int, out: int) -> None:
        super().__init__()
        self.conv_1 = nn.Conv2d(channels, out, 3, padding=1, bias=False)
        self.conv_2 = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.norm_1, self.norm_2 = nn.BatchNorm2d(out), nn.BatchNorm2d(out)
        self.shortcut = nn.Conv2d(channels, out, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm_2(self.conv_2(F.relu(self.norm_1(self.conv_1(x)))))
        return F.relu(y + self.shortcut(x))


def resnet() -> nn.Module:
    return nn.Sequential(
        BasicBlock(2, 4),
        nn.MaxPool2d(2),
        BasicBlock(4, 3),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(3, 5),
    )
