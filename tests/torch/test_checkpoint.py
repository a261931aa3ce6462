# SPDX-License-Identifier: BSD-3-Clause
"""Checkpoints: the same bits after a restart under other cuts; what does not fit is refused."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import torch_nntile
from torch_nntile.training import checkpoint, load_checkpoint, save_checkpoint

pytestmark = pytest.mark.usefixtures("runtime")


class Tied(nn.Module):
    """A table that is also the last layer, and a buffer."""

    counts: Tensor

    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.table = nn.Embedding(30, width)
        self.body = nn.Linear(width, width)
        self.head = nn.Linear(width, 30, bias=False)
        self.head.weight = self.table.weight
        self.register_buffer("counts", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        self.counts += 1
        return self.head(self.body(self.table(x)).relu())


Training = tuple[nn.Module, torch.optim.Optimizer, Any]


def training(seed: int = 0, cut: list[int] | None = None, width: int = 12) -> Training:
    torch.manual_seed(seed)
    model = Tied(width).to("nntile")
    if cut is not None:
        weight = model.table.weight
        torch_nntile.set_axis_group_name(weight, {0: f"words{seed}", 1: f"width{seed}"})
        torch_nntile.set_axis_group_tiling(f"words{seed}", cut)
        torch_nntile.set_axis_group_tiling(f"width{seed}", 5)
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    return model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)


def steps(model: nn.Module, optimizer: torch.optim.Optimizer, scheduler: Any, count: int) -> None:
    words = torch.arange(24, device="nntile").reshape(4, 6)
    for _ in range(count):
        optimizer.zero_grad()
        logits = model(words)
        nn.functional.cross_entropy(logits.flatten(0, 1), words.flatten().flip(0)).backward()
        optimizer.step()
        scheduler.step()


def all_of(model: nn.Module) -> list[Tensor]:
    return [x.detach().cpu() for x in model.state_dict().values()]


def test_training_goes_on_with_other_cuts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "PIECE", 100)  # each tensor in many pieces
    path = tmp_path / "a.ckpt"
    model, optimizer, scheduler = training(cut=[7, 23])
    steps(model, optimizer, scheduler, 3)
    save_checkpoint(
        path, model=model, optimizer=optimizer, scheduler=scheduler, epoch=3, note=("a", None)
    )
    steps(model, optimizer, scheduler, 3)

    other = training(seed=1, cut=[20, 10])
    rest = load_checkpoint(path, model=other[0], optimizer=other[1], scheduler=other[2])
    assert rest == {"epoch": 3, "note": ("a", None)}
    steps(*other, 3)
    for found, expected in zip(all_of(other[0]), all_of(model), strict=True):
        torch.testing.assert_close(found, expected)
    assert other[2].get_last_lr() == scheduler.get_last_lr()


def test_same_bits_back(tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt"
    model, optimizer, scheduler = training()
    steps(model, optimizer, scheduler, 2)
    save_checkpoint(path, model=model)
    other = training(seed=1)[0]
    load_checkpoint(path, model=other)
    assert all(torch.equal(a, b) for a, b in zip(all_of(other), all_of(model), strict=True))
    cpu = Tied()
    load_checkpoint(path, model=cpu)
    assert all(torch.equal(a, b) for a, b in zip(all_of(cpu), all_of(model), strict=True))


@pytest.mark.parametrize("device", ["cpu", "nntile"])
@pytest.mark.parametrize("dtype", checkpoint.DTYPES, ids=str)
def test_dtypes_and_layouts(tmp_path: Path, dtype: torch.dtype, device: str) -> None:
    if device == "nntile" and dtype in (torch.uint16, torch.uint32, torch.uint64, torch.complex64):
        pytest.skip("no dtype of the device")
    data = torch.arange(40).reshape(5, 8).to(dtype).to(device)
    tree = {"x": data, "t": data.t(), "none": data[:0], "one": data[3, 2], 7: [data[1:4, ::3]]}
    save_checkpoint(tmp_path / "a", tree=tree, odd=torch.tensor([True]))
    found = load_checkpoint(tmp_path / "a")["tree"]
    assert list(found) == list(tree)
    for key in ("x", "t", "none", "one"):
        torch.testing.assert_close(found[key], tree[key].cpu(), rtol=0, atol=0)
    torch.testing.assert_close(found[7][0], tree[7][0].cpu(), rtol=0, atol=0)


def test_other_programs_read_it_and_tied_weights_are_in_it_once(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors")
    path = tmp_path / "a.safetensors"
    model = training()[0]
    save_checkpoint(path, model=model, epoch=1)
    with safetensors.safe_open(path, "pt") as file:
        names = set(file.keys())
        table = file.get_tensor("model.table.weight")
    assert names == {f"model.{name}" for name in model.state_dict()} - {"model.head.weight"}
    assert torch.equal(table, model.state_dict()["table.weight"].cpu())


def test_host_holds_a_piece_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "PIECE", 64)
    x = torch.arange(120.0).reshape(2, 3, 20)
    sizes = [piece.nbytes for piece in checkpoint._pieces(x)]
    assert max(sizes) <= 64 and sum(sizes) == x.nbytes and len(sizes) < x.numel()
    assert torch.equal(torch.cat([p.reshape(-1) for p in checkpoint._pieces(x)]), x.reshape(-1))


def test_bytes_before_long_elements(tmp_path: Path) -> None:
    x = torch.randn(3, 5, dtype=torch.complex64)
    tree = {
        "odd": torch.arange(3, dtype=torch.uint8),
        "x": x,
        "conj": x.conj(),
        "half": x.real.half(),
    }
    save_checkpoint(tmp_path / "a", **tree)
    found = load_checkpoint(tmp_path / "a")
    assert list(found) == list(tree)
    for name, expected in tree.items():
        assert torch.equal(found[name], expected), name


def test_what_cannot_be_written_is_named_and_the_old_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "a"
    save_checkpoint(path, epoch=1)
    with pytest.raises(TypeError, match=r"extra\.f: cannot write a function"):
        save_checkpoint(path, extra={"f": lambda: 0})
    with pytest.raises(TypeError, match=r"x\.0: cannot write a tensor of torch\.sparse_coo"):
        save_checkpoint(path, x=[torch.eye(2).to_sparse()])
    with pytest.raises(TypeError, match=r"x: a key is 1\.5"):
        save_checkpoint(path, x={1.5: 0})
    assert load_checkpoint(path) == {"epoch": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_an_error_while_writing_keeps_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    save_checkpoint(path, epoch=1)

    def fail(_: Tensor) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "_pieces", fail)
    with pytest.raises(OSError, match="No space left"):
        save_checkpoint(path, x=torch.ones(3))
    assert load_checkpoint(path) == {"epoch": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def damaged(text: bytes, how: str) -> bytes:
    if how == "data cut short":
        return text[:-1]
    if how == "header cut short":
        return text[:20]
    if how == "empty":
        return b""
    if how == "something else":
        return b"PK\3\4" * 10
    header = json.loads(text[8 : 8 + int.from_bytes(text[:8], "little")])
    assert how == "a later version"
    header["__metadata__"]["version"] = "2"
    new = json.dumps(header).encode()
    return struct.pack("<Q", len(new)) + new + text[8 + int.from_bytes(text[:8], "little") :]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("data cut short", "cut short: [0-9]+ of [0-9]+ bytes"),
        ("header cut short", "no checkpoint of torch_nntile, or its begin"),
        ("empty", "no checkpoint"),
        ("something else", "no checkpoint"),
        ("a later version", "written in version 2; this reads version 1"),
    ],
)
def test_damaged_files(tmp_path: Path, how: str, message: str) -> None:
    path = tmp_path / "a.ckpt"
    save_checkpoint(path, model=training()[0])
    path.write_bytes(damaged(path.read_bytes(), how))
    with pytest.raises(RuntimeError, match=rf"a\.ckpt: .*{message}"):
        load_checkpoint(path, model=training()[0])


def test_of_another_model(tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt"
    model, optimizer, scheduler = training()
    steps(model, optimizer, scheduler, 1)
    save_checkpoint(path, model=model, optimizer=optimizer)
    wider, others, _ = training(seed=1, width=13)
    before = all_of(wider)
    with pytest.raises(RuntimeError, match=r"size mismatch of 'body\.weight': \(12, 12\) in the"):
        load_checkpoint(path, model=wider, optimizer=others)
    with pytest.raises(RuntimeError, match="no 'modle' in it; it has model, optimizer"):
        load_checkpoint(path, modle=model)
    with pytest.raises(RuntimeError, match=r"'model' is of another Linear: missing 'weight'"):
        load_checkpoint(path, model=nn.Linear(2, 2))
    few = torch.optim.AdamW([model.body.weight])
    kept = all_of(model)
    with pytest.raises(ValueError, match="size of optimizer's group"):
        load_checkpoint(path, model=model, optimizer=few)
    assert all(torch.equal(a, b) for a, b in zip(all_of(wider), before, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(all_of(model), kept, strict=True))
    with pytest.raises(TypeError, match="epoch: int has no load_state_dict"):
        load_checkpoint(path, model=model, epoch=3)
    with pytest.raises(FileNotFoundError):
        load_checkpoint(tmp_path / "none", model=model)
