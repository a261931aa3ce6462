# SPDX-License-Identifier: BSD-3-Clause
"""Sphinx makes a site of the pages as they are in the repository: `make docs`, tools/docs.sh."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

project = "torch_nntile"
release = version = Path(os.environ["NNTILE_ROOT"], "VERSION").read_text().strip()
extensions = ["myst_parser"]
exclude_patterns = ["docs/site/*"]
myst_heading_anchors = 4  # links to headings, as GitHub makes them
suppress_warnings = ["misc.highlighting_failure"]  # a signature need not be a program

html_theme = "furo"
html_title = f"torch_nntile {release}"
html_copy_source = False
html_show_copyright = False


def setup(app: Any) -> None:
    app.connect("doctree-read", _without_toctree)


def _without_toctree(app: Any, doctree: Any) -> None:
    """Ops are found in their table: 200 more lines at the side of each page are slow."""
    if app.env.docname.startswith("docs/reference/ops/"):
        app.env.metadata[app.env.docname]["orphan"] = True
