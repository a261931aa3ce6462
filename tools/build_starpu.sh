#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Build the StarPU subproject once into build/starpu-KEY, for all builds of this checkout: inside of a Meson
# build it would be configured again with every reconfiguration. Prints the folder for pkg-config.
# build_starpu.sh thread: a second one, with -fsanitize=thread. build_starpu.sh wheel: one whose bytes do not
# depend on where it was built, with the flags of the environment. build_starpu.sh cuda: one with the CUDA driver.
set -eu
cd "$(dirname "$0")/.."
key=$(cat subprojects/*.wrap subprojects/packagefiles/starpu/* | sha256sum | cut -c 1-12)
prefix="$(pwd)/build/starpu-$key${1:+-$1}"
options=
case "${1:-}" in
"") ;;
cuda)
    toolkit=$(python3 tools/fetch_cuda.py)
    prefix="$(pwd)/build/starpu-$key-$(basename "$toolkit")"
    options="-Dcuda=enabled -Dtoolkit=$toolkit"
    ;;
wheel) export CFLAGS="-O2 ${CFLAGS:-}" ;;
*) export CFLAGS="-g -O2 -fsanitize=$1" LDFLAGS="-fsanitize=$1" ;;
esac
if [ ! -f "$prefix/lib/pkgconfig/starpu-1.4.pc" ]; then
    name=$(python3 tools/fetch_starpu.py)
    source=subprojects/$(sed -n 's/^directory = //p' "subprojects/$name.wrap")
    rm -rf "$source" "$prefix-work"
    {
        meson subprojects download "$name"
        meson setup $options --prefix "$prefix" --libdir lib "$prefix-work" "$source"
        meson compile -C "$prefix-work" "$(basename "$source")"
        meson install -C "$prefix-work" --quiet
        # Nobody is linked with CUDA's libraries: base/cuda/loader.cc loads them.
        [ -z "$options" ] || sed -i -e 's# -Wl,-rpath,[^ ]*##g' -e "s# -[LI]$toolkit[^ ]*##g" \
            -e 's# -lcudart -lcublas##g' "$prefix/lib/pkgconfig/starpu-1.4.pc"
    } >&2
    rm -rf "$prefix-work"
fi
echo "$prefix/lib/pkgconfig"
