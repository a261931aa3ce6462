#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""List PyTorch's structured ops for torch_nntile/csrc/shapes/structured.cc.

structured_ops.py NATIVE_FUNCTIONS_YAML OUTPUT

A line each: STRUCTURED(at::_ops struct, "aten name", function in at::meta).
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ENTRY = re.compile(r"\n(?=- func: )")
SCHEMA = re.compile(r"^- func: (\w+)(?:\.(\w+))?\((.*)\) -> ", re.MULTILINE)
DELEGATE = re.compile(r"^  structured_delegate: ", re.MULTILINE)
STRUCTURED = re.compile(r"^  structured: True", re.MULTILINE)


def lines(text: str) -> list[str]:
    """Of each op that is structured, and of those that delegate to one."""
    found = []
    for entry in ENTRY.split(text):
        schema, writes_out = SCHEMA.search(entry), STRUCTURED.search(entry)
        if schema is None or not (writes_out or DELEGATE.search(entry)):
            continue
        base, overload, arguments = schema.groups()
        struct = f"{base}_{overload}" if overload else base
        name = f"{base}.{overload}" if overload else base
        symbolic = "_symint" if "SymInt" in arguments else ""
        function = base + symbolic + ("_outf" if writes_out else "")
        found.append(f'STRUCTURED({struct}, "aten::{name}", {function})')
    return found


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    found = lines(Path(sys.argv[1]).read_text(encoding="utf-8"))
    if not found:
        sys.exit(f"{sys.argv[1]}: no structured op")
    Path(sys.argv[2]).write_text("\n".join(found) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
