# SPDX-License-Identifier: BSD-3-Clause
"""What a user says of memory and of a disk behind it: sizes, folders, and who is heard first."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import interpreter
import pytest
import torch

import torch_nntile
from torch_nntile import _c

MiB = 2**20
TAKEN = {
    "8GiB": 8 << 30,
    "200MiB": 200 * MiB,
    "1.5GB": 1_500_000_000,
    " 2 tib\t": 2 << 40,
    "1048576": MiB,
    "1048576B": MiB,
    "1024KiB": MiB,
    "0.5gib": 512 * MiB,
    "0.123456789012TB": 123_456_789_012,
    "9007199254740993": 2**53 + 1,  # no double
    "4194304TiB": 2**62,
    "0008MB": 8_000_000,
}
POSITIVE = 'must be a positive size such as "8GiB", got '
SMALL = "must be at least 1MiB, got "
LARGE = "must be at most 2^62 bytes, got "
REFUSED = {
    "0": POSITIVE,
    "0GiB": POSITIVE,
    "-1": POSITIVE,
    "-8GiB": POSITIVE,
    "+8GiB": POSITIVE,
    "nan": POSITIVE,
    "inf": POSITIVE,
    "much": POSITIVE,
    "GiB": POSITIVE,
    "8 parsecs": POSITIVE,
    "8 Gi B": POSITIVE,
    "8G": POSITIVE,
    "8PiB": POSITIVE,
    "8e9": POSITIVE,
    "0x8000000": POSITIVE,
    "1.GiB": POSITIVE,
    ".5GiB": POSITIVE,
    "1,5GiB": POSITIVE,
    "1.5.5GiB": POSITIVE,
    "1_000_000_000": POSITIVE,
    "８GiB": POSITIVE,
    "True": POSITIVE,
    " ": POSITIVE,
    "8": SMALL,
    "1048575": SMALL,
    "1023.9KiB": SMALL,
    "4611686018427387905": LARGE,
    "4194304.1TiB": LARGE,
    "99999999999999999999": LARGE,
}


def passes(code: str, *arguments: object, **environment: str) -> str:
    code = "import sys, torch, torch_nntile\n" + textwrap.dedent(code)
    if environment:
        done = subprocess.run(
            [sys.executable, "-c", code, *map(str, arguments)],
            text=True,
            capture_output=True,
            env={**os.environ, **environment},
            check=False,
        )
    else:
        done = interpreter.run(code, *arguments)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


# ---- sizes: what an argument takes, the environment takes


@pytest.mark.parametrize("text", TAKEN)
def test_sizes_that_are_taken(text: str) -> None:
    assert torch_nntile.context.parse_bytes("memory", text) == TAKEN[text]


@pytest.mark.parametrize("number", [MiB, 10**9, 2.0**30, 1e9])
def test_numbers_are_bytes(number: int) -> None:
    assert torch_nntile.context.parse_bytes("memory", number) == number


@pytest.mark.parametrize("text", REFUSED)
@pytest.mark.parametrize("name", ["memory", "swap_size"])
def test_sizes_that_an_argument_refuses(name: str, text: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(f"{name} {REFUSED[text]}'{text}'")):
        torch_nntile.init_context(**{name: text})


@pytest.mark.parametrize("number", [0, -1, float("nan"), float("inf"), 2**62 + 1, 10**30, True])
def test_numbers_that_an_argument_refuses(number: int) -> None:
    with pytest.raises(ValueError, match=r"^memory must be "):
        torch_nntile.init_context(memory=number)


def settings(monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    """Read the environment as a start of the runtime does."""
    with monkeypatch.context() as now:
        now.setenv(name, text)
        _c.call("nntile_context_check_settings")


@pytest.mark.parametrize("name", ["NNTILE_MEMORY", "NNTILE_SWAP_SIZE"])
def test_the_environment_takes_and_refuses_the_same(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        for text in TAKEN:
            settings(monkeypatch, name, text)
        for text, words in REFUSED.items():
            said = f"the environment variable {name} {words}'{text}'"
            with pytest.raises(ValueError, match="^" + re.escape(said)):
                settings(monkeypatch, name, text)
        settings(monkeypatch, name, "")  # as if it were not there
    finally:
        _c.call("nntile_context_check_settings")


def test_sizes_of_the_environment_are_those_of_an_argument() -> None:
    passes(f"""
        import os
        from torch_nntile import _c
        for text, nbytes in {TAKEN!r}.items():
            os.environ["NNTILE_MEMORY"] = text
            _c.call("nntile_context_check_settings")
            stats = _c.new_struct("nntile_context_stats")
            _c.call("nntile_context_stats_get", stats)  # of a runtime that would start now
            assert stats.budget_bytes == nbytes, (text, stats.budget_bytes)
    """)


# ---- arguments go before the environment, each by itself


def test_an_argument_goes_before_the_environment(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("of_environment", "of_argument")]
    for folder in folders:
        folder.mkdir()
    passes(
        """
        import pathlib
        MiB, (environment, argument) = 2**20, sys.argv[1:]

        def start(**arguments):
            torch_nntile.init_context(ncpu=1, **arguments)
            said = torch_nntile.show_config("dicts")["swap"].partition(" bytes in ")[2]
            found = torch.nntile.mem_get_info()[1], said, torch.nntile.memory_stats()["swap_bytes"]
            assert torch.ones(3, device="nntile").sum().item() == 3
            torch_nntile.shutdown_context()
            return found

        assert torch.nntile.mem_get_info()[1] == 64 * MiB  # before a start
        assert start() == (64 * MiB, environment, 100 * MiB)
        assert start(memory="32MiB") == (32 * MiB, environment, 100 * MiB)
        assert start(swap=argument) == (64 * MiB, argument, 100 * MiB)
        assert start(swap=pathlib.Path(argument)) == (64 * MiB, argument, 100 * MiB)
        assert start(swap=argument.encode()) == (64 * MiB, argument, 100 * MiB)
        assert start(swap_size="50MiB") == (64 * MiB, environment, 50 * MiB)
        assert start(swap=argument, swap_size=40 * MiB) == (64 * MiB, argument, 40 * MiB)
        assert start(swap="") == (64 * MiB, "", 0)
        """,
        *folders,
        NNTILE_MEMORY="64MiB",
        NNTILE_SWAP=str(folders[0]),
        NNTILE_SWAP_SIZE="100MiB",
    )
    assert not [file for folder in folders for file in folder.iterdir()]


def test_processes_do_not_divide_what_the_environment_says(tmp_path: Path) -> None:
    passes(
        """
        torch_nntile.init_context(ncpu=1)
        assert torch.nntile.mem_get_info()[1] == 64 << 20
        assert torch.nntile.memory_stats()["swap_bytes"] == 100 << 20
        """,
        LOCAL_WORLD_SIZE="4",
        NNTILE_MEMORY="64MiB",
        NNTILE_SWAP=str(tmp_path),
        NNTILE_SWAP_SIZE="100MiB",
    )


def test_a_disk_without_a_size_takes_what_is_free(tmp_path: Path) -> None:
    passes(
        """
        import os, shutil
        from torch_nntile import _c
        os.chdir(sys.argv[1])
        def limit():
            torch_nntile.init_context(ncpu=1, swap=".")
            assert torch_nntile.show_config("dicts")["swap"].endswith(f" bytes in {sys.argv[1]}")
            found = torch.nntile.memory_stats()["swap_bytes"]
            torch_nntile.shutdown_context()
            return found
        stats = _c.new_struct("nntile_context_stats")
        _c.call("nntile_context_stats_get", stats)
        assert 0 < stats.budget_bytes < stats.machine_bytes
        most = min(shutil.disk_usage(".").free, 8 * stats.machine_bytes)
        found = limit()
        assert abs(found - most) < most / 10, (found, most)  # others write too
        os.environ["LOCAL_WORLD_SIZE"] = "2"
        assert abs(limit() - most // 2) < most / 10
        """,
        tmp_path.resolve(),
    )


# ---- folders


def unwritable(tmp_path: Path) -> Path:
    if os.geteuid() == 0:  # may write wherever the file system can
        return Path("/proc")
    tmp_path.chmod(0o500)
    return tmp_path


@pytest.mark.parametrize("giver", ["argument", "environment"])
@pytest.mark.parametrize("kind", ["missing", "file", "unwritable"])
def test_a_folder_where_no_file_can_be_made(kind: str, giver: str, tmp_path: Path) -> None:
    folder, reason = tmp_path / "there", "No such file or directory"
    if kind == "file":
        folder.touch()
        reason = "Not a directory"
    elif kind == "unwritable":
        folder, reason = unwritable(tmp_path), ""
    passes(
        """
        import os
        folder, reason, giver = sys.argv[1:]
        what = "swap"
        if giver == "environment":
            os.environ["NNTILE_SWAP"], what = folder, "the environment variable NNTILE_SWAP"
        start = "torch_nntile.init_context(ncpu=1, swap=folder)" if giver == "argument" else (
            'torch.ones(3, device="nntile").cpu()')
        words = f"{what} must be a folder where files can be made, got '{folder}': {reason}"
        for _ in range(2):
            try: exec(start)
            except (ValueError, RuntimeError) as error: assert words in str(error), error
            else: raise SystemExit("it was accepted")
            assert not torch.nntile.is_initialized()
        torch_nntile.init_context(ncpu=1, swap="")  # nothing has started, all works
        assert torch.ones(3, device="nntile").sum().item() == 3
        """,
        folder,
        reason,
        giver,
    )


def test_a_size_without_a_folder() -> None:
    passes("""
        for folder in ({}, {"swap": ""}):
            try: torch_nntile.init_context(ncpu=1, swap_size="1GiB", **folder)
            except ValueError as error: assert "swap: a size is given without a folder" in str(error)
            else: raise SystemExit("it was accepted")
    """)


def test_a_size_of_the_environment_waits_for_a_folder(tmp_path: Path) -> None:
    passes(
        """
        torch_nntile.init_context(ncpu=1)
        assert torch.nntile.memory_stats()["swap_bytes"] == 0
        torch_nntile.shutdown_context()
        torch_nntile.init_context(ncpu=1, swap=sys.argv[1])
        assert torch.nntile.memory_stats()["swap_bytes"] == 100 << 20
        """,
        tmp_path,
        NNTILE_SWAP_SIZE="100MiB",
    )


@pytest.mark.parametrize("folder", [5, True, ["/tmp"]])
def test_a_folder_is_a_path(folder: object) -> None:
    with pytest.raises(TypeError, match="init_context: swap must be a path, got"):
        torch_nntile.init_context(swap=folder)  # type: ignore[arg-type]


def test_a_folder_is_one_text() -> None:
    with pytest.raises(ValueError, match="init_context: swap must be a path, got"):
        torch_nntile.init_context(swap="/tmp\0/elsewhere")


# ---- what is told of it


def test_statistics_have_the_disk() -> None:
    stats = torch.nntile.memory_stats()
    counters = "tensor_bytes run_bytes idle_bytes evictions dropped read_bytes written_bytes"
    disk = "swap_bytes swap_used_bytes swap_used_peak_bytes"
    for name in (*counters.split(), *disk.split()):
        assert stats[name] >= 0, name
    assert "written_bytes" in torch.nntile.memory_summary(abbreviated=True)


def test_configuration_and_diagnosis_tell_of_the_disk(tmp_path: Path) -> None:
    passes(
        """
        torch_nntile.init_context(ncpu=1, swap=sys.argv[1], swap_size="3MiB")
        config = torch_nntile.show_config("dicts")
        assert config["swap"] == f"3145728 bytes in {sys.argv[1]}", config
        assert config["swap in use"].endswith(" bytes"), config
        """,
        tmp_path,
    )
    command = [sys.executable, "-m", "torch_nntile.diagnose"]
    disk = {"NNTILE_SWAP": str(tmp_path), "NNTILE_SWAP_SIZE": "3MiB"}
    done = subprocess.run(command, text=True, capture_output=True, env=os.environ | disk)
    assert f"swap: 3145728 bytes in {tmp_path}\n" in done.stdout, done.stdout + done.stderr
