# SPDX-License-Identifier: BSD-3-Clause
"""Pages of the reference that follow from tables: ops, environment, Python names."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch_nntile
from torch_nntile import _c, aten, context
from torch_nntile.schemas import siblings

ROOT = Path(__file__).resolve().parent.parent

RULES = {
    "map": "Works element by element. The tiles of all operands line up; one task for each tile.",
    "reduce": "Sums over dims. A cut of such a dim gives partial results, joined in the order of "
    "the tiles: the same bits for any number of workers.",
    "contract": "A product. A cut of rows, columns or batch dims gives one task for each part; a cut "
    "of the summed dim gives partial products, joined in the order of the tiles.",
    "whole": "Some dims stay whole inside a task (those that it sums or indexes); the others may be "
    "cut.",
    "empty": "Has no task: its tiles are not written.",
    "write": "Moves bytes; one task for each pair of tiles that overlap.",
    "bits": "Copies bytes from one whole tile to another.",
    "compose": "The device records it as other ops; it has no task of its own.",
}
DIMS = (
    "This table shows a call that the tests try (`tests/tile/cuts_of_rows.txt`). `cut`: each tile is "
    "a task of its own; `parts`: each tile gives a partial result; `whole`: a copy joins the tiles "
    "first; `-`: a dim of one element."
)
_CUTS = dict(
    line.split(": ", 1)
    for line in (ROOT / "tests" / "tile" / "cuts_of_rows.txt").read_text().splitlines()
)


def _times() -> tuple[str, dict[str, tuple[str, float, float]]]:
    """(machine, op -> (call, our milliseconds, PyTorch's)): tests/bench/rows.py --write."""
    head, *lines = (ROOT / "tests" / "bench" / "rows.tsv").read_text().splitlines()
    cells = (line.split("\t") for line in lines)
    return head.lstrip("# "), {op: (call, float(a), float(b)) for op, call, a, b in cells}


_MACHINE, _TIMES = _times()
TYPES = {
    "any": "any dtype",
    "index": "an integer dtype",
    "bool": "bool",
    "i64": "int64",
    "i8": "int8",
    "f64": "float64",
    "T": "T",
}
_KINDS = {1: "integer", 2: "number", 3: "integers", 4: "word", 5: "integer"}
_AT_RUN_TIME = (2, 5)  # NNTILE_ATTR_REAL, NNTILE_ATTR_SEED


def _text(function: str, *args: Any) -> str:
    return _c.text(_c.get(function, *args))


def _overloads() -> dict[str, list[str]]:
    """Op -> PyTorch's overloads that it serves, in-place and `out=` forms included."""
    found: dict[str, list[str]] = {}
    for row in aten.ROWS:
        found.setdefault(row.op, []).extend(siblings(row.qualified))
    return {op: sorted(set(names)) for op, names in found.items()}


def op_counts() -> tuple[int, int]:
    """(ops, overloads of PyTorch that they serve)."""
    return int(_c.get("nntile_op_count")), sum(len(names) for names in _overloads().values())


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    def line(cells: tuple[str, ...]) -> str:
        return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"

    return "\n".join([line(head), "|---" * len(head) + "|", *(line(row) for row in rows)])


def _operands(op: int, kind: str) -> str:
    rows: list[tuple[str, ...]] = []
    for i in range(_c.get(f"nntile_op_{kind}_count", op)):
        name = _text(f"nntile_op_{kind}_name", op, i)
        dtype = _text(f"nntile_op_{kind}_type", op, i)
        note = {"?": "may be absent", "*": "any number of tensors"}.get(name[-1], "")
        rows.append((f"`{name.rstrip('?*')}`", TYPES[dtype], note))
    return _table(("name", "dtype", ""), rows) if rows else "None."


def _attributes(op: int) -> str:
    rows: list[tuple[str, ...]] = []
    for i in range(_c.get("nntile_op_attr_count", op)):
        kind = int(_c.get("nntile_op_attr_kind", op, i))
        choices = _text("nntile_op_attr_choices", op, i)
        default = _text("nntile_op_attr_default", op, i)
        rows.append(
            (
                f"`{_text('nntile_op_attr_name', op, i)}`",
                " or ".join(f"`{word}`" for word in choices.split("|"))
                if choices
                else _KINDS[kind],
                f"`{default}`" if default else "empty",
                "the same plan" if kind in _AT_RUN_TIME else "another plan",
            )
        )
    return _table(("name", "kind", "default", "another value needs"), rows) if rows else "None."


def _dtypes(op: int) -> str:
    taken = [
        str(dtype)[6:] for dtype in _c.DTYPES if _c.get("nntile_op_takes", op, _c.DTYPES[dtype])
    ]
    return f"T is one of {', '.join(taken)}."


def _tiles(cuts: str) -> str:
    """Of a line of `cuts_of_rows.txt`: "x cut whole, y cut"."""
    rows: list[tuple[str, ...]] = []
    for operand in cuts.split(", "):
        name, *dims = operand.split()
        rows.append((f"`{name}`", ", ".join(dims) or "no dims"))
    return _table(("operand", "dims"), rows) + f"\n\n{DIMS}"


def _time(op: str) -> str:
    call, ours, theirs = _TIMES[op]
    return (
        f"`{call}`, float32: {ours:.2f} ms, CPU PyTorch {theirs:.2f} ms, ratio {ours / theirs:.2f} "
        f"(two workers, two threads; {_MACHINE})."
    )


def _op_page(op: int, overloads: list[str]) -> str:
    rule = _text("nntile_op_rule", op)
    served = [f"* `{name}`" for name in overloads] or ["None: other ops use it."]
    name = _text("nntile_op_name", op)
    cuts = {"Tiles": _tiles(_CUTS[name])} if name in _CUTS else {}
    sections = {
        "Formula": f"```text\n{_text('nntile_op_doc', op)}\n```",
        "Inputs": _operands(op, "input"),
        "Outputs": _operands(op, "output"),
        "Attributes": _attributes(op),
        "Dtypes": _dtypes(op),
        "Rule": f"`{rule}`. {RULES[rule]}",
        **cuts,
        **({"Time": _time(name)} if name in _TIMES else {}),
        "PyTorch overloads": "\n".join(served),
    }
    body = "\n\n".join(f"## {title}\n\n{text}" for title, text in sections.items())
    return f"# {name}\n\n{body}\n\n[All ops](README.md)\n"


def op_pages() -> Iterator[tuple[str, str]]:
    """(file name, text) for each op row, and the index."""
    overloads = _overloads()
    ops = {_text("nntile_op_name", op): op for op in range(_c.get("nntile_op_count"))}
    rows: list[tuple[str, ...]] = []
    for name, op in sorted(ops.items()):
        served = overloads.get(name, [])
        yield f"{name}.md", _op_page(op, served)
        doc = _text("nntile_op_doc", op)
        ratio = f"{_TIMES[name][1] / _TIMES[name][2]:.2f}" if name in _TIMES else ""
        rule = _text("nntile_op_rule", op)
        rows.append((f"[{name}]({name}.md)", f"`{doc}`", rule, ratio, str(len(served))))
    count, total = op_counts()
    rules = "\n".join(f"* `{name}`: {text}" for name, text in RULES.items())
    yield (
        "README.md",
        f"# Ops\n\n{count} ops run {total} overloads of PyTorch (in-place, `out=` and foreach forms "
        "included) on tiles, the parts into which data is cut. Compositions of these ops, and "
        "PyTorch's own decompositions, run more overloads. A task on the host runs the rest, with "
        "PyTorch's CPU kernel.\n\n"
        + _table(("op", "formula", "rule", "time", "overloads"), rows)
        + "\n\nThe column time has our time for a call of about a million float32 numbers, divided by "
        "CPU PyTorch's; the page of an op says which call. "
        + f"\n\nThe rule says how the device cuts an op into tasks.\n\n{rules}\n",
    )


def environment_page() -> str:
    """The table of context.py, and what the runtime does to StarPU's own variables."""
    lines = (context.__doc__ or "").splitlines()
    table = "\n".join(line for line in lines if line.startswith("|"))
    table = re.sub(r"^\| ([A-Z][A-Z_]+) ", r"| `\1` ", table, flags=re.MULTILINE)
    return f"""# Environment

{table}

The first tensor on the device reads and checks these variables, and each start of the runtime does so again.
The device reads `NNTILE_CPU_FALLBACK` and `NNTILE_BLOCKING` at the import. An import never fails because of a
variable: a bad value raises at the first use, and one warning names unknown variables that begin with
`NNTILE_`. Arguments of `init_context(...)` take precedence over the environment.

StarPU is the library that schedules tasks. The runtime sets some of its variables while it starts, and
restores them afterwards:

| variable | what happens |
|---|---|
| `STARPU_WORKERS_NOBIND` | 1 unless you set it: workers are not bound to cores |
| `STARPU_SILENT` | 1 unless `init_context(verbose=1)` |
| `STARPU_HOME`, `XDG_CACHE_HOME` | a temporary folder, so that StarPU writes no files into yours |
| `STARPU_LIMIT_CPU_MEM`, `STARPU_LIMIT_CPU_NUMA_...` | ignored: use `init_context(memory="8GiB")` |
| `STARPU_MINIMUM_CLEAN_BUFFERS`, `STARPU_TARGET_CLEAN_BUFFERS` | 0 unless you set them |
| `STARPU_LIMIT_CUDA_MEM` | MiB of a GPU for tiles, else 9/10 of what is [free](../concepts/devices.md) |
| `STARPU_WORKERS_CUDAID` | which GPUs have workers; of these tiles take 9/10 of all memory |
| `STARPU_PERF_MODEL_DIR`, `STARPU_PERF_MODEL_PATH` | ignored |
"""


def python_page() -> str:
    """Names of the package with their signatures and docstrings."""
    parts = [
        "# Python\n\nThis page lists everything in `torch_nntile`. Models and optimizers need none of it."
    ]
    for name in sorted(torch_nntile.__all__):
        item = getattr(torch_nntile, name)
        if inspect.ismodule(item):
            continue
        parts.append(_python_item(f"torch_nntile.{name}", item))
    for module in ("training", "train_mnist"):
        inner = importlib.import_module(f"torch_nntile.{module}")
        parts += [
            _python_item(f"torch_nntile.{module}.{name}", getattr(inner, name))
            for name in inner.__all__
        ]
    return "\n\n".join(parts) + "\n"


def _python_item(name: str, item: Any) -> str:
    doc = inspect.getdoc(item) or ""
    text = f"\n\n```text\n{doc}\n```" if doc else ""
    if inspect.isclass(item) and issubclass(item, Exception):
        return f"## {name}{text}"
    return f"## {name}\n\n```python no-run\n{name}{_signature(item)}\n```{text}"


def _signature(item: Any) -> str:
    """As in the source: annotations without quotes, functions by name; one line if that is short."""
    signature = inspect.signature(item)

    def plain(text: str) -> str:
        text = re.sub(r"<function (\w+) at 0x[0-9a-f]+>", r"\1", text)
        return re.sub(r"""(: |-> )(['"])(.*?)\2(?= = |$)""", r"\1\3", text)

    parameters = [plain(str(parameter)) for parameter in signature.parameters.values()]
    end = ")" if inspect.isclass(item) else plain(f") -> {signature.return_annotation!r}")
    line = f"({', '.join(parameters)}{end}"
    if len(line) <= 80:
        return line
    return "(\n" + "".join(f"    {parameter},\n" for parameter in parameters) + end
