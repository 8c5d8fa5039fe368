"""Every key that can be set, with type, default and meaning: for -h, completion, did-you-mean and the docs."""

from __future__ import annotations

from dataclasses import dataclass
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel

from palaestra.config.base import Frozen
from palaestra.config.train import TrainConfig

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

NAMES: dict[Any, str] = {int: "integer", float: "number", str: "text", bool: "true | false", NoneType: "null"}
SIGNS: tuple[tuple[Any, str, str], ...] = ((Ge, "ge", ">="), (Gt, "gt", ">"), (Le, "le", "<="), (Lt, "lt", "<"))


@dataclass(frozen=True)
class KeyInfo:
    path: str  # dotted
    type_text: str  # "integer", "text or null", "cpu | cuda"
    default: Any
    description: str
    choices: tuple[str, ...] = ()  # when only these words are allowed
    limits: str = ""  # ">= 1, < 2147483648"
    is_section: bool = False  # a bare value stands for a whole section, whose own keys follow

    @property
    def accepts(self) -> str:
        """`integer >= 1 or null`: what would be right, for messages."""
        kind, null, _ = self.type_text.partition(" or null")
        return f"{kind} {self.limits}".strip() + null


def list_keys(model_type: type[BaseModel], values: BaseModel | None = None) -> list[KeyInfo]:
    """In the order of the models; with `values`, those are shown as defaults (a recipe's)."""
    return _walk(model_type, values if values is not None else model_type(), "")


def section_names(model_type: type[BaseModel]) -> list[str]:
    """Dotted names of nested models, outermost first."""
    names = []
    for name, field in model_type.model_fields.items():
        nested = nested_model(field)
        if nested is not None:
            names += [name, *(f"{name}.{inner}" for inner in section_names(nested))]
    return names


def nested_model(field: FieldInfo) -> type[BaseModel] | None:
    annotation = field.annotation
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def _walk(model_type: type[BaseModel], values: BaseModel, prefix: str) -> list[KeyInfo]:
    found = []
    for name, field in model_type.model_fields.items():
        path, value = f"{prefix}{name}", getattr(values, name)
        nested = nested_model(field)
        if nested is None:
            found.append(_leaf(path, field, value))
            continue
        if issubclass(nested, Frozen) and nested.shorthand:
            found.append(KeyInfo(path, nested.shorthand, value, field.description or "", is_section=True))
        found += _walk(nested, value, f"{path}.")
    return found


def _leaf(path: str, field: FieldInfo, value: Any) -> KeyInfo:
    return KeyInfo(
        path=path,
        type_text=_type_text(field.annotation),
        default=value,
        description=field.description or "",
        choices=_choices(field.annotation),
        limits=", ".join(_limits(field)),
    )


def _type_text(annotation: Any) -> str:
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return " or ".join(_type_text(part) for part in inside)
    if origin is Literal:
        return " | ".join(str(choice) for choice in inside)
    if origin is tuple:
        return f"list of {_type_text(inside[0])}"
    if origin is dict:
        return "mapping"
    if isinstance(annotation, type) and issubclass(annotation, Frozen) and annotation.shorthand:
        return annotation.shorthand
    return NAMES.get(annotation, str(annotation))


def _choices(annotation: Any) -> tuple[str, ...]:
    if get_origin(annotation) is Literal:
        return tuple(str(choice) for choice in get_args(annotation))
    return ("true", "false") if annotation is bool else ()


def _limits(field: FieldInfo) -> list[str]:
    return [
        f"{sign} {getattr(mark, attribute)}"
        for mark in field.metadata
        for kind, attribute, sign in SIGNS
        if isinstance(mark, kind)
    ]


SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def config_json_schema(model_type: type[BaseModel] = TrainConfig) -> dict[str, Any]:
    """What `config.yaml` of a run may contain, with every description and default."""
    return {"$schema": SCHEMA_DIALECT, **model_type.model_json_schema(mode="validation")}
