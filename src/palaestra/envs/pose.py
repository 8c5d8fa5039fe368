"""What must be told of an environment so that another copy of it, in another process, draws the same picture.

The rule is that of `palaestra.envs.snapshot`, which is closed: an environment of which something cannot be seen has no
pose and is drawn where it lives. Generators are not told, since drawing must not draw from them; what never changes is
not told either, because the copy was made alike; nor is what the copy was found to have already.
"""

from __future__ import annotations

import hashlib
import importlib
from collections import deque
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from palaestra.envs import snapshot
from palaestra.envs.plain_data import Decoder, Encoder, NotPlain
from palaestra.envs.snapshot import KeepsState
from palaestra.envs.tasks import TaskSwitch
from palaestra.envs.wire import packed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from palaestra.envs.make import AnyEnv

SIMULATION = "simulation"
UNTOLD_KINDS = {"constant", "drawing", "generator", "random", SIMULATION}
UNTOLD_NAMES = {"render_mode", "_np_random_seed"}
LEAVES = {type(None), bool, int, float, str, bytes}
# What MuJoCo draws with and a step leaves one substep behind the position; computed anew it would be another picture.
DRAWN_WITH = (
    *("xpos", "xquat", "xmat", "xipos", "ximat", "xanchor", "xaxis", "subtree_com"),
    *("geom_xpos", "geom_xmat", "site_xpos", "site_xmat", "cam_xpos", "cam_xmat", "light_xpos", "light_xdir"),
)
Pose = dict[str, Any]  # by attribute, as `palaestra.envs.plain_data` encodes


class NoPose(Exception):
    """Why there is none, in a few words."""


class Poser:
    """Takes the poses of environments that were all made alike."""

    def __init__(self, env: AnyEnv) -> None:
        """`env`: one of them, which has begun an episode. NoPose when something of it cannot be told."""
        _refuse(env)
        captured = snapshot.capture(env)
        if captured is None:
            raise NoPose(snapshot.why_not(env).removesuffix("."))
        kinds = {name: _kind(part) for name, part in captured["layers"][-1]["state"].items()}
        attributes = vars(env.unwrapped)
        self._untold = {name for name, kind in kinds.items() if kind in UNTOLD_KINDS} | UNTOLD_NAMES
        self._simulation = next((name for name, kind in kinds.items() if kind == SIMULATION), None)
        self._first = {name: _copied(value) for name, value in attributes.items() if name not in self._untold}
        self._alike: set[str] = set()
        self._known: dict[int, dict[str, Any]] = {}  # by tile: values that the copy has too and that cannot change

    @property
    def has_simulation(self) -> bool:
        return self._simulation is not None

    def digests(self) -> dict[str, str]:
        """Of the first environment's attributes, to be compared with those of the copy"""
        return {name: _digest(value, name) for name, value in self._first.items()}

    def agree(self, alike: Iterable[str]) -> None:
        """The copy has these as the first environment had them."""
        self._alike = set(alike) & self._first.keys()
        self._known.clear()

    def take(self, tile: int, env: AnyEnv) -> Pose:
        """Bytes of everything that changes: nothing in it is the environment's own."""
        attributes: dict[str, Any] = vars(env.unwrapped)
        known = self._known.setdefault(tile, {})
        untold, alike = self._untold, self._alike
        pose: Pose = {}
        try:
            for name, value in attributes.items():
                if name in untold or known.get(name, untold) is value:
                    continue
                if name in alike and self._is_as_first(name, value):
                    if _is_leaf(value):
                        known[name] = value
                    continue
                pose[name] = Encoder().encode(value, name)
        except NotPlain as refusal:
            raise NoPose(str(refusal)) from refusal
        if not attributes.keys() >= alike:
            raise NoPose(f"{type(env.unwrapped).__name__} has lost {sorted(alike - attributes.keys())}")
        if self._simulation is not None:
            pose[self._simulation] = _simulation_pose(attributes[self._simulation])
        return pose

    def _is_as_first(self, name: str, value: Any) -> bool:
        first = self._first[name]
        if type(value) is not type(first):
            return False
        if type(value) is np.ndarray:
            return bool(
                value.dtype == first.dtype and value.shape == first.shape and value.tobytes() == first.tobytes()
            )
        try:
            return bool(value == first)
        except ValueError:  # arrays somewhere inside
            return False


def strike_pose(env: AnyEnv, own: dict[str, Any], pose: Pose) -> None:
    """`own`: the attributes that the copy had when it was compared."""
    attributes = vars(env.unwrapped)
    attributes.update(own)
    for name, told in pose.items():
        if isinstance(told, dict) and told.get("kind") == SIMULATION:
            _strike_simulation(attributes[name], told)
        else:
            attributes[name] = Decoder().decode(told)


def _refuse(env: AnyEnv) -> None:
    layer = env
    if isinstance(env, TaskSwitch):
        raise NoPose("it plays several tasks")
    while isinstance(layer, gymnasium.Wrapper):
        if type(layer).render is not gymnasium.Wrapper.render:
            raise NoPose(f"{type(layer).__name__} has a say in how it is drawn")
        layer = layer.env
    if isinstance(layer, KeepsState):
        raise NoPose(f"{type(layer).__name__} keeps its state itself")


def _kind(part: Any) -> str:
    return str(part.get("kind")) if isinstance(part, dict) else ""


def _digest(value: Any, name: str) -> str:
    return hashlib.sha256(b"".join(packed([type(value).__name__, Encoder().encode(value, name)]))).hexdigest()


def _is_leaf(value: Any) -> bool:
    """It cannot change: as long as it is the same object it is the same value."""
    if type(value) is tuple:
        return all(map(_is_leaf, value))
    return type(value) in LEAVES or isinstance(value, np.generic)


def _copied(value: Any) -> Any:
    """Containers are copied and leaves are not, so that comparing later stops at the first look at each leaf."""
    if _is_leaf(value):
        return value
    copy: Callable[[Any], Any] | None = COPIES.get(type(value))
    return value if copy is None else copy(value)


COPIES: dict[type, Callable[[Any], Any]] = {
    np.ndarray: lambda array: array.copy(),
    dict: lambda table: {key: _copied(value) for key, value in table.items()},
    list: lambda items: [_copied(item) for item in items],
    tuple: lambda items: tuple(_copied(item) for item in items),
    deque: lambda items: deque(map(_copied, items), items.maxlen),
    set: set,
}


def _simulation_pose(simulation: Any) -> dict[str, Any]:
    mujoco: Any = importlib.import_module("mujoco")
    model = simulation.model
    state = np.empty(mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_INTEGRATION))
    mujoco.mj_getState(model, simulation, state, mujoco.mjtState.mjSTATE_INTEGRATION)
    drawn = {name: getattr(simulation, name).tobytes() for name in DRAWN_WITH}
    return {"kind": SIMULATION, "state": state, "drawn": drawn}


def _strike_simulation(simulation: Any, told: dict[str, Any]) -> None:
    mujoco: Any = importlib.import_module("mujoco")
    mujoco.mj_setState(simulation.model, simulation, told["state"], mujoco.mjtState.mjSTATE_INTEGRATION)
    mujoco.mj_forward(simulation.model, simulation)
    for name in DRAWN_WITH:
        field = getattr(simulation, name)
        field[...] = np.frombuffer(told["drawn"][name], field.dtype).reshape(field.shape)
