#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The pages as a site in build/site. Any warning is an error, such as a link that leads nowhere.
set -eu
cd "$(dirname "$0")/.."
NNTILE_ROOT=$(pwd)
export NNTILE_ROOT PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_REQUIRE_VIRTUALENV=1

# What the extra "docs" names, if it is not there. (The set-up does not install it: tests do not need it.)
.venv/bin/python - > build/docs.txt <<'REQUIREMENTS'
from importlib import metadata
try:
    import tomllib
except ImportError:  # Python 3.10
    from pip._vendor import tomli as tomllib
with open("pyproject.toml", "rb") as file:
    wanted = tomllib.load(file)["project"]["optional-dependencies"]["docs"]
there = {f"{d.name}=={d.version}".lower() for d in metadata.distributions()}
print("\n".join(line for line in wanted if line not in there))
REQUIREMENTS
if grep -q . build/docs.txt; then
    .venv/bin/python -m pip install -qq -r build/docs.txt
fi

# A copy of the pages and of what they link to, at the same places, so that Sphinx sees nothing else.
rm -rf build/docs
mkdir -p build/docs
git ls-files -z --cached --others --exclude-standard -- '*.md' LICENSE NOTICE docs examples \
    libnntile_c/include tests/ecosystem tests/gpu tests/torch/estimated_models.py |
    xargs -0 cp --parents --preserve=timestamps -t build/docs
mv build/docs/docs/site/index.md build/docs
.venv/bin/python -m sphinx --quiet --fail-on-warning --keep-going --fresh-env -j 2 \
    -c docs/site -d build/doctrees build/docs build/site "$@"
echo "build/site/index.html"
