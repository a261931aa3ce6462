#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Print the functions of the C ABI, sorted, one a line.

list_symbols.py headers FILE...    those that the CFFI sections of the headers declare
list_symbols.py library FILE       those that the library exports
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path


def declared(header: Path) -> set[str]:
    text = header.read_text(encoding="utf-8")
    sections = re.findall(r"^/\* CFFI-BEGIN \*/$(.*?)^/\* CFFI-END \*/$", text, re.M | re.S)
    code = re.sub(r"/\*.*?\*/", "", "\n".join(sections), flags=re.S)
    code = re.sub(r"\btypedef\b[^;{]*(\{[^}]*\})?[^;]*;", "", code)
    return set(re.findall(r"\b(nntile_\w+)\s*\(", code))


def exported(library: Path) -> set[str]:
    command = ["nm", "--dynamic", "--defined-only", "--format=posix", str(library)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {line.split()[0].split("@")[0] for line in lines.splitlines()}


def main() -> None:
    if len(sys.argv) < 3 or sys.argv[1] not in {"headers", "library"}:
        sys.exit(__doc__)
    read = declared if sys.argv[1] == "headers" else exported
    print("\n".join(sorted(set().union(*(read(Path(name)) for name in sys.argv[2:])))))


if __name__ == "__main__":
    main()
