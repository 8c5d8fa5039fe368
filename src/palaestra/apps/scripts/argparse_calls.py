"""Arguments of older scripts, which call `parser.add_argument(...)`, read from the text of those calls."""

from __future__ import annotations

import ast
from typing import Any

from palaestra.apps.scripts.argument_types import PLAIN, ArgumentType, NotFitting
from palaestra.apps.scripts.arguments import Argument
from palaestra.apps.scripts.expressions import NotPlain, work_out

SWITCHES = {"store_true": False, "store_false": True}  # action -> what it is without the flag


def argparse_arguments(tree: ast.Module, script_name: str) -> list[Argument]:
    found: dict[str, Argument] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            argument = _read_call(node, script_name)
            if argument is not None:
                found[argument.name] = argument
    return list(found.values())


def _read_call(call: ast.Call, script_name: str) -> Argument | None:
    """None for what is not a flag with two dashes."""
    flags = [one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    flag = next((one for one in flags if one.startswith("--")), None)
    given = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    if flag is None:
        return None
    description = _plain(given.get("help"), script_name)
    meaning = " ".join(description.split()) if isinstance(description, str) else ""
    if "action" in given:
        return _read_switch(flag, given, meaning, script_name)
    value_type = _type_of(given, script_name)
    default = _plain(given.get("default"), script_name)
    is_known = "default" not in given or default is not None or ast.unparse(given["default"]) == "None"
    if is_known and default is None:
        value_type = value_type.optional()
    try:
        default = value_type.fit(default)
    except NotFitting:
        value_type = ArgumentType("any", is_optional=value_type.is_optional)
    return Argument(
        name=flag.removeprefix("--").replace("-", "_"),
        flag=flag,
        type=value_type,
        description=meaning,
        has_default=_plain(given.get("required"), script_name) is not True,
        is_known=is_known and _plain(given.get("required"), script_name) is not True,
        default=default,
        default_text="" if is_known else ast.unparse(given["default"]),
        is_word=True,
    )


def _read_switch(flag: str, given: dict[str, ast.expr], meaning: str, script_name: str) -> Argument | None:
    """`store_true` and `store_false` can be written one way only; with BooleanOptionalAction there are both."""
    action = _plain(given["action"], script_name)
    has_both = ast.unparse(given["action"]).endswith("BooleanOptionalAction")
    if action not in SWITCHES and not has_both:
        return None
    default = _plain(given.get("default"), script_name) is True if has_both else SWITCHES[action]
    name = _plain(given.get("dest"), script_name) or flag.removeprefix("--").replace("-", "_")
    return Argument(
        name=str(name),
        flag=flag,
        type=ArgumentType("bool"),
        description=meaning,
        has_default=True,
        is_known=True,
        default=default,
        is_switch=not has_both,
    )


def _type_of(given: dict[str, ast.expr], script_name: str) -> ArgumentType:
    choices = _plain(given.get("choices"), script_name)
    if isinstance(choices, list):
        return ArgumentType("choice", choices=tuple(choices))
    text = ast.unparse(given["type"]) if "type" in given else "str"
    name = "bool" if "strtobool" in text or text == "bool" else text
    item = name if name in PLAIN else "any"
    is_list = _plain(given.get("nargs"), script_name) in {"+", "*"}
    return ArgumentType("list", item=item) if is_list else ArgumentType(item)


def _plain(node: ast.expr | None, script_name: str) -> Any:
    if node is None:
        return None
    try:
        return work_out(node, script_name)
    except NotPlain:
        return None
