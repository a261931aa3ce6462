# SPDX-License-Identifier: BSD-3-Clause
"""explain(), stats(), fallback_report(), memory_stats(): what was recorded, cut, run and kept."""

from __future__ import annotations

import torch

import torch_nntile


def main() -> None:
    torch_nntile.init_context(ncpu=2, runtime_mode="graph")
    x, w = torch.randn(128, 96).to("nntile"), torch.randn(96, 64).to("nntile")
    torch_nntile.set_axis_group_name(x, {0: "batch"})
    torch_nntile.set_axis_group_tiling("batch", 64)

    y = torch.nn.functional.gelu(x @ w)
    pending = torch_nntile.explain("pending")
    print("Recorded, not run:", pending, sep="\n")
    torch_nntile.run_graph()
    graph, tiles, plan = (torch_nntile.explain(stage) for stage in ("graph", "tiles", "plan"))
    print("As tasks on tiles:", tiles, plan, sep="\n")
    torch_nntile.wait()

    # An op without a row runs on PyTorch's CPU kernel, as a task. The report is empty if all had one.
    torch.linalg.det(torch.eye(3).to("nntile")).item()
    for row in torch_nntile.fallback_report():
        print(f"on the host: {row.overload}, {row.calls} calls, {row.bytes} bytes")

    memory = torch.nntile.memory_stats()
    print("storages:", memory["allocated_bytes.all.current"], "bytes")
    print("tiles:", memory["tiles"], "of", memory["tile_bytes"], "bytes")
    print(torch_nntile.stats())
    torch_nntile.show_config()

    assert "matmul" in pending and "gelu" in pending
    assert "return" in graph
    assert tiles.count("gemm") == 2, "two tiles of the batch: two products"
    assert "tasks" in plan
    assert torch_nntile.fallback_report() != []
    assert tuple(y.shape) == (128, 64)


if __name__ == "__main__":
    main()
