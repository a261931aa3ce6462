# SPDX-License-Identifier: BSD-3-Clause
"""How fast copies, element-wise ops and products are on a GPU, beside PyTorch's CUDA build.

Each of the two runs in a process of its own, on the first GPU. Times are medians of calls to their
end; a copy is from or to pageable memory. Products are in float32 where no row says TF32, and
convolutions as PyTorch's switches have it: TF32.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

ELEMENTS = 1 << 26
SIZES = (512, 1024, 2048, 4096, 8192)


def median(call: Callable[[], object], end: Callable[[], object], repeats: int = 7) -> float:
    """Seconds of a call."""
    times = []
    for _ in range(repeats + 2):
        end()
        start = time.perf_counter()
        call()
        end()
        times.append(time.perf_counter() - start)
    return statistics.median(times[2:])


def convolved(x: Tensor, weight: Tensor) -> Tensor:
    y = torch.nn.functional.conv2d(x, weight, padding=1)
    return torch.autograd.grad(y, x, x)[0]


def measure(device: str, end: Callable[[], object]) -> Iterator[tuple[str, str, float]]:
    """What, its unit, and how much of it."""
    host = torch.randn(ELEMENTS)
    there = host.to(device)
    kept: list[Tensor] = [there + 1]
    megabytes = ELEMENTS * 4 / 1e6

    def keep(make: Callable[[], Tensor]) -> Callable[[], None]:
        def call() -> None:
            kept[0] = make()

        return call

    def kept_beside(make: Callable[[], Tensor]) -> Callable[[], None]:
        def call() -> None:
            kept[1:] = [make()]

        return call

    def product(n: int, dtype: torch.dtype) -> Callable[[], Tensor]:
        a, b = (torch.randn(n, n, dtype=dtype).to(device) for _ in range(2))
        return lambda: a @ b

    def there_and_used() -> Tensor:
        return host.to(device)[:1] + 1

    yield "to the device", "GB/s", megabytes / 1e3 / median(keep(there_and_used), end)

    def back() -> float:
        times = []
        for _ in range(5):
            there.add_(1)  # what main memory has is old
            end()
            start = time.perf_counter()
            there.cpu()
            times.append(time.perf_counter() - start)
        return statistics.median(times)

    yield "from the device", "GB/s", megabytes / 1e3 / back()
    for name, call, moved in (
        ("x * 2 + y", lambda: there * 2 + kept[0], 3),
        ("gelu(x)", lambda: torch.nn.functional.gelu(there), 2),
        ("x.bfloat16()", lambda: there.bfloat16(), 1.5),
        ("x.view(8192, 8192).t().contiguous()", lambda: there.view(8192, -1).t().contiguous(), 2),
        ("softmax(x.view(-1, 1024))", lambda: there.view(-1, 1024).softmax(1).view(-1), 2),
        ("x.sum()", lambda: there.sum(), 1),
        ("x.view(-1, 1024).sum(0)", lambda: there.view(-1, 1024).sum(0), 1),
        ("x.view(-1, 1024).sum(1)", lambda: there.view(-1, 1024).sum(1), 1),
    ):
        kept[0] = there + 1
        seconds = median(kept_beside(call), end)
        yield name, "GB/s", moved * megabytes / 1e3 / seconds
    small = torch.randn(100, 100).to(device)

    def chain() -> None:
        x = small
        for _ in range(200):
            x = x @ small * 0.1
        kept[1:] = [x]

    yield "200 products of 100 x 100, scaled", "us each", median(chain, end) * 1e6 / 200
    for dtype in (torch.float32, torch.bfloat16):
        for n in SIZES:
            seconds = median(kept_beside(product(n, dtype)), end)
            yield f"product of {n} in {str(dtype)[6:]}", "GFLOP/s", 2 * n**3 / seconds / 1e9
    torch.set_float32_matmul_precision("high")
    seconds = median(kept_beside(product(4096, torch.float32)), end)
    yield "product of 4096 in TF32", "GFLOP/s", 2 * 4096**3 / seconds / 1e9
    for dtype in (torch.float32, torch.bfloat16):
        for form in (torch.contiguous_format, torch.channels_last):
            image, weight = (
                torch.randn(*sizes, dtype=dtype).to(device, memory_format=form)
                for sizes in ((32, 64, 56, 56), (64, 64, 3, 3))
            )
            kept[0] = image.requires_grad_()
            call = partial(convolved, kept[0], weight)
            seconds = median(kept_beside(call), end)
            name = f"convolution and its dx in {str(dtype)[6:]}, {str(form)[6:]}"
            yield name, "GFLOP/s", 4 * image.numel() * 64 * 9 / seconds / 1e9


def main() -> None:
    if len(sys.argv) > 1:
        device = sys.argv[1]
        end: Callable[[], object] = torch.cuda.synchronize
        if device == "nntile":
            import torch_nntile

            torch_nntile.init_context(ncpu=4, ncuda=1)
            end = torch_nntile.wait
        for row in measure(device, end):
            print(json.dumps(row), flush=True)
        return
    found = {}
    for device in ("cuda", "nntile"):
        done = subprocess.run(
            [sys.executable, __file__, device], stdout=subprocess.PIPE, text=True, check=False
        )
        rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
        found[device] = {name: (unit, value) for name, unit, value in rows}
        if done.returncode:
            print(f"{device}: ended with {done.returncode}")
    print("| | | PyTorch, CUDA | nntile | ratio |\n|---|---|---|---|---|")
    for name, (unit, value) in found["cuda"].items():
        ours = found["nntile"].get(name, (unit, float("nan")))[1]
        print(f"| {name} | {unit} | {value:.4g} | {ours:.4g} | {ours / value:.2f} |")


if __name__ == "__main__":
    main()
