# SPDX-License-Identifier: BSD-3-Clause
"""A short run of the fuzzer, and that it finds, shrinks and prints what is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import torch_nntile
from fuzz import helpers
from fuzz.compare import Verdict, check, has_no_answer
from fuzz.draw import draw_program
from fuzz.machine import DONE, Machine, run
from fuzz.program import DEVICE, Program, Step, Var
from fuzz.rows import ROWS
from fuzz.script import script
from fuzz.shrink import connected, shrink

PROGRAMS, PARTS = 240, 6
MODES = ("eager", "graph")


@pytest.mark.parametrize("part", range(PARTS))
def test_programs_of_a_fixed_seed(part: int) -> None:
    for k in range(part, PROGRAMS, PARTS):
        program, mode = draw_program(f"test/{k}"), MODES[k % 2]
        verdict = check(program, mode)
        assert not verdict, f"{verdict.kind}: {verdict.text}\n{script(program, mode, 2)}"


def test_a_seed_is_a_program() -> None:
    assert draw_program("x/3") == draw_program("x/3") != draw_program("x/4")


def test_every_row_is_drawn() -> None:
    drawn = {step.kind for k in range(500) for step in draw_program(f"rows/{k}").steps}
    assert {row.name for row in ROWS} == drawn


def test_programs_mostly_run() -> None:
    outcomes = [o for k in range(50) for o in run(draw_program(f"run/{k}"), "cpu").outcomes]
    assert 0.9 < outcomes.count(DONE) / len(outcomes) < 1


# ---- planted mistakes


def planted(monkeypatch: pytest.MonkeyPatch, name: str, wrong: Any) -> tuple[Program, str]:
    """First program that shows the mistake, as shrunk, and the kind of difference."""
    monkeypatch.setattr(Tensor, name, wrong(getattr(Tensor, name)))
    for k in range(400):
        program = draw_program(f"planted/{k}")
        kind = check(program, "eager").kind
        if kind:
            break
    assert kind, "the mistake was not found"
    return shrink(program, lambda p: check(p, "eager").kind == kind), kind


def on_the_device(mistake: Any) -> Any:
    """Wraps a method of Tensor: CPU tensors keep theirs."""

    def wrap(right: Any) -> Any:
        return lambda x, *args: (mistake if x.device.type == "nntile" else right)(x, *args)

    return wrap


def test_a_wrong_number_is_found_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    program, kind = planted(monkeypatch, "neg", on_the_device(lambda x: torch.neg(x) + (x == 3)))
    assert kind == "numbers"
    assert [s.kind for s in program.steps][-1] == "neg" and len(program) <= 3


def test_a_write_that_a_view_does_not_see_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def write_a_copy(x: Tensor) -> Tensor:
        return torch.zeros_like(x) if x._is_view() else torch.zero_(x)

    program, _ = planted(monkeypatch, "zero_", on_the_device(write_a_copy))
    assert len(program) <= 5 and program.steps[-1].kind == "zero_"


def test_another_exception_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(x: Tensor, *args: Any) -> Tensor:
        raise TypeError("no")

    program, kind = planted(monkeypatch, "permute", on_the_device(refuse))
    assert kind == "permute: TypeError for done" and len(program) == 2


def test_another_layout_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = on_the_device(lambda x, *dims: torch.transpose(x, *dims).contiguous())
    program, kind = planted(monkeypatch, "transpose", wrong)
    assert kind in ("stride", "storages") and len(program) <= 3


# ---- parts


def test_steps_that_miss_a_variable_are_left_out() -> None:
    new = Step("numbers", "helpers.numbers", ((2, 3), torch.float32, 1, DEVICE), (0,))
    lost = Step("neg", "Tensor.neg", (Var(7),), (8,))
    after = Step("abs", "Tensor.abs", (Var(8),), (9,))
    program = Program((new, lost, after))
    assert connected(program).steps == (new,)
    assert run(program, "cpu").outcomes == [DONE, "skipped", "skipped"]


def test_a_rounded_number_does_not_jump() -> None:
    """softmax() may give 0.4999 here and 0.5 there: neither its sign nor its comparison is tried."""
    make = Step("numbers", "helpers.numbers", ((2, 3), torch.float32, 1, DEVICE), (0,))
    soft = Step("softmax", "torch.softmax", (Var(0), 0), (1,))
    sign = Step("sign", "Tensor.sign", (Var(1),), (2,))
    assert run(Program((make, soft, sign)), "cpu").outcomes == [DONE, DONE, "skipped"]


def test_nor_does_its_gradient() -> None:
    """That of a maximum is shared where both are equal, perhaps here and not there."""
    make = Step("numbers", "helpers.numbers", ((2, 3), torch.float32, 1, DEVICE), (0,))
    soft = Step("softmax", "torch.softmax", (Var(0), 0), (1,))
    more = Step("maximum", "helpers.extreme", ("maximum", Var(1), Var(1)), (2,))
    size = Step("abs", "Tensor.abs", (Var(1),), (3,))
    outcomes = run(Program((make, soft, more, size)), "cpu").outcomes
    assert outcomes == [DONE, DONE, "skipped", "skipped"]


@pytest.mark.parametrize(("kind", "args"), [("F.layer_norm", (2,)), ("Tensor.norm", 2)])
def test_what_may_be_mere_rounding_is_not_normed(kind: str, args: Any) -> None:
    """The gradient of attention over keys that are alike is 0 but for rounding."""
    q, k, v = (
        Step("numbers", "helpers.numbers", ((1, 1, 2, 2), torch.float32, n, DEVICE), (n,))
        for n in (0, 5, 4)
    )
    scores = Step("attention", "helpers.attention", (Var(0), Var(5), Var(4)), (6, 7))
    norm = Step(kind.partition(".")[2], kind, (Var(7), args), (8,))
    assert run(Program((q, k, v, scores, norm)), "cpu").outcomes[3:] == [DONE, "skipped"]


def test_an_item_that_overlaps_the_value_is_skipped() -> None:
    """Elements 2 and 3 go to 3 and 5: the CPU may read element 3 before or after it is written."""
    make = Step("numbers", "helpers.numbers", ((6,), torch.float32, 1, DEVICE), (0,))
    part = Step("narrow", "Tensor.narrow", (Var(0), 0, 2, 2), (1,))
    item = Step("setitem", "operator.setitem", (Var(0), slice(3, 6, 2), Var(1)), ())
    assert run(Program((make, part, item)), "cpu").outcomes == [DONE, DONE, "skipped"]


def test_an_index_that_became_wrong_is_no_difference() -> None:
    """Nobody counts what is written to a storage: backward uses other indices than forward."""
    leaf = Step("leaf", "helpers.leaf", ((2,), torch.float32, 1, DEVICE), (0,))
    index = Step("indices", "torch.tensor", ([1], {"dtype": torch.int64, "device": DEVICE}), (1,))
    picked = Step("index_select", "Tensor.index_select", (Var(0), 0, Var(1)), (2,))
    other = Step("regrown", "helpers.regrown", (Var(1), 2), ())
    back = Step("backward", "helpers.backward", (Var(2), 1, False), ())
    program = Program((leaf, index, picked, other, back))
    assert run(program, "cpu").outcomes == [*[DONE] * 4, "IndexError"]
    assert not check(program, "eager")
    torch_nntile.wait()


def test_a_wrong_layout_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    make = Step("numbers", "helpers.numbers", ((3, 4), torch.float32, 1, DEVICE), (0,))
    turned = Step("transpose", "Tensor.transpose", (Var(0), 0, 1), (1,))
    program = Program((make, turned))
    wrong = on_the_device(lambda x, *dims: torch.transpose(x, *dims).contiguous())
    monkeypatch.setattr(Tensor, "transpose", wrong(Tensor.transpose))
    assert check(program, "eager").kind == "stride"


def test_products_of_16_bits_are_not_tried() -> None:
    """(-1.5) ** 7 is -17.125 in bfloat16 when rounded once, -17 when rounded 7 times."""
    for k in range(300):
        program = draw_program(f"prod/{k}")
        machine = Machine("cpu")
        for step in program.steps:
            short = step.kind == "prod" and machine.value(step.args[0]).dtype.itemsize == 2
            assert not (short and machine.value(step.args[0]).is_floating_point())
            machine.do(step)


def softmax_less_itself(*factors: int) -> Program:
    """0 but for rounding, enlarged."""
    steps = [
        Step("numbers", "helpers.numbers", ((2, 3), torch.float32, 1, DEVICE), (0,)),
        Step("softmax", "torch.softmax", (Var(0), 0), (1,)),
        Step("mul_number", "Tensor.mul", (Var(1), 1), (2,)),
        Step("sub", "Tensor.sub", (Var(1), Var(2)), (3,)),
    ]
    for n, factor in enumerate(factors, 3):
        steps.append(Step("mul_number", "Tensor.mul", (Var(n), factor), (n + 1,)))
    return Program(tuple(steps))


def test_what_hangs_on_rounding_has_no_answer() -> None:
    large, plain = softmax_less_itself(1000, 1000), softmax_less_itself(2)
    expected = run(large, "cpu")
    assert has_no_answer(large, expected, Verdict("numbers", place="v5"))
    assert not has_no_answer(large, expected, Verdict("numbers", place="v1")), "that is another"
    assert not has_no_answer(plain, run(plain, "cpu"), Verdict("numbers", place="v4"))


def test_a_layer_that_enlarges_rounding_has_no_answer() -> None:
    """The CPU's group norm of equal numbers is that far from them, and squares enlarge it."""
    step = Step("numbers", "helpers.numbers", ((3, 3), torch.float32, 0, DEVICE), (0,))
    bias = Step("numbers", "helpers.numbers", ((3,), torch.float32, 0, DEVICE), (1,))
    norm = Step("group_norm", "F.group_norm", (Var(0), 1, Var(1), Var(1)), (2,))
    square, again = (Step("square", "Tensor.square", (Var(n),), (n + 1,)) for n in (2, 3))
    program = Program((step, bias, norm, square, again))
    assert not check(program, "eager")


def test_undefined_bytes_have_no_answer() -> None:
    """A view with an offset grows its storage: what is before it, nobody set."""
    make = Step("numbers", "helpers.numbers", ((1, 0), torch.uint8, 0, DEVICE), (0,))
    view = Step("as_strided", "Tensor.as_strided", (Var(0), (0,), (1,), 1), (1,))
    grow = Step("resized", "helpers.resized", (Var(1), (8,), 1), ())
    whole = Step("as_strided_", "Tensor.as_strided_", (Var(0), (), (), 0), (2,))
    program = Program((make, view, grow, whole))
    expected = run(program, "cpu")
    assert expected.outcomes == [DONE] * 4
    expected.tensors[0].fill_(3)  # what happened to be there
    assert has_no_answer(program, expected, Verdict("numbers", place="v2"))


def test_strides_that_may_be_any_decide_nothing() -> None:
    """The CPU refuses this write: it takes strides (3, 3, 1) and (3, 4, 1) of (4, 1, 3) for two."""
    make = Step("empty", "helpers.filled", ((4, 1, 3), (3, 4, 1), 0, DEVICE), (0,))
    write = Step("masked_fill_", "Tensor.masked_fill_", (Var(1), Var(2), 0), ())
    mask = Step("gt_number", "Tensor.gt", (Var(0), 0), (2,))
    same = Step("view", "Tensor.view", (Var(2), (4, 1, 3)), (1,))
    program = Program((make, mask, same, write))
    assert run(program, "cpu").outcomes == [*[DONE] * 3, "skipped"]


def test_a_seed_is_one_program() -> None:
    """Though addresses differ from run to run."""
    assert len({repr(draw_program("script/0")) for _ in range(20)}) == 1


@pytest.mark.parametrize("k", range(4))
def test_a_script_runs(k: int, tmp_path: Any) -> None:
    """On two threads of control it must be the same program: it prints equal numbers."""
    text = script(draw_program(f"script/{k}"), "eager", 1)
    body = text[: text.index("\nexpected = everything")]
    names: dict[str, Any] = {}
    exec(compile(body, "script", "exec"), names)  # of our own text
    facts, numbers, _, _ = names["everything"]("cpu")
    machine = run(draw_program(f"script/{k}"), "cpu")
    assert list(facts) == [f"v{n}" for n in machine.tensors]
    for n, x in machine.tensors.items():
        assert torch.equal(numbers[f"v{n}"][0].nan_to_num(9), x.data.nan_to_num(9))


def test_cuts_are_cuts() -> None:
    """Else the fuzzer would only try whole tensors."""
    x = helpers.numbers((6, 4), torch.float32, 1, "nntile")
    helpers.cut(x, 0, "fuzz_rows", [1, 5])
    before = torch_nntile.stats().tasks
    (x + 1).cpu()
    assert torch_nntile.stats().tasks - before >= 2


@pytest.mark.slow
@pytest.mark.multi
@pytest.mark.parametrize("sentinels", ["0", "1"])
def test_the_command(sentinels: str) -> None:
    command = [sys.executable, "-m", "fuzz", "--seconds", "5", "--seed", "1"]
    tests = str(Path(__file__).resolve().parents[1])
    environment = {**os.environ, "NNTILE_SENTINELS": sentinels, "PYTHONPATH": tests}
    found = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env=environment
    )
    assert found.returncode == 0, found.stdout + found.stderr
    assert "programs/s" in found.stdout
