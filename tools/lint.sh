#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The rules of the house that a machine can check. Runs all of them, then fails if any did.
set -u
cd "$(dirname "$0")/.."
PATH="$(pwd)/.venv/bin:$PATH"
failed=0

check() {  # check "rule" command...: the command ends with 0
    rule=$1
    shift
    "$@" || { echo "lint: $rule" >&2; failed=1; }
}
no_match() {  # no_match "rule" REGEX FILE...: prints what matches
    rule=$1
    regex=$2
    shift 2
    [ $# -gt 0 ] || return 0
    if grep -nE "$regex" "$@" /dev/null; then echo "lint: $rule" >&2; failed=1; fi
}
files() { git ls-files --cached --others --exclude-standard -- "$@"; }

check "Python style: ruff check" ruff check --quiet .
check "format: make format" sh tools/format.sh --check
check "Python types: mypy" mypy --no-error-summary
check "includes go one way" python tools/check_layers.py
check "workflows: the schema" check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
check "workflows: zizmor" zizmor --offline --quiet --no-progress .github/workflows

no_match "only src/runtime includes <starpu.h>" '#include <starpu' \
    $(files libnntile_c torch_nntile | grep -vE '^libnntile_c/(src/runtime/|meson.build)')
no_match "only _c.py says lib." '\blib\.' $(files 'torch_nntile/*.py' | grep -v '/_c\.py$')
no_match "no torch in libnntile_c" '#include <(torch|ATen|c10)/' $(files libnntile_c)
no_match "catch only at the ABI, in codelets and where graphs are submitted" '\bcatch *\(' \
    $(files libnntile_c/src | grep -vE '^libnntile_c/src/(abi/|runtime/codelet|record/submit)')
no_match "no line over 120 columns" '^.{121,}' $(files '*.cc' '*.hh' '*.h' '*.def' '*.c' '*.sh' '*meson.build')
no_match "no space at the end of a line" '[[:blank:]]+$' $(files '*.cc' '*.hh' '*.h' '*.c' '*.py' '*.sh' '*meson.build')

for file in $(files '*.cc' '*.cu' '*.hh' '*.h' '*.c' '*.def' '*.map' '*.py' '*.sh' '*meson.build' Makefile); do
    head -n 2 "$file" | grep -q 'SPDX-License-Identifier: BSD-3-Clause' ||
        case "$file" in *.map) ;; *) echo "$file: no SPDX line"; failed=1 ;; esac
done
# A question, not a rule: is each of these still one room?
for file in $(files '*.cc' '*.hh' '*.h' '*.py'); do
    [ "$(wc -l < "$file")" -le 400 ] || echo "over 400 lines: $file"
done

# What imitates the CPU (strides, dtypes, errors, batches of its kernels): printed, so that growth is seen.
habits="torch_nntile/csrc/shapes/habits.cc torch_nntile/csrc/shapes/cpu_strides.cc torch_nntile/csrc/rows/row_results.cc
        torch_nntile/csrc/shapes/meta.cc torch_nntile/csrc/host/fallback.cc torch_nntile/compositions/forms.py"
# shellcheck disable=SC2086 # file names without spaces
echo "the CPU's habits: $(cat $habits | wc -l) lines; calls and compositions: $(
    cat $(files torch_nntile/csrc) torch_nntile/compositions/*.py torch_nntile/dispatch.py | wc -l)"

exit $failed
