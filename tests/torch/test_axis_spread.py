# SPDX-License-Identifier: BSD-3-Clause
"""One name on the input cuts whatever has that dim, in models that know nothing of it.

A model is recorded with two sizes of its batch. Values (activations, scores, gradients) whose shape
differs between the two have a batch dim: every one must be cut, and no cut may stop at a view.
"""

from __future__ import annotations

import copy
import re
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pytest
import torch
from parity import runtime_mode
from small_models import GPT2, INNER, LENGTH, WIDTH, WORDS, Llama, encoder, resnet
from torch import Tensor, nn

from torch_nntile import (
    compile_graph,
    explain,
    run_graph,
    set_axis_group_name,
    set_axis_group_tiling,
    stats,
    wait,
)

pytestmark = pytest.mark.filterwarnings("ignore:.*nntile.*:UserWarning")

Cut = Sequence[int]
Cuts = Mapping[str, Mapping[int, Cut]]  # parameter -> dim -> sizes
BATCHES: dict[int, Cut] = {6: (2, 4), 10: (3, 7)}


@dataclass(frozen=True)
class Case:
    model: Callable[[], nn.Module]
    data: Callable[[int], Tensor]  # of a batch
    batch_dim: int = 0


CASES = {
    "encoder": Case(lambda: encoder(True), lambda n: torch.randn(n, LENGTH, WIDTH)),
    "encoder, sequence first": Case(
        lambda: encoder(False), lambda n: torch.randn(LENGTH, n, WIDTH), 1
    ),
    "encoder, evaluated": Case(
        lambda: nn.TransformerEncoder(
            nn.TransformerEncoderLayer(WIDTH, 2, INNER, batch_first=True), 2
        ).eval(),
        lambda n: torch.randn(n, LENGTH, WIDTH),
    ),
    "gpt2": Case(GPT2, lambda n: torch.randint(WORDS, (n, LENGTH))),
    "llama": Case(Llama, lambda n: torch.randn(n, LENGTH, 16)),
    "lstm": Case(lambda: nn.LSTM(3, 4, 2, batch_first=True), lambda n: torch.randn(n, LENGTH, 3)),
    "lstm, sequence first": Case(lambda: nn.LSTM(3, 4, 2), lambda n: torch.randn(LENGTH, n, 3), 1),
    "resnet": Case(resnet, lambda n: torch.randn(n, 2, 4, 4)),
}


@dataclass
class Recorded:
    """One step as one graph."""

    shapes: dict[int, tuple[int, ...]]  # of values that have tiles
    tiles: Counter[int]
    retiles: list[str]
    copied_by: set[str]  # ops for which the lowering inserted copies
    host_calls: int

    def tiles_of(self, *shape: int) -> set[int]:
        """0 tiles is none of its own: computed in a part of another value."""
        found = {self.tiles[v] for v, own in self.shapes.items() if own == shape} - {0}
        assert found, f"no value of shape {shape}"
        return found


def loss_of(model: nn.Module, x: Tensor) -> Tensor:
    with torch.set_grad_enabled(model.training):
        y = model(x)
        loss = (y[0] if isinstance(y, tuple) else y).square().mean()
    if model.training:
        loss.backward()
    return loss.detach()


def cut(tensor: Tensor, cuts: Mapping[int, Cut], names: dict[str, str]) -> None:
    """Equal cuts are one group; the data is cut at once."""
    for dim, sizes in cuts.items():
        name = names.setdefault(str(sizes), f"axis_{uuid.uuid4().hex[:8]}")
        set_axis_group_name(tensor, {dim: name})
        set_axis_group_tiling(name, sizes)
    with torch.no_grad():
        tensor.mul_(1)


def recorded(case: Case, batch: int, batch_cut: Cut, cuts: Cuts) -> Recorded:
    """Forward and backward; loss and gradients are those of the CPU."""
    torch.manual_seed(0)
    cpu, x = case.model(), case.data(batch)
    model, x_here = copy.deepcopy(cpu).to("nntile"), x.to("nntile")
    names: dict[str, str] = {}
    cut(x_here, {case.batch_dim: batch_cut}, names)
    for name, parameter in model.named_parameters():
        cut(parameter, cuts.get(name, {}), names)
    wait()
    before = stats()
    with runtime_mode("graph"):
        loss = loss_of(model, x_here)
        compile_graph()
        graph, tiles = explain("graph"), explain("tiles")
        run_graph()
    torch.testing.assert_close(loss.cpu(), loss_of(cpu, x))
    for found, expected in zip(model.parameters(), cpu.parameters(), strict=True):
        if model.training:
            torch.testing.assert_close(found.grad.cpu(), expected.grad, rtol=1e-4, atol=1e-5)
    wait()
    assert stats().graphs == before.graphs + 1
    ops = dict(re.findall(r"^  n(\d+) : (\S+)", tiles, re.MULTILINE))
    copies = re.findall(r"^  t\d+ : copy .* node (\d+)", tiles, re.MULTILINE)
    return Recorded(
        shapes_in(graph),
        # A value that is cut anew here appears with both grids: %0[0] and %0[0]'.
        Counter(
            int(v) for v, _ in set(re.findall(r"^  %(\d+)\[(\d+)\]'* *:", tiles, re.MULTILINE))
        ),
        re.findall(r"^  retile (.*)", tiles, re.MULTILINE),
        {ops[n] for n in copies},
        stats().host_calls - before.host_calls,
    )


def shapes_in(graph: str) -> dict[int, tuple[int, ...]]:
    """Of values with data of their own: "%1 : f32[batch=6 cut [2], 4] = .." is {1: (6, 4)}."""
    found = {}
    for line in graph.splitlines():
        if " = scalar " in line or " view of " in line:
            continue
        plain = re.sub(r"[\w-]+=(\d+)", r"\1", re.sub(r" cut \[[^\]]*\]", "", line))
        for value, dims in re.findall(r"%(\d+) +: \w+\[([\d, ]*)\]", plain):
            found[int(value)] = tuple(int(n) for n in dims.split(",") if n.strip())
    return found


def with_batch(case: Case, cuts: Cuts | None = None) -> tuple[Recorded, list[int]]:
    """The first of two recordings, and the values that have a batch dim."""
    one, two = (recorded(case, n, sizes, cuts or {}) for n, sizes in BATCHES.items())
    assert one.shapes.keys() == two.shapes.keys(), "both sizes record the same graph"
    return one, [v for v in one.shapes if one.shapes[v] != two.shapes[v] and one.tiles[v]]


@pytest.mark.parametrize("name", CASES)
def test_batch_cuts_whatever_has_a_batch_dim(name: str) -> None:
    step, values = with_batch(CASES[name])
    assert len(values) > 20
    whole = [v for v in values if step.tiles[v] % 2]
    assert not whole, f"{len(whole)} of {len(values)} values are whole"
    assert step.retiles == []
    assert step.copied_by <= {"copy", "view_write"}  # what PyTorch itself copies, and parts written
    assert step.host_calls == 0


THIRDS = (4, 8) * 3  # one head and two heads, of each of q, k, v


def layers(prefix: str, cuts: Cuts) -> Cuts:
    return {f"{prefix}.{k}.{name}": dims for k in range(2) for name, dims in cuts.items()}


ENCODER = layers(
    "layers",
    {
        "self_attn.in_proj_weight": {0: THIRDS},
        "self_attn.in_proj_bias": {0: THIRDS},
        "self_attn.out_proj.weight": {1: (4, 8)},
        "linear1.weight": {0: (7, 13)},
        "linear1.bias": {0: (7, 13)},
        "linear2.weight": {1: (7, 13)},
    },
)
GPT = layers(
    "h",
    {
        "c_attn.weight": {0: THIRDS},
        "c_attn.bias": {0: THIRDS},
        "c_proj.weight": {1: (4, 8)},
        "c_fc.weight": {0: (7, 13)},
        "c_fc.bias": {0: (7, 13)},
        "c_out.weight": {1: (7, 13)},
    },
)
SWIGLU: Cuts = {"gate.weight": {0: (7, 13)}, "up.weight": {0: (7, 13)}, "down.weight": {1: (7, 13)}}


@pytest.mark.parametrize(
    ("name", "cuts"), [("encoder", ENCODER), ("encoder, sequence first", ENCODER), ("gpt2", GPT)]
)
def test_heads_and_inner_dim_cut_raggedly(name: str, cuts: Cuts) -> None:
    step = recorded(CASES[name], 6, (2, 4), cuts)
    assert step.retiles == []
    assert step.copied_by <= {"copy", "view_write"}
    assert step.tiles_of(6 * LENGTH, INNER) == {4}, "a result of a product's program"
    if name == "gpt2":
        assert step.tiles_of(6 * 3, LENGTH, LENGTH) == {4}, "scores: batch and heads"
    else:
        assert step.tiles_of(6, LENGTH, 3, 4) == {4}, "attention: batch and heads"


def test_query_heads_cut_key_heads() -> None:
    step = recorded(CASES["llama"], 6, (2, 4), {"q.weight": {0: (8, 8)}, **SWIGLU})
    assert step.retiles == []
    assert step.tiles_of(6 * 4, LENGTH, LENGTH) == {4}
    assert step.tiles_of(6, 2, 2, LENGTH, 4) == {4}, "key heads"


def test_a_cut_inside_a_group_of_heads_stops_there() -> None:
    """Heads 1 + 3 are no product of 2 key heads x 2: two links (k and v) are retiles, named so."""
    step = recorded(CASES["llama"], 6, (2, 4), {"q.weight": {0: (4, 12)}, **SWIGLU})
    assert len(step.retiles) == 2
    for line in step.retiles:
        assert "4 cut (1, 3)" in line and "-> [6 cut (2, 4), 2, 2, 5, 4]" in line
    assert step.tiles_of(6 * 4, LENGTH, LENGTH) == {4}, "every other link keeps both cuts"


def test_gates_of_an_lstm_cut_raggedly() -> None:
    gates = (1, 3) * 4
    cuts = {f"{kind}_{way}_l0": {0: gates} for kind in ("weight", "bias") for way in ("ih", "hh")}
    step = recorded(CASES["lstm"], 6, (2, 4), cuts)
    assert step.retiles == []
    assert step.tiles_of(6 * LENGTH, 16) == {2, 16}, (
        "gates of the products with inputs; the second layer's weight is whole"
    )
    assert step.tiles_of(6, 4) == {2}, "states: a task has all of them, for its part of the batch"


def test_width_cut_raggedly() -> None:
    """All layers share it; layer norms gather their rows, and nothing else does."""
    step = recorded(CASES["encoder"], 6, (2, 4), {"layers.0.linear1.weight": {1: (5, 7)}})
    assert step.retiles == []
    assert step.tiles_of(6, LENGTH, WIDTH) == {4}
    norms = {"layer_norm_rows", "layer_norm_input_grad", "layer_norm_affine_grad"}
    assert step.copied_by <= {"copy", "view_write"} | norms


def test_sequence_is_cut_in_both_dims_of_the_scores() -> None:
    step = recorded(Case(GPT2, CASES["gpt2"].data, 1), 6, (2, 3), {})
    assert step.retiles == []
    assert step.tiles_of(6 * 3, LENGTH, LENGTH) == {4}
    # Of the mask triu wants whole rows.
    assert step.copied_by <= {"copy", "view_write", "softmax", "softmax_backward", "triu"}
