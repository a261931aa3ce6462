# SPDX-License-Identifier: BSD-3-Clause
"""What processes call together, in groups of any size: a program for ranks.py, and its list of calls.

Each call runs in all processes of a new group. What has to be refused is refused in all of them, and
the group works afterwards: `run` looks at that after each.
"""

from __future__ import annotations

import contextlib
import os
import re
import warnings
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from ranks import serve
from torch.distributed.device_mesh import init_device_mesh

import torch_nntile

CALLS: dict[str, Callable[[], None]] = {}
NN = torch.device("nntile", 0)


def call(function: Callable[[], None]) -> Callable[[], None]:
    CALLS[function.__name__] = function
    return function


def rank() -> int:
    return dist.get_rank()


def size() -> int:
    return dist.get_world_size()


def mine(*shape: int, dtype: torch.dtype = torch.float32, of: int | None = None) -> torch.Tensor:
    """Other numbers on each rank, small enough for each dtype."""
    x = torch.arange(torch.Size(shape).numel()).reshape(shape) % 5
    return (x + 1 + (rank() if of is None else of)).to(dtype)


def all_of(*shape: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    return [mine(*shape, dtype=dtype, of=k) for k in range(size())]


def same(a: torch.Tensor, b: torch.Tensor) -> None:
    torch.testing.assert_close(
        a.cpu(), b.cpu(), rtol=1e-2 if a.dtype.itemsize < 4 else 1e-5, atol=0
    )


@contextlib.contextmanager
def refused(
    *texts: str, error: type[Exception] | tuple[type[Exception], ...] = RuntimeError
) -> Iterator[None]:
    try:
        yield
    except error as found:
        first = str(found).split("\nException raised")[0]
        for text in texts:
            assert re.search(text, first), first
    else:
        raise AssertionError(f"no error with {texts}")


# ---- reductions

DTYPES = [
    torch.float32, torch.float64, torch.bfloat16, torch.float16,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8,
]  # fmt: skip


@call
def all_reduce_of_each_dtype() -> None:
    for dtype in DTYPES:
        parts = torch.stack([p.double() for p in all_of(3, 5)])
        x = mine(3, 5, dtype=dtype).to(NN)
        for op, expected in (
            (dist.ReduceOp.SUM, parts.sum(0)),
            (dist.ReduceOp.MIN, parts.amin(0)),
            (dist.ReduceOp.MAX, parts.amax(0)),
            (dist.ReduceOp.PRODUCT, parts.prod(0)),
            (
                dist.ReduceOp.AVG,
                parts.mean(0) if dtype.is_floating_point else parts.mean(0).trunc(),
            ),
        ):
            if expected.max() > 127 and dtype.itemsize == 1:
                continue
            y = x.clone()
            dist.all_reduce(y, op)
            same(y, expected.to(dtype))


@call
def all_reduce_of_bits() -> None:
    parts = all_of(7, dtype=torch.int32)
    for op, of_two in (
        (dist.ReduceOp.BAND, torch.bitwise_and),
        (dist.ReduceOp.BOR, torch.bitwise_or),
        (dist.ReduceOp.BXOR, torch.bitwise_xor),
    ):
        expected = parts[0]
        for part in parts[1:]:
            expected = of_two(expected, part)
        x = mine(7, dtype=torch.int32).to(NN)
        dist.all_reduce(x, op)
        same(x, expected)
    with refused("nntile: all_reduce cannot do BAND of Float"):
        dist.all_reduce(mine(2).to(NN), dist.ReduceOp.BAND)


@call
def all_reduce_of_flags() -> None:
    x = torch.tensor([rank() == 0, True, False], device=NN)
    for op, expected in (
        (dist.ReduceOp.SUM, [True, True, False]),
        (dist.ReduceOp.MAX, [True, True, False]),
        (dist.ReduceOp.PRODUCT, [size() == 1, True, False]),
        (dist.ReduceOp.MIN, [size() == 1, True, False]),
    ):
        y = x.clone()
        dist.all_reduce(y, op)
        assert y.tolist() == expected, (op, y)


@call
def all_reduce_of_a_factor() -> None:
    x = mine(4).to(NN)
    dist.all_reduce(x, dist._make_nccl_premul_sum(0.5))
    same(x, torch.stack(all_of(4)).sum(0) / 2)


@call
def complex_numbers() -> None:
    real, imaginary = all_of(3), all_of(3)
    x = torch.complex(mine(3), -mine(3)).to(NN)
    y = x.clone()
    dist.all_reduce(y)
    same(y, torch.complex(sum(real), -sum(imaginary)))
    with refused("all_reduce does not support", error=ValueError):
        dist.all_reduce(x, dist.ReduceOp.MAX)
    parts = [torch.empty_like(x) for _ in range(size())]
    dist.all_gather(parts, x.conj().resolve_conj())
    for part, r in zip(parts, real, strict=True):
        same(part, torch.complex(r, r))
    dist.broadcast(x, 0)
    same(x, torch.complex(real[0], -real[0]))


@call
def reduce_to_each() -> None:
    for root in range(size()):
        x = mine(2, 3).to(NN)
        dist.reduce(x, root)
        same(x, sum(all_of(2, 3)) if rank() == root else mine(2, 3))


@call
def reduce_scatters() -> None:
    n = size()
    whole = sum(all_of(2 * n, 3))
    expected = whole[2 * rank() : 2 * rank() + 2]
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        y = torch.empty(2, 3, device=NN, dtype=dtype)
        x = mine(2 * n, 3, dtype=dtype).to(NN)
        dist.reduce_scatter_tensor(y, x)
        same(y, expected.to(dtype))
        same(x, mine(2 * n, 3, dtype=dtype))  # the input stays
        dist.reduce_scatter(y, list(x.split(2)))
        same(y, expected.to(dtype))
    dist.reduce_scatter_tensor(y, x, dist.ReduceOp.MAX)
    # Of other sizes: k + 1 rows for rank k
    begin = rank() * (rank() + 1) // 2
    y = torch.empty(rank() + 1, 3, device=NN)
    x = mine(n * (n + 1) // 2, 3).to(NN)
    dist.reduce_scatter(y, list(x.split([k + 1 for k in range(n)])))
    same(y, sum(all_of(n * (n + 1) // 2, 3))[begin : begin + rank() + 1])
    with refused("reduce_scatter", "has shape"):
        dist.reduce_scatter(torch.empty(100, 3, device=NN), [x] * n)


@call
def ddp_of_sparse_gradients() -> None:
    table = torch.nn.Embedding(size() + 2, 3, sparse=True).to(NN)
    model = torch.nn.parallel.DistributedDataParallel(table)
    model(torch.tensor([rank(), size()], device=NN)).sum().backward()
    rows = torch.tensor([1.0 / size()] * size() + [1.0, 0.0])
    same(table.weight.grad.to_dense(), rows[:, None].expand(-1, 3))


@call
def statistics_of_ddp() -> None:
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 3).to(NN))
    for _ in range(2):
        model(mine(2, 3).to(NN)).sum().backward()
    for name in ("forward_compute", "backward_compute", "backward_comm"):
        assert model._get_ddp_logging_data()[f"avg_{name}_time"] >= 1


# ---- what is moved


@call
def broadcast_from_each() -> None:
    for root in range(size()):
        for dtype in (*DTYPES, torch.bool, torch.float8_e4m3fn):
            x = mine(2, 3).to(dtype).to(NN)
            dist.broadcast(x, root)
            same(x.cpu().float(), mine(2, 3, of=root).to(dtype).float())


@call
def gathers() -> None:
    n = size()
    x, parts = mine(2, 3).to(NN), all_of(2, 3)
    y = [torch.empty(2, 3, device=NN) for _ in range(n)]
    dist.all_gather(y, x)
    for a, b in zip(y, parts, strict=True):
        same(a, b)
    whole = torch.empty(2 * n, 3, device=NN)
    dist.all_gather_into_tensor(whole, x)
    same(whole, torch.cat(parts))
    stacked = torch.empty(n, 2, 3, device=NN)
    dist.all_gather_into_tensor(stacked, x)
    same(stacked, torch.stack(parts))
    for root in range(n):
        y = [torch.empty(2, 3, device=NN) for _ in range(n)]
        dist.gather(x, y if rank() == root else None, root)
        for a, b in zip(y, parts, strict=True):
            if rank() == root:
                same(a, b)


@call
def scatters() -> None:
    for root in range(size()):
        y = torch.empty(2, 2, device=NN)
        given = [mine(2, 2, of=10 * k).to(NN) for k in range(size())]
        dist.scatter(y, given if rank() == root else None, root)
        same(y, mine(2, 2, of=10 * rank()))


@call
def all_to_all() -> None:
    n = size()
    x = torch.arange(2.0 * n, device=NN) + 100 * rank()
    y = torch.empty(2 * n, device=NN)
    dist.all_to_all_single(y, x)
    expected = [100.0 * k + 2 * rank() + i for k in range(n) for i in (0, 1)]
    assert y.tolist() == expected, y
    # To rank k go k + 1 rows.
    x = torch.cat([torch.full((k + 1, 2), 10.0 * rank() + k) for k in range(n)]).to(NN)
    y = torch.empty(n * (rank() + 1), 2, device=NN)
    dist.all_to_all_single(y, x, [rank() + 1] * n, [k + 1 for k in range(n)])
    rows = [10.0 * k + rank() for k in range(n) for _ in range(rank() + 1)]
    assert y[:, 1].tolist() == rows, y
    outputs = [torch.empty(rank() + 1, 2, device=NN) for _ in range(n)]
    dist.all_to_all(outputs, list(x.split([k + 1 for k in range(n)])))
    assert torch.cat(outputs)[:, 0].tolist() == rows, outputs


@call
def sends() -> None:
    n, to, of = size(), (rank() + 1) % size(), (rank() - 1) % size()
    if n == 1:
        return
    # A ring, also where each sends before it receives: nobody waits for the other.
    x, y = mine(1000).to(NN), torch.empty(1000, device=NN)
    works = [dist.isend(x, to, tag=3), dist.irecv(y, of, tag=3)]
    for work in works:
        work.wait()
        assert work.is_completed()
    same(y, mine(1000, of=of))
    # Tags in the other order
    a, b = mine(2).to(NN), mine(3).to(NN)
    first, second = torch.empty(2, device=NN), torch.empty(3, device=NN)
    works = [dist.isend(a, to, tag=1), dist.isend(b, to, tag=2)]
    works += [dist.irecv(second, of, tag=2), dist.irecv(first, of, tag=1)]
    same(first, mine(2, of=of))
    same(second, mine(3, of=of))
    if rank() == 0:
        seen = set()
        for _ in range(n - 1):
            source = dist.recv(y)
            same(y, mine(1000, of=source))
            seen.add(source)
        assert seen == set(range(1, n))
    else:
        dist.send(x, 0)


@call
def batches_of_sends() -> None:
    """To all, itself too; first all that is received, which alone would wait forever."""
    x = [mine(k + 2).to(NN) for k in range(size())]
    y = [torch.empty(rank() + 2, device=NN) for _ in range(size())]
    posts = [dist.P2POp(dist.irecv, y[k], k) for k in range(size())]
    posts += [dist.P2POp(dist.isend, x[k], k) for k in range(size())]
    for work in dist.batch_isend_irecv(posts):
        work.wait()
    for k in range(size()):
        same(y[k], mine(rank() + 2, of=k))
    with refused("sends 1 tensors to itself and receives 0"):
        dist.batch_isend_irecv([dist.P2POp(dist.isend, x[0], rank())])
    with refused("8 bytes to itself and receives 12"):
        dist.batch_isend_irecv([
            dist.P2POp(dist.isend, torch.ones(2, device=NN), rank()),
            dist.P2POp(dist.irecv, torch.ones(3, device=NN), rank()),
        ])  # fmt: skip


@call
def objects() -> None:
    found: list[Any] = [None] * size()
    dist.all_gather_object(found, {"rank": rank(), "x": torch.ones(2, device=NN) * rank()})
    for k, o in enumerate(found):
        assert o["rank"] == k and o["x"].device == NN and o["x"].tolist() == [k, k], o
    given = [rank(), "text"]
    dist.broadcast_object_list(given, 0)
    assert given == [0, "text"]
    out: list[Any] = [None]
    dist.scatter_object_list(out, list(range(size())) if rank() == 0 else None, 0)
    assert out == [rank()]
    found = [None] * size()
    dist.gather_object(rank(), found if rank() == 0 else None)
    assert rank() or found == list(range(size()))


@call
def many_as_one() -> None:
    xs = [mine(k + 1).to(NN) for k in range(4)]
    with dist._coalescing_manager(device=NN, async_ops=True) as manager:
        for x in xs:
            dist.all_reduce(x)
    manager.wait()
    for k, x in enumerate(xs):
        same(x, sum(all_of(k + 1)))
    ys = [torch.empty(2 * size(), device=NN) for _ in range(2)]
    with dist._coalescing_manager(device=NN):
        for y in ys:
            dist.all_gather_into_tensor(y, mine(2).to(NN))
    for y in ys:
        same(y, torch.cat(all_of(2)))
    zs = [torch.empty(2, device=NN) for _ in range(2)]
    with dist._coalescing_manager(device=NN):
        for z in zs:
            dist.reduce_scatter_tensor(z, mine(2 * size()).to(NN))
    for z in zs:
        same(z, sum(all_of(2 * size()))[2 * rank() : 2 * rank() + 2])


@call
def functional_ones() -> None:
    world = dist.group.WORLD
    x = mine(2 * size(), 2).to(NN)
    total = functional.all_reduce(x, "sum", world)
    same(total + 1, sum(all_of(2 * size(), 2)) + 1)
    same(x, mine(2 * size(), 2))
    same(functional.all_gather_tensor(x, 0, world), torch.cat(all_of(2 * size(), 2)))
    same(functional.all_gather_tensor(x, 1, world), torch.cat(all_of(2 * size(), 2), 1))
    part = functional.reduce_scatter_tensor(x, "sum", 0, world)
    same(part, sum(all_of(2 * size(), 2))[2 * rank() : 2 * rank() + 2])
    moved = functional.all_to_all_single(x, None, None, world)
    same(moved, torch.cat([p.split(2)[rank()] for p in all_of(2 * size(), 2)]))
    mesh = init_device_mesh("nntile", (size(),))
    same(functional.all_reduce(x, "max", mesh), mine(2 * size(), 2, of=size() - 1))


@call
def gradients() -> None:
    from torch.distributed.nn import functional as differentiable

    x = mine(3).to(NN).requires_grad_()
    world = dist.group.WORLD
    (differentiable.all_reduce(x, group=world) * (rank() + 1)).sum().backward()
    same(x.grad, torch.full((3,), size() * (size() + 1) / 2))
    x.grad = None
    torch.cat(differentiable.all_gather(x, group=world)).sum().backward()
    same(x.grad, torch.full((3,), float(size())))


# ---- layouts


@call
def layouts() -> None:
    """Of what is read and of what is written."""
    base = torch.zeros(6, 8, device=NN)
    whole = sum(all_of(6, 8))
    for view in (
        lambda t: t.t(),
        lambda t: t[::2, 1::3],
        lambda t: t[1:3].t(),
        lambda t: t[2],
        lambda t: t[3, 4],
        lambda t: t[:0],
    ):
        x = base.clone()
        x.copy_(mine(6, 8))
        dist.all_reduce(view(x))
        expected = mine(6, 8)
        view(expected).copy_(view(whole))
        same(x, expected)  # the rest is as it was
        x = base.clone()
        x.copy_(mine(6, 8))
        dist.broadcast(view(x), 0)
        expected = mine(6, 8)
        view(expected).copy_(view(mine(6, 8, of=0)))
        same(x, expected)
    x = mine(6, 8).to(NN)
    outputs = [torch.zeros(8, 6, device=NN).t() for _ in range(size())]
    dist.all_gather(outputs, x)
    for y, part in zip(outputs, all_of(6, 8), strict=True):
        same(y, part)
    y = torch.zeros(6 * size(), 16, device=NN)[:, ::2]
    dist.all_gather_into_tensor(y, x)
    same(y, torch.cat(all_of(6, 8)))
    outputs = [torch.zeros(3, 8, device=NN) for _ in range(size())]
    dist.all_gather(outputs, mine(1, 8).to(NN).expand(3, 8))
    for y, part in zip(outputs, all_of(1, 8), strict=True):
        same(y, part.expand(3, 8))
    # In place: the output's own part is the input.
    y = torch.zeros(size(), 3, device=NN)
    y[rank()] = mine(3).to(NN)
    dist.all_gather_into_tensor(y, y[rank()])
    same(y, torch.stack(all_of(3)))
    with refused("more than one element of the written-to tensor refers to a single memory"):
        dist.all_reduce(torch.ones(1, device=NN).expand(3))


@call
def empty_ones() -> None:
    x = torch.empty(0, 3, device=NN)
    dist.all_reduce(x)
    dist.broadcast(x, 0)
    dist.all_gather([torch.empty(0, 3, device=NN) for _ in range(size())], x)
    dist.all_gather_into_tensor(torch.empty(0, 3, device=NN), x)
    dist.reduce_scatter_tensor(torch.empty(0, device=NN), x)
    dist.all_to_all_single(torch.empty(0, 3, device=NN), x)


# ---- order


@call
def without_waiting() -> None:
    """What is recorded afterwards sees the result; nobody has to wait for the bytes."""
    x = mine(1000).to(NN)
    works = [dist.all_reduce(x, async_op=True) for _ in range(5)]
    y = x * 2
    same(y, sum(all_of(1000)) * 2 * size() ** 4)
    for work in works:
        assert work.wait() and work.is_completed() and work.exception() is None
    x.copy_(mine(1000))
    future = dist.all_reduce(x, async_op=True).get_future()
    twice = future.then(lambda f: f.value()[0] * 2).wait()
    same(twice, sum(all_of(1000)) * 2)
    dist.barrier()
    dist.monitored_barrier()
    assert dist.barrier(async_op=True).wait()


@call
def in_graph_mode() -> None:
    torch_nntile.modes.set_mode(1)
    try:
        x = mine(4).to(NN)
        dist.all_reduce(x)
        y = x + 1
        work = dist.all_reduce(y, async_op=True)
        assert work.is_completed()  # nothing runs because somebody asks
        work.wait()
        assert torch_nntile.has_pending_graph()
        total = sum(all_of(4)) + 1
        same(y, total * size())
        dist.all_reduce(x)
        dist.barrier(device_ids=[0])  # the device's, which waits for all of it
        assert not torch_nntile.has_pending_graph()
        same(x, (total - 1) * size())
    finally:
        torch_nntile.modes.set_mode(0)


@call
def on_the_cpu_as_well() -> None:
    """One group has both devices, in any order."""
    x, y, z = mine(100), mine(100).to(NN), mine(100)
    works = [dist.all_reduce(t, async_op=True) for t in ((x, y, z) if rank() % 2 else (x, z, y))]
    for work in works:
        work.wait()
    same(x, y)
    same(z, y)


# ---- groups


@call
def groups() -> None:
    assert dist.get_backend() == "nntile"
    singles = [dist.new_group([k]) for k in range(size())]
    x = mine(3).to(NN)
    dist.all_reduce(x, group=singles[rank()])
    same(x, mine(3))
    members = list(range(0, size(), 2))
    even = dist.new_group(members, group_desc="even")
    y = mine(3).to(NN)
    if rank() in members:
        dist.all_reduce(y, group=even)
        same(y, sum(mine(3, of=k) for k in members))
        dist.broadcast(y, group=even, group_src=len(members) - 1)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert dist.all_reduce(y, group=even) is None
        same(y, mine(3))
    # Two groups of the same processes do not wait for each other.
    a, b = dist.new_group(), dist.new_group()
    s, t = mine(2).to(NN), mine(2).to(NN)
    for group, one in ((a, s), (b, t)) if rank() % 2 else ((b, t), (a, s)):
        dist.all_reduce(one, group=group, async_op=True)
    same(s, sum(all_of(2)))
    same(t, sum(all_of(2)))


@call
def destroyed_with_work_under_way() -> None:
    for _ in range(3):
        group = dist.new_group()
        x = mine(10000).to(NN)
        for _ in range(4):
            dist.all_reduce(x, group=group, async_op=True)
        dist.destroy_process_group(group)
        same(x, sum(all_of(10000)) * size() ** 3)
    dist.barrier()


@call
def destroyed_with_a_pending_graph() -> None:
    group = dist.new_group()
    torch_nntile.modes.set_mode(1)
    try:
        x = mine(10).to(NN)
        dist.all_reduce(x, group=group)
        dist.destroy_process_group(group)
        same(x, sum(all_of(10)))
    finally:
        torch_nntile.modes.set_mode(0)


# ---- refused


@call
def lists_of_another_length() -> None:
    n, x = size(), torch.ones(2, device=NN)
    many = [torch.empty(2, device=NN) for _ in range(n + 1)]
    texts = (f"{n + 1} tensors, the group has {n} processes",)
    with refused("all_gather", *texts):
        dist.all_gather(many, x)
    with refused("reduce_scatter", *texts):
        dist.reduce_scatter(x, many)
    with refused("all_to_all", f"lists of {n} tensors"):
        dist.all_to_all(many, many)
    if n == 1:
        with refused("gather", *texts):
            dist.gather(x, many, 0)


@call
def sizes_that_do_not_fit() -> None:
    n, x = size(), torch.ones(2, device=NN)
    with refused("all_gather_into_tensor", f"must have {n} times the elements"):
        dist.all_gather_into_tensor(torch.empty(2 * n + 1, device=NN), x)
    with refused("reduce_scatter_tensor", f"must have {n} times the elements"):
        dist.reduce_scatter_tensor(x, torch.empty(2 * n + 1, device=NN))
    if n > 1:
        with refused("all_to_all_single", f"which {n} processes do not divide"):
            odd = torch.ones(2 * n + 1, device=NN)
            dist.all_to_all_single(torch.empty_like(odd), odd)
    with refused("all_to_all_single", "output_split_sizes"):
        dist.all_to_all_single(torch.empty(n, device=NN), torch.ones(n, device=NN), [5] * n, None)
    with refused("all_gather", "has shape"):
        dist.all_gather([torch.empty(3, device=NN) for _ in range(n)], x)
    with refused("dtype", error=ValueError):
        dist.all_gather([torch.empty(2, device=NN, dtype=torch.int32) for _ in range(n)], x)
    with refused("all_gather_into_tensor", "is of"):
        dist.all_gather_into_tensor(torch.empty(2 * n, device=NN, dtype=torch.int32), x)
    with refused("dtype", error=ValueError):
        dist.all_reduce_coalesced([x, torch.ones(2, device=NN, dtype=torch.int32)])


@call
def other_devices() -> None:
    n, here, there = size(), torch.ones(2, device=NN), torch.ones(2)
    with refused("one device|same device|cpu"):
        dist.all_gather([there.clone() for _ in range(n)], here)
    with refused("one device|same device|cpu|nntile"):
        dist.all_gather([here.clone() for _ in range(n)], there)
    with refused("one device|same device|cpu"):
        dist.all_gather_into_tensor(torch.ones(2 * n), here)
    with refused("one device|same device|cpu"):
        dist.all_reduce_coalesced([here, there])
    with refused("one device|same device|cpu"):
        dist.all_to_all([here.clone() for _ in range(n)], [there.clone() for _ in range(n)])


@call
def sparse_ones() -> None:
    """all_reduce has them, as gloo does."""
    dense = torch.diag(mine(3))
    dense[rank() % 3, 0] = 1
    x = dense.to(NN).to_sparse()
    earlier = mine(2).to(NN)
    dist.all_reduce(earlier, async_op=True)
    dist.all_reduce(x)
    assert x.device == NN and x.is_sparse
    expected = sum(torch.diag(p) for p in all_of(3))
    for k in range(size()):
        expected[k % 3, 0] += 1 - (0 if k % 3 else k + 1)
    same(x.to_dense(), expected)
    same(earlier, sum(all_of(2)))
    with refused("sparse|Sparse", error=NotImplementedError):
        dist.broadcast(x, 0)
    with refused("sparse|Sparse", error=NotImplementedError):
        dist.all_gather([x] * size(), x)
    with refused("Sparse", error=NotImplementedError):
        dist.all_reduce(dense.to(NN).to_sparse_csr())


@call
def roots_and_peers_that_do_not_exist() -> None:
    n, x = size(), torch.ones(2, device=NN)
    for function in (
        lambda: dist.broadcast(x, n),
        lambda: dist.reduce(x, n),
        lambda: dist.send(x, n),
        lambda: dist.recv(x, n),
    ):
        with refused(rf"(root|peer) {n} is not in \[0, {n}\)"):
            function()


# ---- TORCH_DISTRIBUTED_DEBUG=DETAIL


@contextlib.contextmanager
def detail() -> Iterator[dist.ProcessGroup]:
    os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
    dist.set_debug_level_from_env()
    try:
        group = dist.new_group(timeout=timedelta(seconds=20))
        yield group
        dist.destroy_process_group(group)
    finally:
        del os.environ["TORCH_DISTRIBUTED_DEBUG"]
        dist.set_debug_level_from_env()


@call
def detail_compares_calls() -> None:
    if size() == 1:
        return
    odd = rank() == size() - 1
    for device in (NN, torch.device("cpu")):
        with detail() as group:
            x = torch.ones(2, device=device)
            dist.all_reduce(x, group=group)
            assert x.tolist() == [size()] * 2
            with refused("Detected mismatch between collectives", "TensorShape|shape"):
                dist.all_reduce(torch.ones(3 if odd else 2, device=device), group=group)
            with refused("Detected mismatch between collectives", "Dtype|dtype"):
                dtype = torch.int32 if odd else torch.float32
                dist.all_reduce(torch.ones(2, device=device, dtype=dtype), group=group)
            with refused("Detected mismatch between collectives", "OpType|ALLREDUCE"):
                if odd:
                    dist.broadcast(x, 0, group=group)
                else:
                    dist.all_reduce(x, group=group)
            dist.all_reduce(x, group=group)
            assert x.tolist() == [size() ** 2] * 2


def begin(store: Path, of: int | None = None) -> None:
    dist.init_process_group(
        "nntile",
        init_method=f"file://{store}",
        rank=int(os.environ["RANK"]),
        world_size=of or int(os.environ["WORLD_SIZE"]),
        timeout=timedelta(seconds=60),
    )


def run(name: str, folder: Path) -> None:
    begin(folder / "store")
    CALLS[name]()
    x = torch.ones(2, device=NN)
    dist.all_reduce(x)
    assert x.tolist() == [size()] * 2, f"the group does not work after this: {x}"
    torch_nntile.wait()
    dist.destroy_process_group()


def program(run: Callable[[str, Path], None]) -> None:
    torch.set_num_threads(1)
    torch_nntile.init_context(ncpu=1, memory=1 << 30)
    serve(run)


if __name__ == "__main__":
    program(run)
