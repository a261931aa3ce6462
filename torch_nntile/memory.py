# SPDX-License-Identifier: BSD-3-Clause
"""Memory of the device, part of `torch.nntile`: of tensors, and of the tiles behind them."""

from __future__ import annotations

from typing import Any

import torch

from torch_nntile import _c

__all__ = [
    "empty_cache",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
]

# Fields of nntile_context_stats, which says what they are (nntile/context.h).
_COUNTERS = (
    "tiles",
    "tile_bytes",
    "pool_bytes",
    "peak_bytes",
    "reserved_peak_bytes",
    "tasks",
    "device_tasks",
    "launches",
    "in_flight",
    "tensor_bytes",
    "run_bytes",
    "idle_bytes",
    "swap_bytes",
    "swap_used_bytes",
    "swap_used_peak_bytes",
    "read_bytes",
    "written_bytes",
    "evictions",
    "dropped",
)


def _totals() -> tuple[int, int, int]:
    slots = [_c.new("int64_t *") for _ in range(3)]
    _c.get("nntile_buffer_totals", _c.record(), *slots)
    count, nbytes, peak = (int(slot[0]) for slot in slots)
    return count, nbytes, peak


def _context_stats() -> dict[str, int]:
    counters = _c.new_struct("nntile_context_stats")
    if _c.get("nntile_context_active"):
        _c.call("nntile_context_stats_get", counters)
    return {name: int(getattr(counters, name)) for name in _COUNTERS}


def memory_allocated(device: Any = None) -> int:
    """Bytes of the storages of live tensors. Their tiles exist only once something was written."""
    return _totals()[1]


def max_memory_allocated(device: Any = None) -> int:
    """Highest `memory_allocated()` since the last reset."""
    return _totals()[2]


def reset_peak_memory_stats(device: Any = None) -> None:
    _c.get("nntile_buffer_reset_peak", _c.record())
    _c.get("nntile_context_reset_peaks")


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Nothing accumulates."""


def memory_reserved(device: Any = None) -> int:
    """Bytes of all tiles, with temporaries and the pool."""
    return _context_stats()["tile_bytes"]


def max_memory_reserved(device: Any = None) -> int:
    """Highest `memory_reserved()` since the last reset."""
    return _context_stats()["reserved_peak_bytes"]


def memory_stats(device: Any = None) -> dict[str, int]:
    """Counters by the names of torch.cuda, then those of tiles, pools, the disk and plans.

    Of the bytes of data, `tensor_bytes` are held by tensors, `run_bytes` by runs in flight, and
    `idle_bytes` are kept for reuse. `swap_bytes` is the limit on the disk, 0 without one;
    `swap_used_bytes` and `swap_used_peak_bytes` are what data takes there. `evictions` counts tiles
    that left memory, `dropped` those of them that needed no write. `device_tasks` of the `tasks`
    ran on GPUs, all others on cores.
    """
    count, nbytes, peak = _totals()
    runtime = _context_stats()
    plans = _c.new_struct("nntile_record_stats")
    _c.call("nntile_record_stats_get", _c.record(), plans)
    return {
        "allocation.all.current": count,
        "allocated_bytes.all.current": nbytes,
        "allocated_bytes.all.peak": peak,
        "reserved_bytes.all.current": runtime["tile_bytes"],
        "reserved_bytes.all.peak": runtime["reserved_peak_bytes"],
        "active_bytes.all.current": runtime["tensor_bytes"] + runtime["run_bytes"],
        "active_bytes.all.peak": runtime["peak_bytes"],
        **runtime,
        "plans": int(plans.plans),
        "plan_hits": int(plans.plan_hits),
        "lowerings": int(plans.lowerings),
    }


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and total bytes. The total is the memory budget, free is what tiles in use leave of it.

    Before a runtime has started, the budget is the one that a start with defaults would take now.
    """
    free, total = torch.accelerator.get_memory_info(0)
    return int(free), int(total)


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """`memory_stats()` and `mem_get_info()` as a table; abbreviated: bytes only."""
    free, total = mem_get_info(device)
    rows = {"budget_bytes": total, "free_bytes": free, **memory_stats(device)}
    if abbreviated:
        rows = {name: value for name, value in rows.items() if "bytes" in name}
    width = max(map(len, rows))
    lines = (f"| {name:<{width}} | {value:>20,} |" for name, value in rows.items())
    return "\n".join((f"| {'nntile:0':<{width}} | {'':>20} |", *lines))


def memory_snapshot() -> list[dict[str, Any]]:
    """What torch.cuda calls segments. Here there is one: all tiles, of which some are in the pool."""
    runtime = _context_stats()
    used = runtime["tensor_bytes"] + runtime["run_bytes"]
    return [
        {
            "device": 0,
            "segment_type": "tiles",
            "total_size": runtime["tile_bytes"],
            "allocated_size": used,
            "active_size": used,
            "blocks": [
                {"size": used, "state": "active_allocated"},
                {"size": runtime["pool_bytes"], "state": "inactive"},
            ],
        }
    ]


def empty_cache() -> None:
    """Give memory that no tensor and no task holds back to the system.

    Only for others on the machine: tensors take memory out of the pool before they ask for more,
    and the pool is bounded by the memory budget.
    """
    _c.get("nntile_record_trim", _c.record())
