"""The event socket: changes of runs and of the machine, for the page and for `palaestra top`.

The server sends `{"type": "hello", "sequence", "boot", "missed"}` first (`missed`: list the runs again, some events
since `after` are no longer known), then `{"type": "run", "sequence", "change", "run"}` and `{"type": "removed", …}`, a
`{"type": "system", …}` every few seconds, and `{"type": "log"}` and `{"type": "metrics"}` of the run that is followed.
The client sends `{"follow": {"run": ID, "log": true, "metrics": true}}`, or `{"follow": null}`.
A slow client gets only the newest state of each run and delays no other.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Literal, TypedDict

import anyio
from pydantic import Field
from starlette.websockets import WebSocketDisconnect

from palaestra.core.errors import PalaestraError
from palaestra.web.endpoints import Socket
from palaestra.web.request_parsing import Query, parse_json, parse_query, validated
from palaestra.web.resources.run_data import Run, describe_run
from palaestra.web.resources.system import Load, describe_load
from palaestra.web.responses import ErrorResponse, HttpError, encode_json, error_data
from palaestra.web.security.authentication import TOO_BUSY
from palaestra.web.sockets.live_view import binary_message_error, close_with, receive_text
from palaestra.web.sockets.run_follower import FollowMessage, LogMessage, MetricsMessage, RunFollower

if TYPE_CHECKING:
    from starlette.websockets import WebSocket

    from palaestra.daemon.event_bus import RunEvent
    from palaestra.web.context import AppContext

MAX_VIEWERS = 64
INVALID_MESSAGE, UNSUPPORTED_MESSAGE = 1007, 1003
SEND_INTERVAL_SECONDS = 0.1  # between two batches of messages to one viewer
SYSTEM_SECONDS = 5.0
FOLLOW_SECONDS = 0.5
SERVICE = "events.viewers"


class EventQueue:
    """Events that a viewer has not received yet: the newest of each run, oldest first."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pending: dict[str, RunEvent] = {}
        self._has_events = asyncio.Event()

    def put(self, event: RunEvent) -> None:
        """Adds an event from any thread; a closed loop is ignored."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._add, event)

    def _add(self, event: RunEvent) -> None:
        self._pending.pop(event.run, None)
        self._pending[event.run] = event
        self._has_events.set()

    async def take(self, seconds: float) -> list[RunEvent]:
        """Returns all pending events; empty after `seconds` without one."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._has_events.wait()
        self._has_events.clear()
        events, self._pending = list(self._pending.values()), {}
        return events


class HelloMessage(TypedDict):
    type: Literal["hello"]
    sequence: int
    boot: str
    missed: bool


class RunMessage(TypedDict):
    type: Literal["run"]
    sequence: int
    change: str  # accepted, started, changed or ended
    run: Run


class RemovedRun(TypedDict):
    id: str


class RemovedMessage(TypedDict):
    type: Literal["removed"]
    sequence: int
    run: RemovedRun


class SystemMessage(Load):
    type: Literal["system"]


class ErrorMessage(ErrorResponse):
    type: Literal["error"]


MESSAGES = (HelloMessage, RunMessage, RemovedMessage, SystemMessage, ErrorMessage, LogMessage, MetricsMessage)


class EventsQuery(Query):
    after: int | None = Field(default=None, ge=0, description="the last known sequence")
    boot: str = Field(default="", max_length=64, description="of the daemon that sent it")


async def serve_events(context: AppContext, websocket: WebSocket) -> None:
    viewers: set[WebSocket] = context.services.setdefault(SERVICE, set())
    await websocket.accept()
    if len(viewers) >= MAX_VIEWERS:
        await websocket.close(TOO_BUSY, "too many viewers")
        return
    viewers.add(websocket)
    try:
        await _serve(context, websocket)
    except* WebSocketDisconnect:
        pass
    except* HttpError:
        await close_with(websocket, UNSUPPORTED_MESSAGE, binary_message_error())
    finally:
        viewers.discard(websocket)


async def _serve(context: AppContext, websocket: WebSocket) -> None:
    try:
        query = validated(EventsQuery, parse_query(EventsQuery, websocket.scope["query_string"]))
    except HttpError as error:
        await websocket.send_text(_encode_error(error))
        await websocket.close(INVALID_MESSAGE, error.message[:100])
        return
    queue = EventQueue(asyncio.get_running_loop())
    follower = RunFollower(context)
    unsubscribe = context.daemon.events.subscribe(queue.put)
    try:
        await _send_hello(context, websocket, queue, query)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_receive, websocket, follower)
            tasks.start_soon(_send_events, context, websocket, queue)
            tasks.start_soon(_send_system, context, websocket)
            tasks.start_soon(_send_followed, websocket, follower)
    finally:
        unsubscribe()


async def _send_hello(context: AppContext, websocket: WebSocket, queue: EventQueue, query: EventsQuery) -> None:
    event_bus = context.daemon.events
    sequence = event_bus.sequence
    missed_events = None
    if query.after is not None and query.boot in {"", context.run_facts.boot}:
        missed_events = event_bus.since(query.after)
    is_missed = query.after is not None and missed_events is None
    hello: HelloMessage = {"type": "hello", "sequence": sequence, "boot": context.run_facts.boot, "missed": is_missed}
    await websocket.send_text(encode_json(hello).decode())
    for event in missed_events or ():
        queue.put(event)


async def _receive(websocket: WebSocket, follower: RunFollower) -> None:
    """Runs until the viewer disconnects (WebSocketDisconnect) or sends a binary message (HttpError)."""
    while True:
        text = await receive_text(websocket)
        try:
            message = validated(FollowMessage, parse_json(text.encode("utf-8", errors="surrogatepass")))
            await follower.follow(message.follow)
        except PalaestraError as error:
            await websocket.send_text(_encode_error(error))


async def _send_events(context: AppContext, websocket: WebSocket, queue: EventQueue) -> None:
    while True:
        for event in await queue.take(SYSTEM_SECONDS):
            await websocket.send_text(await asyncio.to_thread(_encode_event, context, event))
        await asyncio.sleep(SEND_INTERVAL_SECONDS)


async def _send_system(context: AppContext, websocket: WebSocket) -> None:
    while True:
        load = await asyncio.to_thread(describe_load, context)
        message: SystemMessage = {"type": "system", **load}
        await websocket.send_text(encode_json(message).decode())
        await asyncio.sleep(SYSTEM_SECONDS)


async def _send_followed(websocket: WebSocket, follower: RunFollower) -> None:
    while True:
        for message in await follower.collect():
            await websocket.send_text(encode_json(message).decode())
        await asyncio.sleep(FOLLOW_SECONDS)


def _encode_event(context: AppContext, event: RunEvent) -> str:
    if event.entry is None:
        context.run_facts.invalidate(event.run)
        removed: RemovedMessage = {"type": "removed", "sequence": event.sequence, "run": {"id": event.run}}
        return encode_json(removed).decode()
    described = describe_run(context, event.entry)
    message: RunMessage = {
        "type": "run",
        "sequence": event.sequence,
        "change": event.change,
        "run": described,
    }
    return encode_json(message).decode()


def _encode_error(error: PalaestraError) -> str:
    fields = error.fields if isinstance(error, HttpError) else ()
    message: ErrorMessage = {"type": "error", **error_data(error.message, error.hint, fields)}
    return encode_json(message).decode()


ROUTES = (Socket("/api/events", serve_events, "changes of runs and of the machine", MESSAGES, (FollowMessage,)),)
