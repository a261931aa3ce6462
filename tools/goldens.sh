#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Write anew what tests compare the tree with and a program can tell: how rows are cut, what docs print, the ABI
# baseline. Read what changed (git diff) before you commit it. What is measured (op_support, models, device_tests)
# has commands of its own, which its page names.
set -eu
cd "$(dirname "$0")/.."
PATH="$(pwd)/.venv/bin:$PATH"
test=tests/tests-tile-test_cuts_of_rows
ninja -C build/dev --quiet $test
(cd tests && NNTILE_COST=machine.cost ../build/dev/$test write)
python tools/make_docs.py
sh tools/abi_gate.sh --update
