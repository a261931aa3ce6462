# SPDX-License-Identifier: BSD-3-Clause
"""Programs of several processes, as PyTorch documents them. torchrun runs this file:

    torchrun --nproc-per-node 2 tests/distributed/programs.py OUT NAME...

Each program gives the losses of its steps, averaged over processes; rank 0 writes what was found, and
those of one process on the CPU, to OUT as JSON.
"""

from __future__ import annotations

import contextlib
import copy
import datetime
import json
import os
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel as Ddp

import torch_nntile

STEPS, ROWS, CLASSES = 5, 8, 4  # ROWS: of each process
RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
DEVICE = "nntile"
Program = Callable[[], list[float]]
PROGRAMS: dict[str, tuple[Program, str]] = {}


class Block(nn.Module):
    """Attention and an MLP, as in GPT-2."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        n, t, d = x.shape
        parts = self.qkv(self.norm1(x)).view(n, t, 3, self.heads, d // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(n, t, d))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Last(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[:, -1]


def mlp() -> nn.Module:
    return nn.Sequential(
        nn.Linear(16, 32),
        nn.GELU(),
        nn.LayerNorm(32),
        nn.Linear(32, 16),
        nn.GELU(),
        nn.Linear(16, 4),
    )


def gpt() -> nn.Module:
    return nn.Sequential(
        nn.Embedding(11, 16), Block(16, 2), Block(16, 2), nn.LayerNorm(16), Last(), nn.Linear(16, 4)
    )


def images(norm: Callable[[int], nn.Module] = lambda n: nn.GroupNorm(2, n)) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        norm(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, padding=1),
        norm(8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(8 * 9, 4),
    )


MODELS: dict[str, Callable[[], nn.Module]] = {
    "mlp": mlp,
    "gpt": gpt,
    "images": images,
    "batch norm": lambda: images(nn.BatchNorm2d),
    "head": lambda: nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 4)),
}


def made(name: str) -> nn.Module:
    torch.manual_seed(0)
    return MODELS[name]()


def data(name: str) -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    rows = ROWS * SIZE
    x = {
        "mlp": lambda: torch.randn(rows, 16),
        "head": lambda: torch.randn(rows, 16),
        "gpt": lambda: torch.randint(11, (rows, 6)),
        "images": lambda: torch.randn(rows, 3, 6, 6),
        "batch norm": lambda: torch.randn(rows, 3, 6, 6),
    }[name]()
    return x, torch.randint(CLASSES, (rows,))


def own(name: str) -> tuple[Tensor, Tensor]:
    x, y = data(name)
    return x.chunk(SIZE)[RANK].to(DEVICE), y.chunk(SIZE)[RANK].to(DEVICE)


def reference(name: str) -> list[float]:
    """One process on the CPU, with the whole batch."""
    model, (x, y), found = made(name), data(name), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    for _ in range(STEPS):
        loss = cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    return found


def average(loss: Tensor) -> float:
    mean = loss.detach().clone()
    mean = mean.full_tensor() if hasattr(mean, "full_tensor") else mean
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    return mean.item()


def sgd(parameters: Iterable[nn.Parameter], **options: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.5, **options)


def loop(
    model: nn.Module,
    batch: tuple[Tensor, Tensor],
    optimizer: torch.optim.Optimizer | None = None,
    how: str = "eager",
) -> list[float]:
    optimizer = optimizer or sgd(model.parameters())

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    if how == "graph":
        with mode("graph"):
            return [average(step(*batch)) for _ in range(STEPS)]
    if how == "compiled":
        model.compile(backend="nntile")
    if how != "captured":
        return [average(step(*batch)) for _ in range(STEPS)]
    captured = torch_nntile.capture(step)  # of DDP not the first two: it arranges its buckets
    found = [average(step(*batch)) for _ in range(2)]
    found += [average(captured(*batch)) for _ in range(STEPS - 2)]
    assert not captured.why, captured.why  # the last one was a replay
    return found


@contextlib.contextmanager
def mode(name: str) -> Any:
    before = torch_nntile.runtime_mode()
    torch_nntile.modes.set_mode(torch_nntile.modes.number_of(name))
    try:
        yield
    finally:
        torch_nntile.modes.set_mode(torch_nntile.modes.number_of(before))


def program(name: str, model: str = "mlp") -> Callable[[Program], Program]:
    def register(function: Program) -> Program:
        PROGRAMS[name] = function, model
        return function

    return register


def ddp_of(model: str, how: str = "eager", **options: Any) -> list[float]:
    whole = nn.SyncBatchNorm.convert_sync_batchnorm(made(model))
    return loop(Ddp(whole.to(DEVICE), **options), own(model), how=how)


def sharded(model: str) -> nn.Module:
    from torch.distributed.fsdp import fully_shard

    whole = made(model).to(DEVICE)
    for part in whole:
        if any(True for _ in part.parameters()):
            fully_shard(part)
    return fully_shard(whole)


for _model in ("mlp", "gpt", "images"):
    for _how in ("eager", "graph", "captured", "compiled"):
        PROGRAMS[f"ddp {_model} {_how}"] = (
            (lambda model=_model, how=_how: ddp_of(model, how)),
            _model,
        )
        PROGRAMS[f"fsdp2 {_model} {_how}"] = (
            (lambda model=_model, how=_how: loop(sharded(model), own(model), how=how)),
            _model,
        )
# Its statistics select by a mask, which a captured step cannot.
for _how in ("eager", "graph"):
    PROGRAMS[f"sync batch norm {_how}"] = (lambda how=_how: ddp_of("batch norm", how)), "batch norm"
DDP_OPTIONS: dict[str, dict[str, Any]] = {
    "views": {"gradient_as_bucket_view": True},
    "static": {"static_graph": True},
    "unused": {"find_unused_parameters": True},
    "small buckets": {"bucket_cap_mb": 0.001},
    "device_ids": {"device_ids": [int(os.environ["LOCAL_RANK"])]},
}
for _name, _options in DDP_OPTIONS.items():
    PROGRAMS[f"ddp {_name}"] = (lambda options=_options: ddp_of("gpt", **options)), "gpt"


@program("ddp buffers captured", "images")
def buffers() -> list[float]:
    """The buffers of the first process are everybody's; a step makes a list of them anew."""
    model = made("images")
    model.register_buffer("shift", torch.full((1,), float(RANK)))
    model = Ddp(model.to(DEVICE))
    found = loop(model, own("images"), how="captured")
    assert model.module.shift.item() == 0
    return found


@program("ddp no_sync")
def no_sync() -> list[float]:
    """Gradients of two halves, of which the first stays here until the second is there."""
    model, (x, y), found = Ddp(made("mlp").to(DEVICE)), own("mlp"), []
    optimizer = sgd(model.parameters())
    for _ in range(STEPS):
        with model.no_sync():
            (cross_entropy(model(x[:4]), y[:4]) / 2).backward()
        (cross_entropy(model(x[4:]), y[4:]) / 2).backward()
        with torch.no_grad():
            loss = cross_entropy(model.module(x), y)
        optimizer.step()
        optimizer.zero_grad()
        found.append(average(loss))
    return found


@program("ddp hook")
def hook() -> list[float]:
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    model = Ddp(made("mlp").to(DEVICE))
    model.register_comm_hook(None, default_hooks.allreduce_hook)
    return loop(model, own("mlp"))


@program("ddp join")
def join() -> list[float]:
    """One process has more batches than the other; then both go on together."""
    from torch.distributed.algorithms.join import Join

    model, (x, y) = Ddp(made("mlp").to(DEVICE)), own("mlp")
    with Join([model]):
        for _ in range(1 + RANK):
            cross_entropy(model(x), y).backward()
    weight = next(model.parameters()).grad
    assert weight is not None
    assert weight.isfinite().all().item()
    return ddp_of("mlp")


@program("fsdp1")
def fsdp1() -> list[float]:
    from torch.distributed.fsdp import FullyShardedDataParallel

    model = made("mlp").to(DEVICE)
    whole = FullyShardedDataParallel(model, device_id=torch.device(DEVICE, 0), use_orig_params=True)
    return loop(whole, own("mlp"))


def dtensor(name: str, how: str) -> list[float]:
    """Replicated parameters, and a batch that is cut over processes."""
    from torch.distributed.tensor import (
        Shard,
        distribute_module,
        distribute_tensor,
        init_device_mesh,
    )

    mesh = init_device_mesh(DEVICE, (SIZE,))
    model = distribute_module(made(name).to(DEVICE), mesh)
    x, y = (distribute_tensor(t.to(DEVICE), mesh, [Shard(0)]) for t in data(name))
    return loop(model, (x, y), how=how)


TENSOR_PARALLEL = {
    "mlp": {"3": "columns", "5": "rows"},
    "gpt": {
        f"{k}.{part}": cut for k in (1, 2) for part, cut in (("up", "columns"), ("down", "rows"))
    },
    "head": {"0": "columns", "2": "rows"},
}


def tensor_parallel(name: str, how: str) -> list[float]:
    from torch.distributed.tensor import init_device_mesh
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    cuts = {"columns": ColwiseParallel, "rows": RowwiseParallel}
    plan = {part: cuts[cut]() for part, cut in TENSOR_PARALLEL[name].items()}
    model = made(name).to(DEVICE)
    parallelize_module(model, init_device_mesh(DEVICE, (SIZE,)), plan)
    x, y = (t.to(DEVICE) for t in data(name))
    return loop(model, (x, y), sgd(model.parameters(), foreach=False), how)


for _how in ("eager", "graph", "captured"):
    # Not of images: PyTorch gives each part of a group norm's gradient the whole batch's size.
    for _model in ("mlp", "gpt", "head"):
        PROGRAMS[f"dtensor {_model} {_how}"] = (
            (lambda model=_model, how=_how: dtensor(model, how)),
            _model,
        )
    for _model in TENSOR_PARALLEL:
        PROGRAMS[f"tensor parallel {_model} {_how}"] = (
            (lambda model=_model, how=_how: tensor_parallel(model, how)),
            _model,
        )


@program("pipeline")
def pipeline() -> list[float]:
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    if SIZE != 2:
        raise NotImplementedError("two stages")
    whole, (x, y), found = made("mlp"), data("mlp"), []
    part = (whole[:3], whole[3:])[RANK].to(DEVICE)
    stage = PipelineStage(part, RANK, SIZE, torch.device(DEVICE))
    schedule = ScheduleGPipe(stage, 4, loss_fn=cross_entropy)
    optimizer = sgd(part.parameters())
    for _ in range(STEPS):
        losses: list[Tensor] = []
        if RANK == 0:
            schedule.step(x.to(DEVICE))
        else:
            schedule.step(target=y.to(DEVICE), losses=losses)
        optimizer.step()
        optimizer.zero_grad()
        loss = torch.stack(losses).mean().detach() if RANK else torch.zeros((), device=DEVICE)
        dist.broadcast(loss, 1)
        found.append(loss.item())
    return found


@program("zero")
def zero() -> list[float]:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = Ddp(made("mlp").to(DEVICE))
    optimizer = ZeroRedundancyOptimizer(
        model.parameters(), optimizer_class=torch.optim.SGD, lr=0.1, momentum=0.5
    )
    return loop(model, own("mlp"), optimizer)


@program("checkpoint")
def checkpoint() -> list[float]:
    """Sharded parameters, written and read by all processes."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict

    folder = [tempfile.mkdtemp() if RANK == 0 else None]
    dist.broadcast_object_list(folder)
    dcp.save(get_model_state_dict(sharded("mlp")), checkpoint_id=folder[0])
    model = sharded("mlp")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    state = get_model_state_dict(model)
    dcp.load(state, checkpoint_id=folder[0])
    set_model_state_dict(model, state)
    return loop(model, own("mlp"))


@program("functional, compiled")
def functional() -> list[float]:
    from torch.distributed import _functional_collectives as collectives

    def mean(x: Tensor) -> Tensor:
        return collectives.all_reduce(x * 2, "sum", dist.group.WORLD) / (2 * SIZE)

    compiled = torch.compile(mean, backend="nntile", fullgraph=True)
    for k in range(2):
        x = torch.full((4,), float(RANK + k), device=DEVICE)
        assert torch.equal(compiled(x).cpu(), mean(x).cpu())
    return ddp_of("mlp")


@program("profile")
def profile() -> list[float]:
    model, (x, y) = Ddp(made("mlp").to(DEVICE)), own("mlp")
    found = loop(model, (x, y))
    with torch_nntile.profile() as seen:
        cross_entropy(model(x), y).backward()
    assert [t.op for t in seen.transfers] == ["all_reduce"]
    assert seen.transfers[0].worker == -1 and seen.transfers[0].bytes > 0
    assert "transfers: " in seen.summary() and "all_reduce" in torch_nntile.explain(summary=True)
    with tempfile.TemporaryDirectory() as folder:
        seen.save(Path(folder) / "trace.json")
        seen.html(Path(folder) / "page.html")
        trace = (Path(folder) / "trace.json").read_text()
        assert f"nntile, rank {RANK} of {SIZE}" in trace and '"transfers"' in trace
        assert '"transfers"' in (Path(folder) / "page.html").read_text()
    return found


def worst(found: list[float], wanted: list[float]) -> float:
    assert len(found) == len(wanted)
    return max(abs(a - b) for a, b in zip(found, wanted, strict=True))


def main(out: str, *names: str) -> None:
    warnings.simplefilter("ignore")
    torch_nntile.init_context(ncpu=1, memory=2**30)
    dist.init_process_group(timeout=datetime.timedelta(seconds=60))
    wanted = {name: reference(name) for name in MODELS}
    results: dict[str, Any] = {}
    for name in names or PROGRAMS:
        function, model = PROGRAMS[name]
        try:
            results[name] = worst(copy.copy(function()), wanted[model])
        except Exception:
            results[name] = traceback.format_exc()
        everyone: list[Any] = [None] * SIZE
        dist.all_gather_object(everyone, results[name])
        failed = [x for x in everyone if isinstance(x, str)]
        results[name] = failed[0] if failed else max(everyone)
    if RANK == 0:
        Path(out).write_text(json.dumps(results), encoding="utf-8")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
