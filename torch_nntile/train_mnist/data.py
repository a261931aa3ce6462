# SPDX-License-Identifier: BSD-3-Clause
"""Images of digits or clothes for the training example: found, downloaded or scikit-learn's own.

The IDX files of MNIST and Fashion-MNIST have the same names and shapes. They are looked for:

1. in the folder that the caller names, else in the cache ($NNTILE_DATA_DIR, ~/.cache/torch_nntile);
2. for Fashion-MNIST, where Debian's package dataset-fashion-mnist puts them;
3. on the net, with checksums; they are then kept in the folder of 1;
4. without MNIST, Fashion-MNIST takes its place; without both, the digits of scikit-learn.
"""

from __future__ import annotations

import gzip
import hashlib
import math
import os
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from torch_nntile import _c

__all__ = ["NAMES", "Images", "cache_dir", "load", "read_idx"]

NAMES = ("mnist", "fashion-mnist", "digits")
FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
PACKAGED = {"fashion-mnist": Path("/usr/share/datasets/fashion-mnist")}
MIRRORS = {
    "mnist": (
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        "https://storage.googleapis.com/cvdf-datasets/mnist",
    ),
    "fashion-mnist": (
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
    ),
}
# Of the unpacked files: packers differ, the images do not.
SHA256 = {
    "mnist": (
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
    "fashion-mnist": (
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
}
TIMEOUT_SECONDS = 15


@dataclass(frozen=True, slots=True)
class Images:
    """A data set on the CPU: pixels in [0, 1] as float32 (count, features), labels as int64."""

    name: str
    source: str
    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor

    @property
    def features(self) -> int:
        return self.train_x.shape[1]

    def __str__(self) -> str:
        return (
            f"{self.name}: {len(self.train_x)} images to train, {len(self.test_x)} to test, "
            f"from {self.source}"
        )


def cache_dir() -> Path:
    """Folder of downloaded data sets."""
    chosen = _c.text(_c.settings().data_dir)
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "torch_nntile"


def load(name: str = "mnist", data_dir: str | Path | None = None) -> Images:
    """The data set of that name, or the next best; `Images.name` and `.source` say which it is.

    Args:
        name: "mnist", "fashion-mnist" or "digits".
        data_dir: folder with the IDX files (plain or .gz), or where to put a download.

    Raises:
        ValueError: an unknown name, or a file that is no IDX file of that kind.
        FileNotFoundError: nothing can be had, scikit-learn included.
    """
    if name not in NAMES:
        raise ValueError(f"data must be one of {', '.join(NAMES)}, got {name!r}")
    folder = Path(data_dir) if data_dir is not None else cache_dir() / name
    if name != "digits":
        found = _find(name, folder)
        if found is not None:
            return _read(name, found)
    if name == "mnist":
        found = _find("fashion-mnist", folder if data_dir else cache_dir() / "fashion-mnist")
        if found is not None:
            _say("MNIST cannot be had here; Fashion-MNIST takes its place")
            return _read("fashion-mnist", found)
    if name != "digits":
        _say(
            "neither MNIST nor Fashion-MNIST can be had here; using the 1,797 digits of "
            "scikit-learn. `apt-get install dataset-fashion-mnist` brings 60,000 images"
        )
    return _digits()


def read_idx(path: Path, ndim: int) -> Tensor:
    """Tensor of bytes from an IDX file, packed by gzip or plain.

    Raises:
        ValueError: the file is no IDX file of bytes with ndim dims, or is cut off.
    """
    raw = _unpack(path.read_bytes(), path)
    head = 4 + 4 * ndim
    if len(raw) < head or raw[:4] != bytes((0, 0, 8, ndim)):
        raise ValueError(f"{path}: not an IDX file of bytes with {ndim} dims")
    sizes = [int.from_bytes(raw[at : at + 4], "big") for at in range(4, head, 4)]
    if len(raw) != head + math.prod(sizes):
        raise ValueError(
            f"{path}: {math.prod(sizes)} bytes expected for {tuple(sizes)}, got {len(raw) - head}"
        )
    if math.prod(sizes) == 0:
        return torch.empty(sizes, dtype=torch.uint8, device="cpu")
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8, offset=head).reshape(sizes)


def _unpack(raw: bytes, path: Path) -> bytes:
    if raw[:2] != b"\x1f\x8b":
        return raw
    try:
        return gzip.decompress(raw)
    except (OSError, EOFError) as error:
        raise ValueError(f"{path}: broken gzip file: {error}") from error


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def _files_in(folder: Path) -> list[Path] | None:
    found = []
    for name in FILES:
        paths = [path for path in (folder / name, folder / f"{name}.gz") if path.is_file()]
        if not paths:
            return None
        found.append(paths[0])
    return found


def _find(name: str, folder: Path) -> list[Path] | None:
    packaged = PACKAGED.get(name)
    return (
        _files_in(folder)
        or (_files_in(packaged) if packaged is not None else None)
        or _download(name, folder)
    )


def _download(name: str, folder: Path) -> list[Path] | None:
    for mirror in MIRRORS[name]:
        _say(f"downloading {name} from {mirror}")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            return [
                _fetch(f"{mirror}/{file}.gz", folder / f"{file}.gz", checksum)
                for file, checksum in zip(FILES, SHA256[name], strict=True)
            ]
        except (OSError, ValueError) as error:
            _say(f"  not possible: {error}")
    return None


def _fetch(url: str, path: Path, checksum: str) -> Path:
    with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as response:
        packed: bytes = response.read()
    actual = hashlib.sha256(_unpack(packed, path)).hexdigest()
    if actual != checksum:
        raise ValueError(f"{url}: sha256 of the unpacked file is {actual}, not {checksum}")
    partial = path.with_suffix(f".{os.getpid()}.part")
    partial.write_bytes(packed)
    partial.replace(path)  # a file is whole or absent, also after an interrupt
    return path


def _read(name: str, paths: list[Path]) -> Images:
    images, labels = [], []
    for index, path in enumerate(paths):
        if index % 2 == 0:
            images.append(read_idx(path, 3).flatten(1).float() / 255)
        else:
            labels.append(read_idx(path, 1).long())
    for x, y, path in zip(images, labels, paths[1::2], strict=True):
        if len(x) != len(y):
            raise ValueError(f"{path}: {len(y)} labels for {len(x)} images")
    return Images(name, str(paths[0].parent), images[0], labels[0], images[1], labels[1])


def _digits() -> Images:
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise FileNotFoundError(
            "no images: no IDX files, no download, no Debian package dataset-fashion-mnist, and "
            "scikit-learn is not installed (pip install scikit-learn)"
        ) from error
    data = load_digits()
    x = torch.as_tensor(data.data, dtype=torch.float32) / 16
    y = torch.as_tensor(data.target, dtype=torch.int64)
    split = 1500
    return Images("digits", "scikit-learn", x[:split], y[:split], x[split:], y[split:])
