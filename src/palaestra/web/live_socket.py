"""What every live view does over its WebSocket, whether a run is watched or a match is played.

The viewer says what it wants and that frames have arrived (`Said`). It gets frames (binary, see docs/live.md),
`{"state", "why"}` whenever that changes, and `{"hud": {…}}` twice a second. Nothing is queued: what cannot be sent now
is replaced by what is newer.
"""

from __future__ import annotations

import asyncio
import contextlib
from time import monotonic
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from pydantic import BaseModel, Field, ValidationError
from starlette.websockets import WebSocketDisconnect

from palaestra.rendering.errors import InvalidRequest
from palaestra.rendering.viewer import Viewer, ViewerRequest
from palaestra.rendering.watch import Condition
from palaestra.web.answers import encode
from palaestra.web.errors import Refusal
from palaestra.web.frames_room import Hud
from palaestra.web.json_text import parse_json
from palaestra.web.reading import Body

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from starlette.websockets import WebSocket

    from palaestra.core.errors import PalaestraError
    from palaestra.rendering.watch import Status
    from palaestra.web.frames_room import FramesRoom, Seat

Message = TypeVar("Message", bound=BaseModel)
Word = dict[str, Any]

NOT_UNDERSTOOD, TRY_LATER = 1008, 1013
HUD_SECONDS = 0.5
MOST_ACKNOWLEDGED = 64
CANCEL_SECONDS = 0.5  # a cancellation can be lost to what happens in the same moment; then it is said again
LONGEST_REASON = 120  # bytes; a close frame holds 123


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
