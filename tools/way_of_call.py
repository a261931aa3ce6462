# SPDX-License-Identifier: BSD-3-Clause
"""Lists the files on the way of gelu(x), on a plan that is known: every file of ours that runs code.

A child process calls gelu until its plan is known. This process then steps all of the child's
threads, one instruction at a time, through one more call (Linux on x86-64, ptrace). The debug
information of the libraries says which line an instruction is from, inlined functions included.
A header and its source count as one.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from cffi import FFI

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("libnntile_c", "torch_nntile")
SEIZE, INTERRUPT, STEP, PEEKUSER, RIP = 0x4206, 0x4207, 9, 3, 128
CLONES = 8  # PTRACE_O_TRACECLONE: threads that begin during the call are stepped too

CHILD = """
import os, sys, torch, torch_nntile
x = torch.randn(64, 64).to("nntile")
def call():
    y = torch.nn.functional.gelu(x)
    torch_nntile.wait()
    return y  # what nobody can read is not computed
for _ in range(5):
    y = call()
modules = set()
sys.setprofile(lambda frame, event, _: modules.add(frame.f_code.co_filename))
y = call()
sys.setprofile(None)
print("\\n".join(modules), flush=True)
print("ready", flush=True)
sys.stdin.read(1)
y = call()
print("done", flush=True)
sys.stdin.read()
os._exit(0)
"""


def threads(child: int) -> list[int]:
    return [int(name.name) for name in Path(f"/proc/{child}/task").iterdir()]


def addresses(child: int, stdin: int, stdout: int) -> set[int]:
    """Of the instructions that the child's threads run till it says that the call is over."""
    ffi = FFI()
    ffi.cdef("long ptrace(int request, long thread, long address, long data);")
    ptrace = ffi.dlopen(None).ptrace
    for thread in threads(child):
        if ptrace(SEIZE, thread, 0, CLONES) != 0 or ptrace(INTERRUPT, thread, 0, 0) != 0:
            raise OSError(ffi.errno, "ptrace")
    os.write(stdin, b"\n")
    os.set_blocking(stdout, False)
    found: set[int] = set()
    while True:
        thread, status = os.waitpid(-1, 0x40000000)  # __WALL
        if not os.WIFSTOPPED(status):
            return found
        found.add(ptrace(PEEKUSER, thread, RIP, 0))
        number = os.WSTOPSIG(status)
        ptrace(STEP, thread, 0, 0 if number in {signal.SIGTRAP, signal.SIGSTOP} else number)
        with contextlib.suppress(BlockingIOError):
            if os.read(stdout, 100):
                return found


def lines(library: str, offsets: list[int]) -> Iterator[str]:
    """Of the sources that these instructions of a library are from."""
    text = "\n".join(map(hex, offsets))
    command = ["addr2line", "--inlines", "--exe", library]
    run = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    yield from run.stdout.splitlines()


def mapped(child: int, found: set[int]) -> dict[str, list[int]]:
    """Library of ours -> where in it these addresses are."""
    offsets: dict[str, list[int]] = {}
    for line in Path(f"/proc/{child}/maps").read_text().splitlines():
        span, flags, offset, _, _, *path = line.split(maxsplit=5)
        begin, end = (int(part, 16) for part in span.split("-"))
        if "x" in flags and path and ROOT in Path(path[0]).parents and ".so" in path[0]:
            inside = [a - begin + int(offset, 16) for a in found if begin <= a < end]
            offsets.setdefault(path[0], []).extend(inside)
    return {path: inside for path, inside in offsets.items() if inside}


def way() -> list[str]:
    """Files, by their paths in the tree, without endings: a header and its source are one.

    Raises:
        OSError: this machine does not let a process step another.
    """
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdin and child.stdout
    try:
        names = [line.decode().strip() for line in iter(child.stdout.readline, b"ready\n")]
        found = addresses(child.pid, child.stdin.fileno(), child.stdout.fileno())
        for library, offsets in mapped(child.pid, found).items():
            names += [line.rsplit(":", 1)[0] for line in lines(library, offsets)]
    finally:
        child.kill()
    paths = {Path(os.path.normpath(ROOT / "build" / "dev" / name)) for name in names}
    inside = [path.relative_to(ROOT) for path in paths if ROOT in path.parents and path.is_file()]
    return sorted({str(p.with_suffix("")) for p in inside if p.parts[0] in FOLDERS})


if __name__ == "__main__":
    print("\n".join(way()))
