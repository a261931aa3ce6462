# SPDX-License-Identifier: BSD-3-Clause
"""`python -m torch_nntile.train_mnist` as a user runs it, on small generated images."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import interpreter
import pytest
import torch

from torch_nntile.train_mnist import __main__ as train_mnist
from torch_nntile.train_mnist import data

pytestmark = pytest.mark.multi

TRAIN, TEST = 600, 100
SMALL = [
    "--batch-epochs",
    "0",
    "--epochs",
    "2",
    "--hidden-dim",
    "24",
    "--depth",
    "2",
    "--ncpu",
    "2",
]
# Runs the module as `-m` does, then prints what `python -m` cannot: what ran on the host.
WITH_REPORT = """
import runpy, sys
import torch_nntile
sys.argv = ["train_mnist", *sys.argv[1:]]
try:
    runpy.run_module("torch_nntile.train_mnist", run_name="__main__")
finally:
    print("fallback report:", torch_nntile.fallback_report())
"""

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of 28 x 28 images with a bright bar whose place tells the class."""
    folder = tmp_path_factory.mktemp("idx")
    generator = torch.Generator().manual_seed(0)
    for which, count in (("train", TRAIN), ("t10k", TEST)):
        labels = torch.randint(10, (count,), generator=generator, dtype=torch.uint8)
        pixels = torch.randint(64, (count, 28, 28), generator=generator, dtype=torch.uint8)
        for image, label in zip(pixels, labels.tolist(), strict=True):
            image[2 * label : 2 * label + 6, 4:24] += 150
        for kind, tensor in (("images-idx3", pixels), ("labels-idx1", labels)):
            head = bytes((0, 0, 8, tensor.dim())) + struct.pack(f">{tensor.dim()}I", *tensor.shape)
            raw = head + tensor.numpy().tobytes()
            (folder / f"{which}-{kind}-ubyte").write_bytes(raw)
    assert sorted(path.name for path in folder.iterdir()) == sorted(data.FILES)
    return folder


@pytest.fixture
def train(images: Path, tmp_path: Path) -> Run:
    def run(*arguments: str, prefix: tuple[str, ...] = ()) -> Any:
        flags = list(SMALL)
        if "--data" not in arguments:
            flags += ["--data", "fashion-mnist", "--data-dir", str(images)]
        if not prefix:
            return interpreter.run(WITH_REPORT, *flags, *arguments, cwd=tmp_path)
        return subprocess.run(
            [sys.executable, *prefix, *flags, *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


def record_of(folder: Path) -> Any:
    return json.loads((folder / "run.json").read_text())


CUTS = ["--axis-tiling", "batch=150,150,150,150", "--axis-tiling", "features=392,392"]
RAGGED = [
    "--axis-tiling",
    "batch=70,530",
    "--axis-tiling",
    "hidden=5,19",
    "--axis-tiling",
    "classes=3",
]
slow = pytest.mark.slow
RUNS = {
    "eager": [],
    "graph, cut": ["--runtime-mode", "graph", *CUTS],
    "ragged": RAGGED,
    "batches": ["--batch-size", "128", "--runtime-mode", "graph", "--axis-tiling", "batch=auto"],
    "profiled": ["--profile", "page"],
    "captured": ["--batch-size", "128", "--capture", "--optimizer", "adam"],
    "compiled": ["--batch-size", "128", "--compile", "--optimizer", "adamw"],
}


QUICK = ("graph, cut", "ragged", "captured")
COMMAND = ("-m", "torch_nntile.train_mnist")
TWO_PROCESSES = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", *COMMAND)


@pytest.mark.parametrize("arguments", [[], ["--batch-size", "100", "--capture"]])
def test_two_processes_have_the_losses_of_one_cpu(train: Run, arguments: list[str]) -> None:
    done = train("--compare-torch", *arguments, prefix=TWO_PROCESSES)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "devices agree" in done.stdout
    assert done.stdout.count("fashion-mnist: ") == 1  # the first process speaks for all


def test_processes_must_divide_a_batch(train: Run) -> None:
    done = train("--batch-size", "101", prefix=TWO_PROCESSES)
    assert done.returncode != 0
    assert "2 processes do not divide a batch of 101 images" in done.stderr


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else slow) for n in RUNS])
def test_losses_and_weights_are_those_of_the_cpu(train: Run, tmp_path: Path, name: str) -> None:
    out = tmp_path / "out"
    done = train("--compare-torch", "--output-dir", str(out), *RUNS[name])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "devices agree" in done.stdout
    assert done.stdout.endswith("fallback report: []\n")
    assert (out / "losses.png").read_bytes().startswith(b"\x89PNG")
    record = record_of(out)
    assert record["data"]["name"] == "fashion-mnist" and record["data"]["train"] == TRAIN
    assert record["options"]["seed"] == 42 and record["options"]["epochs"] == 2
    assert record["weight_difference"] <= (1e-6 if record["options"]["optimizer"] == "sgd" else 1)
    ours, theirs = record["runs"]
    assert (ours["device"], theirs["device"]) == ("nntile", "cpu")
    steps = 2 * (TRAIN // 128 if record["options"]["batch_size"] else 1)
    for run in (ours, theirs):
        assert len(run["losses"]) == 2 and run["losses"][1] < run["losses"][0]
        assert len(run["step_seconds"]) == steps and min(run["step_seconds"]) > 0
        assert 0 <= run["accuracy"] <= 1
    for a, b in zip(ours["losses"], theirs["losses"], strict=True):
        assert abs(a - b) <= 1e-5
    assert ours["accuracy"] == theirs["accuracy"]


def test_digits_need_no_files(train: Run) -> None:
    pytest.importorskip("sklearn")
    done = train("--data", "digits", "--compare-torch", prefix=COMMAND)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "digits: 1500 images to train, 297 to test" in done.stdout


def test_it_learns(train: Run, tmp_path: Path) -> None:
    done = train(
        "--epochs", "8", "--lr", "0.5", "--batch-size", "50", "--output-dir", str(tmp_path)
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert record_of(tmp_path)["runs"][0]["accuracy"] > 0.9
    assert record_of(tmp_path)["weight_difference"] is None  # no comparison was asked for


def test_a_second_training_in_batches(train: Run) -> None:
    """After the one batch, from the same weights, with cuts that fit the one batch only."""
    done = train("--batch-epochs", "40", *RAGGED)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(
        r"in batches: 40 epochs of 2 steps in .* test accuracy ([\d.]+) %", done.stdout
    )
    assert found and float(found[1]) > 90, done.stdout
    assert done.stdout.endswith("fallback report: []\n")


@slow
def test_a_run_goes_on_where_it_was_and_is_profiled(train: Run, tmp_path: Path) -> None:
    whole, parts, page = tmp_path / "whole", tmp_path / "parts", tmp_path / "page"
    adam = ["--batch-size", "60", "--optimizer", "adam"]
    done = train("--epochs", "4", "--output-dir", str(whole), *adam)
    assert done.returncode == 0, done.stdout + done.stderr
    going_on = ["--resume", str(tmp_path / "a.ckpt"), *adam]
    done = train("--epochs", "2", *going_on)
    assert done.returncode == 0, done.stdout + done.stderr
    done = train(  # cut, and captured: its losses are those of a run that did not stop
        "--epochs", "4", "--output-dir", str(parts), "--profile", str(page), *going_on,
        "--capture", "--axis-tiling", "batch=25,35", "--axis-tiling", "hidden=5",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "going on after 2 epochs" in done.stdout
    losses = [record_of(folder)["runs"][0]["losses"] for folder in (whole, parts)]
    assert losses[0][:2] == losses[1][:2] and losses[0] == pytest.approx(losses[1], abs=1e-5)
    assert "report.html" in done.stdout
    assert "<html" in (page / "report.html").read_text()[:200].lower()
    assert json.loads((page / "trace.json").read_text())["traceEvents"]

    for arguments, message in (
        (["--epochs", "4", *going_on], "has 4 epochs; --epochs 4 adds none"),
        (["--epochs", "5", *going_on, "--seed", "1"], "of seed 42, not 1"),
        (["--epochs", "5", *going_on, "--lr", "0"], "of lr 0.001, not 0.0"),
        (["--epochs", "5", *going_on, "--hidden-dim", "25"], "size mismatch of"),
        (["--resume", str(page / "trace.json")], "no checkpoint of torch_nntile"),
    ):
        done = train(*arguments)
        assert done.returncode == 2 and message in done.stderr, done.stdout + done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.slow  # quick, and other models: tests/torch/test_worker_bits.py
@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_workers_do_not_change_a_bit(train: Run, tmp_path: Path, mode: str) -> None:
    found = {}
    for workers in ("1", "2"):
        out = tmp_path / workers
        arguments = ["--ncpu", workers, "--runtime-mode", mode, "--output-dir", str(out)]
        done = train(*arguments, "--epochs", "4", "--lr", "0.5", *CUTS)
        assert done.returncode == 0, done.stdout + done.stderr
        run = record_of(out)["runs"][0]
        found[workers] = run["losses"], run["weights_sha256"]
    assert found["1"] == found["2"]


def test_axis_groups_are_printed(train: Run) -> None:
    done = train("--print-axis-groups", "--verbose", *RAGGED)
    assert done.returncode == 0, done.stdout + done.stderr
    for text in (
        "batch = 600  cut (70, 530)",
        "features = 784",
        "hidden = 24  cut (5, 19)",
        "classes = 10",
    ):
        assert text in done.stdout
    assert "lowerings=" in done.stdout


WRONG_TILINGS = {
    "sizes that do not sum": ("batch=100,100", "its extent is 600"),
    "size 0": ("features=0", "784"),
    "unknown group": ("sequence=4", "no axis group 'sequence'"),
}


@pytest.mark.parametrize("name", WRONG_TILINGS)
def test_wrong_tiling(train: Run, name: str) -> None:
    tiling, message = WRONG_TILINGS[name]
    done = train("--axis-tiling", tiling)
    assert done.returncode == 2
    assert message in done.stderr
    assert "train_mnist: error: " in done.stderr and "Traceback" not in done.stderr


WRONG_FLAGS = {
    "no sizes": (["--axis-tiling", "batch"], "is not NAME=SIZES"),
    "words": (["--axis-tiling", "batch=some"], "sizes are numbers or 'auto'"),
    "epochs": (["--epochs", "0"], "0 is not positive"),
    "mode": (["--runtime-mode", "lazy"], "invalid choice: 'lazy'"),
    "data": (["--data", "cifar"], "invalid choice: 'cifar'"),
    "two ways": (["--capture", "--compile"], "not allowed with argument --capture"),
    "going on beside": (["--resume", "a", "--compare-torch"], "not with --compare-torch"),
    "size": (["--memory", "8 parsecs"], "argument --memory: it must be a positive size"),
    "small": (["--swap-size", "8"], "argument --swap-size: it must be at least 1MiB, got '8'"),
    "flag": (["--layers", "3"], "unrecognized arguments: --layers"),
}


@pytest.mark.parametrize("name", WRONG_FLAGS)
def test_wrong_flags(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, message = WRONG_FLAGS[name]
    with pytest.raises(SystemExit, match="2"):
        train_mnist.main(arguments)
    assert message in capsys.readouterr().err


def test_memory_and_a_disk(train: Run, tmp_path: Path) -> None:
    disk = ["--swap", str(tmp_path), "--swap-size", "2GiB"]
    done = train("--memory", "200MiB", *disk, "--verbose")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"memory budget: {200 << 20} bytes" in done.stdout
    assert f"swap: {2 << 30} bytes in {tmp_path}" in done.stdout


def test_a_disk_that_is_not_there(train: Run, tmp_path: Path) -> None:
    for flags, message in (
        (["--swap", str(tmp_path / "missing")], "swap must be a folder where files can be made"),
        (["--swap-size", "2GiB"], "swap: a size is given without a folder"),
    ):
        done = train(*flags)
        assert done.returncode == 2
        assert "train_mnist: error: " in done.stderr and "Traceback" not in done.stderr
        assert message in done.stderr


def test_a_verbose_run_shows_where_an_error_came_from(train: Run) -> None:
    done = train("--axis-tiling", "batch=100,100", "--verbose")
    assert done.returncode == 1
    assert "Traceback" in done.stderr and "its extent is 600" in done.stderr


def test_restrict_cuda_without_one(train: Run) -> None:
    done = train("--restrict-cuda")
    assert done.returncode != 0
    assert "CUDA" in done.stderr


FLAGS = """
    data data-dir epochs lr seed hidden-dim depth batch-size runtime-mode ncpu ncuda axis-tiling
    print-axis-groups restrict-cuda compare-torch output-dir verbose optimizer capture compile
    profile resume memory swap swap-size
"""


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        train_mnist.main(["--help"])
    text = capsys.readouterr().out
    assert not [flag for flag in FLAGS.split() if f"--{flag}" not in text]
    assert not [a.option_strings for a in train_mnist.make_parser()._actions if not a.help]
