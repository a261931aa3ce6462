# SPDX-License-Identifier: BSD-3-Clause
"""Element-wise formulas as operators: `expression("a * sigmoid(b)")`.

A formula becomes calls of PyTorch's own ops, which all have rows of rule map. So it has gradients,
runs on any device and fuses with its neighbours, and no op is added.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_nntile.errors import InvalidArgumentError

__all__ = ["FUNCTIONS", "expression"]

# By number of arguments.
_NAMES = {
    1: "abs sign square floor ceil round trunc reciprocal sqrt rsqrt exp exp2 expm1 log log2 log10"
    " log1p sin cos tan asin acos atan sinh cosh asinh acosh atanh tanh erf erfc sigmoid relu isnan"
    " isinf isfinite",
    2: "atan2 maximum minimum fmax fmin xlogy logaddexp copysign",
    3: "where lerp",
}
FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    name: (count, getattr(torch, name)) for count, names in _NAMES.items() for name in names.split()
} | {name: (1, getattr(torch.nn.functional, name)) for name in ("gelu", "silu", "softplus")}

_OPERATORS = (
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.USub, ast.UAdd),
    *(ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.BitAnd, ast.BitOr, ast.Invert),
)


class _Checked(ast.NodeTransformer):
    """Lets through what is element-wise; `a if c else b` becomes `where(c, a, b)`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.places: list[tuple[int, int, str]] = []  # line, column, name

    def fail(self, node: Any, what: str) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"expression {self.text!r}: line {node.lineno}, column {node.col_offset + 1}: {what}"
        )

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if not isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Compare)):
            raise self.fail(node, f"'{ast.unparse(node)}' is not element-wise")
        if isinstance(node, ast.Compare) and len(node.ops) > 1:
            raise self.fail(node, f"write '{ast.unparse(node)}' with &, one comparison each")
        operators = node.ops if isinstance(node, ast.Compare) else [node.op]
        if not isinstance(operators[0], _OPERATORS):
            raise self.fail(node, f"'{ast.unparse(node)}' has an operator that is not element-wise")
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                setattr(node, name, self.visit(value))
            elif isinstance(value, list) and name == "comparators":
                value[:] = [self.visit(each) for each in value]
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if not isinstance(node.value, (bool, int, float)):
            raise self.fail(node, f"{node.value!r} is not a number")
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in FUNCTIONS:
            raise self.fail(node, f"'{node.id}' is a function: call it")
        self.places.append((node.lineno, node.col_offset, node.id))
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        arguments = [self.visit(each) for each in (node.test, node.body, node.orelse)]
        where = ast.copy_location(ast.Name("where", ast.Load()), node)
        return ast.copy_location(ast.Call(where, arguments, []), node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = ast.unparse(node.func)
        if name not in FUNCTIONS:
            near = difflib.get_close_matches(name, FUNCTIONS, 1)
            raise self.fail(
                node,
                f"there is no function '{name}'" + "".join(f"; did you mean '{n}'?" for n in near),
            )
        count = FUNCTIONS[name][0]
        if node.keywords or len(node.args) != count:
            found = len(node.args) + len(node.keywords)
            raise self.fail(node, f"{name}() takes {count} arguments by position, got {found}")
        node.args = [self.visit(each) for each in node.args]
        return node


def expression(text: str, parameters: Sequence[str] | None = None) -> Callable[..., torch.Tensor]:
    """Make a function of tensors from an element-wise formula.

    Args:
        text: a formula of one line in Python's syntax: names, numbers, + - * / // % **, single
            comparisons, & | ~ of booleans, `x if c else y`, and the names of `FUNCTIONS`.
        parameters: names of the arguments in order; by default in order of appearance.

    Returns:
        A function. It takes tensors, and also numbers if at least one argument is a tensor, by
        position or by name; shapes must broadcast. The result has the broadcast shape, and the
        dtype that PyTorch's ops give.

    Raises:
        ValueError: the formula is not valid. The message has the formula and the place in it.
    """
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError) as error:
        line, column = getattr(error, "lineno", 1), getattr(error, "offset", 0) or len(text) + 1
        at, what = f"line {line}, column {column}", getattr(error, "msg", error)
        raise InvalidArgumentError(f"expression {text!r}: {at}: {what}") from None
    checked = _Checked(text)
    tree.body = checked.visit(tree.body)
    found = list(dict.fromkeys(name for _, _, name in sorted(checked.places)))
    names = found if parameters is None else list(parameters)
    if not found:
        raise InvalidArgumentError(f"expression {text!r}: it has no name, so no tensor")
    if len(set(names)) != len(names) or not set(found) <= set(names):
        raise InvalidArgumentError(
            f"expression {text!r}: parameters are {names}, it has the names {found}"
        )
    arguments = ast.arguments(
        posonlyargs=[], args=[ast.arg(n) for n in names], kwonlyargs=[], kw_defaults=[], defaults=[]
    )
    whole = ast.fix_missing_locations(ast.Expression(ast.Lambda(arguments, tree.body)))
    scope = {name: function for name, (_, function) in FUNCTIONS.items()}
    formula: Callable[..., torch.Tensor] = eval(compile(whole, f"<{text}>", "eval"), scope)
    formula.__name__ = formula.__qualname__ = f"expression({text!r})"
    formula.__doc__ = f"{text} of {', '.join(names)}."
    return formula
