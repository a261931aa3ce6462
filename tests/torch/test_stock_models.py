# SPDX-License-Identifier: BSD-3-Clause
"""Stock models train three steps as on the CPU, and generate the CPU's words.

The table is tests/stock_models.py. All families run under "slow", a few in the quick suite.
"""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import stock_models
import torch
from parity import runtime_mode, tolerance
from stock_models import Family, families, family, loss_of, moved
from torch import Tensor, nn

import torch_nntile

STEPS = 3
QUICK = ("gpt2", "mixtral", "wav2vec2", "unet")
IN_GRAPH_MODE = (
    *QUICK,
    "llama",
    "bert",
    "t5",
    "resnet",
    "swin",
    "whisper",
    "lstm",
    "graph_net",
    "dlrm",
)

# By name: the optimizer, and how much of what a step changes may differ. An eps above the rounding of
# float32: where a gradient is nothing else (the bias of keys), Adam's default makes a whole step of it.
OPTIMIZERS: dict[str, tuple[Callable[[Iterator[nn.Parameter]], torch.optim.Optimizer], float]] = {
    "AdamW": (lambda p: torch.optim.AdamW(p, lr=1e-3, eps=1e-5), 0.02),
    "SGD": (lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9), 0.001),
}

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """The CPU's models are too small for a team."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def seed(value: int) -> None:
    torch.manual_seed(value)
    np.random.seed(value)
    random.seed(value)


def dtype_of(family: Family) -> torch.dtype:
    return torch.float64 if family.double else torch.float32


def trained(family: Family, model: nn.Module, device: str, optimizer: str) -> list[float]:
    model, inputs = model.to(device), moved(family.inputs(), device, dtype_of(family))
    steps = OPTIMIZERS[optimizer][0](model.parameters())
    seed(1)
    losses = []
    for _ in range(STEPS):
        steps.zero_grad()
        loss = loss_of(model, inputs)
        loss.backward()
        steps.step()
        losses.append(loss.item())
    return losses


def changes(model: nn.Module, before: dict[str, Tensor]) -> dict[str, Tensor]:
    """What training did to parameters and buffers; numbers that count steps are left out."""
    return {
        name: x.detach().cpu().double() - before[name].double()
        for name, x in model.state_dict().items()
        if x.is_floating_point() and x.numel()
    }


def assert_trains_as_on_the_cpu(family: Family, optimizer: str) -> None:
    seed(0)
    on_cpu = family.build().to(dtype_of(family)).train()
    on_device = copy.deepcopy(on_cpu)
    before = {name: x.clone() for name, x in on_cpu.state_dict().items()}
    expected = trained(family, on_cpu, "cpu", optimizer)
    found = trained(family, on_device, "nntile", optimizer)
    assert all(math.isfinite(loss) for loss in expected)
    # Rounding grows from layer to layer and from step to step: as a sum of ten thousand terms.
    assert found == pytest.approx(expected, rel=tolerance(torch.float32, 10_000), abs=1e-6)

    ours, theirs = changes(on_device, before), changes(on_cpu, before)
    assert ours.keys() == theirs.keys()
    sizes = {name: x.abs().max().item() for name, x in theirs.items()}
    usual = sorted(sizes.values())[len(sizes) // 2]
    assert usual > 0, "nothing was trained"
    for name, x in theirs.items():
        allowed = OPTIMIZERS[optimizer][1] * max(sizes[name], usual)
        difference = (ours[name] - x).abs().max().item()
        assert difference <= allowed, f"{name}: {difference:.1e} of {sizes[name]:.1e}"
    host = ", ".join(
        sorted(r.overload.removeprefix("aten::") for r in torch_nntile.fallback_report())
    )
    print(f"{family.name}, {optimizer}: losses {found}; on the host: {host or 'nothing'}")


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("family", families(), ids=lambda f: f.name)
def test_trains_as_on_the_cpu(family: Family, optimizer: str) -> None:
    assert_trains_as_on_the_cpu(family, optimizer)


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", IN_GRAPH_MODE)
def test_trains_in_graph_mode(name: str, optimizer: str) -> None:
    with runtime_mode("graph"):
        assert_trains_as_on_the_cpu(family(name), optimizer)


@pytest.mark.parametrize("name", QUICK)
def test_a_few_train(name: str) -> None:
    assert_trains_as_on_the_cpu(family(name), "AdamW")


def test_the_page_names_the_families() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/guides/works_with.md").read_text()
    for library in ("transformers", "torch"):
        names = ", ".join(f.name for f in families() if f.library == library)
        assert f"* {library}: {names}\n" in page


def test_the_table_has_the_families_that_were_promised() -> None:
    names = [f.name for f in families()]
    assert len(names) == len(set(names)) >= 41


# ---- words


def generator_of(name: str) -> tuple[nn.Module, dict[str, Tensor]]:
    """A model whose next words are clear enough to compare, and what it starts from."""
    seed(0)
    model, inputs = family(name).build().eval(), family(name).inputs()
    model.config.update({"output_router_logits": False})  # only its training takes a mask
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() > 1:
                p.mul_(4)
    return model, {k: v for k, v in inputs.items() if k in stock_models.PROMPTS}


WAYS: dict[str, dict[str, object]] = {
    "greedy": {},
    "greedy without cache": {"use_cache": False},
    "beam": {"num_beams": 3},
}


@torch.no_grad()
def words(model: nn.Module, prompt: dict[str, Tensor], **options: object) -> Tensor:
    torch.manual_seed(7)
    device = next(model.parameters()).device.type
    return model.generate(
        **moved(prompt, device), max_new_tokens=8, **({"do_sample": False} | options)
    ).cpu()


def assert_generates(name: str) -> None:
    model, prompt = generator_of(name)
    expected = {way: words(model, prompt, **options) for way, options in WAYS.items()}
    model.to("nntile")
    for way, options in WAYS.items():
        assert torch.equal(words(model, prompt, **options), expected[way]), way
    drawn = [
        words(model, prompt, do_sample=True, temperature=0.8, top_k=20, top_p=0.9) for _ in range(2)
    ]
    assert torch.equal(*drawn)  # numbers of a seed are others than the CPU's, and repeat


# What they need and no row has: two losses, a Fourier transform, distances, upsampling, float64 convolution.
ON_THE_HOST = {"wav2vec2", "hubert", "sew", "wavlm", "fnet", "detr", "mobilenet_v2", "segformer"}
CLEAN = ("gpt2", "mixtral", "bert", "dlrm", "graph_net", "siamese")


@pytest.mark.usefixtures("rows_only")
@pytest.mark.parametrize("name", CLEAN)
def test_nothing_runs_on_the_host(name: str) -> None:
    trained(family(name), family(name).build(), "nntile", "AdamW")


@pytest.mark.slow
@pytest.mark.usefixtures("rows_only")
@pytest.mark.parametrize(
    "name", [f.name for f in families() if f.name not in ON_THE_HOST and f.name not in CLEAN]
)
def test_nothing_of_any_runs_on_the_host(name: str) -> None:
    f = family(name)
    trained(f, f.build().to(dtype_of(f)), "nntile", "AdamW")


@pytest.mark.usefixtures("rows_only")
@torch.no_grad()
@pytest.mark.parametrize("name", ["llama", "t5"])
def test_generation_needs_no_function_of_the_host(name: str) -> None:
    """With a mask of padding, greedy and drawn."""
    model, prompt = generator_of(name)
    prompt["attention_mask"] = torch.ones_like(prompt["input_ids"])
    prompt["attention_mask"][0, :2] = 0
    expected = words(model, prompt)
    model.to("nntile")
    assert torch.equal(words(model, prompt), expected)
    words(model, prompt, do_sample=True, top_k=20, top_p=0.9)


@pytest.mark.slow
@pytest.mark.parametrize("name", stock_models.GENERATE)
def test_generates_the_words_of_the_cpu(name: str) -> None:
    assert_generates(name)


def test_gpt2_generates() -> None:
    assert_generates("gpt2")
