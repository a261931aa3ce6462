# SPDX-License-Identifier: BSD-3-Clause
"""A budget of memory and a disk behind it: the same numbers, bit for bit, and what goes wrong."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import interpreter
import pytest
from emulated_devices import GPUS

PROGRAM = r"""
import json, sys
import torch, torch_nntile as nt

budget, swap, mode, name = sys.argv[1:]
torch.manual_seed(0)
limits = {"memory": budget, "swap": swap, "swap_size": "2GiB"} if swap else {}
nt.init_context(ncpu=2, **limits)


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(256, 256, batch_first=True)
        self.out = torch.nn.Linear(256, 256)

    def forward(self, x):
        return self.out(self.lstm(x)[0])


def made(name):
    if name == "deep":
        layers = [torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.GELU()) for _ in range(6)]
        return torch.nn.Sequential(*layers), (256, 512)
    if name == "transformer":
        layer = torch.nn.TransformerEncoderLayer(256, 4, 1024, 0.1, batch_first=True)
        return torch.nn.TransformerEncoder(layer, 3, enable_nested_tensor=False), (8, 64, 256)
    if name == "images":
        return torch.nn.Sequential(
            torch.nn.Conv2d(3, 32, 3, padding=1), torch.nn.BatchNorm2d(32), torch.nn.ReLU(),
            torch.nn.MaxPool2d(2), torch.nn.Conv2d(32, 64, 3, padding=1), torch.nn.ReLU(),
            torch.nn.Flatten(), torch.nn.Linear(64 * 16 * 16, 64)), (16, 3, 32, 32)
    return Recurrent(), (8, 32, 256)


model, shape = made(name)
model = model.to("nntile")
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)


def step(x):
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss


run = {"capture": nt.capture, "compile": lambda f: f}.get(mode, lambda f: f)(step)
if mode == "compile":
    model = torch.compile(model, backend="nntile")
if mode == "graph":
    nt.modes.set_mode(1)
draw = torch.Generator().manual_seed(3)
losses = []
for k in range(5):
    loss = run(torch.randn(shape, generator=draw).to("nntile"))
    if mode == "graph":
        nt.run_graph()
    losses.append(loss.item())
sums = [p.detach().cpu().double().sum().item() for p in model.parameters()]
stats = torch.nntile.memory_stats()
print(json.dumps({"losses": losses, "sums": sums, "evictions": stats["evictions"],
                  "read": stats["read_bytes"], "peak": stats["reserved_peak_bytes"]}))
"""


def run(*arguments, program=PROGRAM):
    ended = interpreter.run(program, *arguments, timeout=240)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return json.loads(ended.stdout.splitlines()[-1])


# In less a task does not fit and is cut, which changes last bits: one of recurrent's needs 9 MB.
MODELS = {"deep": 12, "transformer": 12, "images": 10, "recurrent": 10}
SHORT = [("deep", "eager"), ("deep", "capture"), ("images", "eager")]
LONG = [("deep", "graph"), ("deep", "compile"), ("images", "capture")]
LONG += [(name, mode) for name in ("transformer", "recurrent") for mode in ("eager", "capture")]
MODES = [*SHORT, *(pytest.param(*case, marks=pytest.mark.slow) for case in LONG)]


@pytest.mark.parametrize(("name", "mode"), MODES)
def test_a_budget_gives_the_same_bits(name, mode, tmp_path):
    free = run("", "", mode, name)
    small = run(f"{MODELS[name]}MiB", tmp_path, mode, name)
    assert small["evictions"] > 10
    assert small["read"] > 1 << 20
    assert (small["losses"], small["sums"]) == (free["losses"], free["sums"])
    assert small["peak"] <= (MODELS[name] + 4) << 20
    assert not list(tmp_path.iterdir())


# Much memory is free, but used by tasks in flight: the second half of a step is staged task by task
# while the first one, bound as a whole, still reads the same activations.
STAGED = r"""
import copy, json, torch
import torch_nntile as nt

nt.init_context(ncpu=1)
torch.manual_seed(0)
ours = torch.nn.Sequential(
    torch.nn.Conv2d(3, 64, 3, padding=1), torch.nn.ReLU(),
    torch.nn.Conv2d(64, 64, 3, padding=1), torch.nn.BatchNorm2d(64), torch.nn.ReLU(),
    torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(64, 10))
x = torch.randn(32, 3, 64, 64)
losses = []
for model, device in ((copy.deepcopy(ours), "cpu"), (ours, "nntile")):
    model = model.to(device)
    optimizer = torch.optim.Adam(model.parameters())
    batch = x.to(device)
    losses.append([])
    for _ in range(3):
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses[-1].append(loss.item())
print(json.dumps(losses))
"""


def test_a_staged_run_leaves_others_their_tiles():
    ours, theirs = run(program=STAGED)
    assert ours == pytest.approx(theirs, rel=1e-3)


# A batch in 16 blocks of rows, and layers whose results are six times the budget.
DEEP = r"""
import json, sys
import torch, torch_nntile as nt

nt.init_context(ncpu=2, memory="24MiB", swap=sys.argv[1], swap_size="1GiB")
torch.manual_seed(0)
layers = [torch.nn.Sequential(torch.nn.Linear(128, 128), torch.nn.ReLU()) for _ in range(12)]
model = torch.nn.Sequential(*layers).to("nntile")
x = torch.randn(8192, 128).to("nntile")
nt.set_axis_group_name(x, {0: "batch"})
nt.set_axis_group_tiling("batch", [512] * 16)
nt.modes.set_mode(1)
for _ in range(3):
    model.zero_grad()
    model(x).square().mean().backward()
    nt.run_graph()
nt.wait()
print(json.dumps(torch.nntile.memory_stats()["written_bytes"]))
"""


def test_a_deep_network_keeps_few_blocks_of_rows(tmp_path):
    assert run(tmp_path, program=DEEP) < 16 << 20


# A batch of which one layer's task needs more than the budget, a layer of four times the budget.
LARGE = r"""
import json, sys
import torch, torch_nntile as nt

budget, swap = sys.argv[1:]
nt.init_context(ncpu=2, **({"memory": budget, "swap": swap, "swap_size": "2GiB"} if swap else {}))
torch.manual_seed(0)
losses = []
for shape, hidden in (((12_000, 784), 64), ((64, 256), 4096)):
    model = torch.nn.Sequential(
        torch.nn.Linear(shape[1], hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 784)
    ).to("nntile")
    x = torch.randn(shape).to("nntile")
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(3):
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
stats = torch.nntile.memory_stats()
print(json.dumps({"losses": losses, "peak": stats["reserved_peak_bytes"]}))
"""


def test_tasks_larger_than_the_budget_are_cut(tmp_path):
    free = run("", "", program=LARGE)
    small = run("12MiB", tmp_path, program=LARGE)
    assert small["losses"] == pytest.approx(free["losses"], rel=1e-5)
    assert free["peak"] > 48 << 20
    assert small["peak"] <= 12.5 * (1 << 20)


IN_PLACE = r"""
import io, json, sys
import torch, torch_nntile as nt

nt.init_context(ncpu=2, memory="4MiB", swap=sys.argv[1], swap_size="1GiB")
x, i, s = torch.arange(750_000.0), torch.arange(20_000) * 37, torch.arange(20_000.0)
m, j, r = torch.arange(300 * 2500.0).view(300, 2500), torch.arange(40) * 7, torch.ones(40, 2500)


def calls(x, i, s, m, j, r):
    yield x.scatter_add(0, i, s), x.scatter_add(0, i, s * 2), x * 2
    yield x.scatter_reduce(0, i, s, "amin"), x.clone().index_put_((i,), s, accumulate=True)
    yield m.index_add(0, j, r), m.index_put((j,), r[0]), m.scatter_add(1, j[:, None].expand(r.shape), r)


host, ours = calls(x, i, s, m, j, r), calls(*(t.to("nntile") for t in (x, i, s, m, j, r)))
same = [torch.equal(b.cpu(), a) for many in zip(host, ours) for a, b in zip(*many)]
for mode in ("eager", "graph"):  # all bytes of a tensor, as a checkpoint has them
    nt.shutdown_context()
    nt.init_context(ncpu=2, memory="4MiB", swap=sys.argv[1], swap_size="1GiB", runtime_mode=mode)
    file = io.BytesIO()
    torch.save(x.to("nntile") * 2, file)
    file.seek(0)
    same.append(torch.equal(torch.load(file).cpu(), x * 2))
print(json.dumps(same))
"""


def test_a_dim_of_more_than_half_a_budget_is_written_in_place(tmp_path):
    assert run(tmp_path, program=IN_PLACE) == [True] * 10


TOO_LARGE = r"""
import json, sys
import torch, torch_nntile as nt

nt.init_context(ncpu=2, memory="16MiB", swap=sys.argv[1], swap_size="1GiB")
texts = []
x = torch.ones(4096, 1024).to("nntile")
nt.set_axis_group_name(x, {0: "rows", 1: "columns"})
nt.set_axis_group_tiling("rows", "whole")
nt.set_axis_group_tiling("columns", "whole")
for f in (lambda: x.exp(), lambda: torch.ones(3_000_000, device="nntile").sort()):
    try:
        print(f())
        raise SystemExit("it fits")
    except torch.OutOfMemoryError as error:
        texts.append(str(error))
nt.set_axis_group_tiling("rows", 512)
assert (x * 2).sum().item() == 2 << 22
print(json.dumps(texts))
"""


def test_what_cannot_be_cut_is_named(tmp_path):
    pinned, whole = run(tmp_path, program=TOO_LARGE)
    assert "a task of exp needs 32 MiB" in pinned
    assert "axis 'rows' cut into 4 of 1024 would fit" in pinned
    assert "a task of sort needs" in whole
    assert "no axis of it can be cut" in whole
    assert "<string>:" in whole


SEEN = r"""
import json, math, sys
import torch, torch_nntile as nt

nt.init_context(ncpu=2, memory="8MiB", swap=sys.argv[1], swap_size="1GiB")
layers = [torch.nn.Linear(512, 512) for _ in range(4)]
model = torch.nn.Sequential(*layers).to("nntile")
optimizer = torch.optim.Adam(model.parameters())


def step():
    model(torch.ones(64, 512, device="nntile")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


for _ in range(2):
    step()
nt.wait()  # a profile waits before it begins: what it does not see must not be counted
before = torch.nntile.memory_stats()
with nt.profile() as p:
    step()
after = torch.nntile.memory_stats()
bytes_of = {k: sum(m.bytes for m in p.moves if m.kind == k) for k in ("read", "write")}
for kind, counter in (("read", "read_bytes"), ("write", "written_bytes")):
    moved = after[counter] - before[counter]  # a transfer may begin before, or end after
    assert 0.5 * moved < bytes_of[kind] < 2 * moved, (kind, moved, bytes_of)
again = [m.again for m in p.moves if m.kind == "evict" and m.again < math.inf]
assert again and all(0 <= a < p.seconds for a in again)
assert any(m.line.startswith("<string>:") for m in p.moves if m.kind == "read")
p.save(sys.argv[1] + "/trace.json")
events = json.load(open(sys.argv[1] + "/trace.json"))["traceEvents"]
assert sum(e.get("cat") == "disk" for e in events) == len(p.moves)
assert "Between memory and the disk" in p._repr_html_()
print(json.dumps([p.summary(), nt.explain(why=True)]))
"""


def test_a_profile_shows_what_moved(tmp_path):
    for text in run(tmp_path, program=SEEN):
        assert "f32 (512, 512): " in text
        assert "used again in " in text


FULL = r"""
import json, sys
import torch, torch_nntile as nt

nt.init_context(ncpu=2, memory="8MiB", swap=sys.argv[1], swap_size="16MiB")
held = []
try:
    for k in range(100):
        x = torch.full((1 << 18,), float(k), device="nntile")
        nt.wait()
        held.append(x)
    raise SystemExit("it all fits")
except torch.OutOfMemoryError as error:
    text = str(error)
del x
assert len(held) >= 20, len(held)
assert all(x[7].item() == k for k, x in enumerate(held)), "what was there has changed"
del held[4:]
y = torch.stack(held).sum(0)
assert y[3].item() == 6
nt.shutdown_context()
try:
    held[0][0].item()
    raise SystemExit("data of a context that has ended")
except RuntimeError:
    pass
nt.init_context(ncpu=2, memory="8MiB", swap=sys.argv[1], swap_size="16MiB")
assert torch.ones(1 << 20, device="nntile").sum().item() == 1 << 20
print(json.dumps(text))
"""


def test_a_full_disk_is_one_error(tmp_path):
    text = run(tmp_path, program=FULL)
    assert "out of memory" in text
    assert "on the disk" in text


SHUT = r"""
import json, sys
import torch, torch_nntile as nt

for _ in range(20):  # while data is on its way to the disk
    nt.init_context(ncpu=2, memory="8MiB", swap=sys.argv[1], swap_size="1GiB")
    held = [torch.full((1 << 19,), float(k), device="nntile") for k in range(12)]
    nt.shutdown_context()
print(json.dumps(True))
"""


def test_a_shutdown_waits_for_the_disk(tmp_path):
    assert run(tmp_path, program=SHUT)
    assert not list(tmp_path.iterdir())


KILLED = r"""
import sys
import torch, torch_nntile as nt

nt.init_context(ncpu=2, memory="8MiB", swap=sys.argv[1], swap_size="1GiB")
held = [torch.full((1 << 19,), float(k), device="nntile") for k in range(32)]
nt.wait()
print("ready", flush=True)
while True:
    for x in held:
        x.add_(1)
"""


def test_nothing_is_left_of_a_killed_process(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, tmp_path], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"ready\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGKILL)
    assert not list(tmp_path.iterdir())


# Two programs in one folder, which is gone while they run: each has a file without a name.
SHARED = r"""
import json, os, sys
import torch, torch_nntile as nt

folder, count = sys.argv[1:]
nt.init_context(ncpu=2, memory="8MiB", swap=folder, swap_size="1GiB")
held = [torch.full((1 << 19,), float(k), device="nntile") for k in range(16)]
nt.wait()
print("ready", flush=True)
sys.stdin.readline()  # the folder is removed before this line comes
for _ in range(3):
    for x in held:
        x.add_(int(count))
found = [x[5].item() for x in held]
nt.shutdown_context()
try:
    nt.init_context(ncpu=2, memory="8MiB", swap=folder)
    raise SystemExit("a folder that is not there")
except ValueError as error:
    print(json.dumps([found, str(error)]))
"""


def test_programs_share_a_folder_that_is_removed(tmp_path):
    folder = tmp_path / "swap"
    folder.mkdir()
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", SHARED, folder, str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for count in (1, 100)
    ]
    assert [program.stdout.readline() for program in programs] == ["ready\n"] * 2
    folder.rmdir()  # and it has nothing in it
    for count, program in zip((1, 100), programs, strict=True):
        found, text = json.loads(program.communicate("go\n")[0])
        assert found == [k + 3.0 * count for k in range(16)]
        assert str(folder) in text


# Private memory in use beside the account, before a model and while one trains within a budget.
ACCOUNT = r"""
import json, sys
import cffi, torch, torch_nntile as nt

ffi = cffi.FFI()
ffi.cdef("int malloc_trim(size_t);")
c_library = ffi.dlopen(None)

def resident():
    c_library.malloc_trim(0)  # what the C library keeps differs from run to run
    for line in open("/proc/self/smaps_rollup"):
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) << 10

budget = sys.argv[1]
nt.init_context(ncpu=2, memory=budget, swap=sys.argv[2], swap_size="2GiB")
torch.manual_seed(0)

def trained(width, steps):
    layers = [torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.GELU()) for _ in range(6)]
    model = torch.nn.Sequential(*layers).to("nntile")
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        model(torch.ones(256, width, device="nntile")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    nt.wait()
    return model, optimizer

trained(64, 3)
torch.nntile.empty_cache()
before = resident() - torch.nntile.memory_stats()["tile_bytes"]
held = trained(1024, 4)
account = torch.nntile.memory_stats()
print(json.dumps([resident() - before, account["tile_bytes"], account["evictions"]]))
"""


@pytest.mark.parametrize(("budget", "spills"), [("64MiB", True), ("1GiB", False)])
def test_the_account_is_that_of_the_system(budget, spills, tmp_path):
    resident, account, evictions = run(budget, tmp_path, program=ACCOUNT)
    assert (evictions > 0) == spills
    plans = 4 << 20  # and what PyTorch keeps
    least = 0 if GPUS else 0.95 * account  # nobody touches what only a GPU has written
    assert least <= resident <= 1.05 * account + plans


FORKED = r"""
import json, os, sys
import torch, torch_nntile as nt

nt.init_context(ncpu=2, memory="8MiB", swap=sys.argv[1], swap_size="1GiB")
held = [torch.full((1 << 19,), float(k), device="nntile") for k in range(16)]
nt.wait()
child = os.fork()
if child == 0:
    try:
        held[0][0].item()
    except RuntimeError:
        os._exit(0)
    os._exit(1)
status = os.waitpid(child, 0)[1]
print(json.dumps([status, [x[5].item() for x in held]]))
"""


def test_a_fork_leaves_the_disk_to_its_parent(tmp_path):
    assert run(tmp_path, program=FORKED) == [0, [float(k) for k in range(16)]]


FAILING = r"""
import json, os, sys
import torch, torch_nntile as nt

nt.init_context(ncpu=2, memory="8MiB", swap=sys.argv[1], swap_size="1GiB")
held = [torch.full((1 << 19,), float(k), device="nntile") for k in range(16)]
nt.wait()
files = [int(fd) for fd in os.listdir("/proc/self/fd")
         if os.path.exists(f"/proc/self/fd/{fd}") or os.path.islink(f"/proc/self/fd/{fd}")]
ours = [fd for fd in files if sys.argv[1] in os.readlink(f"/proc/self/fd/{fd}")]
assert ours
for fd in ours:
    os.dup2(os.open("/", os.O_RDONLY), fd)  # neither read nor written
good, errors = 0, []
for k, x in enumerate(held):
    try:
        assert x[5].item() == k
        good += 1
    except torch.OutOfMemoryError as error:
        errors.append(str(error))
    except RuntimeError as error:
        errors.append(str(error))
held.clear()
assert torch.ones(1 << 19, device="nntile").sum().item() == 1 << 19
print(json.dumps([good, errors]))
"""


def test_a_failing_disk_costs_what_was_there(tmp_path):
    good, errors = run(tmp_path, program=FAILING)
    assert good >= 2
    assert errors
    assert any(str(tmp_path) in text for text in errors), errors[0]
