# SPDX-License-Identifier: BSD-3-Clause
"""Runs PyTorch's own device tests: python -m torch_nntile.conformance.device_tests FOLDER [FILE...]

FOLDER is `test` of PyTorch's source. Each file runs twice, for the CPU and for the device, in a process that
may die: the next one goes on behind the test that killed it. A test counts if the CPU passes it, so tests of
another version of PyTorch than the installed one fall out by themselves. This file is pytest's plugin, too.
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import importlib
import os
import resource
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

__all__ = ["compare", "main", "table"]

FILES = (
    *(
        "test_torch",
        "test_view_ops",
        "test_indexing",
        "test_tensor_creation_ops",
        "test_type_promotion",
    ),
    *(
        "test_shape_ops",
        "test_sort_and_select",
        "test_scatter_gather_ops",
        "test_reductions",
        "test_nn",
    ),
    *("test_complex", "test_unary_ufuncs", "test_binary_ufuncs", "test_segment_reductions"),
    *("test_spectral_ops", "test_linalg"),
)
HELPERS = (  # modules of torch.testing._internal that tests take names from
    *(
        "common_cuda",
        "common_device_type",
        "common_dtype",
        "common_methods_invocations",
        "common_mkldnn",
    ),
    *("common_nn", "common_quantization", "common_utils", "opinfo.core", "opinfo.refs"),
)
DEVICES = {  # how PyTorch's tests call them, and what the names of classes and tests may end in
    "cpu": ("CPU", "cpu"),
    "privateuse1": ("PRIVATEUSE1", "NNTILE", "privateuse1", "nntile"),
}
MOST_BYTES = 6 << 30  # of a process
MUCH_MEMORY = ("large", "64bit", "huge", "big_", "numel_overflow")  # in names: these are left out
Results = dict[str, tuple[str, str]]  # test -> passed, failed, skipped or died; the error


# ---- the plugin: which tests are run, and what became of them


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--device-log", help="a file for the results")
    parser.addoption("--device", choices=list(DEVICES))
    parser.addoption("--every", type=int, default=1)
    parser.addoption("--seconds", type=int, default=120)


class _Plugin:
    def __init__(self, config: Any) -> None:
        self.path = Path(config.getoption("--device-log"))
        self.device = config.getoption("--device")
        resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
        self.every, self.seconds = config.getoption("--every"), config.getoption("--seconds")

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        done = set(_read(self.path))
        ours = [
            item for item in items if item.cls and item.cls.__name__.endswith(DEVICES[self.device])
        ]
        ours = [item for item in ours if not any(word in item.name for word in MUCH_MEMORY)]
        items[:] = [item for item in ours if self.is_drawn(item.nodeid) and item.nodeid not in done]

    def is_drawn(self, test: str) -> bool:
        """By its name: the same tests for all devices."""
        name = _plain(test.rpartition("/")[2], self.device)
        return bool(zlib.crc32(name.encode()) % self.every == 0)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.write("began", nodeid, "")
        faulthandler.dump_traceback_later(self.seconds, exit=True)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" or report.outcome != "passed":
            lines = report.longreprtext.splitlines() if report.outcome == "failed" else []
            errors = [line[1:].strip() for line in lines if line.startswith("E ")]
            self.write(report.outcome, report.nodeid, (errors or [""])[0].replace("\t", " "))

    def pytest_runtest_logfinish(self) -> None:
        faulthandler.cancel_dump_traceback_later()

    def write(self, *words: str) -> None:
        with self.path.open("a") as file:
            file.write("\t".join(words) + "\n")


class _Gone:
    """Stands for a helper of tests that the installed PyTorch does not have any more: a list of no cases, a
    condition that does not hold, a decorator that changes nothing."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return args[0] if len(args) == 1 and callable(args[0]) else self

    def __bool__(self) -> bool:
        return False

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __add__(self, other: Any) -> Any:
        return other

    __radd__ = __add__


def _lend_names() -> None:
    def found(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Gone()

    for name in HELPERS:
        helpers: Any = importlib.import_module(f"torch.testing._internal.{name}")
        helpers.__getattr__ = found


def pytest_configure(config: Any) -> None:
    if config.getoption("--device-log"):
        _lend_names()
        config.pluginmanager.register(_Plugin(config))


def _read(path: Path) -> Results:
    """Of a log: a test that began and has no result killed its process."""
    found: Results = {}
    for line in path.read_text(errors="replace").splitlines() if path.exists() else ():
        outcome, test, text = line.split("\t", 2)
        if outcome == "began" or found.get(test, ("",))[0] != "failed":
            found[test] = ("died" if outcome == "began" else outcome, text)
    return found


# ---- running


def _run(folder: Path, file: str, device: str, log: Path, every: int, seconds: int) -> Results:
    path = folder / f"{file}.py"
    command = [sys.executable, "-m", "pytest", "-q", "--noconftest", "-p", "no:cacheprovider"]
    command += ["-p", "torch_nntile.conformance.device_tests"]
    command += [f"--device-log={log}", f"--device={device}", f"--every={every}"]
    command += [
        f"--seconds={seconds}",
        "-W",
        "ignore",
        "-c",
        os.devnull,
        f"--rootdir={folder}",
        str(path),
    ]
    environment = {**os.environ, "PYTORCH_TESTING_DEVICE_ONLY_FOR": device}
    environment |= {"PYTORCH_PRINT_REPRO_ON_FAILURE": "0"}
    while True:
        before = len(_read(log))
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode in (0, 1, 5) or len(_read(log)) == before:
            break
    if done.returncode not in (0, 1, 5) or not _read(log):
        print(f"{file} on {device}: {done.stdout[-2000:]}{done.stderr[-2000:]}", file=sys.stderr)
    return _read(log)


def _plain(test: str, device: str) -> str:
    """The same name for all devices. The class of a test may be named after the device's own name."""
    path, _, name = test.partition("::")
    for word in DEVICES[device]:
        name = name.replace(word, "DEVICE")
    return f"{path}::{name}"


def compare(on_cpu: Results, on_device: Results) -> tuple[collections.Counter[str], list[str]]:
    """How many tests ran, passed on the CPU, and of these on the device; the others, with their errors."""
    passed = {_plain(test, "cpu") for test, (outcome, _) in on_cpu.items() if outcome == "passed"}
    counts: collections.Counter[str] = collections.Counter()
    bad = []
    for test, (outcome, text) in on_device.items():
        if outcome == "skipped":
            continue
        counts["run"] += 1
        if _plain(test, "privateuse1") not in passed:
            continue
        counts["cpu"] += 1
        counts["device"] += outcome == "passed"
        if outcome != "passed":
            bad.append(f"{outcome}\t{test.rpartition('/')[2]}\t{text}")
    return counts, bad


def table(counts: Iterable[tuple[str, collections.Counter[str]]]) -> Iterator[str]:
    """Lines of a table, with a sum."""
    yield "| file | run on the device | of these the CPU passes | of these the device passes |"
    yield "|---|---|---|---|"
    total: collections.Counter[str] = collections.Counter()
    for file, found in counts:
        total += found
        yield f"| {file} | {found['run']} | {found['cpu']} | {found['device']} |"
    yield f"| **all** | **{total['run']}** | **{total['cpu']}** | **{total['device']}** |"


def main() -> int:
    """Prints the table, and the tests that only the CPU passes."""
    parser = argparse.ArgumentParser(
        prog="python -m torch_nntile.conformance.device_tests",
        description=(__doc__ or "").partition(":")[0],
    )
    parser.add_argument("folder", type=Path, help="the folder `test` of PyTorch's source")
    parser.add_argument("files", nargs="*", default=FILES, help="names of test files without .py")
    parser.add_argument("--logs", type=Path, help="folder for logs; continue from logs in it")
    parser.add_argument(
        "--every", type=int, default=1, help="run only one of n tests, drawn by name"
    )
    parser.add_argument("--seconds", type=int, default=120, help="time limit of a test")
    given = parser.parse_args()
    folder = given.folder.resolve()
    counts, bad = [], []
    with tempfile.TemporaryDirectory() as scratch:
        logs = (given.logs or Path(scratch)).resolve()
        logs.mkdir(parents=True, exist_ok=True)
        for file in given.files:
            results = [
                _run(folder, file, d, logs / f"{file}.{d}", given.every, given.seconds)
                for d in DEVICES
            ]
            found, others = compare(*results)
            counts.append((file, found))
            bad += others
    print(*table(counts), "", *bad, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
