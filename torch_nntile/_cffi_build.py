#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Write the C source of a CFFI extension from the public headers.

_cffi_build.py OUT.c MODULE HEADER...                  a module of its own
_cffi_build.py OUT.c MODULE HEADER... --include MODULE HEADER...
                                                       it shares the types of another such module

The text between CFFI-BEGIN and CFFI-END in a header is the cdef: there is no second copy. The compiler
checks it against the header, which the generated source includes.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from cffi import FFI

SECTION = re.compile(r"^/\* CFFI-BEGIN \*/$(.*?)^/\* CFFI-END \*/$", re.MULTILINE | re.DOTALL)

# How waits end at signals; the first is defined in _c.py.
WAITS = """
extern "Python" int nntile_python_interrupted(void);
void nntile_python_lock(int wanted);
"""
PYTHON_LOCK = """
extern int PyGILState_Check(void); /* exported, but not declared for the limited API */
static void *leave(void) { return PyEval_SaveThread(); }
static void back(void *state) { PyEval_RestoreThread((PyThreadState *)state); }
static void nntile_python_lock(int wanted) {
    if (wanted) nntile_wait_outside(PyGILState_Check, leave, back);
    else nntile_wait_outside(NULL, NULL, NULL);
}
"""


def cdef(header: Path) -> str:
    sections = SECTION.findall(header.read_text(encoding="utf-8"))
    if not sections:
        sys.exit(f"{header}: no section between /* CFFI-BEGIN */ and /* CFFI-END */")
    return "\n".join(sections)


def include_name(header: Path) -> str:
    """How sources include it: nntile/base.h, or contract/stub.h."""
    return f"{header.parent.name}/{header.name}"


def module(name: str, headers: list[Path], include: FFI | None = None) -> FFI:
    ffi = FFI()
    if include is not None:
        ffi.include(include)
    for header in headers:
        ffi.cdef(cdef(header))
    source = "".join(f'#include "{include_name(header)}"\n' for header in headers)
    if include is None:
        ffi.cdef(WAITS)
        source += PYTHON_LOCK
    ffi.set_source(name, source)
    return ffi


def main() -> None:
    out, name, *rest = sys.argv[1:]
    split = rest.index("--include") if "--include" in rest else len(rest)
    included = None
    if split < len(rest):
        included_name, *included_headers = rest[split + 1 :]
        included = module(included_name, [Path(header) for header in included_headers])
    ffi = module(name, [Path(header) for header in rest[:split]], included)
    ffi.emit_c_code(out)


if __name__ == "__main__":
    main()
