# SPDX-License-Identifier: BSD-3-Clause
"""The data of the training example: the IDX reader, and where files come from. Needs no device and no net."""

from __future__ import annotations

import gzip
import hashlib
import struct
import urllib.error
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from torch_nntile.train_mnist import data as mnist_data


def idx(tensor: Tensor) -> bytes:
    head = bytes((0, 0, 8, tensor.dim())) + struct.pack(f">{tensor.dim()}I", *tensor.shape)
    return head + bytes(tensor.flatten().tolist())


def put_files(folder: Path, train: int = 6, test: int = 3, pack: bool = False) -> list[Tensor]:
    folder.mkdir(parents=True, exist_ok=True)
    generator = torch.Generator().manual_seed(0)
    tensors = []
    for count in (train, test):
        tensors.append(torch.randint(256, (count, 4, 5), generator=generator, dtype=torch.uint8))
        tensors.append(torch.randint(10, (count,), generator=generator, dtype=torch.uint8))
    for name, tensor in zip(mnist_data.FILES, tensors, strict=True):
        raw = idx(tensor)
        path = folder / (f"{name}.gz" if pack else name)
        path.write_bytes(gzip.compress(raw) if pack else raw)
    return tensors


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No net, no package, an empty cache; returns the cache's folder."""

    def refuse(*_: Any, **__: Any) -> None:
        raise urllib.error.URLError("no net in tests")

    monkeypatch.setattr("urllib.request.urlopen", refuse)
    monkeypatch.setattr(mnist_data, "PACKAGED", {})
    monkeypatch.setenv("NNTILE_DATA_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("pack", [False, True])
def test_files_of_a_folder(offline: Path, tmp_path: Path, pack: bool) -> None:
    train_x, train_y, test_x, test_y = put_files(tmp_path / "mine", pack=pack)
    images = mnist_data.load("mnist", tmp_path / "mine")
    assert (images.name, images.features) == ("mnist", 20)
    assert images.train_x.dtype == torch.float32 and images.train_y.dtype == torch.int64
    assert torch.equal(images.train_x, train_x.flatten(1).float() / 255)
    assert torch.equal(images.train_y, train_y.long())
    assert torch.equal(images.test_x, test_x.flatten(1).float() / 255)
    assert torch.equal(images.test_y, test_y.long())


def test_the_cache_comes_before_all_else(offline: Path) -> None:
    put_files(offline / "mnist")
    assert mnist_data.load("mnist").source == str(offline / "mnist")


def test_the_package_is_used_for_fashion_mnist_and_in_place_of_mnist(
    offline: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    put_files(tmp_path / "package", pack=True)
    monkeypatch.setattr(mnist_data, "PACKAGED", {"fashion-mnist": tmp_path / "package"})
    assert mnist_data.load("fashion-mnist").source == str(tmp_path / "package")
    assert mnist_data.load("mnist").name == "fashion-mnist"
    assert "Fashion-MNIST takes its place" in capsys.readouterr().err


def test_digits_are_the_last_resort(offline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sklearn")
    images = mnist_data.load("mnist")
    assert images.name == "digits"
    assert images.train_x.shape == (1500, 64) and images.test_x.shape == (297, 64)
    assert 0 <= images.train_x.min() and images.train_x.max() == 1
    assert "digits of scikit-learn" in capsys.readouterr().err


class Response:
    def __init__(self, body: bytes) -> None:
        self.body = body

    def __enter__(self) -> Response:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def read(self) -> bytes:
        return self.body


def serve(monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[str]:
    """Serve a folder from every mirror; returns the addresses that are asked for."""
    asked: list[str] = []

    def open_url(url: str, timeout: float) -> Response:
        asked.append(url)
        return Response((folder / url.rsplit("/", 1)[1]).read_bytes())

    monkeypatch.setattr("urllib.request.urlopen", open_url)
    return asked


def test_a_download_is_checked_and_kept(
    offline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors = put_files(tmp_path / "net", pack=True)
    sums = tuple(hashlib.sha256(idx(tensor)).hexdigest() for tensor in tensors)
    monkeypatch.setitem(mnist_data.SHA256, "mnist", sums)
    asked = serve(monkeypatch, tmp_path / "net")
    assert mnist_data.load("mnist").name == "mnist"
    assert len(asked) == 4
    assert mnist_data.load("mnist").source == str(offline / "mnist")
    assert len(asked) == 4  # from the cache
    assert not list(offline.rglob("*.part"))


def test_a_wrong_checksum_is_refused(
    offline: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("sklearn")
    put_files(tmp_path / "net", pack=True)
    serve(monkeypatch, tmp_path / "net")
    assert mnist_data.load("mnist").name == "digits"
    assert "sha256" in capsys.readouterr().err
    assert not (offline / "mnist" / f"{mnist_data.FILES[0]}.gz").exists()


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "not an IDX file"),
        (b"\0\0\x08\x01\0\0\0\x02ab", "with 3 dims"),
        (b"\0\0\x0d\x03" + bytes(12), "not an IDX file"),
        (
            idx(torch.zeros(2, 3, 4, dtype=torch.uint8))[:-1],
            r"24 bytes expected for \(2, 3, 4\), got 23",
        ),
        (b"\x1f\x8bxx", "broken gzip"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, raw: bytes, message: str) -> None:
    path = tmp_path / "bad"
    path.write_bytes(raw)
    with pytest.raises(ValueError, match=message) as caught:
        mnist_data.read_idx(path, 3)
    assert str(path) in str(caught.value)


def test_labels_must_match_images(offline: Path, tmp_path: Path) -> None:
    put_files(tmp_path / "mine")
    (tmp_path / "mine" / mnist_data.FILES[1]).write_bytes(idx(torch.zeros(5, dtype=torch.uint8)))
    with pytest.raises(ValueError, match="5 labels for 6 images"):
        mnist_data.load("mnist", tmp_path / "mine")


def test_unknown_name() -> None:
    with pytest.raises(ValueError, match="mnist, fashion-mnist, digits"):
        mnist_data.load("cifar")
