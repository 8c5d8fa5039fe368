"""Copies of environments that are stepped in another process, rendered from the states it sends."""

from __future__ import annotations

import importlib
from collections import deque
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from . import box2d_state, mujoco_state
from .env_state import digest, encode_value
from .messages import pack
from .offscreen import OffscreenRenderer

if TYPE_CHECKING:
    from .images import Pixels


class CopyDiffers(Exception):
    """A copy differs from the environment in a value that is too large to be sent."""


def make_copy(recipe: dict[str, Any]) -> Any:
    """A copy, made with Gymnasium from a JSON spec (`spec`), or with a function (`factory`, `arguments`)."""
    if "spec" in recipe:
        gymnasium: Any = importlib.import_module("gymnasium")
        registration: Any = importlib.import_module("gymnasium.envs.registration")
        spec = registration.EnvSpec.from_json(recipe["spec"])
        spec.kwargs.pop("render_mode", None)  # `OffscreenRenderer` sets one
        return gymnasium.make(spec, disable_env_checker=True)
    module, _, name = recipe["factory"].partition(":")
    return getattr(importlib.import_module(module), name)(**recipe["arguments"])


class EnvCopy:
    """One copy, which may serve several environments one after the other."""

    def __init__(self, recipe: dict[str, Any]) -> None:
        self.env = make_copy(recipe)
        self.env.reset(seed=0)
        mujoco_state.reduce_quality(self.env)
        self._own = dict(vars(self.env.unwrapped))
        self._renderer = OffscreenRenderer(self.env.unwrapped)
        self._has_rendered = False
        self.camera = mujoco_state.FreeCamera(self.env)

    @property
    def can_be_shared(self) -> bool:
        """Whether no frame depends on the one before, except for the camera, which is restored."""
        return self.camera.can_be_moved

    def check(self, state: EnvState) -> None:
        """Raises CopyDiffers if a value that was not sent is different here."""
        for name, expected in state.digests.items():
            found = self._own.get(name)
            if digest(encode_value(found, name)) != expected:
                raise CopyDiffers(f"{name} is too large to be sent, and the copy's value differs")
        for name, expected in state.models.items():
            simulation = self._own.get(name)
            if simulation is None or mujoco_state.model_digest(simulation.model) != expected:
                raise CopyDiffers("the MuJoCo model was changed after the environment was made")

    def render(self, slot: int, state: EnvState) -> Pixels:
        attributes = vars(self.env.unwrapped)
        attributes.clear()
        attributes.update(self._own)
        attributes.update(state.attributes)
        for name, simulation in state.simulations.items():
            mujoco_state.restore(attributes[name], simulation)
        self.camera.aim(slot)
        pixels = self._renderer.render()
        if not self._has_rendered:  # once is enough: no state replaces the model, the renderer or its scene
            mujoco_state.disable_shadows(self.env)
            self._has_rendered = True
        self.camera.remember(slot)
        return pixels


class EnvState:
    """The state of one environment, assembled from its messages."""

    def __init__(self) -> None:
        self.attributes: dict[str, Any] = {}
        self.simulations: dict[str, dict[str, Any]] = {}
        self.digests: dict[str, str] = {}
        self.models: dict[str, str] = {}
        self._bodies: dict[int, box2d_state.Body] = {}

    def update(self, message: dict[str, Any]) -> None:
        for number, body in message.get("bodies", {}).items():
            self._bodies[int(number)] = box2d_state.Body(body["shapes"])
        for number, (x, y, angle, attributes) in message.get("moved", {}).items():
            self._bodies[int(number)].move(x, y, angle, attributes)
        if "held" in message:  # the others are gone
            self._bodies = {number: self._bodies[number] for number in message["held"]}
        for name in message.get("gone", ()):
            self.attributes.pop(name, None)
        for name, encoded in message["set"].items():
            self._set(name, encoded)

    def _set(self, name: str, encoded: Any) -> None:
        if isinstance(encoded, dict) and "$mujoco" in encoded:
            self.simulations[name] = encoded["$mujoco"]
            if "model" in encoded:
                self.models[name] = encoded["model"]
        elif isinstance(encoded, dict) and "$digest" in encoded:
            self.digests[name] = encoded["$digest"]
        else:
            self.attributes[name] = self._decode(encoded)

    def _decode_pair(self, key: Any, value: Any) -> tuple[Any, Any]:
        return self._decode(key), self._decode(value)

    def _decode(self, encoded: Any) -> Any:
        if isinstance(encoded, list):
            return [self._decode(item) for item in encoded]
        if not isinstance(encoded, dict):
            return encoded
        if "$tuple" in encoded:
            return tuple(self._decode(encoded["$tuple"]))
        if "$keys" in encoded:
            return dict(map(self._decode_pair, encoded["$keys"], encoded["$values"]))
        if "$deque" in encoded:
            return deque(self._decode(encoded["$deque"]), encoded["limit"])
        if "$set" in encoded:
            return set(self._decode(encoded["$set"]))
        if "$body" in encoded:
            return self._bodies[encoded["$body"]]
        if "$object" in encoded:
            return SimpleNamespace(**{name: self._decode(part) for name, part in encoded["$object"].items()})
        return box2d_state.World() if "$world" in encoded else None


class CopyPool:
    """The copies of a render process: one for each environment, or one for all that can share it."""

    def __init__(self) -> None:
        self._states: dict[int, EnvState] = {}  # by slot
        self._copies: dict[int, tuple[bytes, EnvCopy]] = {}  # by slot, with the recipe
        self._shared: dict[bytes, EnvCopy] = {}  # by recipe

    def update(self, slot: int, message: dict[str, Any]) -> None:
        if "recipe" in message:
            state = EnvState()
            state.update(message)
            key = b"".join(pack(message["recipe"]))
            before, copy = self._copies.get(slot, (b"", None))
            if copy is None or before != key:
                copy = self._copy(key, message["recipe"])
            copy.check(state)
            copy.camera.reset(slot)
            self._states[slot], self._copies[slot] = state, (key, copy)
        elif slot in self._states:
            self._states[slot].update(message)

    def knows(self, slot: int) -> bool:
        return slot in self._states

    def render(self, slot: int) -> Pixels:
        return self._copies[slot][1].render(slot, self._states[slot])

    def _copy(self, key: bytes, recipe: dict[str, Any]) -> EnvCopy:
        if key in self._shared:
            return self._shared[key]
        copy = EnvCopy(recipe)
        if copy.can_be_shared:
            self._shared[key] = copy
        return copy
