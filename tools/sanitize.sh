#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Run the C++ tests in a build with a sanitizer: sanitize.sh [address,undefined | thread]; both by default.
# StarPU itself is built without: what only StarPU's own threads do is suppressed for TSan.
set -eu
cd "$(dirname "$0")/.."
root=$(pwd)
PATH="$root/.venv/bin:$PATH"
export ASAN_OPTIONS="detect_leaks=1:strict_string_checks=1"
export LSAN_OPTIONS="suppressions=$root/tests/sanitize.supp:print_suppressions=0"
export UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1"
export TSAN_OPTIONS="suppressions=$root/tests/sanitize.supp"

for sanitizer in "${@:-address,undefined thread}"; do
    for kind in $sanitizer; do
        build=build/sanitize-$(echo "$kind" | cut -d , -f 1)
        if [ ! -f "$build/build.ninja" ]; then
            pkg_config_path=
            pkg-config --atleast-version=1.4.5 starpu-1.4 || pkg_config_path=$(sh tools/build_starpu.sh)
            meson setup "$build" -Dbuildtype=debugoptimized -Db_ndebug=false -Db_sanitize="$kind" -Db_lundef=false \
                -Dtorch=disabled -Dtests=enabled -Dpkg_config_path="$pkg_config_path" > /dev/null
        fi
        meson test -C "$build" --print-errorlogs --num-processes 1
    done
done
