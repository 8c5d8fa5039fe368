"""Encodes the state of an environment in few bytes, so that another process can render it.

Every attribute of the environment must be plain data, a MuJoCo simulation, a Box2D body, a constant, or something that
rendering does not read; otherwise the environment is rendered in its own process. A message holds only the changes
since the previous one.
"""

from __future__ import annotations

import hashlib
import logging
import random
from collections import deque
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from . import box2d_state, mujoco_state
from .messages import pack
from .offscreen import is_render_handle

NOT_RENDERED = {"render_mode", "_np_random_seed"}  # attributes that every copy has itself
LEAVES = {type(None), bool, int, float, str, bytes}
CONTAINERS = {list, tuple, dict, set, deque}
LARGEST_VALUE = 48 << 10  # bytes; of a larger value only a hash is sent, and the copy must have the same value
MAX_DEPTH = 10
GYMNASIUM_CONSTANTS = ("gymnasium.spaces", "gymnasium.envs.registration")  # modules of spaces and specs
STANDARD_WRAPPERS = {"OrderEnforcing", "PassiveEnvChecker"}  # of Gymnasium: their `render` changes no pixel
_MISSING: Any = object()


class NotDescribable(Exception):
    """Another process cannot render this environment; the text says why."""


class StateEncoder:
    """Encodes one environment, which must have been reset."""

    def __init__(self, env: Any, recipe: dict[str, Any]) -> None:
        """`recipe`: see `env_copy.make_copy`. Raises NotDescribable if something cannot be sent."""
        require_describable(env)
        self.env = env
        self._recipe = recipe
        self._bodies = box2d_state.BodyTable()
        self._sent: dict[str, Any] = {}  # values as they were sent
        self._sent_bodies: dict[str, Any] = {}  # values that refer to Box2D, as they were encoded
        self._is_complete = False
        try:
            self.encode()
        finally:
            self.start_over()

    @property
    def is_costly(self) -> bool:
        """Whether rendering is so slow that several frames would slow stepping down."""
        return any(mujoco_state.is_simulation(value) for value in vars(self.env.unwrapped).values())

    def start_over(self) -> None:
        """Makes the next message a complete one."""
        self._sent.clear()
        self._sent_bodies.clear()
        self._bodies = box2d_state.BodyTable()
        self._is_complete = False

    def encode(self) -> dict[str, Any]:
        """The changes since the last call, ready for `messages.pack`."""
        base = self.env.unwrapped
        attributes = vars(base)
        changed: dict[str, Any] = {}
        self._bodies.begin()
        for name, value in attributes.items():
            sent = self._sent.get(name, _MISSING)
            if sent is value and is_leaf(value):
                continue
            if name not in NOT_RENDERED:
                self._add(changed, base, name, value, sent)
        message: dict[str, Any] = {"set": changed}
        if gone := [name for name in self._sent if name not in attributes]:
            message["gone"] = gone
            for name in gone:
                del self._sent[name]
        message.update(self._bodies.changes())
        if not self._is_complete:
            message["recipe"] = self._recipe
            self._is_complete = True
        return message

    def _add(self, changed: dict[str, Any], base: Any, name: str, value: Any, sent: Any) -> None:
        if mujoco_state.is_simulation(value):
            changed[name] = {"$mujoco": mujoco_state.capture(value)}
            if sent is _MISSING:
                self._sent[name] = None
                changed[name]["model"] = mujoco_state.model_digest(value.model)
            return
        if sent is not _MISSING and is_equal(value, sent):
            return
        if never_changes(value, base):
            return
        encoded, has_bodies = self._encoded(value, f"{type(base).__name__}.{name}")
        if has_bodies:
            if self._sent_bodies.get(name, _MISSING) != encoded:
                changed[name] = self._sent_bodies[name] = encoded
            return
        changed[name] = self._small_enough(encoded, value, name, sent)
        self._sent[name] = copied(value)

    def _encoded(self, value: Any, where: str) -> tuple[Any, bool]:
        before = self._bodies.used
        return encode_value(value, where, self._bodies), self._bodies.used > before

    @staticmethod
    def _small_enough(encoded: Any, value: Any, name: str, sent: Any) -> Any:
        size = size_of(value, encoded)
        if size <= LARGEST_VALUE:
            return encoded
        if sent is not _MISSING:
            raise NotDescribable(f"{name} has {size} bytes and changes")
        return {"$digest": digest(encoded)}


def encode_value(value: Any, where: str, bodies: box2d_state.BodyTable | None = None, depth: int = 0) -> Any:
    """The value as JSON types, bytes and arrays. Raises NotDescribable for other types, naming the value."""
    kind = type(value)
    if kind in LEAVES or kind is np.ndarray or isinstance(value, np.generic):
        if kind is np.ndarray and value.dtype.kind not in "biufcSU":
            raise NotDescribable(f"{where} is an array of {value.dtype}")
        return value
    if depth > MAX_DEPTH:
        raise NotDescribable(f"{where} is nested deeper than {MAX_DEPTH} levels")
    if bodies is not None and kind not in CONTAINERS and box2d_state.is_box2d(value):
        return bodies.encode(value, lambda part, name: encode_value(part, f"{where}.{name}", bodies, depth + 1))

    def items(values: Any) -> list[Any]:
        if LEAVES.issuperset(map(type, values)):
            return list(values)
        return [encode_value(item, f"{where}[{index}]", bodies, depth + 1) for index, item in enumerate(values)]

    if kind is list:
        return items(value)
    if kind is tuple:
        return {"$tuple": items(value)}
    if kind is deque:
        return {"$deque": items(value), "limit": value.maxlen}
    if kind is set:
        return {"$set": items(sorted(value, key=repr))}
    if kind is dict:
        return {"$keys": items(value), "$values": items(value.values())}
    raise NotDescribable(f"{where} is a {kind.__module__}.{kind.__qualname__}")


def recipe_of(env: Any) -> dict[str, Any]:
    """The recipe with which Gymnasium makes a copy. Raises NotDescribable if only the environment's program can."""
    spec = getattr(env, "spec", None)
    if spec is None or not isinstance(spec.entry_point, str) or spec.entry_point.startswith("__main__"):
        raise NotDescribable(f"{type(env.unwrapped).__name__} was not made from a registered id")
    try:
        return {"spec": spec.to_json()}
    except (AttributeError, TypeError, ValueError) as error:
        raise NotDescribable(f"its spec cannot be written as JSON: {error}") from error


def require_describable(env: Any) -> None:
    """Raises NotDescribable if rendering depends on more than the environment's attributes."""
    layer = env
    while layer is not env.unwrapped:
        kind = type(layer)
        if has_own_render(kind) and kind.__name__ not in STANDARD_WRAPPERS:
            raise NotDescribable(f"{kind.__name__} has a `render` of its own")
        layer = layer.env
    if hasattr(layer, "get_state") and hasattr(layer, "set_state"):
        raise NotDescribable(f"{type(layer).__name__} keeps its state itself")
    for kind in type(layer).__mro__:
        if vars(kind).get("__slots__"):
            raise NotDescribable(f"{kind.__name__} keeps attributes in __slots__")


def has_own_render(kind: type) -> bool:
    """Whether a wrapper class does more than forward `render`."""
    for one in kind.__mro__:
        if one.__module__ == "gymnasium.core":
            return False
        if "render" in vars(one):
            return True
    return False


def never_changes(value: Any, owner: Any) -> bool:
    """Whether the value is constant or not read by rendering: spaces, generators, functions, windows."""
    if isinstance(value, (ModuleType, type, FunctionType, BuiltinFunctionType, logging.Logger)):
        return True
    if isinstance(value, (np.random.Generator, np.random.RandomState, random.Random)):
        return True
    if isinstance(value, MethodType):
        return value.__self__ in (owner, type(owner))
    if mujoco_state.is_model(value) or is_render_handle(value):
        return True
    if any(kind.__module__.startswith(GYMNASIUM_CONSTANTS) for kind in type(value).__mro__):
        return True
    if type(value) in (list, tuple) and value:
        return all(never_changes(part, owner) for part in value)
    return type(value) is dict and bool(value) and all(never_changes(part, owner) for part in value.values())


def is_leaf(value: Any) -> bool:
    """Whether the value is immutable: the same object is the same value."""
    if type(value) is tuple:
        return all(map(is_leaf, value))
    return type(value) in LEAVES or isinstance(value, np.generic)


def is_equal(value: Any, sent: Any) -> bool:
    if type(value) is not type(sent):
        return False
    if type(value) is np.ndarray:
        return bool(value.dtype == sent.dtype and value.shape == sent.shape and value.tobytes() == sent.tobytes())
    try:
        return bool(value == sent)
    except ValueError:  # arrays somewhere inside
        return False


def copied(value: Any) -> Any:
    """A copy of the containers, but not of the leaves, so that leaves compare by identity."""
    kind = type(value)
    if kind is np.ndarray:
        return value.copy()
    if kind is dict:
        return {key: copied(part) for key, part in value.items()}
    if kind is deque:
        return deque(map(copied, value), value.maxlen)
    if kind in (list, tuple, set):
        return kind(map(copied, value))
    return value


def size_of(value: Any, encoded: Any) -> int:
    """The approximate size in bytes."""
    if type(value) in LEAVES:
        return len(value) if isinstance(value, (str, bytes)) else 8
    if isinstance(value, (np.ndarray, np.generic)):
        return int(value.nbytes)
    return sum(map(len, pack(encoded)))


def digest(encoded: Any) -> str:
    return hashlib.sha256(b"".join(pack(encoded))).hexdigest()
