# SPDX-License-Identifier: BSD-3-Clause
"""Programs of their own on emulated devices, for tests that limit or break them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

EMULATED = "cuda_emulation" in os.environ.get("LD_LIBRARY_PATH", "")
emulated = pytest.mark.skipif(not EMULATED, reason="needs an emulated device")
not_emulated = pytest.mark.skipif(EMULATED, reason="emulated devices are part of the process")
GPUS = os.environ.get("STARPU_NCUDA", "0") != "0"
on_cores = pytest.mark.skipif(GPUS, reason="of cores alone")


def alone(program: str, *arguments: str, timeout: float = 240, **environment: str) -> str:
    """What a program prints that runs with the built-in constants of cost."""
    given = {name: value for name, value in os.environ.items() if name != "NNTILE_COST"}
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=given | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


# Begins a program that counts what its devices do.
COUNTED = """
import cffi
import torch, torch_nntile

ffi = cffi.FFI()
ffi.cdef('''
typedef struct {
    long long launches, copies_to, copies_from, copies_between, bytes_to, bytes_from, bytes_between;
    long long pageable, live_bytes, peak_bytes;
} Counts;
Counts emulation_counts();
''')
device = ffi.dlopen("libcudart.so.13")  # the emulated one


def counts():
    torch_nntile.wait()
    return device.emulation_counts()
"""
