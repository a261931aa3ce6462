# SPDX-License-Identifier: BSD-3-Clause
"""The build backend (PEP 517): meson-python, and a wheel that says for whom it is.

pyproject.toml names all versions that stubs can be built for. A wheel has stubs for some of them,
`pip install .` for one: its Requires-Dist is narrowed to those. Its extensions keep to the stable ABI
of Python 3.10, whichever newer one has built it: so says its tag.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
import zipfile
from pathlib import Path
from typing import Any

from mesonpy import (
    build_editable,
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
    with zipfile.ZipFile(wheel) as archive:
        files = [(info, archive.read(info)) for info in archive.infolist()]
    requires = served([info.filename for info, _ in files])
    changed: dict[str, bytes] = {}
    for info, data in files:
        if info.filename.endswith(".dist-info/METADATA") and requires:
            text, count = REQUIRES.subn(f"Requires-Dist: {requires}", data.decode())
            if count != 1:
                raise RuntimeError(f"{wheel.name}: {count} lines require torch, not one")
            changed[info.filename] = text.encode()
        if info.filename.endswith(".dist-info/WHEEL"):
            changed[info.filename] = TAG.sub(OLDEST, data.decode()).encode()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for info, data in files:
            new = changed.get(info.filename, data)
            if info.filename.endswith(".dist-info/RECORD"):
                new = _record(data, changed)
            archive.writestr(info, new)
    return wheel.rename(wheel.with_name(TAG.sub(OLDEST, wheel.name)))


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
