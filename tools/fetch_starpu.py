#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Get StarPU's source, so that the Meson subproject can be built without a network.

Tries upstream's tarball, then Debian's source package through the mirror that apt already knows (no root
needed, apt's own state is not changed). URL, file and sha256 stand in the two wraps. Prints the name of
the subproject to use.
"""

from __future__ import annotations

import configparser
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

SUBPROJECTS = Path(__file__).resolve().parent.parent / "subprojects"
SECONDS = 15  # for the server's first answer: a machine without a way out should not wait longer


def wrap(name: str) -> dict[str, str]:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(SUBPROJECTS / f"{name}.wrap")
    return dict(parser["wrap-file"])


def is_right(path: Path, sha256: str) -> bool:
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == sha256


def keep(found: Path, target: Path, sha256: str) -> bool:
    """Moves a downloaded file to its place, if it is what the wrap names."""
    if not is_right(found, sha256):
        print(f"{found.name}: sha256 differs from {sha256}", file=sys.stderr)
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(found, target)
    return True


def from_upstream(target: Path, url: str, sha256: str) -> bool:
    with tempfile.TemporaryDirectory() as scratch:
        found = Path(scratch) / target.name
        try:
            with urllib.request.urlopen(url, timeout=SECONDS) as answer, found.open("wb") as file:
                shutil.copyfileobj(answer, file)
        except (urllib.error.URLError, OSError) as error:
            print(f"{url}: {error}", file=sys.stderr)
            return False
        return keep(found, target, sha256)


def from_debian(target: Path, sha256: str) -> bool:
    if shutil.which("apt-get") is None:
        return False
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        (work / "parts").mkdir()
        (work / "lists" / "partial").mkdir(parents=True)
        site = ["apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages"]
        mirrors = subprocess.run(site, capture_output=True, text=True, check=False).stdout.split()
        if not mirrors:
            print("apt knows no mirror: run apt-get update", file=sys.stderr)
            return False
        (work / "parts" / "newer.sources").write_text(
            f"Types: deb-src\nURIs: {mirrors[0]}\nSuites: forky sid\nComponents: main\n"
            "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n",
            encoding="utf-8",
        )
        apt = [
            "apt-get",
            "-oDir::Etc::SourceList=/dev/null",
            f"-oDir::Etc::SourceParts={work}/parts",
            f"-oDir::State::Lists={work}/lists",
            "-oAPT::Sandbox::User=root",
        ]
        version = re.sub(r"^starpu_(.*)\.orig\.tar\.gz$", r"\1-2", target.name)
        for step in (["update"], ["source", "--download-only", f"starpu={version}"]):
            done = subprocess.run(
                [*apt, *step], cwd=work, capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                print(done.stderr, file=sys.stderr)
                return False
        return keep(work / target.name, target, sha256)


def main() -> None:
    upstream, debian = wrap("starpu"), wrap("starpu-dfsg")
    # Meson looks for a file with a URL in packagecache, for one without in packagefiles.
    tarball = SUBPROJECTS / "packagecache" / upstream["source_filename"]
    dfsg = SUBPROJECTS / "packagefiles" / debian["source_filename"]
    if is_right(tarball, upstream["source_hash"]):
        print("starpu")
    elif is_right(dfsg, debian["source_hash"]):
        print("starpu-dfsg")
    elif from_upstream(tarball, upstream["source_url"], upstream["source_hash"]):
        print("starpu")
    elif from_debian(dfsg, debian["source_hash"]):
        print("starpu-dfsg")
    else:
        sys.exit(
            "StarPU's source could not be had. Put " + tarball.name + f" into {tarball.parent}."
        )


if __name__ == "__main__":
    main()
