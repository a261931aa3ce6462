#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The wheel that people install: stubs for all versions of PyTorch (or those named: wheel.sh 2.13 2.14), all
# libraries but PyTorch's inside. No folder of this machine and no time goes in, so that builds can be compared.
# CUDA=1: with workers for GPUs; CUDA's own libraries are not inside.
set -eu
cd "$(dirname "$0")/.."
root=$(pwd)
PATH="$root/.venv/bin:$PATH"
export PATH

folders=$(python tools/fetch_torch.py "$@")
headers=$(dirname "$(echo "$folders" | head -n 1)")

# Of the folders here and of the time nothing may stay: two builds of a commit are equal.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y VERSION)
export SOURCE_DATE_EPOCH
tools_here=$(python -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
map="-ffile-prefix-map=$root=. -ffile-prefix-map=$tools_here=tools -ffile-prefix-map=$headers=torch"
export CFLAGS="${CFLAGS:-} $map" CXXFLAGS="${CXXFLAGS:-} $map" LDFLAGS="${LDFLAGS:-} -Wl,--build-id=none"
if [ -n "${CUDA:-}" ]; then variant=cuda cuda=enabled; else variant=wheel cuda=disabled; fi
PKG_CONFIG_PATH=$(sh tools/build_starpu.sh $variant)${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
export PKG_CONFIG_PATH

rm -rf build/wheel-raw dist/*.whl
# Another list of versions, or other flags, are another build.
build=build/wheel-$(echo "$folders $CFLAGS $PKG_CONFIG_PATH $cuda" | sha256sum | cut -c 1-8)
python -m pip wheel --quiet --no-build-isolation --no-deps -w build/wheel-raw "-Cbuild-dir=$build" \
    "-Csetup-args=-Dtorches=$(echo $folders | tr ' ' ,)" -Csetup-args=-Dcuda=$cuda -Cinstall-args=--strip .

# Grafts hwloc and libgomp; says for which systems the result is (the compiler's libstdc++ decides).
auditwheel repair --exclude libtorch_cpu.so --exclude libc10.so -w dist build/wheel-raw/*.whl
ls -l dist/*.whl
sha256sum dist/*.whl
