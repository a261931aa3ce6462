#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Run the C++ tests in a build with a sanitizer: sanitize.sh [address,undefined | thread]; both by default.
# sanitize.sh fuzz SECONDS: the fuzzer on the core of the first build; what PyTorch calls is the usual stub.
# For TSan StarPU is built with it too: else its locks could not be seen. Its own races are suppressed.
set -eu
cd "$(dirname "$0")/.."
root=$(pwd)
PATH="$root/.venv/bin:$PATH"
export ASAN_OPTIONS="detect_leaks=1:strict_string_checks=1"
export LSAN_OPTIONS="suppressions=$root/tests/lsan.supp:print_suppressions=0"
export UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1"
export HWLOC_PLUGINS_PATH=/none # they are unloaded before the leak checker could say whose memory it is
export TSAN_OPTIONS="suppressions=$root/tests/tsan.supp"

# The C ABI gets enums from C, where they may be any number, and checks them: not an error (-fno-sanitize=enum).
built() {  # built KIND: builds all, also the libraries that lie beside ours, and prints the build folder
    case "$1" in
        address,undefined | thread) ;;
        *) echo "sanitize.sh: no sanitizer '$1'" >&2; exit 2 ;;
    esac
    build=build/sanitize-$(echo "$1" | cut -d , -f 1)
    if [ ! -f "$build/build.ninja" ]; then
        pkg_config_path=
        if [ "$1" = thread ]; then pkg_config_path=$(sh tools/build_starpu.sh thread)
        else pkg-config --atleast-version=1.4.5 starpu-1.4 || pkg_config_path=$(sh tools/build_starpu.sh)
        fi
        meson setup "$build" -Dbuildtype=debugoptimized -Db_pch=false -Db_ndebug=false \
            -Db_sanitize="$1" -Db_lundef=false \
            -Dcpp_args="-fno-sanitize=enum -D_GLIBCXX_ASSERTIONS" \
            -Dtorch=disabled -Dtests=enabled -Dpkg_config_path="$pkg_config_path" > /dev/null
    fi
    ninja -C "$build" >&2
    echo "$build"
}

if [ "${1:-}" = fuzz ]; then
    core=$(built address,undefined)/libnntile_c/libnntile_c.so
    export ASAN_OPTIONS="detect_leaks=0:detect_odr_violation=0" PYTHONPATH=tests
    LD_PRELOAD="$(cc -print-file-name=libasan.so) $(cc -print-file-name=libubsan.so) $root/$core" \
        python -W ignore -m fuzz --seconds "${2:-600}"
    exit
fi
for sanitizer in "${@:-address,undefined thread}"; do
    for kind in $sanitizer; do
        build=$(built "$kind")  # set -e ends here if it does not build
        meson test -C "$build" --print-errorlogs --num-processes 1
    done
done
