# SPDX-License-Identifier: BSD-3-Clause
"""Docs do not rot: their code runs, what they show is what it prints, and their links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import check_layers
import doc_tables
import error_messages
import make_docs
import pytest

from torch_nntile import errors

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md"))
)
ADVICE = "run `.venv/bin/python tools/make_docs.py` and look at the change"


@pytest.mark.parametrize("page", make_docs.RUN)
def test_outputs_are_what_the_code_prints(page: str) -> None:
    text = (ROOT / page).read_text()
    found = list(make_docs.differences({page: make_docs.with_outputs(page, text)}))
    assert not found, f"{ADVICE}\n{found[0]}"


def test_pages_that_share_a_process_print_what_they_show() -> None:
    texts = {page: (ROOT / page).read_text() for page in make_docs.TOGETHER}
    found = list(make_docs.differences(make_docs.all_with_outputs(texts)))
    assert not found, f"{ADVICE}\n{found[0]}"


@pytest.mark.parametrize("page", make_docs.SHELL)
def test_commands_print_what_the_page_shows(page: str) -> None:
    text = (ROOT / page).read_text()
    found = list(make_docs.differences({page: make_docs.with_shell_outputs(page, text)}))
    assert not found, f"{ADVICE}\n{found[0]}"


def test_a_page_with_code_is_one_that_runs() -> None:
    coded = {page for page in PAGES if re.search(r"^```python$", (ROOT / page).read_text(), re.M)}
    assert coded == {*make_docs.RUN, *make_docs.TOGETHER}


@pytest.mark.parametrize("page", PAGES)
def test_c_in_a_page_stands_in_an_example(page: str) -> None:
    programs = [path.read_text() for path in ROOT.glob("examples/c/*")]
    for code in re.findall(r"^```c\n(.*?)^```$", (ROOT / page).read_text(), re.M | re.DOTALL):
        assert any(code in program for program in programs), f"{page}: in no example:\n{code}"


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("docs/tutorials/")])
def test_a_tutorial_is_short_and_leads_on(page: str) -> None:
    text = (ROOT / page).read_text()
    number = int(Path(page).name[:2])
    assert len(text.splitlines()) <= 120
    assert text.startswith(f"# {number}. ")
    following = [Path(p).name for p in PAGES if p.startswith(f"docs/tutorials/{number + 1:02}_")]
    assert all(f"]({name})" in text for name in following)


def test_generated_pages_are_those_of_the_tables() -> None:
    pages = make_docs.generated_pages()
    found = [*make_docs.differences(pages), *make_docs.stale_files(pages)]
    assert not found, f"{ADVICE}\n{found[0]}"


def test_a_changed_output_is_seen() -> None:
    page = "```python\nprint(6 * 7)\n```\n\n```text\n41\n```\n\nEnd.\n"
    assert make_docs.with_outputs("page", page) == page.replace("41", "42")
    silent = "```python\nx = 1\n```\n\n```text\nold\n```\n\nEnd.\n"
    assert make_docs.with_outputs("page", silent) == "```python\nx = 1\n```\n\nEnd.\n"


def test_an_error_names_page_and_line() -> None:
    with pytest.raises(RuntimeError, match=r'File "page", line 4'):
        make_docs.with_outputs("page", "Text.\n\n```python\n1 / 0\n```\n")


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
    here = (ROOT / page).parent
    broken = [t for t in targets if "://" not in t and not (here / t).exists()]
    assert not broken, f"{page}: links to {broken}"


def test_environment_has_all_variables_that_code_reads() -> None:
    text = (ROOT / "docs/reference/environment.md").read_text()
    sources = [*ROOT.glob("torch_nntile/**/*.py"), *ROOT.glob("libnntile_c/src/**/*.cc")]
    reads = re.compile(
        r'(?:getenv|number_of|environ\.get|set)\(\s*"((?:NNTILE|STARPU)_\w+)"'
        r'|\{"((?:NNTILE|STARPU)_\w*[A-Z])", '  # the table of settings.cc
    )
    names = {
        name
        for path in sources
        for found in reads.findall(path.read_text())
        for name in found
        if name
    }
    assert {"STARPU_NCPU", "NNTILE_RUNTIME_MODE"} <= names
    assert not sorted(name for name in names if f"`{name}`" not in text)


def test_counts_of_ops_are_those_of_the_rows() -> None:
    """README and changelog say "more than 110 ops ... more than 450": true, and not far off."""
    rows, overloads = doc_tables.op_counts()
    for page in ("README.md", "CHANGELOG.md"):
        found = re.search(
            r"ore than (\d+) ops .*?more than (\d+) overloads", (ROOT / page).read_text()
        )
        assert found, page
        for said, true in zip(map(int, found.groups()), (rows, overloads), strict=True):
            assert said < true < said + 50, f"{page}: more than {said}, in truth {true}"


@pytest.mark.parametrize("house", [check_layers.CORE, check_layers.STUB], ids=["core", "stub"])
def test_layout_shows_the_floors_of_the_lint_step(house: check_layers.House) -> None:
    floors = " <- ".join(", ".join(sorted(floor)) for floor in house.floors)
    assert f"\n{floors}\n" in (ROOT / "docs/develop/layout.md").read_text()


def test_files_of_the_layout_page_exist() -> None:
    core = ROOT / "libnntile_c/src"
    package = ROOT / "torch_nntile"
    inside = (package / "replay", package / "compositions", package / "csrc/contract")
    folders = (ROOT, ROOT / "tools", core, *core.iterdir(), package, *inside)
    named = re.findall(
        r"`([\w/]+\.(?:cc|hh|h|py|def|md|sh|toml))`", (ROOT / "docs/develop/layout.md").read_text()
    )
    assert len(named) > 60
    for name in named:
        assert any((folder / name).exists() for folder in folders), name


def test_readme_shows_make_targets_that_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for page in PAGES:
        for target in re.findall(r"^make ([\w-]+)", (ROOT / page).read_text(), flags=re.MULTILINE):
            assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), f"{page}: make {target}"


def test_the_command_explains_itself() -> None:
    command = [sys.executable, str(ROOT / "tools" / "make_docs.py"), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "--check" in done.stdout


def messages_of_the_page() -> list[str]:
    text = (ROOT / "docs/guides/errors.md").read_text().partition("## Installation")[2]
    cells = re.findall(r"^\| (?!message)([^|]+) \| \S", text, re.M)
    return [message for cell in cells for message in re.findall(r"`([^`]+)`", cell)]


def test_messages_of_the_page_on_errors_are_those_of_the_sources() -> None:
    sources, quoted = error_messages.messages(ROOT), messages_of_the_page()
    assert len(quoted) > 100
    unknown = [message for message in quoted if not error_messages.is_said(message, sources)]
    assert not unknown, f"no source says {unknown}"
    assert not error_messages.is_said("profile: there can be … only two", sources)


def test_what_is_raised_is_on_the_page_on_errors() -> None:
    quoted = messages_of_the_page()
    missing = {
        place: said.replace("\0", "…")
        for place, said in error_messages.raised(ROOT).items()
        if not any(error_messages.is_said(message, [said]) for message in quoted)
    }
    assert not missing, f"docs/guides/errors.md needs a line, what to do, for {missing}"


def test_classes_of_errors_are_on_the_page() -> None:
    text = (ROOT / "docs/guides/errors.md").read_text()
    for name in errors.__all__:
        found = getattr(errors, name)
        if isinstance(found, type) and found is not errors.NntileError:
            builtins = ", ".join(f"`{base.__name__}`" for base in found.__bases__[1:])
            builtins = builtins.replace("`OutOfMemoryError`", "`torch.OutOfMemoryError`")
            builtins = builtins.replace("`_LinAlgError`", "`torch.linalg.LinAlgError`")
            assert f"\n| `{name}` | {builtins} | " in text
