# SPDX-License-Identifier: BSD-3-Clause
"""The build backend (PEP 517): meson-python, and a wheel that says for whom it is.

pyproject.toml names all versions that stubs can be built for. A wheel has stubs for some of them,
`pip install .` for one: its Requires-Dist is narrowed to those. Its extensions keep to the stable ABI
of Python 3.10, whichever newer one has built it: so says its tag. An editable install says when an
import compiles.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mesonpy import build_editable as meson_editable
from mesonpy import (
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
)
from mesonpy import build_wheel as meson_wheel

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
]

OLDEST = "cp310-abi3"  # limited_api of torch_nntile/meson.build
STUB = re.compile(r"torch_nntile/_stubapi_(\d+)_(\d+)\.")
TAG = re.compile(r"\bcp3\d+-abi3\b")
REQUIRES = re.compile(r"^Requires-Dist: torch(?=[<>=!~ ]).*$", re.MULTILINE)

# The end of meson-python's loader, which else compiles in silence, for minutes. To ask ninja takes as long
# as to let it find out that there is nothing to do. Two ninjas in one folder, of two processes that import,
# leave objects of old sources behind: one has to wait.
LOADER = "_torch_nntile_editable_loader.py"
SAYS_SO = """

def _rebuild(self, quietly=MesonpyMetaFinder._rebuild):
    import fcntl

    with open(os.path.join(self._build_path, '.import-lock'), 'a') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not self._verbose and not os.environ.get(VERBOSE):
            marks = os.pathsep.join((os.environ.get(MARKER, ''), self._build_path))
            if self._work_to_do({**os.environ, MARKER: marks}):
                said = f'{self._name}: compiles what has changed, in {self._build_path}'
                print(said, file=sys.stderr, flush=True)
                os.environ.setdefault('CCACHE_SLOPPINESS', 'pch_defines,time_macros,locale')
            else:
                self._build_cmd = ['true']
        return quietly(self)


MesonpyMetaFinder._rebuild = functools.lru_cache(maxsize=1)(_rebuild)
"""


def served(names: list[str]) -> str:
    """ "torch>=2.10,<2.16" for a wheel with these files; "" if it has no stub."""
    minors = sorted((int(found[1]), int(found[2])) for name in names if (found := STUB.match(name)))
    if not minors:
        return ""
    (first_major, first), (last_major, last) = minors[0], minors[-1]
    between = [f"!={last_major}.{k}.*" for k in range(first, last) if (last_major, k) not in minors]
    return ",".join([f"torch>={first_major}.{first}", *between, f"<{last_major}.{last + 1}"])


def narrow(wheel: Path) -> Path:
    """Write the wheel anew with what it serves, under the name that says so."""

    def change(name: str, data: bytes, names: list[str]) -> bytes:
        requires = served(names)
        if name.endswith(".dist-info/METADATA") and requires:
            text, count = REQUIRES.subn(f"Requires-Dist: {requires}", data.decode())
            if count != 1:
                raise RuntimeError(f"{wheel.name}: {count} lines require torch, not one")
            return text.encode()
        if name.endswith(".dist-info/WHEEL"):
            return TAG.sub(OLDEST, data.decode()).encode()
        return data

    rewrite(wheel, change)
    return wheel.rename(wheel.with_name(TAG.sub(OLDEST, wheel.name)))


def rewrite(wheel: Path, change: Callable[[str, bytes, list[str]], bytes]) -> None:
    """Put change(name, data, names of all files) in the place of each file, and into the record."""
    with zipfile.ZipFile(wheel) as archive:
        files = [(info, archive.read(info)) for info in archive.infolist()]
    names = [info.filename for info, _ in files]
    new = {name: change(name, data, names) for name, (_, data) in zip(names, files, strict=True)}
    changed = {
        info.filename: new[info.filename] for info, data in files if new[info.filename] != data
    }
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for info, data in files:
            record = info.filename.endswith(".dist-info/RECORD")
            archive.writestr(info, _record(data, changed) if record else new[info.filename])


def _record(data: bytes, changed: dict[str, bytes]) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for name, digest, size in csv.reader(io.StringIO(data.decode())):
        row = [name, digest, size]
        if name in changed:
            sum256 = base64.urlsafe_b64encode(hashlib.sha256(changed[name]).digest())
            row = [name, "sha256=" + sum256.rstrip(b"=").decode(), str(len(changed[name]))]
        writer.writerow(row)
    return out.getvalue().encode()


def build_wheel(
    wheel_directory: str,
    config_settings: dict[Any, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """As PEP 517 says."""
    name: str = meson_wheel(wheel_directory, config_settings, metadata_directory)
    return narrow(Path(wheel_directory) / name).name


def build_editable(
    wheel_directory: str,
    config_settings: dict[Any, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """As PEP 660 says."""
    name: str = meson_editable(wheel_directory, config_settings, metadata_directory)

    def change(file: str, data: bytes, _: list[str]) -> bytes:
        # A later meson-python may have other names: then it compiles in silence.
        known = all(f"def {method}(".encode() in data for method in ("_rebuild", "_work_to_do"))
        return data + SAYS_SO.encode() if file == LOADER and known else data

    rewrite(Path(wheel_directory) / name, change)
    return name
