# SPDX-License-Identifier: BSD-3-Clause
"""The backend of torch.distributed: process groups whose collectives take tensors of the device.

    dist.init_process_group()                           # also for tensors of the CPU, by gloo
    dist.init_process_group("nntile")                   # the same
    dist.init_process_group("cpu:gloo,nntile:nntile")   # the same

A collective is a node of the graph (csrc/processes): it runs when its operands are there, on no worker,
and gloo carries the bytes. `Work.wait()` orders; who reads a result waits for the bytes.
"""

from __future__ import annotations

import atexit
import datetime
import functools
from typing import Any

import torch
import torch.distributed as dist

from torch_nntile import _c

__all__ = ["register"]


def register() -> None:
    """Make the backend known to torch.distributed. Called once, at import."""
    if not dist.is_available():
        return
    dist.Backend.register_backend("nntile", _create, extended_api=True, devices=["nntile"])
    dist.monitored_barrier = _monitored_barrier
    dist.distributed_c10d.monitored_barrier = _monitored_barrier


def _create(options: Any, _: Any) -> dist.ProcessGroup:
    """A group for both devices. PyTorch takes a whole group that a backend gives it: so it is one
    whatever name it was asked for by, with a default backend that DDP finds."""
    cpu = _gloo("cpu", options)
    cpu._set_sequence_number_for_group()
    # Ours has its own: calls on the CPU come in another order than those that wait for tasks.
    carriers = [_group_of_cpu(_gloo(part, options), options) for part in ("tiles", "peers")]
    maker = _group(options)
    torch.ops.nntile.add_backend(maker.boxed(), *(carrier.boxed() for carrier in carriers))
    maker._set_group_name(options.group_id)  # errors name it
    ours = maker._get_backend(torch.device("nntile"))
    if dist.get_debug_level() == dist.DebugLevel.DETAIL:
        cpu, ours = _compared("cpu", cpu, options), _compared("nntile", ours, options)
    group = _group_of_cpu(cpu, options)
    group._register_backend(torch.device("nntile"), dist.ProcessGroup.BackendType.CUSTOM, ours)
    group._set_default_backend(dist.ProcessGroup.BackendType.CUSTOM)
    _finish_at_exit()
    return group


def _group(options: Any) -> dist.ProcessGroup:
    return dist.ProcessGroup(options.store, options.group_rank, options.group_size)


def _group_of_cpu(gloo: Any, options: Any) -> dist.ProcessGroup:
    group = _group(options)
    group._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, gloo)
    return group


def _gloo(part: str, options: Any) -> dist.ProcessGroupGloo:
    gloo = dist.ProcessGroupGloo(
        dist.PrefixStore(f"{part}/", options.store),
        options.group_rank,
        options.group_size,
        timeout=options.timeout,
    )
    gloo.options.global_ranks_in_group = options.global_ranks_in_group
    gloo.options.group_name = options.group_id
    return gloo


def _compared(name: str, backend: Any, options: Any) -> Any:
    """TORCH_DISTRIBUTED_DEBUG=DETAIL: before each collective, processes compare what they call."""
    return dist.distributed_c10d._create_process_group_wrapper(
        wrapped_pg=backend,
        store_prefix=f"{options.group_id}/{name}",
        store=options.store,
        rank=options.group_rank,
        world_size=options.group_size,
        timeout=options.timeout,
    )


@functools.cache
def _finish_at_exit() -> None:
    """Others may wait for what this process has recorded: it travels before the runtime stops."""
    atexit.register(_finish)


def _finish() -> None:
    if _c.get("nntile_context_active") and not _c.get("nntile_context_forked"):
        _c.try_call("nntile_record_run", _c.record())
        _c.try_call("nntile_context_wait")


_gloo_barrier = dist.monitored_barrier if dist.is_available() else None


@functools.wraps(_gloo_barrier)  # type: ignore[arg-type]
def _monitored_barrier(
    group: dist.ProcessGroup | None = None,
    timeout: datetime.timedelta | None = None,
    wait_all_ranks: bool = False,
) -> None:
    """PyTorch's looks at the name of the group; ours has a gloo that can do it."""
    pg: Any = group or dist.group.WORLD
    if not _is_ours(pg):
        _gloo_barrier(group, timeout, wait_all_ranks)  # type: ignore[misc]
        return
    _finish()
    gloo = dist.Backend(dist.Backend.GLOO)
    pg.monitored_barrier(
        timeout or dist.distributed_c10d._get_default_timeout(gloo), wait_all_ranks
    )


def _is_ours(group: Any) -> bool:
    """Not so for GroupMember.NON_GROUP_MEMBER, which is no group."""
    return isinstance(group, dist.ProcessGroup) and any(
        device.type == "nntile" for device in group._device_types
    )
