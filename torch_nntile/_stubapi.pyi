# SPDX-License-Identifier: BSD-3-Clause
# Made by the build from the C headers (_cffi_build.py); cffi's objects have no static types.
from typing import Any

ffi: Any
lib: Any
