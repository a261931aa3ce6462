# SPDX-License-Identifier: BSD-3-Clause
# Made by the build from _torch_build.py.in.
STUBS: dict[str, tuple[str, str, int]]
