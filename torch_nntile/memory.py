# SPDX-License-Identifier: BSD-3-Clause
"""Memory of the device, part of `torch.nntile`: of tensors, and of the tiles that hold their data."""

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
    """Return the bytes of the storages (PyTorch's memory objects) of live tensors.

    Tiles, the parts that hold a tensor's data, exist only after the first write.
    """
    return _totals()[1]


def max_memory_allocated(device: Any = None) -> int:
    """Return the highest `memory_allocated()` since the last reset."""
    return _totals()[2]


def reset_peak_memory_stats(device: Any = None) -> None:
    """Reset the peaks."""
    _c.get("nntile_buffer_reset_peak", _c.record())
    _c.get("nntile_context_reset_peaks")


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Do nothing: no counter accumulates."""


def memory_reserved(device: Any = None) -> int:
    """Return the bytes of all tiles, with temporaries and the pool of free tiles."""
    return _context_stats()["tile_bytes"]


def max_memory_reserved(device: Any = None) -> int:
    """Return the highest `memory_reserved()` since the last reset."""
    return _context_stats()["reserved_peak_bytes"]


def memory_stats(device: Any = None) -> dict[str, int]:
    """Return counters under the names of torch.cuda, and those of tiles, pools, the disk and plans.

    Tensors hold `tensor_bytes` of the data and running plans hold `run_bytes`; `idle_bytes` are kept
    for reuse. `swap_bytes` is the limit on the disk, 0 without a disk; `swap_used_bytes` and
    `swap_used_peak_bytes` are the bytes there. `evictions` counts tiles that left memory, and
    `dropped` counts those of them that needed no write. Of the `tasks`, `device_tasks` ran on GPUs
    and all others on cores.
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
    """Return free and total bytes: the memory budget without the tiles in use, and the budget.

    Before a runtime has started, the budget is that of a start with defaults.
    """
    free, total = torch.accelerator.get_memory_info(0)
    return int(free), int(total)


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """Return `memory_stats()` and `mem_get_info()` as a table; `abbreviated` leaves only bytes."""
    free, total = mem_get_info(device)
    rows = {"budget_bytes": total, "free_bytes": free, **memory_stats(device)}
    if abbreviated:
        rows = {name: value for name, value in rows.items() if "bytes" in name}
    width = max(map(len, rows))
    lines = (f"| {name:<{width}} | {value:>20,} |" for name, value in rows.items())
    return "\n".join((f"| {'nntile:0':<{width}} | {'':>20} |", *lines))


def memory_snapshot() -> list[dict[str, Any]]:
    """Return the segments, as torch.cuda calls them. There is one: tiles in use and in the pool."""
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
    """Give back to the system the memory that no tensor and no task holds.

    This helps only other programs on the machine. Tensors take memory from the pool before they ask
    for more, and the memory budget bounds the pool. The device also forgets which small calls came
    often, and runs them through graphs until they have come often again.
    """
    _c.get("nntile_record_trim", _c.record())
