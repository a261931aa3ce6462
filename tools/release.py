#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Check that the tree is a release, then tag it: make release RELEASE=0.2.0

release.py VERSION [--dry]    --dry: only say what is missing (make release RELEASE=0.2.0 DRY=1)
release.py VERSION --write    the version into VERSION and base.h, the date into CHANGELOG.md

VERSION is the place: Meson, the wheel and nntile_version_text() take it from there, base.h has it as
a number that the compiler compares. What --write changed is read and committed by hand.
Pushing the tag is what publishes (.github/workflows/wheel.yml); that stays a step of its own.
"""

from __future__ import annotations

import datetime
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADER = "libnntile_c/include/nntile/base.h"
CHANGES = "CHANGELOG.md"


def git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def texts(version: str, changelog: str, number: str, tags: list[str], changes: str) -> list[str]:
    """What the files say that a release must not."""
    found = []
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        found.append(f"{version!r} is no version: three numbers, as 0.2.0")
    if number != version:
        found.append(f"VERSION says {number}, not {version}")
    heads = re.findall(r"^## (.+)$", changelog, re.MULTILINE)
    if not heads or not re.fullmatch(rf"{re.escape(version)}, \d{{4}}-\d{{2}}-\d{{2}}", heads[0]):
        found.append(f'CHANGELOG.md does not begin with "## {version}, YYYY-MM-DD"')
    if f"v{version}" in tags:
        found.append(f"there is a tag v{version}")
    if changes:
        found.append("the tree has changes that are not committed")
    return found


def written(version: str, header: str, changelog: str, day: str) -> tuple[str, str]:
    """base.h and CHANGELOG.md of that version, released on that day."""
    number = 0
    for part in version.split("."):
        number = number * 1000 + int(part)
    header, count = re.subn(
        r"(?m)^#define NNTILE_VERSION \d+$", f"#define NNTILE_VERSION {number}", header
    )
    if count != 1:
        raise RuntimeError(f"{HEADER} has {count} lines that define NNTILE_VERSION")
    head = f"## {version}, {day}"
    return header, re.sub(r"(?m)^## .*, not yet released$", head, changelog, count=1)


def write(version: str) -> None:
    day = datetime.date.today().isoformat()
    header, changelog = ((ROOT / name).read_text(encoding="utf-8") for name in (HEADER, CHANGES))
    header, changelog = written(version, header, changelog, day)
    (ROOT / HEADER).write_text(header, encoding="utf-8")
    (ROOT / CHANGES).write_text(changelog, encoding="utf-8")
    (ROOT / "VERSION").write_text(f"{version}\n", encoding="utf-8")


def commands() -> list[str]:
    """The make targets that fail."""
    found = []
    for target in ("lint", "abi", "docs"):
        print(f"make {target}", flush=True)
        if subprocess.run(["make", "--quiet", target], cwd=ROOT, check=False).returncode:
            found.append(f"make {target} fails")
    return found


def main() -> None:
    versions = [word for word in sys.argv[1:] if not word.startswith("-")]
    if len(versions) != 1:
        sys.exit(__doc__)
    (version,) = versions
    if "--write" in sys.argv:
        write(version)
        return
    found = texts(
        version,
        (ROOT / CHANGES).read_text(encoding="utf-8"),
        (ROOT / "VERSION").read_text(encoding="utf-8").strip(),
        git("tag").splitlines(),
        git("status", "--porcelain"),
    )
    found = found or commands()  # what takes seconds comes first
    if found:
        sys.exit("\n".join(["no release:", *(f"  {line}" for line in found)]))
    if "--dry" in sys.argv:
        print(f"{version} can be released")
        return
    git("tag", "-a", f"v{version}", "-m", f"torch_nntile {version}")
    print(f"tagged v{version}; `git push origin v{version}` publishes it")


if __name__ == "__main__":
    main()
