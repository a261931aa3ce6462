#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Print which functions of CUDA objects and archives want: a line RUNTIME(name) or BLAS(name) each.

cuda_symbols.py FILE...    base/cuda/loader.cc includes the lines
"""

from __future__ import annotations

import re
import subprocess
import sys


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    names: set[str] = set()
    for file in sys.argv[1:]:
        out = subprocess.run(["nm", "-u", file], capture_output=True, text=True, check=True).stdout
        names |= set(re.findall(r"\bU ((?:__)?(?:cuda|cublas)[A-Z]\w*)", out))
    for name in sorted(names):
        print(f"{'BLAS' if name.startswith('cublas') else 'RUNTIME'}({name})")


if __name__ == "__main__":
    main()
