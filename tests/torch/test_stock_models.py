# SPDX-License-Identifier: BSD-3-Clause
"""Stock models train three steps as on the CPU, and generate the CPU's words.

The table is tests/stock_models.py. All families run under "slow", a few in the quick suite.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import stock_models
import torch
from parity import runtime_mode
from stock_models import Family, families, family
from stock_runs import (
    OPTIMIZERS,
    assert_generates,
    assert_trains_as_on_the_cpu,
    dtype_of,
    generator_of,
    trained,
    words,
)

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

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.filterwarnings("ignore")]


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
    page = " ".join(page.split())
    for library in ("transformers", "torch"):
        names = ", ".join(f.name for f in families() if f.library == library)
        assert f"* {library}: {names} " in page


def test_the_table_has_the_families_that_were_promised() -> None:
    names = [f.name for f in families()]
    assert len(names) == len(set(names)) >= 41


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
