# SPDX-License-Identifier: BSD-3-Clause
"""Programs of many small calls and reads, as PyTorch's examples are: time and memory beside the CPU.

Each runs in a process of its own: `python -m bench.programs regression --device=nntile`.
A program is a generator: what it yields are the numbers that a user looks at, read as they come.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Categorical
from torch.nn import functional

TESTS = Path(__file__).resolve().parents[1]
Program = Iterator[float]


def regression(device: str) -> Program:
    """A polynomial of degree 4, plain gradient descent by hand, the loss read at each step."""
    degree, batch = 4, 32
    target = torch.randn(degree, 1).to(device) * 5
    offset = torch.randn(1).to(device) * 5
    layer = nn.Linear(degree, 1).to(device)
    while True:
        x = torch.randn(batch).to(device).unsqueeze(1)
        x = torch.cat([x**i for i in range(1, degree + 1)], 1)
        y = x.mm(target) + offset.item()
        layer.zero_grad()
        output = functional.smooth_l1_loss(layer(x), y)
        loss = output.item()
        output.backward()
        for parameter in layer.parameters():
            parameter.data.add_(-0.1 * parameter.grad)
        yield loss


class CartPole:
    """A pole on a cart: the usual equations, Euler steps."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def reset(self) -> list[float]:
        self.state = [self.random.uniform(-0.05, 0.05) for _ in range(4)]
        return self.state

    def step(self, action: int) -> tuple[list[float], bool]:
        x, speed, angle, turn = self.state
        force = 10.0 if action else -10.0
        push = (force + 0.05 * turn * turn * math.sin(angle)) / 1.1
        bend = (9.8 * math.sin(angle) - math.cos(angle) * push) / (
            0.5 * (4 / 3 - 0.1 * math.cos(angle) ** 2 / 1.1)
        )
        pull = push - 0.05 * bend * math.cos(angle) / 1.1
        self.state = [
            x + 0.02 * speed,
            speed + 0.02 * pull,
            angle + 0.02 * turn,
            turn + 0.02 * bend,
        ]
        return self.state, abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.21


class ActorCritic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.affine = nn.Linear(4, 128)
        self.action = nn.Linear(128, 2)
        self.value = nn.Linear(128, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = functional.relu(self.affine(x))
        return functional.softmax(self.action(x), dim=-1), self.value(x)


def reinforcement(device: str) -> Program:
    """Actor and critic balance a pole: an action drawn and read at each step, then an update."""
    game, model = CartPole(1), ActorCritic().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)
    while True:
        state, saved = game.reset(), []
        for _ in range(50):
            probabilities, value = model(torch.tensor(state).to(device))
            drawn = Categorical(probabilities)
            action = drawn.sample()
            saved.append((drawn.log_prob(action), value))
            state, over = game.step(int(action.item()))
            if over:
                state = game.reset()
            yield 1.0
        total, returns = 0.0, []
        for _ in saved:
            total = 1 + 0.99 * total
            returns.insert(0, total)
        wanted = torch.tensor(returns)
        wanted = (wanted - wanted.mean()) / (wanted.std() + 1e-6)
        policy, values = [], []
        for (log_prob, value), want in zip(saved, wanted, strict=True):
            policy.append(-log_prob * (want - value.item()))
            values.append(functional.smooth_l1_loss(value, torch.tensor([want]).to(device)))
        optimizer.zero_grad()
        loss = torch.stack(policy).sum() + torch.stack(values).sum()
        loss.backward()
        optimizer.step()
        yield loss.item()


class Sequence(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LSTMCell(1, 51), nn.LSTMCell(51, 51)
        self.linear = nn.Linear(51, 1)

    def forward(self, series: Tensor) -> Tensor:
        h1, c1, h2, c2 = (
            torch.zeros(len(series), 51, dtype=torch.double, device=series.device) for _ in range(4)
        )
        outputs = []
        for column in series.split(1, dim=1):
            h1, c1 = self.first(column, (h1, c1))
            h2, c2 = self.second(h1, (h2, c2))
            outputs.append(self.linear(h2))
        return torch.cat(outputs, dim=1)


def sequence(device: str, length: int = 100) -> Program:
    """Cells of LSTMs in a loop over time, float64, LBFGS with a closure that reads the loss."""
    period, rows = 20, 97
    start = torch.randint(-4 * period, 4 * period, (rows, 1))
    data = torch.sin((torch.arange(length + 1) + start) / period).double().to(device)
    model = Sequence().double().to(device)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.8, max_iter=1)
    criterion = nn.MSELoss()
    losses = []

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = criterion(model(data[:, :-1]), data[:, 1:])
        losses.append(loss.item())
        loss.backward()
        return loss

    while True:
        optimizer.step(closure)
        yield losses[-1]


class Attention(nn.Module):
    """A layer of graph attention over a dense adjacency, heads in parallel."""

    def __init__(self, inputs: int, outputs: int, heads: int, concat: bool) -> None:
        super().__init__()
        self.heads, self.concat = heads, concat
        self.hidden = outputs // heads if concat else outputs
        self.w = nn.Parameter(torch.empty(inputs, self.hidden * heads))
        self.a = nn.Parameter(torch.empty(heads, 2 * self.hidden, 1))
        nn.init.xavier_normal_(self.w)
        nn.init.xavier_normal_(self.a)

    def forward(self, h: Tensor, adjacent: Tensor) -> Tensor:
        count = h.shape[0]
        h = functional.dropout(torch.mm(h, self.w), 0.6, self.training)
        h = h.view(count, self.heads, self.hidden).permute(1, 0, 2)
        source = torch.matmul(h, self.a[:, : self.hidden, :])
        target = torch.matmul(h, self.a[:, self.hidden :, :])
        scores = functional.leaky_relu(source + target.mT, 0.2)
        scores = torch.where(adjacent > 0, scores, -9e16 * torch.ones_like(scores))
        weights = functional.dropout(torch.softmax(scores, dim=-1), 0.6, self.training)
        out = torch.matmul(weights, h)
        if self.concat:
            return out.permute(1, 0, 2).contiguous().view(count, self.hidden * self.heads)
        return out.mean(dim=0)


class GAT(nn.Module):
    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.first = Attention(inputs, 64, 8, concat=True)
        self.second = Attention(64, classes, 1, concat=False)

    def forward(self, x: Tensor, adjacent: Tensor) -> Tensor:
        x = functional.elu(self.first(x, adjacent))
        return functional.log_softmax(self.second(x, adjacent), dim=1)


def gat(device: str) -> Program:
    """Graph attention on a graph of Cora's size."""
    nodes, features, classes = 2708, 1433, 7
    x = (torch.rand(nodes, features) < 0.0127).float()
    adjacent = (torch.rand(nodes, nodes) < 0.0015).float()
    adjacent = (((adjacent + adjacent.T) > 0).float() + torch.eye(nodes)).clamp(max=1).to(device)
    x, labels = x.to(device), torch.randint(0, classes, (nodes,)).to(device)
    train = torch.randperm(nodes)[:140].to(device)
    model = GAT(features, classes).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005, weight_decay=5e-4)
    while True:
        optimizer.zero_grad()
        loss = functional.nll_loss(model(x, adjacent)[train], labels[train])
        loss.backward()
        optimizer.step()
        yield loss.item()


PROGRAMS: dict[str, Callable[[str], Program]] = {
    "regression": regression,
    "reinforcement": reinforcement,
    "sequence": sequence,
    "gat": gat,
}


def resident(which: str) -> int:
    """VmRSS or VmHWM of this process, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(which):
            return int(line.split()[1]) << 10
    raise ValueError(which)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("--device", default="nntile")
    parser.add_argument("--ncpu", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.ncpu)
    torch.manual_seed(7)
    if options.device == "nntile":
        import torch_nntile

        torch_nntile.init_context(ncpu=options.ncpu)
        torch.zeros(1, device="nntile").item()
    base = resident("VmRSS")
    program = PROGRAMS[options.program](options.device)
    for line in sys.stdin:
        start = time.perf_counter()
        values = [next(program) for _ in range(int(line))]
        seconds = time.perf_counter() - start
        grown = resident("VmHWM") - base
        print(json.dumps({"seconds": seconds, "values": values, "bytes": grown}), flush=True)


class Process:
    """A program in a process of its own, which goes on when it is told to."""

    def __init__(self, program: str, device: str, **options: object) -> None:
        words = [f"--{name}={value}" for name, value in options.items()]
        paths = [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bench.programs", program, f"--device={device}", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
        self.values: list[float] = []
        self.bytes = 0

    def steps(self, count: int) -> float:
        """Seconds of `count` values."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        said: dict[str, Any] = json.loads(self.process.stdout.readline())
        self.values += said["values"]
        self.bytes = said["bytes"]
        return float(said["seconds"])

    def end(self) -> None:
        self.process.communicate()
        assert self.process.returncode == 0


if __name__ == "__main__":
    main()
