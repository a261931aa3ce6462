#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Write headers as strings of C++, for a compiler that runs where the sources are not (NVRTC).

embed_headers.py ROOT HEADER OUTPUT DEPFILE    HEADER, and what it includes of ROOT, as {"name", "text"},

The standard library's headers, and those of OWN, become the header STANDARD, which has what is
needed of them.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

STANDARD = "kernels/cuda/nvrtc_std.hh"
OWN = {"base/small_vector.hh"}  # only named there


def closure(root: Path, header: str) -> dict[str, str]:
    """Texts by name, of all that `header` includes."""
    texts: dict[str, str] = {}
    wanted = [header, STANDARD]
    while wanted:
        name = wanted.pop()
        if name in texts:
            continue
        own = (root / name).is_file() and name not in OWN
        texts[name] = (root / name).read_text() if own else f'#include "{STANDARD}"\n'
        if own:
            wanted += re.findall(r'^#include [<"]([^>"]+)[>"]', texts[name], re.MULTILINE)
    return texts


def main() -> None:
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    root, header, output, depfile = Path(sys.argv[1]), *sys.argv[2:]
    texts = closure(root, header)
    lines = [
        f'{{"{name}", R"embedded({text})embedded"}},\n' for name, text in sorted(texts.items())
    ]
    Path(output).write_text("".join(lines))
    read = " ".join(str(root / name) for name in texts if (root / name).is_file())
    Path(depfile).write_text(f"{output}: {read}\n")


if __name__ == "__main__":
    main()
