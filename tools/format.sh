#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Write all files in the format that lint wants; `format.sh --check` names those that have another.
set -eu
cd "$(dirname "$0")/.."
PATH="$(pwd)/.venv/bin:$PATH"
sources() { git ls-files --cached --others --exclude-standard -z -- '*.cc' '*.cu' '*.hh' '*.h' '*.c'; }
if [ "${1-}" = --check ]; then
    ruff format --check --quiet .
    sources | xargs -0 clang-format --dry-run --Werror
    exit
fi
ruff check --fix --quiet . || true  # what it cannot mend, lint names
ruff format --quiet .
sources | xargs -0 clang-format -i
