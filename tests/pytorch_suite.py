# SPDX-License-Identifier: BSD-3-Clause
"""A process of PyTorch's own tests of torch.distributed, on the device. A program for ranks.py.

Each of PyTorch's tests is for some backends, by name: gloo (tensors of the CPU), nccl (those of GPUs) or
mpi. Ours takes each test as the first of these that it is for; what a test asks of a GPU (`.cuda(rank)`,
`device="cuda"`) is asked of the device. SUITE_DEVICE=cpu is for comparison: gloo and the CPU in our place.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import unittest
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from ranks import serve
from torch.overrides import TorchFunctionMode
from torch.testing._internal import common_distributed, common_utils

import torch_nntile

DEVICE = os.environ.get("SUITE_DEVICE", "nntile")
BACKEND = {"nntile": "nntile", "cpu": "gloo"}[DEVICE]
SIZE = int(os.environ["WORLD_SIZE"])


class Name(str):
    """Of our backend: it is also the one that a test is for."""

    as_: str

    def __eq__(self, other: object) -> bool:
        return other in (str(self), self.as_)

    __hash__ = str.__hash__


class OnGpu(TorchFunctionMode):
    """What is asked of a GPU is asked of the device."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.Tensor.cuda:
            return args[0].to(DEVICE)
        if func is torch.Tensor.is_cuda.__get__:
            return args[0].device.type == DEVICE
        if kwargs.get("device") is not None:
            kwargs["device"] = _here(kwargs["device"])
        if func is torch.Tensor.to and len(args) > 1:
            args = (args[0], _here(args[1]), *args[2:])
        return func(*args, **kwargs)


def _here(device: Any) -> Any:
    """A GPU has a number for each process; each has one device."""
    name = device.type if isinstance(device, torch.device) else device
    if isinstance(name, str):
        name = name.split(":")[0]
    return torch.device(DEVICE) if isinstance(name, int) or name in ("cuda", "nntile") else device


def _stand_in_for_gpus() -> None:
    for name in ("set_device", "synchronize", "manual_seed", "empty_cache"):
        setattr(torch.cuda, name, lambda *_, **__: None)
    for name in ("device", "stream", "Stream"):
        setattr(torch.cuda, name, lambda *_, **__: contextlib.nullcontext())
    torch.cuda.is_available = lambda: True
    torch.cuda.device_count = lambda: SIZE
    torch.cuda.current_device = lambda: torch.device(DEVICE)
    torch.cuda.is_current_stream_capturing = lambda: False
    torch.nn.parallel.distributed._get_device_index = lambda *_, **__: 0
    torch.distributed.is_nccl_available = lambda: True
    new_group = dist.new_group

    def ours(*args: Any, **kwargs: Any) -> dist.ProcessGroup:
        if kwargs.get("backend") == "nccl":
            kwargs["backend"] = BACKEND
        return new_group(*args, **kwargs)

    dist.new_group = ours


def _of_gpus(test: Callable[..., None]) -> Callable[..., None]:
    test.of_gpus = True
    return test


def _needs(size: int) -> Callable[..., Callable[..., None]]:
    skip = unittest.skipIf(size > SIZE, f"needs a world size of {size}")
    return lambda test: skip(_of_gpus(test))


def _stand_in_for_decorators() -> None:
    """Those that count GPUs: there is one for each process."""
    common_distributed.skip_if_no_gpu = _of_gpus
    common_distributed.skip_if_lt_x_gpu = lambda x, **_: _needs(x)
    common_distributed.nccl_skip_if_lt_x_gpu = lambda _, x: _needs(x)
    common_distributed.requires_nccl_version = lambda *_: lambda test: test
    # PyTorch's asks for 8 processes; these tests make a group of ranks 1 and 2.
    small = unittest.skipIf(SIZE < 3, "needs a world size of 3")
    common_distributed.skip_if_small_worldsize = small


def _suite(as_: str) -> tuple[ModuleType, type]:
    """PyTorch's module reads the name of the backend when it is imported."""
    os.environ["BACKEND"] = as_
    os.environ["INIT_METHOD"] = "file://"  # tests that need such ask for it at import
    name = f"distributed_test_as_{as_}"
    origin = importlib.util.find_spec("torch.testing._internal.distributed.distributed_test")
    assert origin and origin.origin
    spec = importlib.util.spec_from_file_location(name, origin.origin)
    assert spec and spec.loader
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.BACKEND = Name(BACKEND)
    module.BACKEND.as_ = as_
    # Tests compare two ways of training: where cuts differ, sums are in another order.
    bases = (module.TestDistBackend, module.DistributedTest._DistTestBase)
    suite = type("Suite", bases, {"_rel_tol": 1e-4})
    return module, suite


_stand_in_for_decorators()
_stand_in_for_gpus()
SUITES = [_suite(as_) for as_ in ("gloo", "nccl", "mpi")]


def tests() -> list[str]:
    return [name for name in dir(SUITES[0][1]) if name.startswith("test_")]


def run(test: str, folder: Path) -> str:
    """Says as which backend the test was run. "broken:NAME" runs it with a broadcast that does nothing."""
    test, broken = test.removeprefix("broken:"), test.startswith("broken:")
    reasons = []
    for module, suite in SUITES:
        function = getattr(suite, test)
        if not getattr(function, "__unittest_skip__", False):
            with mock.patch.object(dist, "broadcast") if broken else contextlib.nullcontext():
                _run(module, suite, test, folder)
            return str(module.BACKEND.as_)
        reasons.append(function.__unittest_skip_why__)
    raise unittest.SkipTest(next((r for r in reasons if "world size" in r), reasons[0]))


def _run(module: Any, suite: Any, test: str, folder: Path) -> None:
    """As TestDistBackend._run does, which ends with its process."""
    for name in ("barrier", "test_dir", "init_dir"):
        (folder / name).mkdir(exist_ok=True)
    os.environ["TEMP_DIR"] = str(folder)
    module.INIT_METHOD = f"file://{folder}/init_dir/store"
    module.Barrier.barrier_id = 0
    os.environ.pop("TORCH_DISTRIBUTED_DEBUG", None)
    dist.set_debug_level_from_env()
    common_utils.set_rng_seed()
    case = suite(test)
    case.rank = int(os.environ["RANK"])
    case.file_name = str(folder / "store")
    dist.init_process_group(
        init_method=f"file://{case.file_name}",
        backend=BACKEND,
        world_size=SIZE,
        rank=case.rank,
        timeout=timedelta(seconds=module.CUSTOM_PG_TIMEOUT.get(test, module.default_pg_timeout)),
    )
    case._barrier()
    function = getattr(suite, test)
    on_gpu = module.BACKEND.as_ == "nccl" or hasattr(function, "of_gpus")
    try:
        with OnGpu() if on_gpu else torch.device(DEVICE):
            function(case)
    except SystemExit as error:
        skips = {skip.exit_code: skip.message for skip in module.TEST_SKIPS.values()}
        if error.code not in skips:
            raise
        raise unittest.SkipTest(skips[error.code]) from None
    if DEVICE == "nntile":
        torch_nntile.wait()  # raises the error of a task that the test has not read
    case._barrier()
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    if sys.argv[1:] == ["list"]:
        print("\n".join(tests()))
        sys.exit()
    torch.set_num_threads(1)
    if DEVICE == "nntile":
        torch_nntile.init_context(ncpu=1, memory=4 << 30)
    serve(run)
