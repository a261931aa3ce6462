# SPDX-License-Identifier: BSD-3-Clause
# Made by the build from _torch_build.py.in.
VERSION: str
GIT: str
CXX11_ABI: int
