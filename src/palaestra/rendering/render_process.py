"""The process that renders for one that steps environments; `start.py` starts it.

It receives states and renders the newest of each environment. It ends with its parent, and leaves nothing behind: an
unfinished frame is never visible.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import select
import signal
import socket
import sys
import time
from collections import deque
from contextlib import closing, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from . import box2d_state, mujoco_state
from .env_state import digest, encode_value
from .frame_buffer import FrameBufferError, FrameBufferFile
from .frame_format import Numbers
from .frame_writer import FrameWriter
from .images import fit
from .messages import MessageSocket, PeerClosed, pack
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
        return self.camera.has_movable_camera

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


# On a contended core the scheduler gives a tenth to a starting process (for a second or two), and 1.5 % to a rendering
# one.
STARTING_NICENESS, RENDERING_NICENESS = 10, 19
PARENT_CHECK_SECONDS = 1.0
FEW_CORES, SHARE_OF_FEW_CORES, SHARE_OF_MANY_CORES = 2, 0.06, 0.5  # of one core, for rendering
LONGEST_REST = 0.25  # seconds after a frame; the first takes long, and all tiles should be there soon
PR_SET_PDEATHSIG = 1


class ParentGone(Exception):
    """The parent process has ended."""


class States:
    """The newest state of each slot, in order of arrival."""

    def __init__(self, connection: MessageSocket, parent: int) -> None:
        self._connection = connection
        self._parent = parent
        self._waiting: dict[int, dict[str, Any]] = {}  # the last message of each slot
        self._pool = CopyPool()
        self._session: int | None = None

    def next(self) -> tuple[int, dict[str, Any]]:
        """The next slot and its message; waits for one."""
        self._receive_all()
        while not self._waiting:
            select.select([self._connection], [], [], PARENT_CHECK_SECONDS)
            self._check_parent()
            self._receive_all()
        slot = next(iter(self._waiting))
        return slot, self._waiting.pop(slot)

    def render(self, slot: int) -> Any:
        return self._pool.render(slot)

    def _check_parent(self) -> None:
        if self._parent and os.getppid() != self._parent:
            raise ParentGone

    def _receive_all(self) -> None:
        while (message := self._connection.receive()) is not None:
            if "session" in message:
                self._session = message["session"]
            elif message["of"] == self._session:  # not meant for a previous process
                slot = message["slot"]
                self._pool.update(slot, message["state"])
                if self._pool.knows(slot):
                    self._waiting[slot] = message


def render_all(states: States, writer: FrameWriter, largest_side: int) -> None:
    """Renders until the parent ends, on a share of a core only, because the training process shares its caches."""
    share = rendering_share(usable_cores())
    began = time.process_time()
    while True:
        time.sleep(rest_seconds(time.process_time() - began, share))
        slot, message = states.next()
        began = time.process_time()
        demand = writer.demand(time.monotonic())
        if demand is None:
            continue  # the viewer has left
        pixels = fit(states.render(slot), demand.largest_side, largest_side)
        writer.write(slot, pixels, Numbers(*message["numbers"]), message["at"])
        writer.notify(demand, slot)


def rendering_share(cores: int) -> float:
    """The share of one core to use on a machine with `cores` cores."""
    return SHARE_OF_FEW_CORES if cores <= FEW_CORES else SHARE_OF_MANY_CORES


def rest_seconds(busy_seconds: float, share: float) -> float:
    """How long to sleep after a frame that took `busy_seconds` of CPU time, so that frames use `share` of a core."""
    return min(busy_seconds * (1 / share - 1), LONGEST_REST)


def serve(connection: MessageSocket, parent: int, path: Path) -> None:
    with closing(FrameBufferFile(path)) as file, closing(FrameWriter(file.descriptor, file.about)) as writer:
        with suppress(ImportError):  # environments that need it raise later
            importlib.import_module("gymnasium")
        connection.send({"ready": True})
        os.nice(RENDERING_NICENESS - STARTING_NICENESS)
        render_all(States(connection, parent), writer, largest_side_of(writer))


def usable_cores() -> int:
    """The number of cores this process may use; only Linux limits it."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def largest_side_of(writer: FrameWriter) -> int:
    """The side in pixels of the largest square image that fits."""
    return int((writer.about.capacity / 3) ** 0.5)


def main(arguments: list[str]) -> int:
    descriptor, parent = int(arguments[0]), int(arguments[1])
    die_with_parent(parent)
    for number in (signal.SIGINT, signal.SIGTERM):  # both are for the parent: it ends, and this process with it
        signal.signal(number, signal.SIG_IGN)
    os.nice(STARTING_NICENESS)
    with closing(MessageSocket(socket.socket(fileno=descriptor))) as connection:
        try:
            serve(connection, parent, Path(arguments[2]))
        except (PeerClosed, ParentGone, FrameBufferError):
            return 0
        except Exception as error:  # rendering may raise anything; the parent then renders by itself
            reason = f"{type(error).__name__}: {error}".strip().rstrip(".")
            with suppress(PeerClosed):
                connection.send({"failed": reason[:1000]})
            raise SystemExit(1) from error
    return 0


def die_with_parent(parent: int) -> None:
    """`parent` 0: the thread that started this process may end before its process; only the parent's id is reliable."""
    if parent and sys.platform.startswith("linux"):
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if parent and os.getppid() != parent:
        os._exit(0)
