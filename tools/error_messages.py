# SPDX-License-Identifier: BSD-3-Clause
"""Texts that the sources put together, to compare docs/guides/errors.md with."""

from __future__ import annotations

import ast
import re
from pathlib import Path

__all__ = ["is_said", "messages", "raised"]

# PyTorch's own words, what only developers see, and what `capture` catches itself.
_NOT_FOR_USERS = re.compile(
    r"/(compositions/\w+|calibrate|diagnose|dispatch|schemas|replay/recording|conformance/\w+)\.py$"
)
_HOLE = "\0"  # where a text has a number or a name at run time
_LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')


def messages(root: Path) -> list[str]:
    """One text for each literal of Python, and for each statement of C++."""
    found: list[str] = []
    for path in (root / "torch_nntile").rglob("*.py"):
        found += _of_python(path.read_text())
    for folder in (root / "libnntile_c" / "src", root / "torch_nntile" / "csrc"):
        for pattern in ("*.cc", "*.hh", "*.h"):
            for path in folder.rglob(pattern):
                found += _of_cpp(path.read_text())
    return found


def raised(root: Path) -> dict[str, str]:
    """ "file.py:12" -> what Python raises there, in words of its own."""
    found = {}
    for path in (root / "torch_nntile").rglob("*.py"):
        if _NOT_FOR_USERS.search(path.as_posix()):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
                said = _said(node.exc.args[0])
                if len(re.sub(r"[\W\0]", "", said)) > 3:  # else it passes on another error's words
                    found[f"{path.relative_to(root)}:{node.lineno}"] = said
    return found


def is_said(message: str, sources: list[str]) -> bool:
    """Whether a source says it; "…" in it stands for anything, also for an argument of a text."""
    parts = [re.escape(part.strip()) for part in message.split("…")]
    pattern = re.compile(".*?".join(parts), re.DOTALL)
    return any(pattern.search(source) for source in sources)


def _of_python(text: str) -> list[str]:
    found: list[str] = []
    tree = ast.parse(text)
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if id(node) not in docs and (said := _said(node)):
            found.append(said)
    return found


def _said(node: ast.AST) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(_text_of(part) or _HOLE for part in node.values)
    return _text_of(node) or ""


def _text_of(node: ast.AST) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _of_cpp(text: str) -> list[str]:
    text = re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)
    found = []
    for statement in re.split(r";\s*$", text, flags=re.MULTILINE):
        joined, end = "", None
        for literal in _LITERAL.finditer(statement):
            if end is not None and statement[end : literal.start()].strip():
                joined += _HOLE
            joined += literal[1].replace('\\"', '"')
            end = literal.end()
        found.append(joined)
    return found
