# SPDX-License-Identifier: BSD-3-Clause
"""Cores and GPUs as workers of one runtime. `make test-cuda` runs it on emulated devices,
tests/gpu/first_run.sh on a GPU."""

from __future__ import annotations

import copy
import json
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import interpreter
import pytest
import torch
from emulated_devices import COUNTED, alone, emulated
from stock_models import family, loss_of, moved
from torch import Tensor, nn

import torch_nntile

pytestmark = pytest.mark.skipif(
    os.environ.get("STARPU_NCUDA", "0") == "0", reason="no CUDA workers: make test-cuda"
)


@pytest.fixture(autouse=True)
def _runtime(runtime: None) -> Iterator[None]:
    yield
    torch_nntile.restrict_workers("any")


def device_tasks() -> int:
    torch_nntile.wait()
    return torch.nntile.memory_stats()["device_tasks"]


def mlp() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Linear(20, 32), nn.GELU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 5)
    )


def losses(device: str, optimizer: str, steps: int = 6) -> list[float]:
    model = mlp().to(device)
    x, y = torch.randn(30, 20).to(device), torch.randn(30, 5).to(device)
    opt = getattr(torch.optim, optimizer)(model.parameters(), lr=1e-2)
    found = []
    for _ in range(steps):
        opt.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        opt.step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdamW"])
def test_mlp_trains_as_on_cpu(optimizer: str) -> None:
    before = device_tasks()
    got = losses("nntile", optimizer)
    assert device_tasks() - before > 6 * 10
    torch.testing.assert_close(torch.tensor(got), torch.tensor(losses("cpu", optimizer)))


def test_restricted_to_cores_nothing_runs_on_devices() -> None:
    torch_nntile.restrict_workers("cpu")
    before = device_tasks()
    on_cores = losses("nntile", "SGD")
    assert device_tasks() == before
    torch_nntile.restrict_workers("any")
    torch.testing.assert_close(torch.tensor(losses("nntile", "SGD")), torch.tensor(on_cores))
    assert device_tasks() > before


def test_results_of_devices_are_read_and_written_by_the_host() -> None:
    x = torch.arange(1000.0).to("nntile")
    y = x * 2 + 1
    assert torch.equal(y.cpu(), torch.arange(1000.0) * 2 + 1)
    y.copy_(torch.ones(1000))  # the copy that a device has is old now
    assert torch.equal((y + x).cpu(), torch.arange(1000.0) + 1)


def test_tasks_that_a_device_does_not_take_run_on_cores_between_others() -> None:
    x = torch.randn(200, 100)

    def step(t: Tensor) -> Tensor:
        return (torch.topk((t * 2).flatten(), 300).values.cumsum(0) + 1).relu()

    before = device_tasks()
    torch.testing.assert_close(step(x.to("nntile")).cpu(), step(x))
    assert device_tasks() > before


def test_a_profile_names_devices_after_cores() -> None:
    x = torch.randn(20000).to("nntile")
    with torch_nntile.profile() as p:
        (torch.topk(x * 2, 300).values + 1).sum().item()
    gpus = [name for name in p.worker_names if name.startswith("GPU")]
    cores = p.worker_names[: -len(gpus)]
    assert gpus == [f"GPU {k}" for k in range(int(os.environ["STARPU_NCUDA"]))]
    assert cores == [f"worker {k}" for k in range(len(cores))]
    ran = {task.kernel: p.worker_names[task.worker] for task in p.tasks}
    assert ran["map"] in gpus
    assert ran["topk"] in cores


@pytest.mark.parametrize(
    "name", ["lstm", "gru", "elman", "dlrm", "unet", "vae", "mixtral", "swin", "longformer"]
)
def test_no_task_of_a_training_step_runs_on_cores(name: str) -> None:
    found = family(name)
    torch.manual_seed(0)
    model, inputs = found.build().to("nntile"), moved(found.inputs(), "nntile")
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(2):
        with torch_nntile.profile() as p:
            loss_of(model, inputs).backward()
            optimizer.step()
            optimizer.zero_grad()
    assert kernels_on_cores(p) == []
    assert p.tasks


def kernels_on_cores(p: torch_nntile.profile) -> list[str]:
    return [t.kernel for t in p.tasks if not p.worker_names[t.worker].startswith("GPU")]


def sampled(logits: Tensor, k: int, share: float) -> tuple[Tensor, Tensor]:
    """Chances and places of what may be drawn: the k best of each row, and of these the best that
    have a share together."""
    least = torch.topk(logits, k).values[:, -1:]
    values, places = logits.masked_fill(logits < least, -torch.inf).sort(
        descending=True, stable=True
    )
    chances = values.softmax(-1)
    left_out = chances.cumsum(-1) - chances > share
    return chances.masked_fill(left_out, 0), places


def test_no_task_of_sampling_runs_on_cores() -> None:
    torch.manual_seed(0)
    logits = torch.randn(2, 32000).bfloat16().float()  # many equals
    there = logits.to("nntile")
    with torch_nntile.profile() as p:
        chances, places = sampled(there, 50, 0.9)
        tokens = places.gather(1, torch.multinomial(chances, 1))
        by_word = torch.zeros_like(there).scatter(1, places, chances)
        torch_nntile.wait()
    assert kernels_on_cores(p) == []
    want, order = sampled(logits, 50, 0.9)
    torch.testing.assert_close((chances.cpu(), places.cpu()), (want, order))
    torch.testing.assert_close(by_word.cpu(), torch.zeros_like(logits).scatter(1, order, want))
    assert bool((by_word.cpu().gather(1, tokens.cpu()) > 0).all())
    for k in (50, 2000):  # of equals the same ones
        for got, wanted in zip(torch.topk(there, k), torch.topk(logits, k), strict=True):
            assert torch.equal(got.cpu(), wanted)


class SpatialTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.where = nn.Sequential(nn.Flatten(), nn.Linear(144, 8), nn.Tanh(), nn.Linear(8, 6))
        nn.init.normal_(self.where[-1].weight, std=0.1)
        self.where[-1].bias.data = torch.tensor([1.0, 0, 0, 0, 1, 0])
        self.out = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(400, 5))

    def forward(self, x: Tensor) -> Tensor:
        grid = nn.functional.affine_grid(self.where(x).view(-1, 2, 3), list(x.shape), False)
        found: Tensor = self.out(nn.functional.grid_sample(x, grid, align_corners=False))
        return found


def test_no_task_of_a_spatial_transformer_runs_on_cores() -> None:
    torch.manual_seed(0)
    model, x, y = SpatialTransformer(), torch.randn(3, 1, 12, 12), torch.arange(3)
    there, grads = copy.deepcopy(model).to("nntile"), []
    data, labels = x.to("nntile").requires_grad_(), y.to("nntile")
    for _ in range(3):
        there.zero_grad()
        data.grad = None
        with torch_nntile.profile() as p:
            nn.functional.cross_entropy(there(data), labels).backward()
            torch_nntile.wait()
        assert kernels_on_cores(p) == []
        assert data.grad is not None
        grads.append([g.cpu() for g in (data.grad, there.where[1].weight.grad)])
    x.requires_grad_()
    nn.functional.cross_entropy(model(x), y).backward()
    torch.testing.assert_close(grads[0], [x.grad, model.where[1].weight.grad])
    for again in grads[1:]:  # the same bits
        assert all(torch.equal(a, b) for a, b in zip(again, grads[0], strict=True))


def test_the_same_bits_each_time() -> None:
    x = torch.randn(64, 64).to("nntile")
    first = torch.nn.functional.gelu(x @ x).sum(0).cpu()
    for _ in range(3):
        assert torch.equal(torch.nn.functional.gelu(x @ x).sum(0).cpu(), first)


def test_an_error_on_a_device_names_op_and_line() -> None:
    a, b = torch.arange(5).to("nntile"), torch.tensor([1, 2, 0, 3, 4]).to("nntile")
    before = device_tasks()
    y = torch.div(a, b, rounding_mode="floor")
    with pytest.raises(RuntimeError, match=r"ZeroDivisionError \[.*test_workers.py:\d+\]"):
        y.cpu()
    assert device_tasks() > before
    with pytest.raises(RuntimeError, match="never computed"):
        y.cpu()
    assert torch.equal((a + 1).cpu(), torch.arange(5) + 1)  # others go on


def test_tiles_of_megabytes() -> None:
    x = torch.randn(1024, 1024)
    assert torch.equal((x.to("nntile") * 2).cpu(), x * 2)


def test_more_than_pool_and_device_hold() -> None:
    keep = [torch.full((50_000,), float(i)).to("nntile") for i in range(20)]
    sums = [(t * 2).sum() for t in keep]
    torch.nntile.empty_cache()  # blocks go back, and with them what devices hold
    again = [torch.full((70_000,), float(i)).to("nntile").sum() for i in range(20)]
    for i, (one, other) in enumerate(zip(sums, again, strict=True)):
        assert one.item() == 100_000.0 * i
        assert other.item() == 70_000.0 * i


def test_handles_serve_tiles_of_other_sizes() -> None:
    for count, size in ((60, 400_000), (20, 1_300_000), (60, 400_000)):
        pieces = [torch.full((size,), float(i)).to("nntile") * 2 for i in range(count)]
        for i, piece in enumerate(pieces):
            assert piece.sum().item() == pytest.approx(2.0 * i * size, rel=1e-6)


def start(arguments: str, **environment: str) -> str:
    """The last line of what a program says that asks for such workers, and ends by it."""
    code = f"import torch_nntile; torch_nntile.init_context(ncpu=1, {arguments})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parent,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stderr.strip().splitlines()[-1]


def test_more_workers_than_devices() -> None:
    found = os.environ.get("EMULATION_DEVICES", "1")
    assert f"7 CUDA workers are asked for, but there are {found} GPUs" in start("ncuda=7")


def test_the_worker_of_a_gpu_without_work_hardly_wakes_up() -> None:
    model = mlp().to("nntile")
    model(torch.ones(30, 20, device="nntile")).sum().item()
    time.sleep(0.2)  # it naps for a hundredth of that now, by and by for a millisecond
    before = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
    time.sleep(1)
    woken = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - before
    assert woken < 1500 * int(os.environ["STARPU_NCUDA"])


@emulated
def test_no_device() -> None:
    assert "2 CUDA workers are asked for, but there are 0 GPUs" in start(
        "ncuda=2", EMULATION_DEVICES="0"
    )


@emulated
def test_driver_that_is_too_old() -> None:
    said = start("ncuda=1", EMULATION_FAIL="cudaGetDeviceCount:1:35")
    assert "this build needs one of CUDA 13.0 (580) or newer" in said


@emulated
def test_no_memory_is_left() -> None:
    """A worker that cannot allocate waits for others, and there are none."""
    said = start("ncuda=1", EMULATION_MEMORY_MB="60")
    assert "of GPU 0 only 60 of 60 MiB are free, and a worker needs 81" in said


@emulated
def test_no_libraries() -> None:
    said = start("ncuda=1", LD_LIBRARY_PATH="")
    assert "CUDA's libraries cannot be loaded: libcu" in said


DEEP = """
import json, sys
import torch, torch_nntile
from torch import nn

torch_nntile.init_context(ncpu=1, **json.loads(sys.argv[1]))
torch.manual_seed(0)
blocks = [nn.Sequential(nn.Linear(512, 512), nn.GELU()) for _ in range(6)]
model = nn.Sequential(*blocks).to("nntile")
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
x = torch.randn(256, 512).to("nntile")
losses = []
for _ in range(4):
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item())
bits = [p.detach().cpu().view(torch.int32).sum().item() for p in model.parameters()]
stats = torch.nntile.memory_stats()
print(json.dumps([losses, bits, stats["written_bytes"], stats["device_tasks"]]))
"""


def test_a_disk_behind_main_memory(tmp_path: Path) -> None:
    """What leaves main memory may be newest on a device."""

    def run(**limits: str) -> list[Any]:
        done = interpreter.run(DEEP, json.dumps(limits), timeout=240)
        assert done.returncode == 0, done.stderr[-3000:]
        found: list[Any] = json.loads(done.stdout)
        return found

    losses, bits, written, tasks = run()
    assert written == 0 < tasks
    limited = run(memory="12MiB", swap=str(tmp_path), swap_size="2GiB")
    assert limited[:2] == [losses, bits]
    assert limited[2] > 0 < limited[3]


CUTS = """
import torch, torch_nntile

for gpus in (1, 0):
    torch_nntile.init_context(ncpu=2, ncuda=gpus)
    line, = (line for line in torch_nntile.cost_text().splitlines() if "cuts are" in line)
    x, tasks = torch.randn(2048, 2048).to("nntile"), torch_nntile.stats().tasks
    (x.exp() * 2).exp().sum().item()
    print(line.split()[2], torch_nntile.stats().tasks - tasks)
    del x
    torch_nntile.shutdown_context()
"""


def test_automatic_cuts_are_weighed_by_what_a_gpu_gains() -> None:
    (gpus, tasks), (cores, _) = (line.split() for line in alone(CUTS).splitlines())
    assert gpus == "1"
    assert int(tasks) <= 3
    assert int(cores) == len(os.sched_getaffinity(0))


SUM = """
import torch, torch_nntile

torch_nntile.init_context(ncpu=1, ncuda=1)
print(torch.ones(8).to("nntile").sum().item())
"""


@emulated
def test_memory_of_devices_that_the_user_names_is_not_looked_at() -> None:
    fails = {"EMULATION_FAIL": "cudaMemGetInfo:1:2"}
    assert alone(SUM, STARPU_WORKERS_CUDAID="0", **fails).split() == ["8.0"]
    assert "GPU 0 cannot be used: out of memory" in start("ncuda=1", **fails)


STEPS = """
import sys
from stock_models import family, loss_of, moved

torch_nntile.init_context(ncpu=1, ncuda=1)
found = family(sys.argv[1])
torch.manual_seed(0)
model, inputs = found.build().to("nntile"), found.inputs()
optimizer = torch.optim.Adam(model.parameters())


def step():
    optimizer.zero_grad()
    loss = loss_of(model, moved(inputs, "nntile"))
    loss.backward()
    optimizer.step()
    return loss.item()


for _ in range(3):
    step()
before, tasks = counts(), torch.nntile.memory_stats()["device_tasks"]
for _ in range(4):
    step()
after = counts()
tasks = torch.nntile.memory_stats()["device_tasks"] - tasks
print(before.bytes_to, after.bytes_to - before.bytes_to, after.bytes_from - before.bytes_from)
print(after.pageable - before.pageable, after.launches - before.launches, tasks)
"""


def bytes_in(value: Any) -> int:
    """Of the tensors of a batch."""
    if isinstance(value, Tensor):
        return value.nbytes
    parts = value.values() if isinstance(value, dict) else value
    return sum(map(bytes_in, parts)) if isinstance(value, dict | list | tuple) else 0


@emulated
@pytest.mark.parametrize("name", ["gpt2", "llama", "resnet", "vit", "mlp_mixer", "lstm"])
def test_a_step_moves_its_batch_there_and_its_loss_back(name: str) -> None:
    paths = os.pathsep.join(sys.path)
    first, moved_there, moved_back, pageable, launches, tasks = map(
        int, alone(COUNTED + STEPS, name, PYTHONPATH=paths).split()[-6:]
    )
    batch = bytes_in(family(name).inputs())
    model = family(name).build()
    parameters = bytes_in([*model.parameters(), *model.buffers()])
    assert first <= (parameters + 3 * batch) * 1.05
    assert moved_there <= 4 * batch * 1.05
    # The loss, and a word of 40 bytes of each kernel that may refuse its data.
    assert moved_back <= 4 * (64 + 40 * 12)
    assert pageable == 0  # main memory is pinned
    assert launches <= 1.5 * tasks  # one of a recurrent layer is a few kernels


LAUNCHES = """
from sized_models import MODELS, texts

torch_nntile.init_context(ncpu=1)
torch.manual_seed(0)
model = MODELS["gpt2"].build().to("nntile")
batch = {k: x.to("nntile") for k, x in texts(2, 8)(torch.Generator().manual_seed(0)).items()}
optimizer = torch.optim.AdamW(model.parameters())


@torch_nntile.capture
def step():
    optimizer.zero_grad()
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    return loss


for _ in range(3):
    step()
before, tasks = counts().launches, torch_nntile.stats().tasks
step()
print(counts().launches - before, torch_nntile.stats().tasks - tasks)
"""


@emulated
def test_a_captured_gpt2_launches_hardly_more_kernels_than_cores_run_tasks() -> None:
    paths = os.pathsep.join([*sys.path, str(Path(__file__).parents[1] / "bench")])
    program = COUNTED + LAUNCHES
    launches, _ = map(int, alone(program, PYTHONPATH=paths, STARPU_NCUDA="1").split())
    _, tasks = map(int, alone(program, PYTHONPATH=paths, STARPU_NCUDA="0").split())
    assert 0 < launches <= 1.2 * tasks


OF_ITS_KERNELS = """
import re
import sys

import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

import torch_nntile as nt

width, layers, heads, words = map(int, sys.argv[1:])
nt.init_context(ncpu=1, ncuda=1)
with nt.estimate_only():
    config = GPT2Config(n_embd=width, n_layer=layers, n_head=heads, vocab_size=words, use_cache=False)
    model = GPT2LMHeadModel(config).to("nntile")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step():
        x = torch.zeros(8, 512, dtype=torch.long, device="nntile")
        mask = torch.ones(1, 1, 512, 512, dtype=torch.bool, device="nntile").tril()
        logits = model(input_ids=x, attention_mask=mask).logits
        nn.functional.cross_entropy(logits.flatten(0, 1), x.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()

    estimate = nt.estimate(step, workers=1)
start = float(re.search("task_seconds = (.*)", nt.cost_text())[1].split()[0])
print(estimate.seconds / (estimate.work_seconds - estimate.tasks * start), estimate.seconds)
"""


@emulated
@pytest.mark.parametrize("architecture", ["80", "90"])
def test_an_estimated_step_of_gpt2_is_little_more_than_its_kernels(architecture: str) -> None:
    """With the constants of an A100 or an H200, and memory for all: nothing is cut."""
    found = alone(
        OF_ITS_KERNELS,
        *["768", "12", "12", "50304"],
        STARPU_NCUDA="1",
        EMULATION_ARCHITECTURE=architecture,
        EMULATION_MEMORY_MB="120000",
    )
    ratio, seconds = map(float, found.split())
    assert 1 < ratio <= 1.15
    assert (seconds > 0.2) == (architecture == "80")


CHAINS = """
torch_nntile.init_context(ncpu=1, ncuda=2)
w = (torch.randn(128, 128) / 12).to("nntile")
chains = [torch.randn(128, 128).to("nntile") for _ in range(2)]


def steps(count):
    for _ in range(count):
        for k in range(2):
            chains[k] = chains[k] @ w


steps(3)
before = counts()
steps(30)
print(counts().copies_between - before.copies_between)
"""


@emulated
def test_a_gpu_takes_tasks_whose_data_it_has() -> None:
    assert int(alone(COUNTED + CHAINS, EMULATION_DEVICES="2", STARPU_NCUDA="2")) <= 2


CODE = """
import torch, torch_nntile
from torch_nntile import stubs

torch_nntile.init_context(ncpu=1, ncuda=1)
torch.manual_seed(0)
x, y = torch.randn(40, 60), torch.randn(60).bfloat16()


def chain(x, y):
    z = torch.nn.functional.gelu(x * 2 + y)
    return (z.t() / (x.t().abs() + 1)).exp(), z.bfloat16() * 3 + y


for got, want in zip(chain(x.to("nntile"), y.to("nntile")), chain(x, y)):
    torch.testing.assert_close(got.cpu(), want)
core = stubs.core()
print(core.ffi.string(core.lib.nntile_context_describe()).decode())
"""


@emulated
def test_programs_have_code_of_their_own() -> None:
    here = os.environ["LD_LIBRARY_PATH"]
    there = f"{here}{os.pathsep}{here}/nvrtc"
    text = alone(CODE, NNTILE_GPU_CODE="first", LD_LIBRARY_PATH=there)
    assert re.search(r"NVRTC 13.0, [1-9]\d* kernels", text), text
    assert "failed" not in text, text
    text = alone(CODE, NNTILE_GPU_CODE="0", LD_LIBRARY_PATH=there)
    assert "NNTILE_GPU_CODE=0" in text, text
