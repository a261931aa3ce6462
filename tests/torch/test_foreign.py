# SPDX-License-Identifier: BSD-3-Clause
"""The address of a storage is a name, there is no memory behind it: no code of others may get to read it."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

import torch_nntile  # noqa: F401


@contextlib.contextmanager
def process_group(backend: str, folder: Path) -> Iterator[None]:
    store = dist.FileStore(str(folder / "store"), 1)
    timeout = datetime.timedelta(seconds=20)
    dist.init_process_group(backend, store=store, rank=0, world_size=1, timeout=timeout)
    try:
        yield
    finally:
        dist.destroy_process_group()


def ones() -> Tensor:
    return torch.ones(2, device="nntile")


COLLECTIVES = {
    "all_reduce": lambda: dist.all_reduce(ones()),
    "broadcast": lambda: dist.broadcast(ones(), 0),
    "reduce": lambda: dist.reduce(ones(), 0),
    "all_gather": lambda: dist.all_gather([ones()], ones()),
    "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(ones(), ones()),
    "reduce_scatter_tensor": lambda: dist.reduce_scatter_tensor(ones(), ones()),
    "gather": lambda: dist.gather(ones(), [ones()]),
    "scatter": lambda: dist.scatter(ones(), [ones()]),
    "all_to_all_single": lambda: dist.all_to_all_single(ones(), ones()),
    "send": lambda: dist.group.WORLD.send([ones()], 0, 0),
    "recv": lambda: dist.group.WORLD.recv([ones()], 0, 0),
    "functional": lambda: torch.ops._c10d_functional.all_reduce(
        ones(), "sum", dist.group.WORLD.group_name
    ),
    "DDP": lambda: nn.parallel.DistributedDataParallel(nn.Linear(2, 2).to("nntile")),
}


@pytest.mark.filterwarnings("ignore:.*is deprecated")
@pytest.mark.parametrize("backend", ["gloo", "cpu:gloo,nntile:gloo"])
def test_collectives_say_what_works(backend: str, tmp_path: Path) -> None:
    with process_group(backend, tmp_path):
        for name, call in COLLECTIVES.items():
            with pytest.raises(
                NotImplementedError, match=r"nntile: 'c10d::.*cpu:gloo,nntile:nntile"
            ) as error:
                call()
            assert ("'gloo'" in str(error.value)) == (backend != "gloo"), name
        x = ones()
        y = x.cpu()
        dist.all_reduce(y)
        assert x.copy_(y).tolist() == [1.0, 1.0]
        dist.barrier()
        objects: list[Any] = [None]
        dist.all_gather_object(objects, ones())
        assert objects[0].tolist() == [1.0, 1.0]
        model = nn.parallel.DistributedDataParallel(nn.Linear(2, 2))
        model(torch.ones(1, 2)).sum().backward()
        assert model.module.weight.grad is not None


def test_a_backend_made_for_the_device_gets_its_calls(tmp_path: Path) -> None:
    from torch.testing._internal.distributed import fake_pg

    dist.Backend.register_backend("staged", fake_pg._create_fake_pg, True, devices=["nntile"])
    with process_group("cpu:gloo,nntile:staged", tmp_path):
        x = ones()
        dist.all_reduce(x)
        assert x.tolist() == [1.0, 1.0]


def test_numpy() -> None:
    x = torch.arange(6.0, device="nntile").view(2, 3)
    for call in (x.numpy, lambda: np.asarray(x), lambda: np.add(x, 1)):
        with pytest.raises(TypeError, match=r"Use Tensor.cpu\(\)"):
            call()
    assert np.array_equal(x.numpy(force=True), x.cpu().numpy())
    assert not hasattr(x, "__array_interface__")


def test_dlpack() -> None:
    """By way of the host, or an error; in this process a capsule is an alias."""
    x = torch.arange(6.0, device="nntile").view(2, 3)
    assert np.array_equal(np.from_dlpack(x, device="cpu"), x.cpu().numpy())
    assert torch.from_dlpack(x.__dlpack__(dl_device=(1, 0))).device.type == "cpu"
    for call in (lambda: torch.from_dlpack(x), x.__dlpack_device__):
        with pytest.raises(ValueError, match="nntile"):
            call()
    with pytest.raises((RuntimeError, BufferError), match="Unsupported device"):
        np.from_dlpack(x)
    alias = torch.from_dlpack(torch.utils.dlpack.to_dlpack(x))
    assert alias.device == x.device
    alias[0] = 7
    assert x.tolist() == [[7.0, 7.0, 7.0], [3.0, 4.0, 5.0]]
