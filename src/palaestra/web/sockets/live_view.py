"""What every live view does over its WebSocket, whether a run is watched or a match is played.

The viewer says what it wants and that frames have arrived (`Said`). It gets frames (binary, see docs/live.md),
`{"state", "why"}` whenever that changes, and `{"hud": {…}}` twice a second. Nothing is queued: what cannot be sent now
is replaced by what is newer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, TypeVar

from pydantic import BaseModel, Field, ValidationError
from starlette.websockets import WebSocketDisconnect

from palaestra.core.errors import PalaestraError, UsageError
from palaestra.evaluation.summary import read_newest_batch
from palaestra.rendering.frame_buffer import EVALUATE, TRAIN, InvalidRequest, roles_of
from palaestra.rendering.hub import RENEW_SECONDS, Condition, Hub, TooManyViewers
from palaestra.rendering.hud import evaluation_line, run_line
from palaestra.rendering.viewer import Viewer, ViewerRequest
from palaestra.runs.documents import read_config
from palaestra.runs.processes import is_alive, wall_time
from palaestra.web.request_parsing import Body, parse_json
from palaestra.web.resources.run_data import EVALUATION
from palaestra.web.responses import Refusal, encode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable

    from starlette.websockets import WebSocket

    from palaestra.daemon.entry import Entry
    from palaestra.daemon.service import Daemon
    from palaestra.rendering.hub import Status, Watch
    from palaestra.rendering.viewer import Viewer
    from palaestra.web.context import House

Message = TypeVar("Message", bound=BaseModel)
Word = dict[str, Any]

NOT_UNDERSTOOD, TRY_LATER = 1008, 1013
HUD_SECONDS = 0.5
MOST_ACKNOWLEDGED = 64
CANCEL_SECONDS = 0.5  # a cancellation can be lost to what happens in the same moment; then it is said again
LONGEST_REASON = 120  # bytes; a close frame holds 123
logger = logging.getLogger(__name__)
ROOM = "frames"


class LiveState(TypedDict):
    state: Condition
    why: str
    role: str


class LiveHud(TypedDict):
    hud: Hud


class Said(Body):
    """A message of the viewer. What is not said stays as it was."""

    fps: float | None = Field(None, gt=0, le=60)
    side: int | None = Field(None, ge=16, le=4096)
    slots: list[int] | None = Field(None, max_length=1024)
    quality: int | None = Field(None, ge=1, le=100)
    ack: int = Field(0, ge=0, le=MOST_ACKNOWLEDGED)

    def request(self, before: ViewerRequest) -> ViewerRequest:
        given = self.model_fields_set
        slots = None if self.slots is None else frozenset(self.slots)
        try:
            return ViewerRequest(
                self.fps or before.frames_per_second,
                slots if "slots" in given else before.slots,
                self.side or before.largest_side,
                self.quality or before.quality,
            )
        except InvalidRequest as error:
            raise Refusal(422, error.message, error.hint) from error


Heard = TypeVar("Heard", bound=Said)


async def hear(
    websocket: WebSocket, viewer: Viewer, ready: asyncio.Event, kind: type[Heard], on_said: Callable[[Heard], None]
) -> None:
    """Until the viewer goes, or says something that cannot be."""
    while True:
        said = understood_as(kind, await receive_text(websocket))
        viewer.request = said.request(viewer.request)
        viewer.acknowledge(said.ack)
        on_said(said)
        ready.set()


async def receive_text(websocket: WebSocket) -> str:
    """The next message. Unlike starlette's own, a binary one is a `Refusal` and not a KeyError."""
    message = await websocket.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", 1005))
    text: str | None = message.get("text")
    if text is None:
        raise not_text()
    return text


def not_text() -> Refusal:
    return Refusal(400, "Binary messages are not supported.", "Send JSON as text.")


async def show(
    websocket: WebSocket,
    room: FramesRoom,
    seat: Seat,
    ready: asyncio.Event,
    *,
    why: Callable[[Status], str],
    words: Callable[[], Iterable[Word]] = tuple,
) -> None:
    """Whatever there is to see, as soon as the viewer can take it; `words` are said beside it."""
    state, hud_at = "", 0.0
    while True:
        room.follow(seat)
        now, status = monotonic(), seat.watch.status
        if status.condition != state:
            state = status.condition
            told: LiveState = {"state": status.condition, "why": why(status), "role": seat.role}
            await _send(websocket, told)
        for word in words():
            await _send(websocket, word)
        if now >= hud_at:
            hud_at = now + HUD_SECONDS
            figures: LiveHud = {"hud": await room.hud(seat)}
            await _send(websocket, figures)
        while (frame := seat.watch.take(seat.viewer, monotonic())) is not None:
            await websocket.send_bytes(frame)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, hud_at - monotonic())):
                await ready.wait()
        ready.clear()


async def together(*jobs: Coroutine[Any, Any, None]) -> None:
    """Until the first of them ends or fails; the others end with it."""
    tasks = [asyncio.create_task(job) for job in jobs]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            await task
    finally:
        while unfinished := [task for task in tasks if not task.done()]:
            for task in unfinished:
                task.cancel()
            await asyncio.wait(unfinished, timeout=CANCEL_SECONDS)
        for task in tasks:
            if not task.cancelled():
                task.exception()  # looked at: the first one's is raised, the others' are its consequence


def understood_as(kind: type[Message], text: str) -> Message:
    """What a viewer said, as what it must be; or a refusal with the first thing that is wrong."""
    try:
        return kind.model_validate(parse_json(text.encode("utf-8", "replace")))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the message"
        raise Refusal(422, f"'{where}' cannot be: {first['msg'].lower()}.") from error


async def close_with(websocket: WebSocket, code: int, error: PalaestraError | InvalidRequest) -> None:
    reason = f"{error.message} {error.hint}".strip().encode()[:LONGEST_REASON].decode("utf-8", "ignore")
    with contextlib.suppress(WebSocketDisconnect, OSError, RuntimeError):
        await websocket.close(code, reason)


async def _send(websocket: WebSocket, data: Word | LiveState | LiveHud) -> None:
    await websocket.send_text(encode(data).decode())


class Hud(TypedDict):
    line: str
    role: str
    roles: list[str]  # lanes that the run has now
    slots: int
    step: int | None
    steps_per_second: float | None
    cost: float | None  # share of the run's time
    sent: int
    skipped: int
    dropped: int
    evaluation: NotRequired[str]


@dataclass
class Seat:
    """One viewer before one lane. Without a role of its own it goes to whichever lane the run has."""

    run_id: str
    name: str
    role: str
    is_fixed: bool  # the role was asked for
    viewer: Viewer
    watch: Watch
    evaluation_id: str = ""  # of the evaluation run whose batches are told; empty: those of the run itself


class FramesRoom:
    def __init__(self, daemon: Daemon, hub: Hub) -> None:
        self._daemon = daemon
        self.hub = hub
        self._told: dict[tuple[str, str], str] = {}  # run and role -> the state that was last logged
        self._seats: list[Seat] = []

    def shown(self, entry: Entry, role: str | None) -> tuple[str, str, str | None]:
        """Id and name of the run whose lane is meant, and the role: an evaluation is seen where its policy belongs."""
        if entry.record.kind == EVALUATION and not entry.state.is_over:  # later another one may be seen there
            with contextlib.suppress(PalaestraError):
                target = str(read_config(self._daemon.directory(entry.id)).get("target", ""))
                judged = self._daemon.get(target.partition(":")[0])
                return judged.id, judged.record.name, role or EVALUATE
        return entry.id, entry.record.name, role

    def sit(self, run_id: str, name: str, role: str | None, viewer: Viewer, *, evaluation_id: str = "") -> Seat:
        """TooManyViewers when there is no seat left; UsageError for a role that there cannot be."""
        if role is not None and not (role.startswith(TRAIN) or role == EVALUATE):
            raise UsageError(f"No lane has the role {role[:40]!r}.", f"Known: {TRAIN}, {TRAIN}1, …, {EVALUATE}.")
        chosen = role or next(iter(roles_of(run_id)), TRAIN)
        try:
            watch = self.hub.join(run_id, chosen, viewer)
        except TooManyViewers:
            raise
        except InvalidRequest as error:
            raise UsageError(error.message, error.hint) from error
        seat = Seat(run_id, name, chosen, role is not None, viewer, watch, evaluation_id)
        self._seats.append(seat)
        return seat

    def leave(self, seat: Seat) -> None:
        self.hub.leave(seat.watch, seat.viewer)
        self._seats.remove(seat)
        if not any((other.run_id, other.role) == (seat.run_id, seat.role) for other in self._seats):
            self._told.pop((seat.run_id, seat.role), None)

    def follow(self, seat: Seat) -> None:
        """To another lane of the run, when there is none where this viewer sits."""
        self._log(seat, seat.watch.status)
        if seat.is_fixed or seat.watch.status.condition not in {"unavailable", "closed"}:
            return
        role = next((role for role in roles_of(seat.run_id) if role != seat.role), None)
        if role is not None:
            self.hub.leave(seat.watch, seat.viewer)
            seat.viewer.reset()
            seat.role, seat.watch = role, self.hub.join(seat.run_id, role, seat.viewer)

    async def hud(self, seat: Seat) -> Hud:
        """The line under the pictures, and what it is made of."""
        status, is_evaluation = seat.watch.status, seat.role == EVALUATE
        heartbeat = status.heartbeat
        values: Hud = {
            "line": run_line(seat.name, status, is_evaluation=is_evaluation),
            "role": seat.role,
            "roles": roles_of(seat.run_id),
            "slots": status.slot_count,
            "step": None if heartbeat is None else heartbeat.env_steps,
            "steps_per_second": status.steps_per_second,
            "cost": None if heartbeat is None or heartbeat.seconds_watched <= 0 else heartbeat.cost,
            "sent": seat.viewer.sent,
            "skipped": seat.viewer.skipped,
            "dropped": status.dropped,
        }
        if is_evaluation:
            values["evaluation"] = await asyncio.to_thread(self._evaluation_line, seat)
        return values

    def _evaluation_line(self, seat: Seat) -> str:
        """Of the evaluation that is seen, and of none that was over before it began."""
        started_at = seat.watch.status.owner_started_at
        try:
            newest = read_newest_batch(self._daemon.directory(seat.evaluation_id or seat.run_id))
            if not seat.evaluation_id and started_at is not None:
                newest = [batch for batch in newest if batch.get("at", inf) >= wall_time(started_at)]
            return evaluation_line(newest)
        except PalaestraError as error:
            return f"eval | {error.message}"

    def _log(self, seat: Seat, status: Status) -> None:
        """Once when it changes, however many watch."""
        place = (seat.run_id, seat.role)
        if self._told.get(place) != status.condition:
            self._told[place] = status.condition
            logger.info("frames.%s run=%s role=%s %s", status.condition, *place, status.reason)


@contextlib.asynccontextmanager
async def keep_frames(house: House) -> AsyncIterator[None]:
    hub = Hub(is_alive)
    house.rooms[ROOM] = FramesRoom(house.daemon, hub)
    loop = asyncio.get_running_loop()
    loop.add_reader(hub.fileno(), hub.on_notification)
    renewing = asyncio.create_task(_renew(hub))
    try:
        yield
    finally:
        renewing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await renewing
        loop.remove_reader(hub.fileno())
        hub.close()


async def _renew(hub: Hub) -> None:
    while True:
        hub.renew(monotonic())
        await asyncio.sleep(RENEW_SECONDS)


def frames_room(house: House) -> FramesRoom:
    room = house.rooms[ROOM]
    assert isinstance(room, FramesRoom)
    return room
