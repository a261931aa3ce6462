# SPDX-License-Identifier: BSD-3-Clause
"""What classes of transformers do on the device, as a table: python -m model_table --write

Each model is small and random. It trains with AdamW and generates, as the tests of stock_models.py do, in
each way that a step can run; a way that fails has its reason in the table. What was measured is in
model_results.json; docs/reference/models.md and the table of README.md are made of it.
"""

from __future__ import annotations

import argparse
import gc
import json
import re
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from stock_models import family
from stock_runs import (
    SEARCHES,
    WAYS,
    Training,
    assert_draws_again,
    assert_trains_as_on_the_cpu,
    dtype_of,
    generator_of,
    host_overloads,
    seed,
    words,
)
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

import torch_nntile

__all__ = ["KINDS", "PAGE", "README", "RESULTS", "measure", "page", "steps_back", "with_summary"]

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path(__file__).with_name("model_results.json")
PAGE, README = ROOT / "docs" / "reference" / "models.md", ROOT / "README.md"

KINDS = {
    "decoder": (
        *("gpt2", "llama", "mistral", "qwen2", "qwen3", "gemma2", "phi3", "falcon"),
        *("gpt_neox", "opt"),
    ),
    "encoder": ("bert", "roberta", "distilbert", "deberta_v2"),
    "encoder and decoder": ("t5", "bart", "marian"),
    "vision": ("vit", "swin", "clip"),
    "audio": ("whisper", "wav2vec2"),
    "mixture of experts": ("mixtral", "qwen2_moe"),
    "state space": ("mamba", "mamba2"),
}
GENERATES = {"decoder", "encoder and decoder", "mixture of experts", "state space"}
Result = dict[str, Any]
TRAINS = {"eager": "trains", "captured": "captured", "compiled": "compiled"}
DRAWS = {"sampled": {}, "sampled without cache": {"use_cache": False}}


# ---- to measure


def measure(name: str) -> Result:
    """Of each way "" or why it failed, and the overloads on the host."""
    torch_nntile.reset_fallback_report()
    result: Result = {"class": type(family(name).build()).__name__}
    for way in WAYS:
        result[way] = attempt(
            lambda way=way: assert_trains_as_on_the_cpu(family(name), "AdamW", way)
        )
    if kind_of(name) in GENERATES or name == "whisper":
        result |= generation(name)
    return result | {"host": host_overloads()}


def costs(name: str, result: Result) -> Result:
    """Times and memory of a step, of the ways that work."""
    ms = {"CPU": step_time(name, "cpu", "eager")}
    ms |= {way: step_time(name, "nntile", way) for way in WAYS if not result[way]}
    return {"ms": ms, "KiB": {"CPU": memory_of_cpu(name), "eager": memory_of_device(name)}}


def generation(name: str) -> Result:
    model, prompt = generator_of(name)
    expected = {way: words(model, prompt, **options) for way, options in SEARCHES.items()}
    model.to("nntile")

    def same_words(way: str) -> None:
        found = words(model, prompt, **SEARCHES[way])
        assert torch.equal(found, expected[way]), "other words than the CPU's"

    found = {way: attempt(lambda way=way: same_words(way)) for way in SEARCHES}
    draws = {
        way: attempt(lambda o=options: assert_draws_again(model, prompt, **o))
        for way, options in DRAWS.items()
    }
    return found | draws


def attempt(run: Callable[[], Any]) -> str:
    """Empty, or what it raised, in one line without places of this machine."""
    try:
        run()
        torch_nntile.wait()
    except Exception as error:
        torch_nntile.modes.set_mode(0)
        text = f"{type(error).__name__}: {error}".split("\n\n")[0]
        text = re.sub(r"(/[\w.-]+)+/", "", " ".join(text.split()))
        text = re.sub(r"0x[0-9a-f]+", "...", text)
        return text if len(text) < 200 else f"{text[:200]}..."
    return ""


def training(name: str, device: str, way: str) -> Training:
    seed(0)
    f = family(name)
    run = Training(f, f.build().to(dtype_of(f)).train(), device, "AdamW", way)
    seed(1)
    for _ in range(WAYS[way]):
        run.step()
    return run


def step_time(name: str, device: str, way: str) -> float:
    """Milliseconds, the least of some steps after the first ones: others may use the machine."""
    run, found = training(name, device, way), []
    for _ in range(20):
        torch_nntile.wait()
        begin = time.perf_counter()
        run.step().item()
        torch_nntile.wait()
        found.append(time.perf_counter() - begin)
    return round(1e3 * min(found), 1)


class Live(TorchDispatchMode):
    """The most bytes that tensors of the CPU have at a time."""

    def __init__(self, tensors: Iterable[Any]) -> None:
        super().__init__()
        self.storages: dict[int, tuple[StorageWeakRef, int]] = {}
        self.most = 0
        self.note(tensors)

    def note(self, values: Any) -> None:
        for value in values:
            for x in pytree.tree_leaves(value):
                if isinstance(x, torch.Tensor) and x.device.type == "cpu":
                    storage = StorageWeakRef(x.untyped_storage())
                    self.storages[storage.cdata] = (storage, x.untyped_storage().nbytes())
        self.storages = {k: v for k, v in self.storages.items() if not v[0].expired()}
        self.most = max(self.most, sum(nbytes for _, nbytes in self.storages.values()))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.note([result])
        return result


def memory_of_cpu(name: str) -> int:
    run = training(name, "cpu", "eager")
    with Live(tensors_of(run)) as live:
        run.step()
    return round(live.most / 1024)


def tensors_of(run: Training) -> Iterator[Any]:
    """Not as a list: that would keep gradients which a step drops."""
    for parameter in run.model.parameters():
        yield from (parameter, parameter.grad)
    yield from (*run.model.buffers(), run.optimizer.state_dict(), run.inputs)


def memory_of_device(name: str) -> int:
    gc.collect()
    before = torch.nntile.memory_allocated()  # type: ignore[attr-defined]
    run = training(name, "nntile", "eager")
    torch_nntile.wait()
    torch.nntile.reset_peak_memory_stats()  # type: ignore[attr-defined]
    run.step()
    torch_nntile.wait()
    return round((torch.nntile.max_memory_allocated() - before) / 1024)  # type: ignore[attr-defined]


# ---- to compare and to show


def kind_of(name: str) -> str:
    return next(kind for kind, names in KINDS.items() if name in names)


def ways_of(result: Result) -> list[str]:
    return [way for way in (*WAYS, *SEARCHES, *DRAWS) if way in result]


def steps_back(name: str, found: Result, committed: Result) -> list[str]:
    """What fails that did not, and what is on the host that was not."""
    ways = [w for w in ways_of(found) if found[w] and not committed[w]]
    more = sorted({*found["host"]} - {*committed["host"]})
    return [f"{name} {w}: {found[w]}" for w in ways] + [f"{name}: {o} on the host" for o in more]


_HEAD = """\
<!-- Written by tests/model_table.py. -->

# Models of transformers

We run each class in a small random configuration, with padding if it takes a mask, and compare with the
CPU. To train means three steps with AdamW, with the CPU's losses and parameters; a captured step is recorded
and then replayed, so it takes six steps. To generate means eight tokens by greedy and beam search, with and
without a cache, the same as on the CPU; samples repeat with the seed. `python -m model_table --write` in
`tests/` measures the table again, and a test compares.

"""


def page(results: dict[str, Result]) -> str:
    """docs/reference/models.md."""
    notes: list[str] = []

    def mark(text: str) -> str:
        if not text:
            return "yes"
        if text not in notes:
            notes.append(text)
        return f"no ({notes.index(text) + 1})"

    rows, times = [], []
    for kind, names in KINDS.items():
        for name in names:
            r = results[name]
            generates = [mark(r[way]) if way in r else "" for way in (*SEARCHES, *DRAWS)]
            host = ", ".join(f"`{o}`" for o in r["host"])
            rows.append([f"`{r['class']}`", kind, *(mark(r[w]) for w in WAYS), *generates, host])
            ms = [f"{r['ms'][way]:.1f}" if way in r["ms"] else "" for way in ("CPU", *WAYS)]
            times.append([f"`{r['class']}`", *ms, *(str(r["KiB"][w]) for w in ("CPU", "eager"))])
    parts = [_HEAD, table(["class", "kind", *TRAINS.values(), *SEARCHES, *DRAWS, "host"], rows)]
    if notes:
        listed = "".join(f"{k}. {note}\n" for k, note in enumerate(notes, 1))
        parts.append(f"\nWhy not:\n\n{listed}")
    parts.append(
        "\n## Time and memory\n\n"
        "Times are milliseconds for a step, the fastest of twenty. The models are so small that calls cost\n"
        "more than numbers. The CPU has one thread and the device two workers, on two slow cores that also\n"
        "had other work: take the times as rough sizes. Memory is the most KiB that tensors took in a step.\n"
        "\n"
    )
    parts.append(table(["class", "CPU", *WAYS, "KiB on the CPU", "KiB on the device"], times))
    return "".join(parts)


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def summary(results: dict[str, Result]) -> str:
    """The table of README.md: a line for each kind."""

    def count(names: tuple[str, ...], ways: list[str]) -> str:
        asked = [n for n in names if any(w in results[n] for w in ways)]
        good = [n for n in asked if not any(results[n].get(w) for w in ways)]
        if not asked:
            return ""
        return "all" if good == asked else f"{len(good)} of {len(asked)}"

    columns = {TRAINS[w]: [w] for w in WAYS} | {"generate": [*SEARCHES, *DRAWS]}
    rows = [
        [kind, ", ".join(names), *(count(names, ways) for ways in columns.values())]
        for kind, names in KINDS.items()
    ]
    return table(["kind", "models", "train", "captured", "compiled", "generate"], rows)


_PLACE = re.compile(r"(<!-- models: .*? -->\n\n).*?(\n<!-- end of models -->)", re.DOTALL)


def with_summary(readme: str, results: dict[str, Result]) -> str:
    if not _PLACE.search(readme):
        raise ValueError("README.md has no place for the table of models")
    return _PLACE.sub(lambda m: m[1] + summary(results) + m[2], readme)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--families", default="", help="names, separated by commas; else all")
    parser.add_argument("--write", action="store_true", help="results, page and README.md")
    parser.add_argument("--times", action="store_true", help="measure times and memory only")
    parser.add_argument("--pages", action="store_true", help="only the pages, of the results")
    given = parser.parse_args()
    results: dict[str, Result] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if not given.pages:
        torch_nntile.init_context(ncpu=2)
        every = [name for names in KINDS.values() for name in names]
        for name in given.families.split(",") if given.families else every:
            result = results[name] if given.times else measure(name)
            results[name] = result | costs(name, result)
            print(name, json.dumps(results[name]), flush=True)
            if given.write:
                RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    if given.write or given.pages:
        PAGE.write_text(page(results))
        README.write_text(with_summary(README.read_text(), results))


if __name__ == "__main__":
    main()
