#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The C ABI may grow but not change: what the library exports is what the headers name, and abidiff finds
# nothing between it and the baseline. `abi_gate.sh --update` writes a new baseline, for an addition.
set -eu
cd "$(dirname "$0")/.."
PATH="$(pwd)/.venv/bin:$PATH"
library=build/dev/libnntile_c/libnntile_c.so
headers=libnntile_c/include
baseline=libnntile_c/abi/nntile_c.abi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

ninja -C build/dev --quiet
python tools/list_symbols.py headers "$headers"/nntile/*.h > "$scratch/headers"
python tools/list_symbols.py library "$library" > "$scratch/library"
diff "$scratch/headers" "$scratch/library" || { echo "abi: < only in the headers, > only in the library" >&2; exit 1; }

# Our functions only (StarPU is inside), without locations, paths and line numbers: the text changes only with
# the ABI.
abidw --headers-dir "$headers" --exported-interfaces-only --drop-private-types --no-elf-needed --no-show-locs \
    --no-corpus-path --no-comp-dir-path --out-file "$scratch/now.abi" "$library"
if [ "${1-}" = --update ]; then
    cp "$scratch/now.abi" "$baseline"
    echo "abi: wrote $baseline, $(wc -l < "$scratch/headers") functions"
    exit 0
fi
abidiff --no-added-syms "$baseline" "$scratch/now.abi" ||
    { echo "abi: differs from $baseline. An addition: tools/abi_gate.sh --update. A change: not allowed." >&2; exit 1; }
# Additions are allowed, but only together with the baseline.
abidiff "$baseline" "$scratch/now.abi" > "$scratch/added" || true
if [ -s "$scratch/added" ]; then
    cat "$scratch/added"
    echo "abi: functions were added: tools/abi_gate.sh --update" >&2
    exit 1
fi
echo "abi: $(wc -l < "$scratch/headers") functions, as in the headers and in the baseline"
