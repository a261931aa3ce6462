# SPDX-License-Identifier: BSD-3-Clause
"""Named axes and their cuts: at any time, on any tensor, without a change of results."""

from __future__ import annotations

import uuid

import numpy as np
import pytest
import torch
from parity import runtime_mode
from torch import Tensor, nn

import torch_nntile
from torch_nntile import (
    axis_groups,
    explain,
    set_axis_group_name,
    set_axis_group_tiling,
    wait,
)

CUTS = [None, 3, 100, (1, 11), (5, 4, 3), "auto"]


def fresh(name: str) -> str:
    """A group that no other test knows."""
    return f"{name}_{uuid.uuid4().hex[:8]}"


def train(
    names: dict[str, str], mode: str, steps: int = 3, cuts: dict | None = None
) -> list[Tensor]:
    """A few steps of a small model; `cuts` are set before step 1 with names, in between without."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(7, 10), nn.GELU(), nn.LayerNorm(10), nn.Linear(10, 4))
    x, y = torch.randn(12, 7), torch.randint(4, (12,))
    device = "cpu" if mode == "cpu" else "nntile"
    model, x, y = model.to(device), x.to(device), y.to(device)
    if device == "nntile":
        set_axis_group_name(x, {0: names["batch"]})
        set_axis_group_name(model[0].weight, {0: names["hidden"], 1: names["in"]})
        for name, sizes in (cuts or {}).items():
            set_axis_group_tiling(names[name], sizes)
    optimizer = torch.optim.Adam(model.parameters(), 0.05)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().cpu())
    return [*losses, *(p.detach().cpu() for p in model.parameters())]


@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_cuts_do_not_change_results(mode: str, cut: object) -> None:
    names = {name: fresh(name) for name in ("batch", "hidden", "in")}
    cuts = {} if cut is None else {"batch": cut, "hidden": 3, "in": (2, 5)}
    expected = train(names, "cpu")
    with runtime_mode(mode):
        found = train(names, mode, cuts=cuts)
    for f, e in zip(found, expected, strict=True):
        torch.testing.assert_close(f, e)


def test_tiling_can_change_between_steps_and_after_reads() -> None:
    name, w = fresh("rows"), torch.randn(12, 5)
    x = w.to("nntile")
    assert torch.equal(x.cpu(), w)
    set_axis_group_name(x, {0: name})
    for cut in CUTS[1:]:
        set_axis_group_tiling(name, cut)
        assert torch.equal((x * 2).cpu(), w * 2)
        x.add_(1)
        w = w + 1
        assert torch.equal(x.cpu(), w)


def test_a_cut_shows_in_the_tiles() -> None:
    name = fresh("rows")
    x = torch.randn(12, 5).to("nntile")
    set_axis_group_name(x, {0: name})
    set_axis_group_tiling(name, (5, 4, 3))
    y = x.exp()
    wait()
    text = explain("tiles")
    assert f"{name} = 12 cut (5, 4, 3)" in text
    assert text.count("map {exp}") == 3
    assert f"{name} = 12  cut (5, 4, 3)" in axis_groups()
    assert y.shape == (12, 5)


def test_a_retile_of_stored_data_is_no_task_of_an_op() -> None:
    name = fresh("rows")
    x = torch.ones(6, 4).to("nntile")
    set_axis_group_name(x, {0: name})
    set_axis_group_tiling(name, 2)
    _kept = x.exp()
    wait()
    copies = [line for line in explain("tiles").splitlines() if ": copy (" in line]
    assert len(copies) == 3
    assert not any(" node " in line for line in copies)


@pytest.mark.parametrize("left", [False, True])
def test_only_what_blas_cannot_read_is_copied(left: bool) -> None:
    """A weight is expanded over a batch: a copy would have one for each image."""
    x, w = torch.randn(64, 8, 4), torch.randn(16, 64)
    order = (2, 0, 1) if left else (2, 1, 0)  # batch innermost: no matrix that BLAS reads
    data, weight = x.to("nntile").permute(order), w.to("nntile")
    wait()
    y = weight @ data if left else nn.functional.linear(data, weight)
    wait()
    copies = [line for line in explain("tiles").splitlines() if ": copy (" in line]
    assert len(copies) == 1
    assert f"bytes {2 * 4 * x.numel()}" in copies[0]
    torch.testing.assert_close(y.cpu(), w @ x.permute(order) if left else x.permute(order) @ w.T)


def test_names_spread_by_ops() -> None:
    batch, hidden = fresh("batch"), fresh("hidden")
    x, w = torch.randn(6, 4).to("nntile"), torch.randn(8, 4).to("nntile")
    set_axis_group_name(x, {0: batch})
    set_axis_group_name(w, {0: hidden})
    set_axis_group_tiling(batch, 2)
    set_axis_group_tiling(hidden, (3, 5))
    y = (x @ w.t()).relu()
    wait()
    z = y.exp()
    wait()
    assert explain("tiles").count("map {exp}") == 6
    assert z.shape == y.shape
    assert f"[{batch}=6 cut [2, 4], {hidden}=8 cut [3]]" in explain("graph")


def test_names_survive_into_gradients_and_optimizer_state() -> None:
    name = fresh("out")
    layer = nn.Linear(4, 6, bias=False).to("nntile")
    set_axis_group_name(layer.weight, {0: name})
    set_axis_group_tiling(name, (1, 5))
    optimizer = torch.optim.Adam(layer.parameters(), fused=True)
    layer(torch.randn(3, 4).to("nntile")).sum().backward()
    optimizer.step()
    state = optimizer.state[layer.weight]
    for tensor in (layer.weight.grad, state["exp_avg"], state["exp_avg_sq"], layer.weight.detach()):
        _kept = tensor.exp()
        wait()
        assert f"{name}=6" in explain("graph")
        assert explain("tiles").count("map {exp}") == 2


def test_conflicting_cuts_are_settled_by_a_copy() -> None:
    first, second = fresh("first"), fresh("second")
    a, b = torch.randn(9, 2), torch.randn(9, 2)
    x, y = a.to("nntile"), b.to("nntile")
    set_axis_group_name(x, {0: first})
    set_axis_group_name(y, {0: second})
    set_axis_group_tiling(first, (2, 7))
    set_axis_group_tiling(second, 4)
    x.add_(0)
    y.add_(0)
    assert torch.equal((x + y).cpu(), a + b)


def test_a_group_with_several_extents() -> None:
    name = fresh("batch")
    for rows in (12, 7):
        x = torch.ones(rows, 3, device="nntile")
        set_axis_group_name(x, {0: name})
        set_axis_group_tiling(name, 4)
        assert x.exp().sum().item() == pytest.approx(rows * 3 * 2.7182817)


def test_negative_dims_and_views_that_keep_a_dim() -> None:
    name = fresh("last")
    x = torch.ones(4, 6, device="nntile")
    set_axis_group_name(x.t(), {0: name})
    set_axis_group_tiling(name, 2)
    _kept = x.exp()
    wait()
    assert f"{name}=6" in explain("graph")
    other = fresh("other")
    set_axis_group_name(x, {-2: other})
    assert f"{other} = 4" in axis_groups()


BAD = [
    ((1, 2), r"sum to 3, its extent is 12"),
    ((20,) * 2, r"sum to 40, its extent is 12"),
    (0, r"extent 12.*must be > 0"),
    (-3, r"extent 12.*must be > 0"),
    ((6, 0, 6), r"extent 12.*must be > 0"),
    ((), "list of sizes is empty"),
    ("half", "must be a size, a list of sizes, 'auto' or 'whole', got 'half'"),
]


@pytest.mark.parametrize(("sizes", "message"), BAD, ids=[str(sizes) for sizes, _ in BAD])
def test_bad_tilings(sizes: object, message: str) -> None:
    name = fresh("bad")
    x = torch.ones(12, device="nntile")
    set_axis_group_name(x, {0: name})
    with pytest.raises(ValueError, match=message):
        set_axis_group_tiling(name, sizes)
    assert (x + 1).sum().item() == 24


@pytest.mark.parametrize("sizes", [2.5, None, True, [2.0, 2.0], [6, None], {"batch": 2}], ids=str)
def test_tilings_of_another_type(sizes: object) -> None:
    name = fresh("bad")
    set_axis_group_name(torch.ones(12, device="nntile"), {0: name})
    with pytest.raises(TypeError, match=f"axis group '{name}': the tiling must be a size, .*got "):
        set_axis_group_tiling(name, sizes)


@pytest.mark.parametrize("size", [np.int64(4), torch.tensor(4), [np.int32(6), 6]], ids=str)
def test_whole_numbers_of_other_libraries(size: object) -> None:
    name = fresh("batch")
    x = torch.ones(12, device="nntile")
    set_axis_group_name(x, {np.int64(0): name})
    set_axis_group_tiling(name, size)
    assert (x + 1).sum().item() == 24


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_segments_cut_the_dims_that_they_fill(mode: str) -> None:
    """Another extent in the group is no error, which would come late and drop all that is pending."""
    name = fresh("batch")
    x, last, other = (torch.ones(n, device="nntile") for n in (7, 5, 3))
    torch_nntile.run_graph()
    set_axis_group_name(x, {0: name})
    set_axis_group_name(last, {0: name})
    set_axis_group_tiling(name, (1, 5, 1))
    with runtime_mode(mode):
        kept = other + 1
        other.add_(5)
        found = last + 1
        torch_nntile.run_graph()
        assert kept.tolist() == [2.0] * 3
        assert other.tolist() == [6.0] * 3
        assert found.tolist() == [2.0] * 5
        last.fill_(4)
        assert last.tolist() == [4.0] * 5
        y = x + 1
        torch_nntile.run_graph()
        assert torch_nntile.explain("tiles").count("map {add}") == 3
        assert y.tolist() == [2.0] * 7


def test_unknown_group_is_named() -> None:
    with pytest.raises(ValueError, match="no axis group 'nothing_of_this_name'"):
        set_axis_group_tiling("nothing_of_this_name", 2)


def test_bad_names() -> None:
    x = torch.ones(2, 3, device="nntile")
    with pytest.raises(ValueError, match=r"dim 2 is out of range .* \(2, 3\)"):
        set_axis_group_name(x, {2: "a"})
    with pytest.raises(TypeError, match=r"expected dims and their names, as .*, got \['a'\]"):
        set_axis_group_name(x, ["a"])
    with pytest.raises(TypeError, match="expected a tensor, got Linear"):
        set_axis_group_name(nn.Linear(2, 2), {0: "a"})
    for names in ({"a": 0}, {True: "a"}, {1.0: "a"}):
        with pytest.raises(TypeError, match=r"expected a dim and its name, as .*, got"):
            set_axis_group_name(x, names)
    with pytest.raises(TypeError, match="expected the name of a group, got tensor"):
        set_axis_group_tiling(x, 2)
    with pytest.raises(ValueError, match="needs a name, got ''"):
        set_axis_group_name(x, {0: ""})
    with pytest.raises(ValueError, match="on cpu, not on device 'nntile'"):
        set_axis_group_name(torch.ones(2), {0: "a"})
    with pytest.raises(ValueError, match=r"view of shape \(2, 3\) is no whole dim"):
        set_axis_group_name(torch.ones(3, 3, device="nntile")[1:], {0: "a"})
    set_axis_group_name(x[1:], {0: "a"})  # one element: nothing to cut
