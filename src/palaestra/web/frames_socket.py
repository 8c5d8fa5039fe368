"""The live view of one run over a WebSocket: pictures as fast as this viewer takes them, and never older than needed.

The viewer says what it wants (`{"fps", "side", "slots", "quality"}`) and that frames have arrived (`{"ack": N}`).
It gets frames (binary, see docs/live.md), `{"state", "why"}` whenever that changes, and `{"hud": {…}}` twice a second.
Nothing is queued: what cannot be sent now is replaced by what is newer.
"""

from __future__ import annotations

import asyncio
import contextlib
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, Field, ValidationError
from starlette.websockets import WebSocketDisconnect

from palaestra.contracts.errors import NotFound, PalaestraError
from palaestra.frames.hub import TooManyViewers
from palaestra.frames.viewer import Viewer, Wish
from palaestra.web.answers import encode
from palaestra.web.errors import Refusal
from palaestra.web.frames_room import FramesRoom, Seat, frames_room
from palaestra.web.json_text import parse_json
from palaestra.web.reading import Body
from palaestra.web.route import Socket

if TYPE_CHECKING:
    from starlette.websockets import WebSocket

    from palaestra.web.house import House

Message = TypeVar("Message", bound=BaseModel)

TEXT_ONLY, NOT_UNDERSTOOD, TRY_LATER, NO_SUCH_RUN = 1003, 1008, 1013, 4404
HUD_SECONDS = 0.5
MOST_ACKNOWLEDGED = 64
LONGEST_REASON = 120  # bytes; a close frame holds 123


class Said(Body):
    """A message of the viewer. What is not said stays as it was."""

    fps: float | None = Field(None, gt=0, le=60)
    side: int | None = Field(None, ge=16, le=4096)
    slots: list[int] | None = Field(None, max_length=1024)
    quality: int | None = Field(None, ge=1, le=100)
    ack: int = Field(0, ge=0, le=MOST_ACKNOWLEDGED)

    def wish(self, before: Wish) -> Wish:
        given = self.model_fields_set
        slots = None if self.slots is None else frozenset(self.slots)
        return Wish(
            self.fps or before.frames_per_second,
            slots if "slots" in given else before.slots,
            self.side or before.largest_side,
            self.quality or before.quality,
        )


async def watch_frames(house: House, websocket: WebSocket) -> None:
    await websocket.accept()
    room = frames_room(house)
    ready = asyncio.Event()
    viewer = Viewer(on_ready=ready.set)
    try:
        entry = house.daemon.get(websocket.path_params["id"])
        shown = await asyncio.to_thread(room.shown, entry, websocket.query_params.get("role"))
        seat = room.sit(*shown, viewer)
    except TooManyViewers as error:
        await close_with(websocket, TRY_LATER, error)
        return
    except NotFound as error:
        await close_with(websocket, NO_SUCH_RUN, error)
        return
    except PalaestraError as error:
        await close_with(websocket, NOT_UNDERSTOOD, error)
        return
    try:
        await _serve(websocket, room, seat, ready)
    finally:
        room.leave(seat)


async def _serve(websocket: WebSocket, room: FramesRoom, seat: Seat, ready: asyncio.Event) -> None:
    """Until the viewer goes, or says something that cannot be."""
    hearing = asyncio.create_task(_hear(websocket, seat.viewer, ready))
    telling = asyncio.create_task(_tell(websocket, room, seat, ready))
    try:
        done, _ = await asyncio.wait({hearing, telling}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            await task
    except (WebSocketDisconnect, OSError):
        return
    except PalaestraError as error:
        await close_with(websocket, NOT_UNDERSTOOD, error)
    finally:
        for task in (hearing, telling):
            task.cancel()
            with contextlib.suppress(
                asyncio.CancelledError, WebSocketDisconnect, OSError, PalaestraError, RuntimeError
            ):
                await task


async def _hear(websocket: WebSocket, viewer: Viewer, ready: asyncio.Event) -> None:
    while True:
        message = await websocket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1005))
        text = message.get("text")
        if text is None:
            raise Refusal(400, "A message was not text.", "Send JSON as text.")
        said = understood(text)
        viewer.wish = said.wish(viewer.wish)
        viewer.acknowledge(said.ack)
        ready.set()


def understood(text: str) -> Said:
    return understood_as(Said, text)


def understood_as(kind: type[Message], text: str) -> Message:
    """What a viewer said, as what it must be; or a refusal with the first thing that is wrong."""
    try:
        return kind.model_validate(parse_json(text.encode("utf-8", "replace")))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the message"
        raise Refusal(422, f"'{where}' cannot be: {first['msg'].lower()}.") from error


async def _tell(websocket: WebSocket, room: FramesRoom, seat: Seat, ready: asyncio.Event) -> None:
    told: tuple[str, str] | None = None
    hud_at = 0.0
    while True:
        now = monotonic()
        room.follow(seat)
        status = seat.watch.status
        if (status.condition, status.reason) != told and (told is None or status.condition != told[0]):
            await _send(websocket, {"state": status.condition, "why": status.reason, "role": seat.role})
        told = (status.condition, status.reason)
        if now >= hud_at:
            hud_at = now + HUD_SECONDS
            await _send(websocket, {"hud": await room.hud(seat)})
        while (frame := seat.watch.take(seat.viewer, monotonic())) is not None:
            await websocket.send_bytes(frame)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ready.wait(), max(0.0, hud_at - monotonic()))
        ready.clear()


async def _send(websocket: WebSocket, data: dict[str, Any]) -> None:
    await websocket.send_text(encode(data).decode())


async def close_with(websocket: WebSocket, code: int, error: PalaestraError) -> None:
    reason = f"{error.message} {error.hint}".strip().encode()[:LONGEST_REASON].decode("utf-8", "ignore")
    with contextlib.suppress(WebSocketDisconnect, OSError, RuntimeError):
        await websocket.close(code, reason)


ROUTES = (Socket("/api/runs/{id}/frames", watch_frames, "live frames"),)
