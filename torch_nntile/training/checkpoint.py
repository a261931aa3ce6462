# SPDX-License-Identifier: BSD-3-Clause
"""Checkpoints in one file of safetensors' format, written piece by piece (decision 0036).

A file holds any number of named objects. Their tensors are its tensors, under names like
"optimizer.state.0.exp_avg"; what is no tensor is JSON in its metadata.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor, nn

__all__ = ["load_checkpoint", "save_checkpoint"]

FORMAT, VERSION = "torch_nntile.checkpoint", "1"
PIECE = 16 << 20  # bytes of a tensor that are on the host at a time
# https://github.com/huggingface/safetensors#format
DTYPES = {
    torch.bool: "BOOL",
    **{getattr(torch, f"uint{bits}"): f"U{bits}" for bits in (8, 16, 32, 64)},
    **{getattr(torch, f"int{bits}"): f"I{bits}" for bits in (8, 16, 32, 64)},
    **{getattr(torch, f"float{bits}"): f"F{bits}" for bits in (16, 32, 64)},
    torch.bfloat16: "BF16",
    torch.complex64: "C64",
}
OF_NAME = {name: dtype for dtype, name in DTYPES.items()}


def save_checkpoint(path: str | os.PathLike[str], **objects: Any) -> None:
    """Write objects into one file. It replaces an old file only when everything is written.

    It reads tensors in pieces of 16 MiB, so the host needs no memory for copies of them. It
    writes tensors that share their data, such as tied weights, once. The file stores no cuts.

    Args:
        path: the file; `safetensors.safe_open` can read it too.
        objects: objects with a `state_dict()` (models, optimizers, schedulers), tensors, numbers,
            strings, None, and lists, tuples and dicts of these.

    Raises:
        TypeError: an object cannot be written. The message names it, and nothing is written.
    """
    writer = _Tree()
    tree = {name: writer.plain(name, _state_of(value)) for name, value in objects.items()}
    metadata = {"format": FORMAT, "version": VERSION, "tree": json.dumps(tree)}
    header: dict[str, Any] = {"__metadata__": metadata}
    # Long elements first, as the format asks: each tensor begins where its dtype may, and can be mapped.
    tensors = sorted(writer.tensors.items(), key=lambda item: -item[1].itemsize)
    end = 0
    for name, tensor in tensors:
        start, end = end, end + tensor.nbytes
        header[name] = {
            "dtype": DTYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with _replaced(Path(path)) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, tensor in tensors:
            for piece in _pieces(tensor):
                flat = piece.cpu().contiguous().reshape(-1).view(torch.uint8)
                file.write(flat.numpy().tobytes())


def load_checkpoint(path: str | os.PathLike[str], **objects: Any) -> dict[str, Any]:
    """Load states into objects, in place, and return everything else in the file by name.

    Parameters stay on their devices, with their current cuts. It checks everything before it
    changes the first model.

    Args:
        path: a file that `save_checkpoint` wrote.
        objects: objects with a `load_state_dict()`, under the names that you saved them with.

    Returns:
        The rest of the file. Its tensors are on the CPU, and are read when you use them.

    Raises:
        FileNotFoundError: there is no such file.
        RuntimeError: the file is not a checkpoint, is cut short or of another version; it lacks an
            object; or a model has other names or shapes.
        TypeError: an object has no `load_state_dict()`.
        ValueError: an optimizer has groups of other sizes.
    """
    states = _read(Path(path))
    for name, value in objects.items():
        if not hasattr(value, "load_state_dict"):
            raise TypeError(f"{name}: {type(value).__name__} has no load_state_dict()")
        if name not in states:
            raise RuntimeError(
                f"{path}: no {name!r} in it; it has {', '.join(states) or 'nothing'}"
            )
        if isinstance(value, nn.Module):
            _check_module(path, name, value, states[name])
    # Models last: others check their states themselves, and a model is then known to fit.
    for name, value in sorted(objects.items(), key=lambda item: isinstance(item[1], nn.Module)):
        value.load_state_dict(states.pop(name))
    return states


def _state_of(value: Any) -> Any:
    return value.state_dict() if hasattr(value, "state_dict") else value


class _Tree:
    """Takes the tensors out of a tree, by name; what is left is JSON."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.seen: dict[Any, str] = {}

    def plain(self, name: str, value: Any) -> Any:
        if isinstance(value, Tensor):
            return {"tensor": self.add(name, value)}
        if isinstance(value, Mapping):
            items = [[k, self.plain(f"{name}.{k}", v)] for k, v in value.items()]
            if bad := [k for k, _ in items if not isinstance(k, str | int)]:
                raise TypeError(f"save_checkpoint: {name}: a key is {bad[0]!r}, no str or int")
            return {"dict": items}
        if isinstance(value, list | tuple):
            items = [self.plain(f"{name}.{i}", v) for i, v in enumerate(value)]
            return {"tuple" if isinstance(value, tuple) else "list": items}
        if value is None or isinstance(value, bool | int | float | str):
            return value
        raise TypeError(f"save_checkpoint: {name}: cannot write a {type(value).__name__}")

    def add(self, name: str, tensor: Tensor) -> str:
        if tensor.layout != torch.strided or tensor.dtype not in DTYPES:
            kind = tensor.layout if tensor.layout != torch.strided else tensor.dtype
            raise TypeError(f"save_checkpoint: {name}: cannot write a tensor of {kind}")
        tensor = tensor.detach().resolve_conj().resolve_neg()  # else bits that its storage has not
        storage = tensor.untyped_storage()
        layout = tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype
        key = (storage._cdata, *layout)
        if key not in self.seen:
            while name in self.tensors:  # "a.b" in a dict beside "b" in its "a"
                name += "_"
            self.seen[key] = name
            self.tensors[name] = tensor
        return self.seen[key]


def _restored(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "dict":
        return {key: _restored(each, tensors) for key, each in content}
    items = [_restored(each, tensors) for each in content]
    return tuple(items) if kind == "tuple" else items


def _pieces(tensor: Tensor) -> Iterator[Tensor]:
    """Views of a tensor in the order of its elements, each of at most PIECE bytes."""
    if tensor.nbytes <= PIECE:
        yield tensor
        return
    row = tensor.nbytes // len(tensor)
    if row > PIECE:
        for part in tensor:
            yield from _pieces(part)
        return
    yield from tensor.split(PIECE // row)


@contextlib.contextmanager
def _replaced(path: Path) -> Iterator[IO[bytes]]:
    """A file beside `path` that takes its place at the end, on the disk; gone after an error."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _read(path: Path) -> dict[str, Any]:
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        text = file.read(length) if length <= size - 8 else b""
    try:
        header = json.loads(text)
        metadata = header.pop("__metadata__")
        version = metadata["version"] if metadata["format"] == FORMAT else None
    except (ValueError, KeyError, TypeError, AttributeError):
        version = None
    if version is None:
        raise RuntimeError(
            f"{path}: {size} bytes that are no checkpoint of torch_nntile, or its begin"
        )
    if version != VERSION:
        raise RuntimeError(f"{path}: written in version {version}; this reads version {VERSION}")
    begin = 8 + length
    end = begin + max((of["data_offsets"][1] for of in header.values()), default=0)
    if size != end:
        raise RuntimeError(f"{path}: cut short: {size} of {end} bytes")
    data = torch.from_file(str(path), size=size, dtype=torch.uint8)
    tensors = {}
    for name, of in header.items():
        start, stop = of["data_offsets"]
        dtype = OF_NAME[of["dtype"]]
        tensors[name] = data[begin + start : begin + stop].view(dtype).reshape(of["shape"])
    return {name: _restored(value, tensors) for name, value in json.loads(metadata["tree"]).items()}


def _check_module(path: Any, name: str, module: nn.Module, state: Any) -> None:
    """As load_state_dict does, but before it writes."""
    ours = module.state_dict()
    if not isinstance(state, dict):
        raise RuntimeError(f"{path}: {name!r} is the state of something else, not of a model")
    wrong = [f"missing {key!r}" for key in ours if key not in state]
    wrong += [f"unexpected {key!r}" for key in state if key not in ours]
    wrong += [
        f"size mismatch of {key!r}: {tuple(state[key].shape)} in the file, {tuple(x.shape)} here"
        for key, x in ours.items()
        if isinstance(x, Tensor) and key in state and state[key].shape != x.shape
    ]
    if wrong:
        raise RuntimeError(
            f"{path}: {name!r} is of another {type(module).__name__}: " + "; ".join(wrong)
        )
