# SPDX-License-Identifier: BSD-3-Clause
"""The runtime: start, stop, wait, and where kernels may run.

You need not call anything here: the first op on the device starts a runtime with defaults.

Environment (the whole list; the first tensor on the device checks it, and raises for a bad value):

| variable | meaning | default |
|---|---|---|
| STARPU_NCPU | number of CPU workers (threads that run tasks) | one per core that the process may use |
| LOCAL_WORLD_SIZE | number of processes that share cores and memory of this machine; torchrun sets it | 1 |
| STARPU_NCUDA | number of CUDA workers | 0 |
| NNTILE_MEMORY | budget for data in main memory, such as `8GiB` | 90 % of the machine |
| NNTILE_SWAP | folder on a disk for data that does not fit in memory | no disk |
| NNTILE_SWAP_SIZE | the most bytes on that disk, such as `100GiB` | free space, at most 8 times memory |
| NNTILE_RUNTIME_MODE | `eager` or `graph` | `eager` |
| NNTILE_CPU_FALLBACK | 0: an op without a kernel on the device raises NotImplementedError | 1 |
| NNTILE_AUTOMATIC_CUTS | 0: axes that you do not cut stay whole | 1 |
| NNTILE_FUSE | 0: do not fuse element-wise ops with each other, products or reductions; the same bits | 1 |
| NNTILE_WINDOWS | 0: in eager mode submit each call by itself | 1 |
| NNTILE_SMALL_CALLS | how often a small call is made before it runs in your thread; -1: never | 32 |
| NNTILE_GPU_CODE | 0: on GPUs, no code for single element-wise programs; `first`: wait for it | 1 |
| NNTILE_PRINT | `passes`: print each lowered graph (one that becomes tasks) after each pass, on stderr | |
| NNTILE_COST | file with constants of the cost module, written by `torch_nntile.calibrate` | built in |
| NNTILE_DATA_DIR | cache of downloaded data sets | `~/.cache/torch_nntile` |
| NNTILE_SENTINELS | 1: after each task, check that it wrote nowhere else; slow | 0 |
| NNTILE_BLOCKING | 1: wait after each call and raise its error there; slow | 0 |
| TORCH_DEVICE_BACKEND_AUTOLOAD | 0: `import torch` does not load the device | 1 |
"""

from __future__ import annotations

import os
import warnings
from typing import Literal

from torch_nntile import _c, fallback, modes, places
from torch_nntile.errors import DtypeError, InvalidArgumentError, InvalidStateError, NntileError

__all__ = [
    "init_context",
    "restrict_workers",
    "shutdown_context",
    "wait",
]


def init_context(
    ncpu: int = -1,
    ncuda: int = -1,
    cpu_fallback: bool = True,
    runtime_mode: str = "eager",
    verbose: int = 0,
    memory: int | str | None = None,
    swap: str | os.PathLike[str] | None = None,
    swap_size: int | str | None = None,
) -> None:
    """Start the runtime with your own settings; call this before the first op.

    Args:
        ncpu: number of CPU workers; -1: STARPU_NCPU, or else one per core. Processes of torchrun
            share the cores.
        ncuda: number of CUDA workers; -1: STARPU_NCUDA, or else none.
        cpu_fallback: whether PyTorch's CPU kernel may run an op that the device has no kernel for.
        runtime_mode: "eager" submits ops soon after you call them, a few at a time; "graph"
            records them until `run_graph()` or a host read.
        verbose: 1 prints a line at start and stop.
        memory: budget for data in main memory; None: NNTILE_MEMORY, or else 90 % of the machine,
            and at most half of what `ulimit -v` leaves. Processes of torchrun share it.
        swap: folder on a disk. Data that does not fit in memory goes there, and comes back when
            an op needs it. "": no disk; None: NNTILE_SWAP, or else no disk.
        swap_size: the most bytes on that disk; None: NNTILE_SWAP_SIZE, or else the free space in
            the folder at the start, and at most 8 times the machine's memory. Processes of
            torchrun share it.

    A size is a number of bytes or a string: "200MiB", "1.5GB". Units are B, KB, MB, GB, TB, KiB,
    MiB, GiB and TiB, in upper or lower case. A size is at least 1 MiB and at most 2^62 bytes.

    Raises:
        RuntimeError: a runtime is already running, or this is a forked child.
        TypeError: a count is not an int, or a folder is not a path.
        ValueError: a setting is not valid: a bad size, a folder where the runtime cannot make
            files, or a size for the disk without a folder.
    """
    mode = modes.number_of(runtime_mode)
    budget = 0 if memory is None else parse_bytes("memory", memory)
    swap_bytes = 0 if swap_size is None else parse_bytes("swap_size", swap_size)
    folder = _c.ffi.NULL if swap is None else _c.ffi.new("char[]", _path("swap", swap))
    for name, value in (("ncpu", ncpu), ("ncuda", ncuda)):
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise DtypeError(
                f"init_context: {name} must be an int, got {value!r} ({type(value).__name__})"
            )
        if value < -1:
            raise InvalidArgumentError(
                f"{name} must be -1 (automatic) or a count of workers, got {value}"
            )
    if _c.get("nntile_context_active"):
        raise InvalidStateError(
            "init_context: a runtime is already running, started by an earlier init_context() or "
            "by the first op on the device; call shutdown_context() first, or init_context() earlier"
        )
    _warn_beyond_machine(memory, budget)
    config = _c.new_struct("nntile_context_config")
    # 0 is a default to C, which is what the environment says.
    config.ncpu, config.ncuda, config.memory_bytes = ncpu, ncuda or -2, budget
    config.spin_seconds, config.verbose = -1.0, int(verbose)
    config.swap, config.swap_bytes = folder, swap_bytes
    _c.call("nntile_context_create", config)
    fallback.set_cpu_fallback(cpu_fallback)
    modes.set_mode(mode)


def shutdown_context() -> None:
    """Wait for all tasks and stop the runtime; tensors on the device lose their data.

    Does nothing if no runtime is running. The next op, or `init_context()`, starts a new one.
    """
    if not _c.get("nntile_context_active"):
        return
    error = None
    try:
        wait()
    except NntileError as found:  # KeyboardInterrupt: nothing is stopped
        error = found
    _c.get("nntile_record_reset", _c.record())
    _c.call("nntile_context_shutdown")
    if error is not None:
        raise error


def wait() -> None:
    """Submit the calls that eager mode has buffered, wait for all tasks, and raise the first error.

    In graph mode it submits nothing: call `run_graph()` first.
    """
    if _c.get("nntile_context_active"):
        _c.call("nntile_record_submit", _c.record())
        _c.call("nntile_context_wait")


def restrict_workers(kind: Literal["cpu", "cuda", "any"]) -> None:
    """Choose which workers run the tasks of ops that you call from now on.

    Args:
        kind: "cpu": CPU workers only. "any": every worker, as at the start. "cuda": as "any", but
            raise if there are no CUDA workers. A task runs on a CUDA worker whenever its kernel
            and its size allow that; all other tasks run on CPU workers.

    Raises:
        ValueError: `kind` is another word.
        NotImplementedError: "cuda", and this build has no CUDA kernels.
        RuntimeError: "cuda", and this runtime has no CUDA workers; give `ncuda` to
            `init_context()`.
    """
    if kind not in {"cpu", "cuda", "any"}:
        raise InvalidArgumentError(
            f"restrict_workers: kind must be 'cpu', 'cuda' or 'any', got {kind!r}"
        )
    if not _c.get("nntile_context_active"):
        init_context(cpu_fallback=fallback.cpu_fallback(), runtime_mode=modes.runtime_mode())
    _c.call("nntile_record_submit", _c.record())  # what was called before
    _c.call("nntile_context_restrict", kind.encode())


def parse_bytes(what: str, size: int | str) -> int:
    """8589934592 for "8GiB", by the rule of the environment (base/settings.cc); `what` names the
    argument in an error."""
    text = str(size).encode(errors="backslashreplace").replace(b"\0", b"\\0")
    nbytes = _c.new("int64_t *")
    _c.call("nntile_context_parse_size", what.encode(), text, nbytes)
    return int(nbytes[0])


def _path(what: str, path: str | os.PathLike[str]) -> bytes:
    try:
        name = os.fsencode(path)
    except TypeError:
        raise DtypeError(
            f"init_context: {what} must be a path, got {path!r} ({type(path).__name__})"
        ) from None
    if b"\0" in name:
        raise InvalidArgumentError(f"init_context: {what} must be a path, got {path!r}")
    return name


def _warn_beyond_machine(memory: int | str | None, budget: int) -> None:
    """The system has swap, or others end: so this is allowed."""
    stats = _c.new_struct("nntile_context_stats")
    _c.call("nntile_context_stats_get", stats)
    total = int(stats.machine_bytes)
    if budget > total:
        warnings.warn(
            f"nntile: memory={memory!r} is more than the {total / 2**30:.1f} GiB of this machine: "
            "the system may swap, or end the process, before an allocation fails",
            stacklevel=3,
        )


def apply_environment() -> None:
    """The NNTILE_* variables that are Python's part. Called at import, which no setting makes fail:
    the first tensor says what is wrong."""
    try:
        given = _c.settings()
    except InvalidArgumentError:
        return
    if not given.cpu_fallback:
        fallback.set_cpu_fallback(False)
    if given.blocking:
        places.block()


def stop_at_exit() -> None:
    """Leave in order: autograd threads first, then the runtime. A forked child owns neither.

    Nobody can read results any more, so work that has not begun is dropped.
    """
    _c.let_signals_interrupt(False)
    if _c.get("nntile_context_forked"):
        # PyTorch's engine would wait ten seconds for threads that only the parent has.
        os.environ["TORCH_AUTOGRAD_SHUTDOWN_WAIT_LIMIT"] = "0"
        return
    _c.get("nntile_context_abandon")
    _c.get("nntile_stub_drain")
    if _c.get("nntile_context_active"):
        _c.try_call("nntile_context_wait")
        _c.get("nntile_record_reset", _c.record())
        _c.try_call("nntile_context_shutdown")
