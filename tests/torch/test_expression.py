# SPDX-License-Identifier: BSD-3-Clause
"""Formulas as operators: values, gradients, fusion, and what is refused."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from torch_nntile import capture, expression, stats, wait
from torch_nntile.kernels.expression import FUNCTIONS

A = torch.linspace(-1, 2, 20).view(4, 5)
B = torch.linspace(2, -2, 5)


def test_values_and_gradients_are_pytorchs() -> None:
    gate = expression("a * sigmoid(b) + (a if b > 0 else 0.5) ** 2")
    results = []
    for device in ("cpu", "nntile"):
        a, b = (x.to(device).detach().clone().requires_grad_() for x in (A, B))
        y = gate(a, b)
        y.sum().backward()
        assert a.grad is not None and b.grad is not None
        results.append([x.detach().cpu() for x in (y, a.grad, b.grad)])
    a, b = A, B
    assert_close(results[0][0], a * torch.sigmoid(b) + torch.where(b > 0, a, 0.5) ** 2)
    assert_close(results[1], results[0])


def test_names_are_in_order_of_appearance_or_given() -> None:
    assert expression("x if y > 0 else z")(1.0, torch.ones(()), 2.0) == 1
    less = expression("b - a", ["a", "b", "unused"])
    assert less(A, b=B, unused=None).equal(B - A)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_function_is_a_map(name: str) -> None:
    count, _ = FUNCTIONS[name]
    arguments = [torch.linspace(0.1, 0.9, 6), torch.linspace(0.2, 3, 6), torch.full((6,), 0.5)]
    if name == "where":
        arguments[0] = arguments[0] > 0.5
    formula = expression(f"{name}({', '.join('abc'[:count])})")
    wait()
    before = stats().host_calls
    found = formula(*(x.to("nntile") for x in arguments[:count])).cpu()
    assert_close(found, formula(*arguments[:count]), equal_nan=True)
    wait()
    assert stats().host_calls == before


def test_it_fuses_and_is_captured_and_compiled() -> None:
    gate = expression("tanh(a) * sigmoid(b) + a * b - 3")
    a, b = A.to("nntile"), A.cos().to("nntile")
    step = capture(gate)
    expected = gate(A, A.cos())
    for _ in range(4):
        assert_close(step(a, b).cpu(), expected)
    wait()
    before = stats().tasks
    step(a, b)
    wait()
    assert stats().tasks - before == 1
    compiled = torch.compile(gate, backend="nntile", fullgraph=True)
    assert_close(compiled(a, b).cpu(), expected)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a +", "line 1, column 4: invalid syntax"),
        ("a @ b", "line 1, column 1: 'a @ b' has an operator that is not element-wise"),
        ("1 + sigmoi(a)", "column 5: there is no function 'sigmoi'; did you mean 'sigmoid'"),
        ("a * sigmoid", "column 5: 'sigmoid' is a function: call it"),
        ("a[0]", "column 1: 'a\\[0\\]' is not element-wise"),
        ("1 + 2", "it has no name"),
        ("a < b < c", "write 'a < b < c' with &"),
        ("sigmoid(a, b)", r"sigmoid\(\) takes 1 arguments by position, got 2"),
        ("a and b", "'a and b' is not element-wise"),
        ("not a", "'not a' has an operator"),
        ("'x' * a", "column 1: 'x' is not a number"),
        ("(a\n + b.c)", "line 2, column 4: 'b.c' is not element-wise"),
    ],
)
def test_a_bad_formula_is_refused_at_its_place(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=f"(?s)^expression .*{said}"):
        expression(text)


def test_bad_parameters_and_calls_name_the_formula() -> None:
    for parameters in (["a"], ["a", "b", "b"]):
        with pytest.raises(ValueError, match=r"'a \* b': parameters are .* it has the names"):
            expression("a * b", parameters)
    with pytest.raises(TypeError, match=r"expression\('a \* b'\).*missing.*'b'"):
        expression("a * b")(A)
