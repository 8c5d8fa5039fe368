"""A match over a WebSocket: the shadow of a training, a person at the keyboard, or several policies side by side.

The first message says who plays (`palaestra.runner.match_plan.MatchPlan`). From then on it is a live view like that of
a run (see `live_socket`), with a few words more: the viewer may send `action`, `pace`, `paused` and `again`, and gets
what the match says of itself (`ready`, `round`, `ended`, `newer`, `error`). It lasts as long as the socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import secrets
import sys
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from pydantic import Field
from starlette.websockets import WebSocketDisconnect

from palaestra.core.errors import PalaestraError
from palaestra.rendering.frame_buffer import InvalidRequest
from palaestra.rendering.hub import TooManyViewers
from palaestra.rendering.viewer import Viewer
from palaestra.runner.match_plan import FASTEST, PERSON, RANDOM, ROLE, MatchMessage, MatchPlan
from palaestra.web.endpoints import Socket
from palaestra.web.responses import Refusal
from palaestra.web.sockets.live_view import (
    NOT_UNDERSTOOD,
    TRY_LATER,
    LiveHud,
    LiveState,
    Said,
    Seat,
    close_with,
    frames_room,
    hear,
    receive_text,
    show,
    together,
    understood_as,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from starlette.websockets import WebSocket

    from palaestra.rendering.hub import Status
    from palaestra.web.context import House

ROOM = "matches"
AT_ONCE = 4  # each is a process with torch in it
GREETING_SECONDS = 20.0
MOST_WORDS = 200  # of the match that wait for a slow viewer; the oldest go
TARGET = re.compile(r"(?P<run>[^:/\\]{1,200}):(?P<selector>best|latest|[0-9]{1,9})")
PROGRAM = ("-P", "-m", "palaestra.runner.match")
END_SECONDS = 2.0
KEPT_BYTES = 4096  # of what it complains of
OUTPUT = 1  # what it says; its complaints come by the other


class MatchSaid(Said):
    action: int | None = Field(None, ge=0, le=100_000)
    pace: float | None = Field(None, ge=0, le=FASTEST)
    paused: bool | None = None
    again: int | None = Field(None, ge=0, lt=1 << 32, description="begin anew with this seed")

    def word(self) -> dict[str, Any]:
        """What is for the match, not for us"""
        told = {name: getattr(self, name) for name in ("action", "pace", "paused", "again")}
        return {name: value for name, value in told.items() if value is not None}


async def play_match(house: House, websocket: WebSocket) -> None:
    await websocket.accept()
    busy: set[str] = house.rooms.setdefault(ROOM, set())
    lane = f"m{secrets.token_hex(12)}"
    try:
        plan = pinned(house, await _greeted(websocket))
        if len(busy) >= AT_ONCE:
            raise TooManyViewers(f"{AT_ONCE} matches are being played already.", "Close another one first.")
        busy.add(lane)
        await _serve(house, websocket, plan, lane)
    except TooManyViewers as error:
        await close_with(websocket, TRY_LATER, error)
    except (InvalidRequest, PalaestraError) as error:
        await close_with(websocket, NOT_UNDERSTOOD, error)
    except (WebSocketDisconnect, OSError):
        return
    finally:
        busy.discard(lane)


async def _greeted(websocket: WebSocket) -> MatchPlan:
    try:
        text = await asyncio.wait_for(receive_text(websocket), GREETING_SECONDS)
    except TimeoutError as error:
        raise Refusal(408, "Nobody said who plays.", "The first message is the plan of the match.") from error
    return understood_as(MatchPlan, text)


def pinned(house: House, plan: MatchPlan) -> MatchPlan:
    """Only checkpoints of runs that the daemon knows, by their ids: a path is never taken from a viewer."""

    def pin(word: str) -> str:
        if word in {"", RANDOM, PERSON}:
            return word
        match = TARGET.fullmatch(word)
        if match is None:
            raise Refusal(
                422, f"Nobody is called {word[:80]!r}.", "Say RUN:EPOCH, RUN:best, RUN:latest, random or person."
            )
        return f"{house.daemon.get(match['run']).id}:{match['selector']}"

    seats = tuple(
        seat.model_copy(update={"player": pin(seat.player), "others": pin(seat.others)}) for seat in plan.seats
    )
    return plan.model_copy(update={"seats": seats, "env_of": pin(plan.env_of)})


async def _serve(house: House, websocket: WebSocket, plan: MatchPlan, lane: str) -> None:
    room, ready = frames_room(house), asyncio.Event()
    viewer = Viewer(on_ready=ready.set)
    seat = Seat(lane, "match", ROLE, True, viewer, room.hub.join(lane, ROLE, viewer))  # noqa: FBT003
    told: deque[dict[str, Any]] = deque(maxlen=MOST_WORDS)
    try:
        async with played(plan, house.daemon.root, lane) as match:
            await together(
                hear(websocket, viewer, ready, MatchSaid, partial(_pass_on, match)),
                _listen(match, told, ready),
                show(websocket, room, seat, ready, why=_why, words=partial(_taken, told)),
            )
    finally:
        room.hub.leave(seat.watch, viewer)


def _pass_on(match: MatchProcess, said: MatchSaid) -> None:
    if word := said.word():
        match.say(word)


async def _listen(match: MatchProcess, told: deque[dict[str, Any]], ready: asyncio.Event) -> None:
    """To the match; when it has ended for a reason, that is the last word."""
    async for word in match.words():
        if "error" in word:
            raise Refusal(409, word["error"]["message"], word["error"]["hint"])
        told.append(word)
        ready.set()


def _why(status: Status) -> str:
    return "The players are being loaded." if status.condition == "unavailable" else status.reason


def _taken(told: deque[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    while told:
        yield told.popleft()


class MatchProcess(asyncio.SubprocessProtocol):
    """Made by `played`."""

    def __init__(self) -> None:
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._gone = asyncio.Event()
        self._begun = self._complaints = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._transport = transport

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd != OUTPUT:
            self._complaints = (self._complaints + data)[-KEPT_BYTES:]
            return
        *lines, self._begun = (self._begun + data).split(b"\n")
        for line in lines:
            self._lines.put_nowait(line)

    def connection_lost(self, _error: Exception | None) -> None:
        """It has ended, and all that it said was read."""
        self._lines.put_nowait(None)
        self._gone.set()

    def say(self, word: dict[str, Any]) -> None:
        """What is said to one that has ended is lost."""
        pipe = self._transport.get_pipe_transport(0)
        assert isinstance(pipe, asyncio.WriteTransport)
        if not pipe.is_closing():
            pipe.write(json.dumps(word).encode() + b"\n")

    async def words(self) -> AsyncIterator[dict[str, Any]]:
        """What it says, until it ends; the last word is why, unless it was asked to."""
        has_told = False
        while (line := await self._lines.get()) is not None:
            word = json.loads(line)
            has_told = has_told or "error" in word
            yield word
        code = self._transport.get_returncode()
        if code and not has_told:
            why = self._complaints.decode("utf-8", "replace").strip().splitlines()[-1:] or ["it said nothing"]
            yield {"error": {"message": f"The match ended with exit code {code}: {why[0][:300]}", "hint": ""}}

    async def end(self) -> None:
        """Gently: its input ends, and it takes its lane away. Then at once."""
        pipe = self._transport.get_pipe_transport(0)
        assert pipe is not None
        pipe.close()
        try:
            await asyncio.wait_for(self._gone.wait(), END_SECONDS)
        except TimeoutError:
            self._transport.kill()
            await self._gone.wait()
        finally:
            self._transport.close()


@contextlib.asynccontextmanager
async def played(plan: MatchPlan, runs_root: Path, lane: str) -> AsyncIterator[MatchProcess]:
    """While this lasts the match goes on; its pictures are in the lane of that name."""
    _, match = await asyncio.get_running_loop().subprocess_exec(
        MatchProcess,
        *(sys.executable, *PROGRAM),
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        start_new_session=True,  # Ctrl-C at the daemon is for the daemon
    )
    try:
        match.say({"lane": lane, "runs": str(runs_root), "plan": plan.model_dump(mode="json")})
        yield match
    finally:
        with anyio.CancelScope(shield=True):  # a viewer who goes must not leave a process behind
            await match.end()


ROUTES = (
    Socket(
        "/api/match",
        play_match,
        "a match, played and shown while the socket is open",
        (LiveState, LiveHud, MatchMessage),
        (MatchPlan,),
    ),
)
