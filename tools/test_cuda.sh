#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Tests with CUDA workers on devices that tests/cuda_emulation makes: the emulation itself, kernels, then PyTorch's
# layers on the core of build/cuda (the stub is the usual one). test_cuda.sh FILE...: other tests of Python.
set -eu
cd "$(dirname "$0")/.."
root=$(pwd)
sh tools/cuda.sh
PATH="$root/.venv/bin:$PATH"
meson test -C build/cuda --suite cuda --print-errorlogs --num-processes "${PROCESSES:-2}"
export LD_LIBRARY_PATH="$root/build/cuda/tests/cuda_emulation"
export LD_PRELOAD="$root/build/cuda/libnntile_c/libnntile_c.so"
export STARPU_NCUDA=1
[ $# -gt 0 ] || set -- tests/cuda tests/torch/test_layers.py
python -m pytest -q -n "${PROCESSES:-2}" --dist worksteal -m "not slow and not bench" "$@"
