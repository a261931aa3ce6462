# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch's own tests of torch.distributed (DistributedTest), on the device."""

from __future__ import annotations

import fnmatch
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from ranks import TREE, Ranks

PROGRAM = TREE / "tests" / "pytorch_suite.py"

pytestmark = pytest.mark.multi

# By name or pattern: why a test says nothing about this backend.
NOT_OURS = {
    "test_all_gather_v_cuda": "NCCL only: lists of tensors of other sizes; gloo refuses them as well",
    "test_ddp_compile_static_graph": "compiles for a GPU and asks for its random state",
    "test_ddp_device": "wants a device number for each rank; a process has one device, number 0",
    "test_ddp_logging_data_?pu": "PyTorch writes 'custom' there for each backend but its own",
    "test_ddp_profiling_torch_profiler": "counts events that gloo and NCCL have in PyTorch's profile",
    "test_monitored_barrier_allreduce_hang*": "expects NCCL's text of a wait that is too short",
    "test_ddp_uneven_inputs": "a quarter of an hour of images of 1000 x 1000; three others have join()",
    "test_nccl_high_priority_stream": "asks for ProcessGroupNCCL by name",
}
# PyTorch itself skips these, by reason.
SKIPPED_BY_PYTORCH = {
    "https://github.com/pytorch/pytorch/issues/": "it fails, or not always passes, with all backends",
    "Test is failing": "likewise",
    "Skipped due to flakiness": "likewise",
    "no torchvision": "needs a package that tests here do without",
}

SAMPLE = (
    "test_all_reduce_sum",
    "test_all_reduce_full_group_max",
    "test_all_reduce_sum_cuda_complex",
    "test_all_reduce_coalesced_sum",
    "test_sparse_all_reduce_sum_cuda",
    "test_reduce_product",
    "test_reduce_scatter_tensor_cuda",
    "test_broadcast_cuda",
    "test_scatter_checks",
    "test_gather",
    "test_all_gather_into_stack_tensor_cuda",
    "test_all_to_all_cuda",
    "test_all_to_all_single_unequal_split_complex",
    "test_send_recv_any_source",
    "test_batch_isend_irecv_nccl",
    "test_coalescing_manager_async",
    "test_barrier_timeout_full_group",
    "test_all_gather_object_subgroup",
    "test_DistributedDataParallelCPU_grad_is_view",
    "test_accumulate_gradients_no_sync_allreduce_hook",
    "test_ddp_hook_parity_powerSGD",
    "test_ddp_control_flow_same_across_ranks",
    "test_ddp_join_model_equivalence",
)


@pytest.fixture(scope="module")
def two() -> Iterator[Ranks]:
    with Ranks(2, PROGRAM) as ranks:
        yield ranks


@pytest.mark.parametrize("name", SAMPLE)
def test_sample(two: Ranks, name: str) -> None:
    answers = two.ask(name, limit=60)
    assert [a.state for a in answers] == ["ok"] * 2, answers
    assert {a.text for a in answers} <= {"gloo", "nccl", "mpi"}, answers  # as which it was run


def test_a_broken_backend_is_seen(two: Ranks) -> None:
    """The same way to run it, without broadcast: the tests above can fail."""
    answers = two.ask("broken:test_broadcast_cuda", limit=60)
    assert [a.state for a in answers] == ["failed"] * 2, answers
    assert any("AssertionError" in a.text for a in answers), answers


def names() -> list[str]:
    done = subprocess.run(
        [sys.executable, PROGRAM, "list"],
        env={**os.environ, "PYTHONPATH": f"{TREE}:{TREE / 'tests'}", "WORLD_SIZE": "2"},
        text=True,
        capture_output=True,
        timeout=120,
        check=True,
    )
    return done.stdout.split()


def matches(name: str, table: dict[str, str]) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in table)


def run_all(size: int, which: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """What passed, as which backend, and what did not, with the reason."""
    passed, others = {}, {}
    with Ranks(size, PROGRAM) as ranks:
        for name in which:
            answers = ranks.ask(name, limit=90, others=5)
            states = {a.state for a in answers}
            if states == {"ok"}:
                passed[name] = answers[0].text
            elif states == {"skipped"}:
                others[name] = answers[0].text
            else:
                others[name] = "\n".join(f"{a.state}: {a.text}" for a in answers if a.state != "ok")
            print(name, *states, flush=True)
    return passed, others


@pytest.mark.slow
def test_all_of_them() -> None:
    """With two processes; those that need more with four."""
    ours = [name for name in names() if not matches(name, NOT_OURS)]
    passed, others = run_all(2, ours)
    larger = [name for name, reason in others.items() if "world size" in reason]
    passed_by_four, others_by_four = run_all(4, larger)
    passed |= passed_by_four
    others = {n: r for n, r in others.items() if n not in larger} | others_by_four
    skipped = {n for n, r in others.items() if r.startswith(tuple(SKIPPED_BY_PYTORCH))}
    print(f"{len(passed)} pass, PyTorch skips {len(skipped)}")
    failed = {n: r for n, r in others.items() if n not in skipped}
    assert not failed, "\n\n".join(f"{n}: {r}" for n, r in failed.items())
    assert len(passed) >= 250, f"only {len(passed)} were run: {sorted(others)}"
