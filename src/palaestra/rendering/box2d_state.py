"""State of Box2D environments for rendering: the shapes of bodies once, then their positions.

The copy gets objects with the attributes of bodies (`fixtures`, `transform`, colours) that belong to no world.
"""

from __future__ import annotations

import importlib
from functools import lru_cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

BODY, WORLD, VECTOR = "b2Body", "b2World", "b2Vec2"
STATIC = 0  # `b2_staticBody`
CIRCLE = "b2CircleShape"


def is_box2d(value: Any) -> bool:
    kind: Any = type(value)
    return _is_of_box2d(kind)


@lru_cache(maxsize=None)  # noqa: UP033  `cache` came with Python 3.9
def _is_of_box2d(kind: type) -> bool:
    return any(one.__module__.partition(".")[0] == "Box2D" for one in kind.__mro__)


class BodyTable:
    """The sender's side. Numbers bodies; touches only those that the environment still holds."""

    def __init__(self) -> None:
        self.used = 0  # how often a Box2D object was encoded
        self._numbers: dict[int, tuple[int, Any]] = {}  # by id, with the object, so that the id stays unique
        self._next = 0
        self._held: dict[int, Any] = {}  # bodies of this message by number
        self._new: dict[int, dict[str, Any]] = {}
        self._static: set[int] = set()  # numbers of bodies that never move
        self._sent: dict[int, tuple[Any, ...]] = {}  # position, angle and attributes by number

    def begin(self) -> None:
        self._held, self._new = {}, {}

    def encode(self, value: Any, encode_part: Callable[[Any, str], Any]) -> dict[str, Any]:
        self.used += 1
        kind = type(value)
        if kind.__name__ == BODY:
            return {"$body": self._number(value)}
        if kind.__name__ == VECTOR:
            return {"$tuple": [float(value[0]), float(value[1])]}
        if kind.__module__.partition(".")[0] == "Box2D":
            return {"$world": True} if kind.__name__ == WORLD else {"$nothing": True}  # joints and listeners
        parts = {name: part for name, part in vars(value).items() if _is_basic(part)}
        return {"$object": {name: encode_part(part, name) for name, part in parts.items()}}

    def changes(self) -> dict[str, Any]:
        """New bodies, and positions of those that moved."""
        if len(self._held) < len(self._numbers):
            self._numbers = {key: entry for key, entry in self._numbers.items() if entry[0] in self._held}
            self._sent = {number: sent for number, sent in self._sent.items() if number in self._held}
        moved = {}
        for number, body in self._held.items():
            if number in self._static and number in self._sent:
                continue
            now = (*body.position, body.angle, {name: part for name, part in vars(body).items() if _is_basic(part)})
            if self._sent.get(number) != now:
                self._sent[number] = now
                moved[str(number)] = now
        found: dict[str, Any] = {}
        if self._new:
            found["bodies"] = {str(number): shapes for number, shapes in self._new.items()}
            found["held"] = list(self._held)
        if moved:
            found["moved"] = moved
        return found

    def _number(self, body: Any) -> int:
        known = self._numbers.get(id(body))
        if known is None:
            known = self._numbers[id(body)] = (self._next, body)
            self._next += 1
            self._new[known[0]] = {"shapes": [_shape(fixture.shape) for fixture in body.fixtures]}
            if body.type == STATIC:
                self._static.add(known[0])
        self._held[known[0]] = body
        return known[0]


def _shape(shape: Any) -> dict[str, Any]:
    kind = type(shape).__name__
    if kind == CIRCLE:
        return {"kind": kind, "pos": list(shape.pos), "radius": shape.radius}
    return {"kind": kind, "vertices": [list(vertex) for vertex in shape.vertices]}


def _is_basic(part: Any) -> bool:
    if isinstance(part, (tuple, list)):
        return all(map(_is_basic, part))
    return isinstance(part, (bool, int, float, str)) or type(part).__name__ == VECTOR


class Body:
    """The copy's side: the attributes of a body that rendering reads."""

    def __init__(self, shapes: list[dict[str, Any]]) -> None:
        self.fixtures = [SimpleNamespace(shape=_make_shape(shape), body=self) for shape in shapes]
        self.transform: Any = None
        self.position: tuple[float, float] = (0.0, 0.0)
        self.angle = 0.0

    def move(self, x: float, y: float, angle: float, attributes: dict[str, Any]) -> None:
        box2d: Any = importlib.import_module("Box2D")
        self.position, self.angle = (x, y), angle
        self.transform = box2d.b2Transform()
        self.transform.position = (x, y)
        self.transform.angle = angle
        for name, value in attributes.items():
            setattr(self, name, tuple(value) if isinstance(value, list) else value)


class World:
    """The copy's side: a world without bodies."""

    def DestroyBody(self, body: Any) -> None:  # noqa: N802  Box2D's own name
        """Does nothing: the body was never in this world."""


def _make_shape(found: dict[str, Any]) -> Any:
    if found["kind"] == CIRCLE:
        box2d: Any = importlib.import_module("Box2D")
        return box2d.b2CircleShape(pos=tuple(found["pos"]), radius=found["radius"])
    # Not a Box2D shape: a new one would reorder its vertices.
    return SimpleNamespace(vertices=[tuple(vertex) for vertex in found["vertices"]])
