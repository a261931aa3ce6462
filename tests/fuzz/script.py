# SPDX-License-Identifier: BSD-3-Clause
"""A program as a Python script that needs nothing of ours but the device."""

from __future__ import annotations

import inspect
import re
from typing import Any

from fuzz import helpers
from fuzz.machine import DONE, SKIPPED, run
from fuzz.program import Program, Step

__all__ = ["script"]

HEAD = '''"""{title}"""

from __future__ import annotations

import operator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import torch_nntile

seen, raised = [], []


def attempt(call):
    try:
        return call()
    except Exception as error:
        raised.append(type(error).__name__)
'''

TAIL = """

def grad_of(x):
    return x.grad.cpu() if x.is_leaf and x.grad is not None else None


def everything(device):
    seen.clear(), raised.clear()
    tensors = program(device)
    facts = {name: (x.dtype, x.shape, x.stride(), x.storage_offset()) for name, x in tensors.items()}
    numbers = {name: (x.data.cpu(), grad_of(x)) for name, x in reversed(tensors.items())}
    return facts, numbers, list(seen), list(raised)


expected = everything("cpu")
torch_nntile.init_context(ncpu=%d, runtime_mode=%r)
found = everything("nntile")
for name in expected[0]:
    print(name, found[0][name], "expected", expected[0][name])
    print(found[1][name], "expected", expected[1][name])
print("read", found[2], "expected", expected[2])
print("raised", found[3], "expected", expected[3])
"""


def script(program: Program, mode: str, workers: int, title: str = "") -> str:
    """Runs the program on both devices and prints what each has."""
    machine = run(program, "cpu")
    lines = [
        line for k, step in enumerate(program.steps) for line in source(step, machine.outcomes[k])
    ]
    live = ", ".join(f'"v{n}": v{n}' for n in machine.tensors)
    body = "\n".join(f"    {line}" for line in (*lines, f"return {{{live}}}"))
    own = "graph" if mode == "captured" else mode  # a replay has no tensors to look at in between
    head = HEAD.replace("{title}", title.replace("\\", "").replace('"', "'"))
    return f"{head}\n\n{sources(program)}def program(device):\n{body}\n{TAIL % (workers, own)}"


def sources(program: Program) -> str:
    """Of the helpers that the program calls, and those that they need."""
    names = {s.call.partition(".")[2] for s in program.steps if s.call.startswith("helpers.")}
    names |= {"numbers"} if "leaf" in names else set()
    parts = [inspect.getsource(getattr(helpers, name)) for name in sorted(names)]
    if "doubled" in names:
        parts.insert(0, inspect.getsource(helpers.Doubled))
    return "".join(f"{part}\n\n" for part in parts)


def source(step: Step, outcome: str) -> list[str]:
    if outcome == SKIPPED:
        return []
    if step.call == "del":
        return [f"del {step.args[0]}"]
    text = expression(step.call, step.args)
    if outcome != DONE:
        wrapped = text if not statement(step) else expression(step.call, step.args, plain=True)
        text = f"attempt(lambda: {wrapped})  # {outcome}"
    elif step.results:
        # A view of many has as many results as its input gives.
        names = ", ".join(f"v{n}" for n in step.results)
        lists = ("Tensor.unbind", "Tensor.split", "Tensor.chunk")
        many = len(step.results) > 1 or step.call in lists
        text = f"{names}, *_ = {text}" if many else f"v{step.results[0]} = {text}"
    elif step.call in ("helpers.tolist", "Tensor.item", "torch.equal"):
        text = f"seen.append({text})"
    return [text] if step.grad else ["with torch.no_grad():", f"    {text}"]


def statement(step: Step) -> bool:
    return step.call.startswith("set.") or step.call == "operator.setitem"


def expression(call: str, args: tuple[Any, ...], plain: bool = False) -> str:
    space, _, name = call.partition(".")
    texts = [text_of(a) for a in args if not isinstance(a, dict)]
    if space == "get":
        return f"{texts[0]}.{name}"
    if space == "set":
        return (
            f"setattr({texts[0]}, {name!r}, {texts[1]})"
            if plain
            else f"{texts[0]}.{name} = {texts[1]}"
        )
    if call == "operator.getitem":
        return f"{texts[0]}[{subscript(args[1])}]"
    if call == "operator.setitem" and not plain:
        return f"{texts[0]}[{subscript(args[1])}] = {texts[2]}"
    by_name = args[-1].items() if args and isinstance(args[-1], dict) else ()
    texts += [f"{key}={text_of(value)}" for key, value in by_name]
    if space == "Tensor":
        return f"{texts[0]}.{name}({', '.join(texts[1:])})"
    prefix = "" if space == "helpers" else f"{space}."
    return f"{prefix}{name}({', '.join(texts)})"


def text_of(value: Any) -> str:
    return re.sub(r"\b(slice\([^()]*), None\)", r"\1)", repr(value)).replace("Ellipsis", "...")


def subscript(index: Any) -> str:
    """As one writes it: v0[1:3, ..., None]."""
    if not isinstance(index, tuple):
        return text_of(index)
    return ", ".join(part(each) for each in index) if index else "()"


def part(index: Any) -> str:
    if not isinstance(index, slice):
        return text_of(index)
    start, stop, step = ("" if v is None else str(v) for v in (index.start, index.stop, index.step))
    return f"{start}:{stop}:{step}" if step else f"{start}:{stop}"
