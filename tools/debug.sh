#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The core and its C and C++ tests in build/debug: no optimisation, all symbols, assertions of the standard library.
set -eu
cd "$(dirname "$0")/.."
PATH="$(pwd)/.venv/bin:$PATH"
if [ ! -f build/debug/build.ninja ]; then
    pkg_config_path=
    pkg-config --atleast-version=1.4.5 starpu-1.4 || pkg_config_path=$(sh tools/build_starpu.sh)
    meson setup build/debug -Dbuildtype=debug -Db_pch=false -Dcpp_args=-D_GLIBCXX_ASSERTIONS \
        -Dtorch=disabled -Dtests=enabled \
        -Dpkg_config_path="$pkg_config_path" > /dev/null
fi
ninja -C build/debug --quiet
echo "build/debug: gdb build/debug/tests/tests-runtime-test_plan, or meson test -C build/debug --gdb NAME"
