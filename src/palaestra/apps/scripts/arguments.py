"""Arguments of a script: type, default, and how a value is written on the command line."""

from __future__ import annotations

import ast
import operator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from palaestra.core.errors import did_you_mean
from palaestra.core.worker_kind import FieldError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class Argument:
    name: str
    flag: str  # with dashes, as the script's parser takes it
    type: ArgumentType
    description: str
    has_default: bool
    is_known: bool  # False if only the source text of the default is known
    default: Any
    default_text: str = ""
    is_derived: bool = False  # computed by the script
    takes_boolean_value: bool = False  # written `--flag True` (argparse), not `--flag` and `--no-flag`
    is_switch: bool = False  # store_true or store_false (argparse): the flag inverts the default

    def to_argv(self, value: Any) -> list[str]:
        """The value as words of a command line."""
        if self.is_switch:
            return [] if value == self.default else [self.flag]
        if isinstance(value, bool) and not self.takes_boolean_value:
            return [self.flag if value else f"--no-{self.flag.removeprefix('--')}"]
        if isinstance(value, list):
            return [self.flag, *map(str, value)]
        text = str(value)
        return [f"{self.flag}={text}"] if text.startswith("-") else [self.flag, text]  # else read as a flag


def resolve_values(arguments: Sequence[Argument], given: Mapping[str, Any]) -> tuple[dict[str, Any], list[FieldError]]:
    """Every known value, from `given` or the defaults, and all errors in `given`."""
    values = {one.name: one.default for one in arguments if one.is_known and not one.is_derived}
    errors = []
    by_name = {one.name: one for one in arguments}
    for name, value in given.items():
        argument = by_name[name]
        if argument.is_derived:
            errors.append(FieldError(name, f"'{name}' is computed by the script.", "Leave it out."))
            continue
        try:
            values[name] = argument.type.convert(value)
        except Mismatch as error:
            errors.append(FieldError(name, f"Invalid value for {name}: {value}.", str(error)))
    missing = [one.name for one in arguments if not one.has_default and not one.is_derived and one.name not in values]
    errors += [FieldError(name, f"The script needs a value for '{name}'.", f"Add {name}=…") for name in missing]
    return values, errors


def build_argv(arguments: Sequence[Argument], values: Mapping[str, Any]) -> list[str]:
    """Words of the command line for all values that differ from the script's defaults."""
    argv: list[str] = []
    for one in arguments:
        if one.name not in values or (one.is_known and _is_same(values[one.name], one.default)):
            continue
        argv += one.to_argv(values[one.name])
    return argv


def _is_same(value: Any, default: Any) -> bool:
    """Equal in value and type: 1, 1.0 and True differ."""
    return type(value) is type(default) and bool(value == default)


BASIC_TYPES = {"int": "integer", "float": "number", "bool": "boolean", "str": "string"}
LISTS = {"list", "List", "tuple", "Tuple", "Sequence", "typing.List", "typing.Tuple", "typing.Sequence"}
UNIONS = {"Union", "typing.Union"}
OPTIONALS = {"Optional", "typing.Optional"}
LITERALS = {"Literal", "typing.Literal"}
EXPECTED = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "text", "any": "a value"}


class Mismatch(ValueError):
    """A value does not fit its argument; the message says what does."""


@dataclass(frozen=True)
class ArgumentType:
    name: str  # "int", "float", "bool", "str", "choice", "list" or "any"
    is_optional: bool = False
    choices: tuple[Any, ...] = ()
    item: str = "any"  # of a list

    def optional(self) -> ArgumentType:
        """The type of `target_kl: float = None`."""
        return replace(self, is_optional=True)

    def convert(self, value: Any) -> Any:
        """The value in the argument's type; raises `Mismatch` if it does not fit."""
        if value is None:
            if self.is_optional or self.name == "any":
                return None
            raise Mismatch(f"It must be {self.expected}, not empty.")
        if self.name == "choice":
            return self._choose(value)
        if self.name == "list":
            return [_convert(self.item, item) for item in (value if isinstance(value, list) else [value])]
        return _convert(self.name, value)

    @property
    def expected(self) -> str:
        if self.name == "choice":
            return f"one of {', '.join(map(str, self.choices))}"
        if self.name == "list":
            return f"a list; each item must be {EXPECTED[self.item]}"
        return EXPECTED[self.name]

    def schema(self) -> dict[str, Any]:
        if self.name == "choice":
            return {"enum": [*self.choices, *([None] if self.is_optional else [])]}
        if self.name == "list":
            items = {"type": BASIC_TYPES[self.item]} if self.item in BASIC_TYPES else {}
            return {"type": ["array", "null"] if self.is_optional else "array", "items": items}
        if self.name not in BASIC_TYPES:
            return {}
        kind = BASIC_TYPES[self.name]
        return {"type": [kind, "null"] if self.is_optional else kind}

    def _choose(self, value: Any) -> Any:
        if value in self.choices:
            return value
        near = did_you_mean(str(value), map(str, self.choices))
        raise Mismatch(near or f"It must be {self.expected}.")


def read_type(annotation: ast.expr | None) -> ArgumentType:
    """The type of an annotation. Unknown ones accept any value and leave the check to the script's parser."""
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
    return ArgumentType(name if name in BASIC_TYPES else "any")


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
        return ArgumentType("list", item=item if item in BASIC_TYPES else "any")
    return ArgumentType("any")


def _read_union(members: list[ast.expr]) -> ArgumentType:
    kinds = [one for one in members if not (isinstance(one, ast.Constant) and one.value is None)]
    if len(kinds) != 1:
        return ArgumentType("any")
    only = read_type(kinds[0])
    return only.optional() if len(kinds) < len(members) else only


def _convert(name: str, value: Any) -> Any:
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
    raise Mismatch(f"It must be {EXPECTED[name]}.")


OPERATORS: dict[type[ast.operator], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}
LARGEST_EXPONENT = 64  # expressions such as 10**9**9 are not evaluated
OWN_NAME = ("os.path.basename(__file__)", "Path(__file__).stem")


class NotConstant(ValueError):
    """The expression cannot be evaluated without running the script."""


def evaluate_constant(node: ast.expr, script_name: str = "") -> Any:
    """Evaluates literals, arithmetic, `int(1e6)`, `field(default_factory=…)` and expressions for the script's name."""
    match node:
        case ast.Constant():
            return node.value
        case ast.UnaryOp(op=ast.USub()):
            return -_number(evaluate_constant(node.operand, script_name))
        case ast.BinOp():
            return _calculate(node, script_name)
        case ast.List() | ast.Tuple():
            return [evaluate_constant(element, script_name) for element in node.elts]
        case ast.Call(func=ast.Name(id="field") | ast.Attribute(attr="field")):
            return _field_default(node, script_name)
        case ast.Call(func=ast.Name(id="int" | "float" as kind), args=[given], keywords=[]):
            return _converted(kind, _number(evaluate_constant(given, script_name)))
    if ast.unparse(node).startswith(OWN_NAME):
        return script_name
    raise NotConstant(ast.unparse(node))


def _calculate(node: ast.BinOp, script_name: str) -> Any:
    left, right = (_number(evaluate_constant(side, script_name)) for side in (node.left, node.right))
    if type(node.op) not in OPERATORS or (isinstance(node.op, ast.Pow) and abs(right) > LARGEST_EXPONENT):
        raise NotConstant(ast.unparse(node))
    try:
        return OPERATORS[type(node.op)](left, right)
    except ArithmeticError as error:
        raise NotConstant(ast.unparse(node)) from error


def _converted(kind: str, number: float) -> float:
    """`int(1e6)`"""
    try:
        return int(number) if kind == "int" else float(number)
    except (ArithmeticError, ValueError) as error:  # infinity or NaN
        raise NotConstant(f"{kind}({number})") from error


def _field_default(call: ast.Call, script_name: str) -> Any:
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    if "default" in given:
        return evaluate_constant(given["default"], script_name)
    factory = given.get("default_factory")
    if isinstance(factory, ast.Lambda):
        return evaluate_constant(factory.body, script_name)
    if isinstance(factory, ast.Name) and factory.id in {"list", "tuple"}:
        return []
    raise NotConstant(ast.unparse(call))


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NotConstant(repr(value))
    return value


SWITCH_ACTIONS = {"store_true": False, "store_false": True}  # action -> value of the argument without the flag


def argparse_arguments(tree: ast.Module, script_name: str) -> list[Argument]:
    found: dict[str, Argument] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            argument = _read_call(node, script_name)
            if argument is not None:
                found[argument.name] = argument
    return list(found.values())


def _read_call(call: ast.Call, script_name: str) -> Argument | None:
    """The argument of an `add_argument` call; None for a positional one."""
    flags = [one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    flag = next((one for one in flags if one.startswith("--")), None)
    given = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    if flag is None:
        return None
    description = _constant_or_none(given.get("help"), script_name)
    description = " ".join(description.split()) if isinstance(description, str) else ""
    if "action" in given:
        return _read_switch(flag, given, description, script_name)
    value_type = _type_of(given, script_name)
    default = _constant_or_none(given.get("default"), script_name)
    is_known = "default" not in given or default is not None or ast.unparse(given["default"]) == "None"
    if is_known and default is None:
        value_type = value_type.optional()
    try:
        default = value_type.convert(default)
    except Mismatch:
        value_type = ArgumentType("any", is_optional=value_type.is_optional)
    return Argument(
        name=flag.removeprefix("--").replace("-", "_"),
        flag=flag,
        type=value_type,
        description=description,
        has_default=_constant_or_none(given.get("required"), script_name) is not True,
        is_known=is_known and _constant_or_none(given.get("required"), script_name) is not True,
        default=default,
        default_text="" if is_known else ast.unparse(given["default"]),
        takes_boolean_value=True,
    )


def _read_switch(flag: str, given: dict[str, ast.expr], description: str, script_name: str) -> Argument | None:
    """A flag without a value: `store_true`, `store_false` or BooleanOptionalAction."""
    action = _constant_or_none(given["action"], script_name)
    has_both = ast.unparse(given["action"]).endswith("BooleanOptionalAction")
    if action not in SWITCH_ACTIONS and not has_both:
        return None
    default = _constant_or_none(given.get("default"), script_name) is True if has_both else SWITCH_ACTIONS[action]
    name = _constant_or_none(given.get("dest"), script_name) or flag.removeprefix("--").replace("-", "_")
    return Argument(
        name=str(name),
        flag=flag,
        type=ArgumentType("bool"),
        description=description,
        has_default=True,
        is_known=True,
        default=default,
        is_switch=not has_both,
    )


def _type_of(given: dict[str, ast.expr], script_name: str) -> ArgumentType:
    choices = _constant_or_none(given.get("choices"), script_name)
    if isinstance(choices, list):
        return ArgumentType("choice", choices=tuple(choices))
    text = ast.unparse(given["type"]) if "type" in given else "str"
    name = "bool" if "strtobool" in text or text == "bool" else text
    item = name if name in BASIC_TYPES else "any"
    is_list = _constant_or_none(given.get("nargs"), script_name) in {"+", "*"}
    return ArgumentType("list", item=item) if is_list else ArgumentType(item)


def _constant_or_none(node: ast.expr | None, script_name: str) -> Any:
    if node is None:
        return None
    try:
        return evaluate_constant(node, script_name)
    except NotConstant:
        return None
