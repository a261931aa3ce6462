#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What the package needs to be built and to train the example, from a fresh Debian 12 on: system packages,
# .venv, PyTorch, StarPU, an editable install. "setup.sh all": also what tests, lint, the ABI gate and wheels
# need. Ends at once when nothing of what it depends on has changed.
set -eu
cd "$(dirname "$0")/.."
root=$(pwd)
torch=2.13.0
[ "${1:-}" = all ] && all=1 || all=

inputs="pyproject.toml VERSION meson.options tools/setup.sh tools/build_backend.py tools/build_starpu.sh"
inputs="$inputs tools/fetch_starpu.py"
key=$(cat $inputs subprojects/*.wrap subprojects/packagefiles/starpu/* | sha256sum)
is_done() { [ -x .venv/bin/python ] && [ -f "build/$1.stamp" ] && [ "$(cat "build/$1.stamp")" = "$key $root" ]; }
is_done setup && built=1 || built=
if [ "$built" ]; then
    # Meson finds source files when it runs; ninja would not see that there are others now.
    [ "$(.venv/bin/python tools/list_sources.py all)" = "$(cat build/dev/sources.txt)" ] || touch meson.build
    [ "$all" ] && ! is_done setup-all || exit 0
fi

say() { printf '\n== %s\n' "$*"; }

# System packages: compiler, hwloc, SLEEF, Python headers; 60,000 real images; for the ABI gate.
packages="g++ ccache make git pkg-config libhwloc-dev libsleef-dev python3-dev python3-venv dataset-fashion-mnist"
packages="$packages${all:+ abigail-tools}"
install_packages() {
    command -v dpkg-query >/dev/null || { echo "No Debian: please see to it that you have $packages"; return; }
    missing=
    for package in $packages; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    say "System packages:$missing"
    as_root=
    if [ "$(id -u)" != 0 ]; then
        as_root=sudo
        command -v sudo >/dev/null || { echo "Not root, no sudo. Please install:$missing"; exit 1; }
    fi
    $as_root apt-get -q update
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qy install --no-install-recommends $missing
}
install_packages

python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "Python 3.10 or newer is needed"; exit 1; }
# One whose making was interrupted has no pip.
if ! .venv/bin/python -m pip --version > /dev/null 2>&1; then
    say "Python environment in .venv"
    rm -rf .venv
    python3 -m venv .venv
fi
PATH="$root/.venv/bin:$PATH"
export PATH PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_REQUIRE_VIRTUALENV=1
python -m pip install -qq --upgrade 'pip>=23.1'

# The CPU build, from PyTorch's own index or from wherever pip is told to look: PyPI's builds for Linux
# bring gigabytes of CUDA. Where there is no such build, PyPI's. Its dependencies come with the other
# packages, so that a second index is asked once. (-qq: errors are shown, warnings of retries are not.)
if ! python -m pip show torch 2>/dev/null | grep -q '^Version: 2\.13\.'; then
    say "PyTorch $torch"
    python -m pip install -qq --retries 1 --no-deps --extra-index-url https://download.pytorch.org/whl/cpu \
        "torch==$torch+cpu" || python -m pip install -qq --no-deps "torch==$torch"
fi

say "Python packages"
python - ${all:+test ecosystem lint wheel} <<'REQUIREMENTS' | python -m pip install -qq -r /dev/stdin
import sys
try:
    import tomllib
except ImportError:  # Python 3.10
    from pip._vendor import tomli as tomllib
with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)
groups = project["project"]["optional-dependencies"]
print("\n".join([*project["build-system"]["requires"], *project["project"]["dependencies"],
                 *(line for group in ("plot", "kernels", *sys.argv[1:]) for line in groups[group])]))
REQUIREMENTS

if [ "$all" ]; then
    mkdir -p build
    echo "$key $root" > build/setup-all.stamp
fi
[ -z "$built" ] || exit 0

setup="-Ddebug=true -Dtests=enabled"
if ! pkg-config --atleast-version=1.4.5 starpu-1.4; then
    say "StarPU"
    setup="$setup -Dpkg_config_path=$(sh tools/build_starpu.sh)"
fi

say "torch_nntile"
rm -rf build/dev
set --
for option in $setup; do set -- "$@" "-Csetup-args=$option"; done
python -m pip install --quiet --no-build-isolation --no-deps -Cbuild-dir=build/dev "$@" --editable .
echo "$key $root" > build/setup.stamp
