"""Types as scripts annotate them, as JSON schema, and whether a value fits."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import Any

from palaestra.core.errors import did_you_mean

PLAIN = {"int": "integer", "float": "number", "bool": "boolean", "str": "string"}
LISTS = {"list", "List", "tuple", "Tuple", "Sequence", "typing.List", "typing.Tuple", "typing.Sequence"}
UNIONS = {"Union", "typing.Union"}
OPTIONALS = {"Optional", "typing.Optional"}
LITERALS = {"Literal", "typing.Literal"}
WANTED = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "a text", "any": "a value"}


class NotFitting(ValueError):
    """The text says what would fit."""


@dataclass(frozen=True)
class ArgumentType:
    name: str  # "int", "float", "bool", "str", "choice", "list" or "any"
    is_optional: bool = False
    choices: tuple[Any, ...] = ()
    item: str = "any"  # of a list

    def optional(self) -> ArgumentType:
        """`target_kl: float = None` is optional in truth."""
        return replace(self, is_optional=True)

    def fit(self, value: Any) -> Any:
        """The value as the script will have it; `NotFitting` when it cannot be one."""
        if value is None:
            if self.is_optional or self.name == "any":
                return None
            raise NotFitting(f"It must be {self.wanted}, not nothing.")
        if self.name == "choice":
            return self._choose(value)
        if self.name == "list":
            return [_fit_plain(self.item, item) for item in (value if isinstance(value, list) else [value])]
        return _fit_plain(self.name, value)

    @property
    def wanted(self) -> str:
        if self.name == "choice":
            return f"one of {', '.join(map(str, self.choices))}"
        if self.name == "list":
            return f"a list of which each is {WANTED[self.item]}"
        return WANTED[self.name]

    def schema(self) -> dict[str, Any]:
        if self.name == "choice":
            return {"enum": [*self.choices, *([None] if self.is_optional else [])]}
        if self.name == "list":
            items = {"type": PLAIN[self.item]} if self.item in PLAIN else {}
            return {"type": ["array", "null"] if self.is_optional else "array", "items": items}
        if self.name not in PLAIN:
            return {}
        kind = PLAIN[self.name]
        return {"type": [kind, "null"] if self.is_optional else kind}

    def _choose(self, value: Any) -> Any:
        if value in self.choices:
            return value
        near = did_you_mean(str(value), map(str, self.choices))
        raise NotFitting(near or f"It must be {self.wanted}.")


def read_type(annotation: ast.expr | None) -> ArgumentType:
    """What cannot be understood is taken as it comes; the script's own parser has the last word."""
    if annotation is None:
        return ArgumentType("any")
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return _read_text(annotation.value)
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        return _read_union([annotation.left, annotation.right])
    if isinstance(annotation, ast.Subscript):
        return _read_subscript(annotation)
    name = ast.unparse(annotation)
    if name in LISTS:
        return ArgumentType("list")
    return ArgumentType(name if name in PLAIN else "any")


def _read_text(text: str) -> ArgumentType:
    try:
        return read_type(ast.parse(text, mode="eval").body)
    except SyntaxError:
        return ArgumentType("any")


def _read_subscript(annotation: ast.Subscript) -> ArgumentType:
    outer = ast.unparse(annotation.value)
    inside = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
    if outer in LITERALS:
        choices = tuple(one.value for one in inside if isinstance(one, ast.Constant))
        return ArgumentType("choice", choices=choices) if len(choices) == len(inside) else ArgumentType("any")
    if outer in OPTIONALS:
        return read_type(inside[0]).optional()
    if outer in UNIONS:
        return _read_union(inside)
    if outer in LISTS:
        item = read_type(inside[0]).name
        return ArgumentType("list", item=item if item in PLAIN else "any")
    return ArgumentType("any")


def _read_union(members: list[ast.expr]) -> ArgumentType:
    kinds = [one for one in members if not (isinstance(one, ast.Constant) and one.value is None)]
    if len(kinds) != 1:
        return ArgumentType("any")
    only = read_type(kinds[0])
    return only.optional() if len(kinds) < len(members) else only


def _fit_plain(name: str, value: Any) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if name == "int" and is_number and float(value).is_integer():
        return int(value)
    if name == "float" and is_number:
        return float(value)
    if name == "bool" and isinstance(value, bool):
        return value
    if name == "str" and isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value)
    if name == "any" and isinstance(value, str | int | float | bool):
        return value
    raise NotFitting(f"It must be {WANTED[name]}.")
