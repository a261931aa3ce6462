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
        nt.run()
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


MODELS = {"deep": 12, "transformer": 12, "images": 10, "recurrent": 6}
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
