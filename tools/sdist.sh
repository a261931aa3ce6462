#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The source of the last commit as an archive in dist/. `pip install dist/torch_nntile-*.tar.gz` builds it.
set -eu
cd "$(dirname "$0")/.."
PATH="$(pwd)/.venv/bin:$PATH" PYTHONPATH=tools
PKG_CONFIG_PATH=$(sh tools/build_starpu.sh)${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export PATH PYTHONPATH PKG_CONFIG_PATH SOURCE_DATE_EPOCH
mkdir -p dist
python -c 'import build_backend; build_backend.build_sdist("dist", {})' > build/sdist.log 2>&1 ||
    { cat build/sdist.log; exit 1; }
ls -l dist/*.tar.gz
