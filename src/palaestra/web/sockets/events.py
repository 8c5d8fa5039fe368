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
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypedDict

import anyio
from pydantic import Field
from starlette.websockets import WebSocketDisconnect

from palaestra.core.errors import DamagedFile, NotFound, PalaestraError
from palaestra.runs.metrics.reader import MetricsReader
from palaestra.web.endpoints import Socket
from palaestra.web.request_parsing import Body, Query, parse_json, parse_query, validated
from palaestra.web.resources.metrics import MetricPoint
from palaestra.web.resources.run_data import Run, describe_run
from palaestra.web.resources.system import Load, describe_load
from palaestra.web.responses import ErrorResponse, HttpError, encode_json, error_data
from palaestra.web.security.authentication import TOO_BUSY
from palaestra.web.sockets.live_view import binary_message_error, close_with, receive_text

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.websockets import WebSocket

    from palaestra.daemon.event_bus import RunEvent
    from palaestra.runs.directory import RunDirectory
    from palaestra.web.context import AppContext


LOG_BYTES = 64 * 1024  # in one message; a long log starts with its end
SAMPLES = 200  # in one message


LogMessage = TypedDict(  # functional syntax: `from` is a keyword
    "LogMessage", {"type": Literal["log"], "run": str, "text": str, "from": int, "next": int}
)


class MetricsMessage(TypedDict):
    type: Literal["metrics"]
    run: str
    points: list[MetricPoint]
    row: int


class FollowBody(Body):
    run: str
    log: bool = False
    metrics: bool = False


class FollowMessage(Body):
    follow: FollowBody | None


@dataclass(frozen=True)
class FollowState:
    directory: RunDirectory
    log: int | None  # bytes sent; None: not followed
    sample: int | None  # the last one sent; None: not followed


class RunFollower:
    """Follows one run. Its methods run on the event loop and read files in a thread."""

    def __init__(self, context: AppContext) -> None:
        self._context = context
        self._state: FollowState | None = None

    async def follow(self, wanted: FollowBody | None) -> None:
        """Starts to follow a run. Raises NotFound."""
        if wanted is None:
            self._state = None
            return
        directory = self._context.daemon.directory(wanted.run)
        self._state = await asyncio.to_thread(_begin, directory, wanted)

    async def collect(self) -> list[LogMessage | MetricsMessage]:
        state = self._state
        if state is None:
            return []
        messages, new_state = await asyncio.to_thread(_collect, state)
        if self._state is state:  # no other run was requested meanwhile
            self._state = new_state
        return messages


def _begin(directory: RunDirectory, wanted: FollowBody) -> FollowState:
    log = max(0, _size(directory) - LOG_BYTES) if wanted.log else None
    return FollowState(directory, log, _newest_sample(directory) if wanted.metrics else None)


def _collect(state: FollowState) -> tuple[list[LogMessage | MetricsMessage], FollowState]:
    messages: list[LogMessage | MetricsMessage] = []
    if state.log is not None:
        begin = state.log if state.log <= _size(state.directory) else 0  # it was truncated: all of it is new
        text = _read_log(state.directory, begin)
        if text:
            at = begin + len(text)
            messages.append(_log_message(state.directory.id, text, begin, at))
            state = replace(state, log=at)
    if state.sample is not None:
        points, sample = _read_points(state.directory, state.sample)
        if points:
            messages.append({"type": "metrics", "run": state.directory.id, "points": points, "row": sample})
        state = replace(state, sample=sample)
    return messages, state


def _log_message(run: str, content: bytes, begin: int, end: int) -> LogMessage:
    text = content.decode("utf-8", errors="replace")
    return {"type": "log", "run": run, "text": text, "from": begin, "next": end}


def _size(directory: RunDirectory) -> int:
    try:
        return _log_path(directory).stat().st_size
    except OSError:
        return 0


def _log_path(directory: RunDirectory) -> Path:
    output = directory.output_file()
    return output if output.exists() else directory.log_file()


def _read_log(directory: RunDirectory, begin: int) -> bytes:
    """Reads whole UTF-8 characters; a partial one at the end is left for the next call."""
    try:
        descriptor = os.open(_log_path(directory), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        content = os.pread(descriptor, LOG_BYTES, begin)
    finally:
        os.close(descriptor)
    return content[: len(content) - _incomplete_bytes(content)]


def _incomplete_bytes(content: bytes) -> int:
    """Returns the number of bytes at the end that are an incomplete UTF-8 character."""
    for back in range(1, min(4, len(content)) + 1):
        byte = content[-back]
        if byte & 0xC0 == 0x80:
            continue
        needed = 2 if byte & 0xE0 == 0xC0 else 3 if byte & 0xF0 == 0xE0 else 4 if byte & 0xF8 == 0xF0 else 1
        return back if needed > back else 0
    return 0


def _newest_sample(directory: RunDirectory) -> int:
    try:
        with MetricsReader(directory.metrics_file) as reader:
            return reader.newest_sample()
    except (NotFound, DamagedFile):
        return 0


def _read_points(directory: RunDirectory, after: int) -> tuple[list[MetricPoint], int]:
    """Returns new samples. A resumed run removes samples; then everything after its newest one counts as new."""
    try:
        with MetricsReader(directory.metrics_file) as reader:
            after = min(after, reader.newest_sample())
            found = reader.tail(after, SAMPLES)
    except (NotFound, DamagedFile):
        return [], after
    points: list[MetricPoint] = [
        {"row": one.sample, "step": one.step, "name": one.name, "value": one.value} for one in found
    ]
    return points, max((one.sample for one in found), default=after)


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
