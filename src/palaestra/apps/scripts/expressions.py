"""The few shapes of expressions that scripts use as defaults, worked out without running them."""

from __future__ import annotations

import ast
import operator
from typing import Any

OPERATORS: dict[type[ast.operator], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}
LARGEST_EXPONENT = 64  # 10**9**9 in somebody's file must not keep us busy
OWN_NAME = ("os.path.basename(__file__)", "Path(__file__).stem")


class NotPlain(ValueError):
    """The expression needs the script to run; its text is all that can be shown."""


def work_out(node: ast.expr, script_name: str = "") -> Any:
    """Of a literal, of simple arithmetic, of `int(1e6)`, of `field(default_factory=…)`, or of the script's own name."""
    match node:
        case ast.Constant():
            return node.value
        case ast.UnaryOp(op=ast.USub()):
            return -_number(work_out(node.operand, script_name))
        case ast.BinOp():
            return _calculate(node, script_name)
        case ast.List() | ast.Tuple():
            return [work_out(element, script_name) for element in node.elts]
        case ast.Call(func=ast.Name(id="field") | ast.Attribute(attr="field")):
            return _field_default(node, script_name)
        case ast.Call(func=ast.Name(id="int" | "float" as kind), args=[given], keywords=[]):
            return _converted(kind, _number(work_out(given, script_name)))
    if ast.unparse(node).startswith(OWN_NAME):
        return script_name
    raise NotPlain(ast.unparse(node))


def _calculate(node: ast.BinOp, script_name: str) -> Any:
    left, right = (_number(work_out(side, script_name)) for side in (node.left, node.right))
    if type(node.op) not in OPERATORS or (isinstance(node.op, ast.Pow) and abs(right) > LARGEST_EXPONENT):
        raise NotPlain(ast.unparse(node))
    try:
        return OPERATORS[type(node.op)](left, right)
    except ArithmeticError as error:
        raise NotPlain(ast.unparse(node)) from error


def _converted(kind: str, number: float) -> float:
    """`int(1e6)`"""
    try:
        return int(number) if kind == "int" else float(number)
    except (ArithmeticError, ValueError) as error:  # of infinity, of NaN
        raise NotPlain(f"{kind}({number})") from error


def _field_default(call: ast.Call, script_name: str) -> Any:
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    if "default" in given:
        return work_out(given["default"], script_name)
    factory = given.get("default_factory")
    if isinstance(factory, ast.Lambda):
        return work_out(factory.body, script_name)
    if isinstance(factory, ast.Name) and factory.id in {"list", "tuple"}:
        return []
    raise NotPlain(ast.unparse(call))


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NotPlain(repr(value))
    return value
