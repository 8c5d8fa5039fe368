"""What happens, as it happens: one socket for the whole page and for `palaestra top`.

To the caller: `{"type": "hello", "sequence", "boot", "missed"}` first (`missed`: list anew, some of what happened since
`after` is no longer known), then `{"type": "run", "sequence", "happening", "run"}` and `{"type": "removed", …}`, a
`{"type": "system", …}` every few seconds, and for a run that it follows `{"type": "log"}` and `{"type": "metrics"}`.
From the caller: `{"follow": {"run": ID, "log": true, "metrics": true}}`, or `{"follow": null}`.
A slow caller costs nobody anything: of each run only its newest state waits for it.
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
from palaestra.web.responses import ErrorResponse, Refusal, encode, error_data
from palaestra.web.security.authentication import TOO_BUSY
from palaestra.web.sockets.live_view import close_with, not_text, receive_text
from palaestra.web.sockets.run_follower import Follower, FollowMessage, LogMessage, MetricsMessage

if TYPE_CHECKING:
    from starlette.websockets import WebSocket

    from palaestra.daemon.news import News
    from palaestra.web.context import House

MOST_VIEWERS = 64
INVALID_MESSAGE, UNSUPPORTED_MESSAGE = 1007, 1003
PACE_SECONDS = 0.1  # between two rounds of messages to one viewer
SYSTEM_SECONDS = 5.0
FOLLOW_SECONDS = 0.5
ROOM = "events.viewers"


class Mailbox:
    """What a viewer has not been told yet: of each run the newest, in the order in which it was last touched."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: dict[str, News] = {}
        self._bell = asyncio.Event()

    def put(self, news: News) -> None:
        """From any thread; a loop that is gone needs no news."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._keep, news)

    def _keep(self, news: News) -> None:
        self._waiting.pop(news.run, None)
        self._waiting[news.run] = news
        self._bell.set()

    async def take(self, seconds: float) -> list[News]:
        """All that waits; empty when nothing came for that long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._bell.wait()
        self._bell.clear()
        news, self._waiting = list(self._waiting.values()), {}
        return news


class HelloMessage(TypedDict):
    type: Literal["hello"]
    sequence: int
    boot: str
    missed: bool


class RunMessage(TypedDict):
    type: Literal["run"]
    sequence: int
    happening: str
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
    after: int | None = Field(default=None, ge=0, description="the last sequence that is known")
    boot: str = Field(default="", max_length=64, description="of the daemon that gave it")


async def serve_events(house: House, websocket: WebSocket) -> None:
    viewers: set[WebSocket] = house.rooms.setdefault(ROOM, set())
    await websocket.accept()
    if len(viewers) >= MOST_VIEWERS:
        await websocket.close(TOO_BUSY, "too many viewers")
        return
    viewers.add(websocket)
    try:
        await _serve(house, websocket)
    except* WebSocketDisconnect:
        pass
    except* Refusal:
        await close_with(websocket, UNSUPPORTED_MESSAGE, not_text())
    finally:
        viewers.discard(websocket)


async def _serve(house: House, websocket: WebSocket) -> None:
    try:
        query = validated(EventsQuery, parse_query(EventsQuery, websocket.scope["query_string"]))
    except Refusal as refusal:
        await websocket.send_text(_refused(refusal))
        await websocket.close(INVALID_MESSAGE, refusal.message[:100])
        return
    mailbox = Mailbox(asyncio.get_running_loop())
    follower = Follower(house)
    forget = house.daemon.news.listen(mailbox.put)
    try:
        await _greet(house, websocket, mailbox, query)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_listen, websocket, follower)
            tasks.start_soon(_tell_news, house, websocket, mailbox)
            tasks.start_soon(_tell_system, house, websocket)
            tasks.start_soon(_tell_followed, websocket, follower)
    finally:
        forget()


async def _greet(house: House, websocket: WebSocket, mailbox: Mailbox, query: EventsQuery) -> None:
    newsroom = house.daemon.news
    number = newsroom.number
    since = None
    if query.after is not None and query.boot in {"", house.book.boot}:
        since = newsroom.since(query.after)
    is_missed = query.after is not None and since is None
    hello: HelloMessage = {"type": "hello", "sequence": number, "boot": house.book.boot, "missed": is_missed}
    await websocket.send_text(encode(hello).decode())
    for news in since or ():
        mailbox.put(news)


async def _listen(websocket: WebSocket, follower: Follower) -> None:
    """Until the viewer leaves (WebSocketDisconnect) or sends what is no text (Refusal); the others end with it."""
    while True:
        text = await receive_text(websocket)
        try:
            message = validated(FollowMessage, parse_json(text.encode("utf-8", errors="surrogatepass")))
            await follower.follow(message.follow)
        except PalaestraError as refusal:
            await websocket.send_text(_refused(refusal))


async def _tell_news(house: House, websocket: WebSocket, mailbox: Mailbox) -> None:
    while True:
        for news in await mailbox.take(SYSTEM_SECONDS):
            await websocket.send_text(await asyncio.to_thread(_news_text, house, news))
        await asyncio.sleep(PACE_SECONDS)


async def _tell_system(house: House, websocket: WebSocket) -> None:
    while True:
        load = await asyncio.to_thread(describe_load, house)
        message: SystemMessage = {"type": "system", **load}
        await websocket.send_text(encode(message).decode())
        await asyncio.sleep(SYSTEM_SECONDS)


async def _tell_followed(websocket: WebSocket, follower: Follower) -> None:
    while True:
        for message in await follower.collect():
            await websocket.send_text(encode(message).decode())
        await asyncio.sleep(FOLLOW_SECONDS)


def _news_text(house: House, news: News) -> str:
    if news.entry is None:
        house.book.forget(news.run)
        removed: RemovedMessage = {"type": "removed", "sequence": news.number, "run": {"id": news.run}}
        return encode(removed).decode()
    described = describe_run(house, news.entry)
    message: RunMessage = {
        "type": "run",
        "sequence": news.number,
        "happening": news.happening,
        "run": described,
    }
    return encode(message).decode()


def _refused(error: PalaestraError) -> str:
    fields = error.fields if isinstance(error, Refusal) else ()
    message: ErrorMessage = {"type": "error", **error_data(error.message, error.hint, fields)}
    return encode(message).decode()


ROUTES = (Socket("/api/events", serve_events, "what happens to runs, as it happens", MESSAGES, (FollowMessage,)),)
