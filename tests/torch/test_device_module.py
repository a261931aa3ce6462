# SPDX-License-Identifier: BSD-3-Clause
"""`torch.nntile`, and what data loading and files ask of a device."""

from __future__ import annotations

import inspect
import re
import textwrap
import types
import warnings
from pathlib import Path
from typing import Any

import interpreter
import pytest
import torch
from emulated_devices import not_emulated
from torch import Tensor, nn

import torch_nntile  # noqa: F401

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "torch_nntile_device.md"


def test_the_reference_has_all_of_it() -> None:
    module = torch.nntile
    public = {
        name
        for name, value in vars(module).items()
        if (
            not name.startswith("_")
            and (getattr(value, "__module__", "") or "").startswith("torch_nntile")
            and not value.__module__.startswith("torch_nntile.integrations")  # for Inductor's eyes
        )
        or name in ("OutOfMemoryError", "amp")
    }
    public -= {"IndexRangeError", "InvalidArgumentError"}
    rows = set(re.findall(r"^\| `(\w+)", PAGE.read_text(), re.MULTILINE))
    assert rows == public, f"missing: {public - rows}, too many: {rows - public}"


def test_memory_knows_the_budget() -> None:
    code = """
        import torch, torch_nntile
        total = torch.nntile.mem_get_info()[1]
        assert 0 < total and not torch.nntile.is_initialized()
        assert torch.nntile.get_device_properties().total_memory == total
        torch_nntile.init_context(ncpu=2, memory="512MiB")
        assert torch.nntile.mem_get_info() == (512 << 20, 512 << 20)
        x = torch.ones(1 << 20, device="nntile")
        torch.nntile.synchronize()
        free, total = torch.nntile.mem_get_info()
        assert total == 512 << 20 and total - free >= 4 << 20, (free, total)
        assert torch.accelerator.get_memory_info() == (free, total)
        properties = torch.nntile.get_device_properties("nntile:0")
        assert (properties.name, properties.total_memory, properties.multi_processor_count) == (
            "nntile:0", 512 << 20, 2), properties
        summary = torch.nntile.memory_summary()
        assert f"{512 << 20:,}" in summary and "allocated_bytes.all.peak" in summary
        assert len(torch.nntile.memory_summary(abbreviated=True)) < len(summary)
        stats = torch.nntile.memory_stats()
        for name in ("allocated", "reserved", "active"):
            assert stats[f"{name}_bytes.all.peak"] >= stats[f"{name}_bytes.all.current"] > 0, stats
        peak = torch.nntile.max_memory_reserved()
        assert torch.accelerator.max_memory_reserved() == peak >= torch.nntile.memory_reserved()
        del x
        torch.nntile.empty_cache()
        torch.nntile.reset_peak_memory_stats()
        assert torch.nntile.max_memory_reserved() == torch.nntile.memory_reserved() < peak
        x = torch.ones(1 << 20, device="nntile")
        torch.nntile.synchronize()
        (segment,) = torch.nntile.memory_snapshot()
        assert segment["total_size"] >= segment["allocated_size"] >= 4 << 20
        try: torch.ones(1 << 28, device="nntile").add_(1).cpu()
        except torch.nntile.OutOfMemoryError: pass
        else: raise SystemExit("1 GiB fitted into 512 MiB")
    """
    done = interpreter.run(textwrap.dedent(code))
    assert done.returncode == 0, done.stderr


@not_emulated
def test_budget_before_a_start_is_what_the_start_takes() -> None:
    """With a limit on the address space too: half of what it leaves."""
    code = """
        import resource, sys, torch, torch_nntile
        GiB = 1 << 30
        if sys.argv[1] == "limited":
            pages = int(open("/proc/self/statm").read().split()[0])
            limit = pages * resource.getpagesize() + 4 * GiB
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        before = torch.nntile.mem_get_info()
        assert before[0] == before[1] and not torch.nntile.is_initialized()
        torch_nntile.init_context(ncpu=1)
        after = torch.nntile.mem_get_info()[1]
        if sys.argv[1] == "limited":  # of which the start itself takes some
            assert GiB < after <= before[1] <= 2 * GiB, (before, after)
        else:
            assert after == before[1], (before, after)
    """
    for limit in ("limited", "unlimited"):
        done = interpreter.run(textwrap.dedent(code), limit)
        assert done.returncode == 0, done.stderr


def test_mixed_precision_by_the_names_of_cuda() -> None:
    assert isinstance(torch.nntile.amp, types.ModuleType)
    model = nn.Linear(4, 2).to("nntile")
    scaler = torch.nntile.amp.GradScaler(init_scale=8.0)
    with torch.nntile.amp.autocast(dtype=torch.bfloat16):
        assert torch.nntile.is_autocast_enabled()
        y = model(torch.ones(3, 4, device="nntile"))
    assert y.dtype == torch.bfloat16 and not torch.nntile.is_autocast_enabled()
    scaler.scale(y.float().sum()).backward()
    assert model.bias.grad is not None and model.bias.grad.tolist() == [24.0, 24.0]

    class Double(torch.autograd.Function):
        @staticmethod
        @torch.nntile.amp.custom_fwd(cast_inputs=torch.float32)
        def forward(ctx: object, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        @torch.nntile.amp.custom_bwd
        def backward(ctx: object, grad: Tensor) -> Tensor:
            return grad * 2

    with torch.nntile.amp.autocast(dtype=torch.bfloat16):
        assert Double.apply(y).dtype == torch.float32


# A list: Python 3.14 starts workers of a loader anew, and they do not find classes of this file.
ROWS: Any = [torch.full((2,), float(k), device="cpu") for k in range(8)]


# Up to 2.12 a storage asks CUDA unless it is told whom.
OF_CUDA = inspect.signature(torch.UntypedStorage.is_pinned).parameters["device"].default == "cuda"


@pytest.mark.parametrize("workers", [0, 1])
def test_pinned_memory(workers: int) -> None:
    assert not torch.ones(2).is_pinned()
    x = torch.ones(2, 3).pin_memory()
    assert x.is_pinned() and x[1].is_pinned()
    assert x.untyped_storage().is_pinned(*["nntile"][: int(OF_CUDA)])
    assert x.pin_memory() is x and torch.empty(2, pin_memory=True).is_pinned()
    assert torch.equal(x.to("nntile", non_blocking=True).cpu(), x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if OF_CUDA:  # PyTorch's own loader says for whom, which PyTorch deprecates
            warnings.filterwarnings("ignore", "The argument 'device' of", DeprecationWarning)
        loader = torch.utils.data.DataLoader(ROWS, 4, num_workers=workers, pin_memory=True)
        found = list(loader)
    assert all(batch.is_pinned() for batch in found)
    assert torch.cat(found)[:, 0].tolist() == list(range(8))
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        torch.ones(2, device="nntile").pin_memory()


@pytest.mark.filterwarnings("ignore:.*runs on the host")
def test_shuffling_where_the_device_is_the_default() -> None:
    """RandomSampler makes a generator of the CPU and calls randperm() of the default device."""
    order = []
    for device in ("nntile", "cpu"):
        torch.set_default_device(device)
        try:
            torch.manual_seed(3)
            found = torch.randperm(8, generator=torch.Generator().manual_seed(2))
            assert found.device.type == device
            order.append(found.tolist())
            batches = list(torch.utils.data.DataLoader(ROWS, 4, shuffle=True))
        finally:
            torch.set_default_device(None)
        assert sorted(torch.cat(batches)[:, 0].tolist()) == list(range(8))
    assert order[0] == order[1]


def test_streams_and_norms() -> None:
    x = torch.ones(4, 3, device="nntile")
    x.record_stream(torch.nntile.current_stream())
    norm = nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm1d(3)).to("nntile")
    assert isinstance(norm, nn.SyncBatchNorm) and norm(x).shape == (4, 3)


def test_safetensors(tmp_path: Path) -> None:
    """Its devices are a list of names, and ours is none of them; a number is any accelerator."""
    safetensors = pytest.importorskip("safetensors.torch")
    path, model = str(tmp_path / "a.safetensors"), nn.Linear(3, 2).to("nntile")
    safetensors.save_file({"x": model.weight, "h": model.weight.bfloat16()}, path)
    found = safetensors.load_file(path, device=0)
    assert found["x"].device == model.weight.device and found["h"].dtype == torch.bfloat16
    assert torch.equal(found["x"].cpu(), model.weight.cpu())
    with safetensors.safe_open(path, "pt", device=0) as file:
        assert torch.equal(file.get_slice("x")[:1].cpu(), model.weight[:1].cpu())
    safetensors.save_model(model, path)
    twin = nn.Linear(3, 2).to("nntile")
    assert safetensors.load_model(twin, path, device=0) == (set(), [])
    assert torch.equal(twin.weight.cpu(), model.weight.cpu())
