# SPDX-License-Identifier: BSD-3-Clause
"""Lines of programs in few letters: by the working folder, or by the package they are in."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["known_folders", "short_line"]


def known_folders() -> list[str]:
    """Those that a file's name may begin after, the longest first."""
    folders = {os.path.realpath(folder or ".") for folder in sys.path} | {os.path.realpath(".")}
    return sorted((folder.rstrip(os.sep) + os.sep for folder in folders), key=len, reverse=True)


def short_line(line: str, folders: list[str]) -> str:
    """ "gpt/model.py:14" for a file in the working folder or on Python's path, else its name and folder.

    Args:
        folders: of `known_folders()`.
    """
    if not Path(line).is_absolute():
        return line
    file, _, number = line.rpartition(":")
    real = os.path.realpath(file)
    for folder in folders:
        if real.startswith(folder) and len(folder) > 1:
            return f"{real[len(folder) :]}:{number}"
    return f"{Path(*Path(file).parts[-2:])}:{number}"
