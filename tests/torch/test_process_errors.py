# SPDX-License-Identifier: BSD-3-Clause
"""Errors that end, or could end, a process: settings, contexts, fork, memory, exit."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time

import interpreter
import pytest
from emulated_devices import not_emulated, on_cores

import torch_nntile


def python(code: str, timeout: float = 120, **environment: str) -> subprocess.CompletedProcess[str]:
    if not environment:
        return interpreter.run(textwrap.dedent(code), timeout=timeout)
    return subprocess.run(
        [sys.executable, "-c", "import torch, torch_nntile\n" + textwrap.dedent(code)],
        text=True,
        capture_output=True,
        timeout=timeout,
        env={**os.environ, **environment},
        check=False,
    )


def passes(code: str, **environment: str) -> str:
    done = python(code, **environment)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_two_contexts() -> None:
    passes("""
        torch_nntile.init_context(ncpu=1)
        try: torch_nntile.init_context(ncpu=1)
        except RuntimeError as error: assert "already running" in str(error), error
        else: raise SystemExit("a second context was accepted")
        assert torch.ones(2, device="nntile").sum().item() == 2
        torch_nntile.shutdown_context()
        torch_nntile.init_context(ncpu=1)
    """)


def test_use_after_shutdown() -> None:
    passes("""
        torch_nntile.init_context(ncpu=1)
        x = torch.ones(2, device="nntile")
        torch_nntile.shutdown_context()
        torch_nntile.shutdown_context()
        try: x.cpu()
        except RuntimeError as error: assert "shut" in str(error) or "lost" in str(error), error
        else: raise SystemExit("data outlived its runtime")
        try: (x + 1).cpu()
        except RuntimeError: pass
        else: raise SystemExit("data outlived its runtime")
        assert torch.ones(2, device="nntile").sum().item() == 2
    """)


def test_pending_at_shutdown() -> None:
    """Graph mode: what was recorded and never run is lost like all other data, not unwritten memory."""
    passes("""
        torch_nntile.init_context(ncpu=1, runtime_mode="graph")
        uploaded, ran = torch.arange(3.0).to("nntile"), torch.ones(3, device="nntile") * 5
        ran.cpu()
        made = torch.ones(1, 3, device="nntile")
        lost = [uploaded, ran, made, made + ran, (made * 2)[0, 1:], ran.add_(1)]
        assert torch_nntile.has_pending_graph()
        torch_nntile.shutdown_context()
        for x in lost:
            for read in (lambda: x.cpu(), lambda: repr(x), lambda: (x + 1).cpu()):
                try: read()
                except RuntimeError as error: assert "shut down" in str(error), error
                else: raise SystemExit("data outlived its runtime")
                assert torch.ones(2, device="nntile").sum().item() == 2
        assert made.fill_(3).tolist() == [[3.0] * 3]
    """)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("ncpu=-2", "ncpu must be -1"),
        ("ncuda=-7", "ncuda must be -1"),
        ("runtime_mode='lazy'", "'eager' or 'graph'"),
        ("memory='much'", "positive size"),
        ("memory=0", "positive size"),
        ("memory='8 parsecs'", "positive size"),
        ("memory=8", "at least 1MiB, got '8'; a number without a unit is bytes"),
    ],
)
def test_bad_settings(arguments: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        eval(f"torch_nntile.init_context({arguments})", {"torch_nntile": torch_nntile})


@pytest.mark.parametrize("value", ["'4'", "2.0", "None", "True"])
def test_counts_of_workers_are_ints(value: str) -> None:
    with pytest.raises(TypeError, match="init_context: ncpu must be an int, got"):
        eval(f"torch_nntile.init_context(ncpu={value})", {"torch_nntile": torch_nntile})


def test_a_budget_beyond_the_machine() -> None:
    passes("""
        import numpy, warnings
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch_nntile.init_context(ncpu=numpy.int64(1), memory="900TB")
        (warning,) = caught
        assert "memory='900TB' is more than the" in str(warning.message), warning
        assert warning.filename == "<string>", warning
        assert torch.ones(3, device="nntile").sum().item() == 3
    """)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("NNTILE_RUNTIME_MODE", "Graph", "'eager' or 'graph'"),
        ("NNTILE_WINDOWS", "no", "0 or 1"),
        ("NNTILE_SMALL_CALLS", "often", "a count of calls"),
        ("NNTILE_BLOCKING", "yes", "0 or 1"),
        ("NNTILE_CPU_FALLBACK", "never", "0 or 1"),
        ("NNTILE_PRINT", "graphs", "'passes'"),
        ("STARPU_NCPU", "abc", "a count of workers"),
        ("STARPU_NCUDA", "one", "a count of workers"),
        ("STARPU_NOPENCL", "x", "a number"),
    ],
)
def test_a_wrong_setting_of_the_environment(name: str, value: str, allowed: str) -> None:
    """An import works; the first use says what is wrong, however often it is tried."""
    passes(
        f"""
        words = "the environment variable {name} must be " + {allowed!r} + ", got {value!r}"
        for use in (
            lambda: torch.ones(3, device="nntile"),
            lambda: torch.ones(3).to("nntile"),
            lambda: torch_nntile.init_context(ncpu=1),
            lambda: torch_nntile.stats(),
        ):
            try: use()
            except (RuntimeError, ValueError) as error: assert words in str(error), error
            else: raise SystemExit("it was accepted")
        assert torch.ones(3).sum() == 3
        """,
        **{name: value},
    )


def test_an_unknown_setting_is_named_once() -> None:
    done = python(
        """
        import warnings
        warnings.simplefilter("always")
        assert torch_nntile.runtime_mode() == "eager"
        for _ in range(3): torch.ones(3, device="nntile").sum().item()
        """,
        NNTILE_MODE="graph",
        NNTILE_MEMROY="8GiB",
        NNTILE_FUSE="",
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("UserWarning") == 1 and "NNTILE_FUSE" not in done.stderr, done.stderr
    assert "NNTILE_MODE" in done.stderr and "NNTILE_MEMROY" in done.stderr


@on_cores
def test_cuda_workers_of_the_environment() -> None:
    """One error, and no warning about the host before it."""
    done = python(
        """
        x = torch.ones(3, device="nntile")
        x @ x
        """,
        STARPU_NCUDA="1",
    )
    assert done.returncode == 1 and "Warning" not in done.stderr, done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("RuntimeError") and "STARPU_NCUDA" in last and "no CUDA" in last, last


@pytest.mark.multi
@not_emulated
def test_fork() -> None:
    passes("""
        import os
        import sys, time
        x = torch.ones(2, device="nntile", requires_grad=True)
        (x * x).sum().backward()
        x.grad.cpu()
        begin = time.monotonic()
        child = os.fork()
        if child == 0:
            for call in (lambda: (x + 1).cpu(), lambda: torch.ones(2, device="nntile"), x.cpu):
                try: call()
                except RuntimeError as error: assert "fork" in str(error)
                else: os._exit(1)
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert time.monotonic() - begin < 8, "a child waits for threads of autograd that it lacks"
        assert (x + 1).tolist() == [2.0, 2.0]
    """)


def test_memory_that_does_not_fit() -> None:
    passes("""
        torch_nntile.init_context(ncpu=1, memory="64MiB")
        try: torch.ones(64 << 20, device="nntile").add(1).cpu()
        except torch.OutOfMemoryError as error: assert "64" in str(error), error
        else: raise SystemExit("256 MiB fitted into 64")
        assert torch.ones(2, device="nntile").sum().item() == 2
    """)


@pytest.mark.multi
@pytest.mark.parametrize("end", ["", "torch_nntile.shutdown_context()", "raise SystemExit(0)"])
def test_exit_right_after_backward(end: str) -> None:
    passes(f"""
        x = torch.ones(64, 64, device="nntile", requires_grad=True)
        (x @ x).relu().sum().backward()
        {end}
    """)


def test_exit_with_an_error_nobody_read() -> None:
    done = python("""
        torch.nn.functional.embedding(torch.tensor([9], device="nntile"), torch.ones(2, 2, device="nntile"))
    """)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "environment",
    [
        {"HWLOC_SYNTHETIC": "numa:1(memory=1000000000) core:2 pu:1"},
        {"STARPU_USE_NUMA": "1", "STARPU_LIMIT_CPU_NUMA_0_MEM": "300"},
    ],
    ids=["a machine of 1 GB", "a limit"],
)
def test_starpu_knows_of_less_memory(environment: dict[str, str]) -> None:
    """The budget bounds memory; what StarPU thinks there is must not."""
    done = python(
        """
        torch_nntile.init_context(ncpu=2, memory="4GiB")
        tiles = [torch.empty(32 << 20, device="nntile") for _ in range(12)]  # pages stay untouched
        for x in tiles: x[:4].fill_(1).cpu()
        assert torch.nntile.memory_reserved() > 1_200_000_000
        """,
        timeout=60,
        **environment,
    )
    assert done.returncode == 0, done.stderr


@not_emulated
def test_limited_address_space() -> None:
    """`ulimit -v`: an OutOfMemoryError, whatever the budget, and room for threads that start later."""
    passes("""
        import resource, threading
        pages = int(open("/proc/self/statm").read().split()[0])
        limit = pages * resource.getpagesize() + (3 << 30)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        for memory in (None, "64GiB"):
            torch_nntile.init_context(ncpu=2, memory=memory)
            tensors = []
            try:
                while len(tensors) < 400:
                    tensors.append(torch.empty(4 << 20, device="nntile"))
                    tensors[-1][:1].fill_(1).cpu()
            except torch.OutOfMemoryError: pass
            else: raise SystemExit("6 GiB fitted into 3")
            assert len(tensors) > 50
            seen = []
            thread = threading.Thread(target=lambda: seen.append(bytearray(16 << 20)))
            thread.start(); thread.join()
            assert seen
            tensors.clear()
            x = torch.ones(64, 64, device="nntile", requires_grad=True)
            (x @ x).sum().backward()  # begins a thread of autograd
            assert x.grad.cpu()[0, 0] == 128
            del x
            torch_nntile.shutdown_context()
    """)


QUEUE = """
import os, signal, subprocess, threading, time
torch_nntile.init_context(ncpu=1)
a = torch.eye(256).roll(1, 0).to("nntile")  # too small to be cut; powers stay as large as it is
def queue(count):
    x = a
    for _ in range(count): x = x @ a
    return x
def seconds(count):
    begin = time.monotonic(); queue(count).sum().item(); return time.monotonic() - begin
def kill(name):
    global sent
    def later():
        global sent
        time.sleep(0.3)
        sent = time.monotonic()
        subprocess.run(["kill", f"-{name}", str(os.getpid())])
    threading.Thread(target=later).start()
seconds(200)
a_second = int(200 / min(seconds(200) for _ in range(3)))
"""


def test_signals_end_waits() -> None:
    """Each ends at the signal, with the handler's exception; the work goes on; the device works."""
    done = python(
        QUEUE
        + """
def alarmed(number, frame): raise TimeoutError("too late")
signal.signal(signal.SIGALRM, alarmed)
signal.signal(signal.SIGUSR1, lambda number, frame: None)
short = queue(2 * a_second)
kill("USR1")  # its handler returns, so the wait goes on
assert not torch.isnan(short).any().item()
early = (a * 0 + 1).sum()
x = queue(14 * a_second); y = x.sum()
def backward():
    product = torch.ones(2, device="nntile", requires_grad=True) * 2
    product.register_hook(lambda gradient: x.cpu().to("nntile"))
    product.sum().backward()
for name, wait in {
    "item": y.item, "cpu": x.cpu, "bool": lambda: bool(y > 0), "wait": torch_nntile.wait,
    "synchronize": torch.nntile.synchronize, "accelerator": torch.accelerator.synchronize,
    "nonzero": x.nonzero, "backward": backward, "shutdown": torch_nntile.shutdown_context,
}.items():
    kill("INT")
    try: wait()
    except KeyboardInterrupt: print(f"{name}: {time.monotonic() - sent:.3f} s")
    else: raise SystemExit(f"{name}: no KeyboardInterrupt")
    assert time.monotonic() - sent < 2, name
kill("ALRM")
try: x.cpu()
except TimeoutError as error: assert str(error) == "too late"
else: raise SystemExit("no TimeoutError")
kill("ALRM")
try: torch_nntile.wait()
except TimeoutError as error: assert str(error) == "too late"
else: raise SystemExit("no TimeoutError")
begin = torch.nntile.memory_stats()
assert begin["in_flight"] > a_second  # so these were waits
time.sleep(0.5)
assert torch.nntile.memory_stats()["in_flight"] < begin["in_flight"]  # the work goes on
assert early.item() == 256 * 256
"""
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_exit_drops_work() -> None:
    """An uncaught Ctrl-C ends the process, not the work."""
    done = python(
        QUEUE
        + """
import sys
y = queue(10 * a_second).sum()
hook = sys.excepthook
sys.excepthook = lambda *error: (hook(*error), print(time.monotonic(), flush=True))
kill("INT")
y.item()
"""
    )
    assert done.returncode != 0 and "KeyboardInterrupt" in done.stderr, done.stderr
    assert time.monotonic() - float(done.stdout) < 4
