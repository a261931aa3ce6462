#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Install a wheel beside each version of PyTorch, run tests there, and write docs/reference/versions.md.

wheel_matrix.py dist/X.whl --torch 2.10.0 2.13.0 --python python3.10 /opt/python3.12 [--tests FILE...]
wheel_matrix.py --page        the page anew, from what was run before

Each pair has an environment of its own in build/matrix, which is kept; results are kept in
tests/version_results.json, so a matrix may be run in parts. Tests are those of the last commit, in a
folder that does not have the package.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import itertools
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "matrix"
RESULTS = ROOT / "tests" / "version_results.json"
PAGE = ROOT / "docs" / "reference" / "versions.md"
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
FIRST_PROGRAM = (
    'import torch\na = torch.arange(6.0, device="nntile").reshape(2, 3)\n'
    "assert (a @ a.t() + 1).tolist() == [[6, 15], [15, 51]]\nprint(torch.__version__)"
)


def output(*command: str | Path, **options: Any) -> str:
    done: subprocess.CompletedProcess[str] = subprocess.run(
        [str(word) for word in command], check=False, capture_output=True, text=True, **options
    )
    if done.returncode != 0:
        raise RuntimeError(f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout


def requirements() -> list[str]:
    """Of the tests, from pyproject.toml; by a pattern, for Python 3.10 has no tomllib."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found: list[str] = []
    for group in ("test", "kernels", "ecosystem"):
        block = text.split(f"\n{group} = [", 1)[1].split("]\n", 1)[0]
        found += [part.split('"')[0] for part in block.split('"')[1::2]]
    return found


def environment(python: str, torch: str) -> Path:
    """A venv with that PyTorch, the CPU build where pip finds one, and what tests need."""
    number = output(python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip()
    folder = FOLDER / f"{number}-{torch}"
    inside = folder / "bin" / "python"
    if (folder / "ready").exists():
        return inside
    output(python, "-m", "venv", "--clear", folder)
    env = os.environ | {"PIP_CONSTRAINT": os.devnull}
    pip: list[str | Path] = [inside, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    output(*pip, "--upgrade", "pip", env=env)
    try:
        output(*pip, "--extra-index-url", CPU_INDEX, f"torch=={torch}+cpu", env=env)
    except RuntimeError:
        output(*pip, f"torch=={torch}", env=env)
    output(*pip, f"torch=={torch}", *requirements(), env=env)
    (folder / "ready").touch()
    return inside


def tree(folder: Path, commit: str) -> Path:
    """What tests need of a commit: all but the package, which is to be the wheel's.

    Python 3.10 has no PYTHONSAFEPATH: a program that a test starts finds what stands beside it.
    """
    shutil.rmtree(folder, ignore_errors=True)
    package = (":(exclude)torch_nntile", ":(exclude)_torch_nntile_autoload.py")
    command = ["git", "archive", commit, "--", ".", *package]
    archive = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder)
    return folder.resolve()  # as pytest names what it runs


def run(python: Path, wheel: Path, tests: list[str], seconds: int) -> dict[str, Any]:
    """The first program, then the tests, against the installed wheel."""
    pip: list[str | Path] = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    output(*pip, "--force-reinstall", "--no-deps", wheel)
    work, pair = FOLDER / "work", python.parents[1].name
    work.mkdir(parents=True, exist_ok=True)
    commit = output("git", "rev-parse", "--short=12", "HEAD", cwd=ROOT).strip()
    here = tree(work / pair, commit)
    version = output(python, "-c", FIRST_PROGRAM, cwd=here).strip()
    report = work / f"{pair}.xml"
    report.unlink(missing_ok=True)
    begin = time.monotonic()
    command = [python.with_name("pytest"), "-q", "-c", here / "pyproject.toml", "--rootdir", here]
    command += [
        "-n",
        "2",
        "--dist",
        "worksteal",
        "-m",
        "not slow and not bench",
        f"--junitxml={report}",
    ]
    command += ["-p", "no:cacheprovider", "-o", "junit_family=xunit1", *tests]
    env = os.environ | {"PYTHONSAFEPATH": "1"}
    log = report.with_suffix(".log")
    with log.open("w") as out:
        subprocess.run(
            [str(word) for word in command],
            cwd=here,
            env=env,
            check=False,
            timeout=seconds,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    return {
        "torch": version,
        "wheel": wheel.name,
        "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
        "commit": commit,
        "tests": tests,
        "minutes": round((time.monotonic() - begin) / 60, 1),
        **counts(report),
    }


def counts(report: Path) -> dict[str, Any]:
    passed = skipped = 0
    failures = []
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        if kinds & {"failure", "error"}:
            failures.append(f"{case.get('file', case.get('classname'))}::{case.get('name')}")
        elif "skipped" in kinds:
            skipped += 1
        else:
            passed += 1
    return {"passed": passed, "skipped": skipped, "failed": sorted(set(failures))}


def page(results: dict[str, Any]) -> str:
    everything = [str(path.relative_to(ROOT)) for path in (ROOT / "tests/torch").glob("test_*.py")]
    lines = [
        "# Versions of PyTorch and Python",
        "",
        "One wheel, beside each PyTorch; written by `tools/wheel_matrix.py`, by what it ran: tests of",
        "`tests/torch`, with op_db's sample and without the slow ones, against the installed wheel.",
        "Where PyTorch is a CUDA build (`+cu…`), as it comes from PyPI, it ran without a GPU and",
        "without NVIDIA's libraries.",
        "",
        "| Python | PyTorch | files run | passed | skipped | failed |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    failures: list[str] = []
    parts: dict[str, list[str]] = {}  # the pairs that ran the same files
    wheels: dict[str, list[str]] = {}  # and those with the same wheel and tests

    def order(key: str) -> list[list[int]]:
        return [[int(n) for n in part.split(".")] for part in key.split("-")]

    for key in sorted(results, key=order):
        result, python = results[key], key.split("-")[0]
        whole = len(result["tests"]) == 1
        files = (
            f"all {len(everything)}" if whole else f"{len(result['tests'])} of {len(everything)}"
        )
        lines.append(
            f"| {python} | {result['torch']} | {files} | {result['passed']} | {result['skipped']} "
            f"| {len(result['failed'])} |"
        )
        wheel = f"`{result['wheel']}` (sha256 `{result['sha256']}`), tests of `{result['commit']}`"
        wheels.setdefault(wheel, []).append(f"{python} with {result['torch']}")
        if not whole:
            names = ", ".join(Path(name).stem.removeprefix("test_") for name in result["tests"])
            parts.setdefault(names, []).append(f"{python} with {result['torch']}")
        if result["failed"]:
            failures += ["", f"Python {python}, PyTorch {result['torch']}, failed:", ""]
            failures += [f"* `{name}`" for name in result["failed"]]
    for wheel, pairs in wheels.items():
        lines += ["", f"{'All' if len(wheels) == 1 else ', '.join(pairs)}: {wheel}."]
    for names, pairs in parts.items():
        lines += ["", f"Python {', '.join(pairs)} ran: {names}."]
    return "\n".join([*lines, *failures, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("wheel", nargs="?", type=Path)
    parser.add_argument("--python", nargs="+", default=[sys.executable])
    parser.add_argument("--torch", nargs="+", default=[])
    parser.add_argument("--tests", nargs="+", default=["tests/torch"])
    parser.add_argument("--seconds", type=int, default=7200, help="limit of one pair")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--strict", action="store_true", help="end with 1 if a test failed")
    options = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if options.wheel is None and not options.page:
        parser.error("which wheel?")
    for python, torch in itertools.product(options.python, options.torch):
        inside = environment(python, torch)
        key = inside.parents[1].name
        results[key] = run(inside, options.wheel.resolve(), options.tests, options.seconds)
        counted = {name: results[key][name] for name in ("torch", "passed", "skipped", "minutes")}
        print(key, counted, "failed:", len(results[key]["failed"]), flush=True)
        for name in results[key]["failed"]:
            print("   ", name, flush=True)
        RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
        PAGE.write_text(page(results), encoding="utf-8")
    ran = [key for key in results if options.strict and key.split("-")[1] in options.torch]
    if any(results[key]["failed"] for key in ran):
        sys.exit(1)
    if options.page:
        PAGE.write_text(page(results), encoding="utf-8")


if __name__ == "__main__":
    main()
