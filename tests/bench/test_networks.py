# SPDX-License-Identifier: BSD-3-Clause
"""Kernels that training spends its time in, forward and backward, beside CPU PyTorch; decoding of a Llama."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from bench import timing
from bench.timing import Goal, Row
from torch import Tensor

import torch_nntile

pytestmark = [pytest.mark.bench, pytest.mark.multi]
BLOCK_SECONDS = 0.1


def real(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def attention(length: int, causal: bool) -> tuple[Callable[..., Tensor], list[Tensor]]:
    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return call, [real(8, 8, length, 64) for _ in range(3)]


def convolution(*sizes: int, **options: int) -> tuple[Callable[..., Tensor], list[Tensor]]:
    batch, given, made, size, kernel = sizes
    weight = real(made, given // options.get("groups", 1), kernel, kernel) * 0.05

    def call(x: Tensor, w: Tensor) -> Tensor:
        return F.conv2d(x, w, padding=kernel // 2, **options)

    return call, [real(batch, given, size, size), weight]


def batch_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.batch_norm(x, None, None, w, b, training=True)


def layer_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], w, b)


def group_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.group_norm(x, 8, w, b)


def rms_norm(x: Tensor, w: Tensor) -> Tensor:
    return F.rms_norm(x, x.shape[-1:], w)


def cross_entropy(x: Tensor) -> Tensor:
    target = torch.arange(x.shape[0], device=x.device) * 7 % x.shape[1]
    return F.cross_entropy(x, target)


CALLS: dict[str, tuple[Callable[..., Tensor], list[Tensor], float]] = {
    **{
        f"attention 8 x 8 x {length} x 64{', causal' if causal else ''}": (
            *attention(length, causal),
            0.9,
        )
        for length in (256, 512, 1024, 2048)
        for causal in (False, True)
    },
    "batch norm 32 x 64 x 56 x 56": (batch_norm, [real(32, 64, 56, 56), real(64), real(64)], 0.8),
    "group norm 16 x 64 x 56 x 56": (group_norm, [real(16, 64, 56, 56), real(64), real(64)], 0.8),
    "layer norm 4096 x 1024": (layer_norm, [real(4096, 1024), real(1024), real(1024)], 0.8),
    "RMS norm 4096 x 1024": (rms_norm, [real(4096, 1024), real(1024)], 0.8),
    "softmax 4096 x 1024": (lambda x: x.softmax(-1), [real(4096, 1024)], 0.8),
    "cross entropy 2048 x 50257": (cross_entropy, [real(2048, 50257)], 0.8),
    "convolution 3 x 3, 64 of 56 x 56": (*convolution(8, 64, 64, 56, 3), 0.95),
    "convolution 3 x 3, 128 of 28 x 28": (*convolution(8, 128, 128, 28, 3), 0.95),
    "convolution 3 x 3, 256 of 14 x 14": (*convolution(8, 256, 256, 14, 3), 0.95),
    "convolution 1 x 1, 256 to 64": (*convolution(8, 256, 64, 28, 1), 0.95),
    "convolution 3 x 3, stride 2": (*convolution(8, 64, 128, 56, 3, stride=2), 0.95),
    "convolution 3 x 3, depthwise": (*convolution(8, 96, 96, 56, 3, groups=96), 0.95),
}


def stepper(
    call: Callable[..., Tensor], inputs: Sequence[Tensor], device: str
) -> Callable[[], Any]:
    """Forward and backward, all gradients kept."""
    leaves = [x.to(device).requires_grad_() for x in inputs]
    # Of ones, or of x itself, gradients of norms are nothing but rounding.
    cotangent = real(*call(*leaves).shape).flip(0).to(device)

    def step() -> Any:
        return torch.autograd.grad(call(*leaves), leaves, cotangent)

    return step


def blocks(step: Callable[[], Any], calls: int) -> Callable[[], float]:
    def run() -> float:
        start = time.perf_counter()
        kept = [step() for _ in range(calls)]  # what nobody keeps would not be computed
        torch_nntile.wait()
        del kept
        return (time.perf_counter() - start) / calls * 1e3

    return run


@pytest.mark.parametrize("name", CALLS)
def test_forward_and_backward(name: str, rows: list[Row]) -> None:
    call, inputs, goal = CALLS[name]
    torch.set_num_threads(timing.THREADS)
    steps = {device: stepper(call, inputs, device) for device in ("nntile", "cpu")}
    for found, expected in zip(steps["nntile"](), steps["cpu"](), strict=True):
        assert (found.cpu() - expected).abs().max() <= 1e-4 * expected.abs().max(), name
    start = time.perf_counter()
    steps["cpu"]()
    calls = max(1, int(BLOCK_SECONDS / (time.perf_counter() - start)))
    ms = timing.medians({d: blocks(s, calls) for d, s in steps.items()}, timing.repeats(9))
    rows.append(Row(name, "ms", ms["nntile"], ms["cpu"], goal=Goal(goal, of_ratio=True)))


@pytest.fixture(name="speakers")
def speakers_() -> dict[str, Any]:
    """A Llama of 256 x 6 on each device."""
    pytest.importorskip("transformers")
    from bench.sized_models import WIDE, WORDS, sized

    options = WIDE | {"num_hidden_layers": 6, "num_attention_heads": 8}
    make = sized("llama", **options, intermediate_size=688, vocab_size=WORDS, use_cache=True)
    torch.set_num_threads(timing.THREADS)
    models = {"cpu": make().eval(), "nntile": make().eval()}
    models["nntile"].load_state_dict(models["cpu"].state_dict())
    models["nntile"].to("nntile")
    return models


def test_decoding_by_steps(speakers: dict[str, Any], rows: list[Row]) -> None:
    """As above with a cache of one size: a token is a step that is captured or compiled."""
    from transformers import StaticCache

    wrappers: dict[str, Callable[[Any], Any]] = {
        "cpu": lambda step: step,
        "captured": torch_nntile.capture,
        "compiled": lambda step: torch.compile(step, backend="nntile"),
    }

    def decoder(name: str) -> Callable[[], Tensor]:
        device = "cpu" if name == "cpu" else "nntile"
        model = speakers[device]
        cache = StaticCache(config=model.config, max_cache_len=96)

        def step(tokens: Tensor, at: Tensor) -> Tensor:
            found = model(tokens, past_key_values=cache, cache_position=at, use_cache=True)
            return found.logits[:, -1].argmax(-1, keepdim=True)

        next_token = wrappers[name](step)

        @torch.no_grad()
        def decode() -> Tensor:
            cache.reset()
            tokens = [step(torch.arange(16, device=device)[None], torch.arange(16, device=device))]
            for at in range(16, 79):
                tokens.append(next_token(tokens[-1], torch.tensor([at]).to(device)))
            return torch.cat(tokens, 1).cpu()

        return decode

    decoders = {name: decoder(name) for name in wrappers}
    expected = decoders["cpu"]()
    for decode in decoders.values():
        for _ in range(2):
            assert torch.equal(decode(), expected)

    def seconds(decode: Callable[[], Tensor]) -> Callable[[], float]:
        def run() -> float:
            start = time.perf_counter()
            decode()
            return time.perf_counter() - start

        return run

    found = timing.interleaved({n: seconds(d) for n, d in decoders.items()}, timing.repeats(7))
    speeds = {name: 64 / statistics.median(times) for name, times in found.items()}
    goal = Goal(2, of_ratio=True, at_least=True)
    for name in ("captured", "compiled"):
        rows.append(Row(f"decoding, {name}", "tokens/s", speeds[name], speeds["cpu"], goal=goal))


def test_decoding(speakers: dict[str, Any], rows: list[Row]) -> None:
    """Greedy, 64 tokens after 16, a cache that grows: the same words, and a bounded number of plans."""
    models, words = speakers, torch.arange(16).unsqueeze(0)

    def generate(device: str) -> Tensor:
        with torch.no_grad():
            return models[device].generate(
                words.to(device), max_new_tokens=64, min_new_tokens=64, do_sample=False
            )

    assert torch.equal(generate("nntile").cpu(), generate("cpu"))
    generate("nntile")
    before = torch_nntile.stats().lowerings

    def seconds(device: str) -> Callable[[], float]:
        def run() -> float:
            start = time.perf_counter()
            generate(device).cpu()
            return time.perf_counter() - start

        return run

    found = timing.interleaved({d: seconds(d) for d in models}, timing.repeats(7))
    ours, theirs = (64 / statistics.median(found[d]) for d in ("nntile", "cpu"))
    goal = Goal(0.8, of_ratio=True, at_least=True)
    rows.append(Row("decoding, Llama of 256 x 6", "tokens/s", ours, theirs, goal=goal))
    rows.append(
        Row("decoding, new plans of the third time on", "", torch_nntile.stats().lowerings - before)
    )
