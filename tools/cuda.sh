#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The core with workers for GPUs, and its tests, in build/cuda. Needs no GPU, no driver and no root: compiler and
# headers come from PyPI, StarPU is built with its CUDA driver.
set -eu
cd "$(dirname "$0")/.."
PATH="$(pwd)/.venv/bin:$PATH"
pkg_config_path=$(sh tools/build_starpu.sh cuda)
if [ ! -f build/cuda/build.ninja ] || [ "$(cat build/cuda/starpu 2>/dev/null)" != "$pkg_config_path" ]; then
    rm -rf build/cuda
    meson setup build/cuda -Dbuildtype=release -Ddebug=true -Dcuda=enabled -Dtorch=disabled -Dtests=enabled \
        -Dpkg_config_path="$pkg_config_path" > /dev/null
    echo "$pkg_config_path" > build/cuda/starpu
fi
# Meson lists files when it runs, so a new one makes it run again.
[ "$(python tools/list_sources.py all)" = "$(cat build/cuda/sources.txt)" ] || touch meson.build
ninja -C build/cuda --quiet "$@"
