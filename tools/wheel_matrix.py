#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Install a wheel beside each version of PyTorch, run tests there, and write docs/reference/versions.md.

wheel_matrix.py dist/X.whl --torch 2.10.0 2.13.0 --python python3.10 /opt/python3.12
wheel_matrix.py dist/X.whl --torch 2.10.0 --tests tests/torch/test_rows.py    these files only
wheel_matrix.py --page                                       the page anew, from what was run before

Each pair has an environment of its own in build/matrix, which is kept; results are kept in
tests/version_results.json, so a matrix may be run in parts. Tests are those of the last commit, in a
folder that does not have the package.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import io
import itertools
import json
import os
import platform
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


def nvidia(python: Path, torch: str) -> str:
    """What a CUDA build of PyTorch found beside it."""
    if "+cu" not in torch:
        return ""
    site = next(python.parents[1].glob("lib/python3*/site-packages"))
    return "libraries" if any(site.glob("nvidia/*/lib/libcudart.so.*")) else "stand-ins"


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
    command += ["-n", "2", "--dist", "worksteal", "-m", "not slow and not bench"]
    command += [f"--junitxml={report}", "-p", "no:cacheprovider", "-o", "junit_family=xunit1"]
    env = os.environ | {"PYTHONSAFEPATH": "1"}
    log = report.with_suffix(".log")
    with log.open("w") as out:
        subprocess.run(
            [str(word) for word in [*command, *tests]],
            cwd=here,
            env=env,
            check=False,
            timeout=seconds,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    ran = {
        "wheel": wheel.name,
        "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
        "commit": commit,
        "date": datetime.date.today().isoformat(),
        "tests": sorted(tests),
        "minutes": round((time.monotonic() - begin) / 60, 1),
    }
    return {
        "torch": version,
        "nvidia": nvidia(python, version),
        "system": platform.freedesktop_os_release()["PRETTY_NAME"],
        "runs": [ran],
        "files": counts(report),
    }


def counts(report: Path) -> dict[str, Any]:
    """By file: how many passed and were skipped, and the names of those that failed."""
    files: dict[str, Any] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        name = case.get("file") or str(case.get("name")).replace(".", "/")  # not even collected
        file = files.setdefault(Path(name).stem.removeprefix("test_"), [0, 0, []])
        if kinds & {"failure", "error"}:
            file[2] = sorted({*file[2], str(case.get("name"))})
        else:
            file["skipped" in kinds] += 1
    return files


def merged(before: dict[str, Any], again: dict[str, Any]) -> dict[str, Any]:
    """A whole run, and files that ran again after it."""
    return {
        **again,
        "runs": [*before["runs"], *again["runs"]],
        "files": {**before["files"], **again["files"]},
    }


def totals(result: dict[str, Any]) -> tuple[int, int, int]:
    """Passed, skipped, failed."""
    rows = result["files"].values()
    return sum(r[0] for r in rows), sum(r[1] for r in rows), sum(len(r[2]) for r in rows)


def page(results: dict[str, Any]) -> str:
    lines = [
        "# Versions of PyTorch and Python",
        "",
        "`tools/wheel_matrix.py` installed one wheel with each PyTorch, ran `tests/torch` against it (with",
        "op_db's sample and without the slow tests), and wrote this page. `+cu…` is a CUDA build of PyTorch,",
        "as it comes from PyPI, and `+cpu` is a build for CPUs. There was no GPU.",
        "",
        "| Python | PyTorch | system | files | passed | skipped | failed | date | wheel |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    failures: list[str] = []
    runs: dict[str, list[str]] = {}  # the pairs that ran the same
    standing: list[str] = []

    def order(key: str) -> list[list[int]]:
        return [[int(n) for n in part.split(".")] for part in key.split("-")]

    for key in sorted(results, key=order):
        result, python = results[key], key.split("-")[0]
        passed, skipped, failed = totals(result)
        last = result["runs"][-1]
        pair, version = f"{python} with {result['torch']}", last["wheel"].split("-")[1]
        lines.append(
            f"| {python} | {result['torch']} | {result['system']} | {len(result['files'])} "
            f"| {passed} | {skipped} | {failed} | {last['date']} | {version} |"
        )
        if result["nvidia"] == "stand-ins":
            standing.append(pair)
        for k, ran in enumerate(result["runs"]):
            names = ", ".join(Path(name).stem.removeprefix("test_") for name in ran["tests"])
            what = f"once more: {names}" if k else "all files" if names == "torch" else names
            text = f"wheel `{ran['wheel']}` (sha256 `{ran['sha256']}`), tests of `{ran['commit']}`; {what}"
            runs.setdefault(text, []).append(pair)
        if failed:
            failures += ["", f"Python {python}, PyTorch {result['torch']}, failed:", ""]
            for file, (*_, names) in sorted(result["files"].items()):
                failures += [f"* `tests/torch/test_{file}.py::{name}`" for name in names]
    lines += ["", "These tests ran; there is a line for each wheel, commit and list of files:", ""]
    for text, pairs in runs.items():
        lines.append(f"* {text}: {'all' if len(pairs) == len(results) else ', '.join(pairs)}.")
    if standing:
        lines += [
            "",
            f"With stand-ins for NVIDIA's libraries, which have no device: {', '.join(standing)}.",
        ]
    return "\n".join([*lines, *failures, ""])


def read() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return found


def write(results: dict[str, Any]) -> None:
    """A line for each pair: a run changes its own."""
    pairs = [
        f"{json.dumps(key)}: {json.dumps(results[key], sort_keys=True)}" for key in sorted(results)
    ]
    RESULTS.write_text("{\n" + ",\n".join(pairs) + "\n}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("wheel", nargs="?", type=Path)
    parser.add_argument("--python", nargs="+", default=[sys.executable])
    parser.add_argument("--torch", nargs="+", default=[])
    parser.add_argument(
        "--tests", nargs="+", help="these files only; of others what was found before stays"
    )
    parser.add_argument("--seconds", type=int, default=7200, help="limit of one pair")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--strict", action="store_true", help="end with 1 if a test failed")
    options = parser.parse_args()
    if options.wheel is None and not options.page:
        parser.error("which wheel?")
    bad = False
    for python, torch in itertools.product(options.python, options.torch):
        inside = environment(python, torch)
        key = inside.parents[1].name
        tests = options.tests or ["tests/torch"]
        found = run(inside, options.wheel.resolve(), tests, options.seconds)
        results = read()  # another process may have written it meanwhile
        keeps = options.tests and key in results
        results[key] = merged(results[key], found) if keeps else found
        write(results)
        PAGE.write_text(page(results), encoding="utf-8")
        passed, skipped, failed = totals(found)
        minutes = found["runs"][0]["minutes"]
        print(
            f"{key}: {passed} passed, {skipped} skipped, {failed} failed, {minutes} min", flush=True
        )
        for file, (*_, names) in found["files"].items():
            for name in names:
                print(f"    tests/torch/test_{file}.py::{name}", flush=True)
        bad |= failed > 0
    if options.page:
        PAGE.write_text(page(read()), encoding="utf-8")
    if bad and options.strict:
        sys.exit(1)


if __name__ == "__main__":
    main()
