"""What must be told of an environment so that another process draws the same picture of it.

That is known of the classic ones, which draw what their own attributes say and nothing else. They are small, so all of
them are told each time, and any message may be lost.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

POSED = "gymnasium.envs.classic_control."  # modules of environments that are known to be drawn from plain attributes
LEAVES = (type(None), bool, int, float, str)
LARGEST_ARRAY = 64  # elements


class NoPose(Exception):
    """The text says why."""


def has_pose(env: Any) -> bool:
    """An environment as `gymnasium.make` gave it, without a render mode: those that have one may do more than draw."""
    return kind_of(env).startswith(POSED) and getattr(env.unwrapped, "render_mode", None) is None


def kind_of(env: Any) -> str:
    """MODULE:CLASS"""
    kind = type(env.unwrapped)
    return f"{kind.__module__}:{kind.__qualname__}"


def take_pose(env: Any) -> dict[str, Any]:
    """Its attributes as JSON can hold them; what is not plain (spaces, generators) is not drawn and left out."""
    return {name: told for name, value in vars(env.unwrapped).items() if (told := _told(value)) is not _UNTOLD}


_UNTOLD = object()


def _told(value: Any) -> Any:
    kind = type(value)
    if kind in LEAVES:
        return value
    if kind is tuple:
        items = [_told(item) for item in value]
        return _UNTOLD if _UNTOLD in items else {"items": items}
    if isinstance(value, (np.ndarray, np.generic)) and value.size <= LARGEST_ARRAY and value.dtype.kind in "biuf":
        return {"kind": value.dtype.str, "shape": value.shape, "bytes": value.tobytes().hex()}
    return _UNTOLD


class Sitter:
    """An environment of which there is only what drawing looks at."""

    def __init__(self, kind: str) -> None:
        module, _, name = kind.partition(":")
        if not module.startswith(POSED):
            raise NoPose(f"{kind} is not known to be drawn from its attributes alone")
        self.kind = kind
        self.env = object.__new__(getattr(importlib.import_module(module), name))

    def strike(self, pose: dict[str, Any]) -> None:
        attributes = vars(self.env)
        attributes.clear()
        attributes.update({name: _heard(told) for name, told in pose.items()})


def _heard(told: Any) -> Any:
    if not isinstance(told, dict):
        return told
    if "items" in told:
        return tuple(map(_heard, told["items"]))
    array = np.frombuffer(bytes.fromhex(told["bytes"]), told["kind"]).reshape(told["shape"])
    return array if array.ndim else array[()]
