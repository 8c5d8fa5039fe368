"""A substitute for `tyro.cli(Args)` in interpreters without tyro: the same flags for a flat dataclass."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import types
import typing
from typing import Any


def install() -> None:
    module: Any = types.ModuleType("tyro")
    module.cli = cli
    module.conf = types.SimpleNamespace(FlagConversionOff=lambda kind: kind)
    sys.modules["tyro"] = module


def cli(kind: Any, args: Any = None, **_options: Any) -> Any:
    """An instance of the dataclass `kind` with the values of the command line."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        _add(parser, field, hints.get(field.name, str))
    given = vars(parser.parse_args(args))
    return kind(**{name: value for name, value in given.items() if value is not dataclasses.MISSING})


def _add(parser: argparse.ArgumentParser, field: Any, hint: Any) -> None:
    flag = "--" + field.name.replace("_", "-")
    has_default = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
    members = [one for one in typing.get_args(hint) if one is not type(None)]
    origin = typing.get_origin(hint)
    options: dict[str, Any] = {"dest": field.name, "default": dataclasses.MISSING, "required": not has_default}
    if hint is bool:
        group = parser.add_mutually_exclusive_group()
        group.add_argument(flag, action="store_true", dest=field.name, default=dataclasses.MISSING)
        group.add_argument("--no-" + flag[2:], action="store_false", dest=field.name, default=dataclasses.MISSING)
    elif origin in (list, tuple):
        parser.add_argument(flag, nargs="*", type=_reader(members[0] if members else str), **options)
    elif origin is typing.Literal:
        parser.add_argument(flag, type=_reader(type(members[0])), choices=members, **options)
    else:
        parser.add_argument(flag, type=_reader(members[0] if len(members) == 1 else hint), **options)


def _reader(kind: Any) -> Any:
    def read(text: str) -> Any:
        if text == "None":
            return None
        return kind(text) if kind in (int, float, str) else text

    read.__name__ = getattr(kind, "__name__", "value")
    return read
