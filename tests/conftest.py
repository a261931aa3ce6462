# SPDX-License-Identifier: BSD-3-Clause
"""Settings of all tests: hypothesis profiles, and what must hold after each test."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

# The device of the tests is registered by `import torch_nntile`, not by `import torch`.
hypothesis.settings.register_profile(
    "ci",
    max_examples=12,  # of each of 500 element-wise rows, at 13 ms an example
    deadline=None,
    derandomize=True,
    suppress_health_check=list(hypothesis.HealthCheck),
)
hypothesis.settings.register_profile(
    "dev", parent=hypothesis.settings.get_profile("ci"), max_examples=25, derandomize=False
)
hypothesis.settings.register_profile(
    "long", parent=hypothesis.settings.get_profile("dev"), max_examples=300
)
# Numbers found in loaded modules are no examples here: Inductor's modules differ from one CPU to
# the next, and a test that `make test` runs must draw the same on each machine.
providers._get_local_constants = Constants
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


# Processes of pytest-xdist share the cores, and so do their teams of threads.
PROCESSES = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
if PROCESSES > 1:
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // PROCESSES)))

# Cuts, and so the numbers of tasks that tests pin, are those of one model on every machine.
os.environ["NNTILE_COST"] = str(Path(__file__).with_name("machine.cost"))


@pytest.fixture(scope="session")
def runtime() -> Iterator[None]:
    """One runtime for the whole session, with the settings that all tests rely on."""
    import torch

    import torch_nntile

    # Tests compare with the CPU, whose convolutions are not in TF32.
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        torch_nntile.init_context(ncpu=2)
        yield
        torch_nntile.shutdown_context()


@pytest.fixture(autouse=True)
def calls_are_new() -> None:
    """Which small calls came often in other tests is of no account: they wait in graphs or not."""
    if (memory := sys.modules.get("torch_nntile.memory")) is not None:
        memory.empty_cache()


@pytest.fixture
def calls_wait(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Small calls are parts of graphs, however often they come: for tests of those graphs."""
    import torch_nntile

    monkeypatch.setenv("NNTILE_SMALL_CALLS", "-1")
    torch_nntile.shutdown_context()
    torch_nntile.init_context(ncpu=2)
    yield
    monkeypatch.undo()
    torch_nntile.shutdown_context()
    torch_nntile.init_context(ncpu=2)


@pytest.fixture
def rows_only() -> Iterator[None]:
    """Nothing may run on the host."""
    from torch_nntile import fallback

    before = fallback.cpu_fallback()
    fallback.set_cpu_fallback(False)
    yield
    fallback.set_cpu_fallback(before)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """The CPU's small models are too small for a team."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def _left_in_order(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test of the device starts with a runtime and leaves no error and no mode behind."""
    module = sys.modules.get("torch_nntile")
    if module is None:  # a test of tools, which needs neither
        yield
        return
    request.getfixturevalue("runtime")
    module.reset_fallback_report()  # each test may ask what ran on the host
    yield
    mode = module.runtime_mode()
    module.modes.set_mode(0)
    module.wait()  # raises the error of a task that nobody has read
    assert mode == "eager", "the test left graph mode on"
    assert not module.has_pending_graph()
