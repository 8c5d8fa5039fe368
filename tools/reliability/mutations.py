"""Small defects, one at a time: what a mutant of a source file is.

Each is a place in the text and what stands there instead, so that everything else stays as it was written. Left out is
what no test should hold: log lines, the words of messages, annotations, decorators and imports.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

LOUD = {"logger", "log_master", "warnings", "print"}  # what is called for people to read
LONGEST_WORD = 40  # of a text that is a key, a name or a suffix; longer ones are for people
OTHER_COMPARISON: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OTHER_OPERATION: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}


@dataclass(frozen=True)
class Mutant:
    line: int  # of the file, from 1
    text: str  # of that line, without its margin: what a judgement about this mutant names
    was: str
    now: str
    source: str  # the whole file with the defect; every other line stands where it stood
    is_inner: bool  # within a function: what was loaded already can be changed

    @property
    def change(self) -> str:
        return f"{self.was} -> {self.now}"


def mutants_of(source: str) -> tuple[Mutant, ...]:
    """Every mutant of a file, in the order of its text; those that say the same are one."""
    tree = ast.parse(source)
    lines = source.encode().splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    whole = source.encode()
    found: dict[str, Mutant] = {}
    for node, now, is_inner in _changes(tree):
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        first, last = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        room = "\n" * (node.end_lineno - node.lineno)
        padded = f"{now[:-1]}{room})" if isinstance(node, ast.expr) else now + room
        changed = (whole[:first] + padded.encode() + whole[last:]).decode()
        text = lines[node.lineno - 1].decode().strip()
        found.setdefault(changed, Mutant(node.lineno, text, ast.unparse(node), now, changed, is_inner))
    return tuple(sorted(found.values(), key=lambda mutant: mutant.line))


def _changes(tree: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str, bool]]:
    """Nodes, what to write in their place, and whether that is within a function."""
    for node, is_inner in _places(tree, is_inner=False):
        if isinstance(node, ast.stmt):
            yield from ((node, now, is_inner) for now in _statements(node))
        elif isinstance(node, ast.expr):
            yield from ((node, f"({ast.unparse(now)})", is_inner) for now in _expressions(node))
        for question in _plain_questions(node):
            yield question, f"(not {ast.unparse(question)})", is_inner


def _plain_questions(node: ast.AST) -> list[ast.expr]:
    """Conditions that are a name or a call; others have changes of their own."""
    match node:
        case ast.If(test=test) | ast.While(test=test):
            asked = [test]
        case ast.comprehension(ifs=ifs):
            asked = ifs
        case _:
            asked = []
    return [question for question in asked if isinstance(question, ast.Name | ast.Attribute | ast.Call | ast.NamedExpr)]


def _places(node: ast.AST, *, is_inner: bool) -> Iterator[tuple[ast.AST, bool]]:
    """Everything below `node` that a test can be asked to hold."""
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "type_comment"}:
            continue
        is_body = name == "body" and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_left_out(child):
                yield child, is_inner or is_body
                yield from _places(child, is_inner=is_inner or is_body)


def _is_left_out(node: ast.AST) -> bool:
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    if isinstance(node, ast.Expr):  # a docstring, or a word to people
        return isinstance(node.value, ast.Constant) or _is_loud(node.value)
    if isinstance(node, ast.Subscript):  # an annotation, wherever it stands
        return isinstance(node.value, ast.Name) and node.value.id == "Literal"
    # Within an f-string, Python 3.11 does not know where things stand.
    return isinstance(node, ast.Import | ast.ImportFrom | ast.JoinedStr | ast.keyword) and not _is_argument(node)


def _is_argument(node: ast.AST) -> bool:
    """`key=value` in a call is looked into, but for words to people."""
    return isinstance(node, ast.keyword) and node.arg not in {"message", "hint", "help", "description"}


def _is_loud(node: ast.AST) -> bool:
    while isinstance(node, ast.Call | ast.Attribute):
        node = node.func if isinstance(node, ast.Call) else node.value
    return isinstance(node, ast.Name) and node.id in LOUD


def _statements(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.Raise():
            yield "pass"
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield "return None"
        case ast.Break():
            yield "continue"
        case ast.Continue():
            yield "break"
        case ast.AugAssign(op=operation) if type(operation) in OTHER_OPERATION:
            other = OTHER_OPERATION[type(operation)]()
            yield ast.unparse(ast.AugAssign(node.target, other, node.value))


def _expressions(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.Compare():
            for index, comparison in enumerate(node.ops):
                ops: list[ast.cmpop] = [*node.ops]
                ops[index] = OTHER_COMPARISON[type(comparison)]()
                yield ast.Compare(node.left, ops, node.comparators)
        case ast.BoolOp():
            yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.BinOp() if type(node.op) in OTHER_OPERATION and not _is_text(node):
            yield ast.BinOp(node.left, OTHER_OPERATION[type(node.op)](), node.right)
        case ast.IfExp():
            yield ast.IfExp(node.test, node.orelse, node.body)
        case ast.Constant():
            yield from _constants(node.value)


def _is_text(node: ast.BinOp) -> bool:
    """Texts that are put together are for people."""
    return any(isinstance(side, ast.JoinedStr) for side in (node.left, node.right))


def _constants(value: object) -> Iterator[ast.expr]:
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int | float):
        yield ast.Constant(value + 1)
    elif isinstance(value, str) and _is_word(value):
        yield ast.Constant(f"{value}q")  # not a sign: names of encodings may have some
    elif isinstance(value, bytes) and value:
        yield ast.Constant(value + b"q")


def _is_word(text: str) -> bool:
    """A key, a name, a mode, a suffix: what programs read."""
    return bool(text) and len(text) <= LONGEST_WORD and not any(letter.isspace() for letter in text)
