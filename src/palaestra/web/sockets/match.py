"""The match socket: the newest checkpoint, a person at the keyboard, or several policies side by side.

The first message is the plan (`palaestra.runner.match.plan.MatchPlan`). Then the socket is a live view (see
`live_view`) with additional messages: the viewer may send `action`, `pace`, `paused` and `again`, and gets the messages
of the match (`ready`, `round`, `ended`, `newer`, `error`). The match lasts as long as the socket.
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
from palaestra.runner.match.plan import FASTEST, PERSON, RANDOM, ROLE, MatchMessage, MatchPlan
from palaestra.web.endpoints import Socket
from palaestra.web.responses import HttpError
from palaestra.web.sockets.live_view import (
    POLICY_VIOLATION,
    TRY_AGAIN_LATER,
    FrameSubscription,
    LiveHud,
    LiveState,
    ViewerMessage,
    close_with,
    frame_service,
    parse_message,
    receive_messages,
    receive_text,
    run_until_first,
    send_frames,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from starlette.websockets import WebSocket

    from palaestra.rendering.hub import Status
    from palaestra.web.context import AppContext

SERVICE = "matches"
MAX_MATCHES = 4  # each is a process with torch in it
PLAN_TIMEOUT_SECONDS = 20.0
MAX_PENDING_MESSAGES = 200  # for a slow viewer; the oldest are dropped
TARGET = re.compile(r"(?P<run>[^:/\\]{1,200}):(?P<selector>best|latest|[0-9]{1,9})")
PROGRAM = ("-P", "-m", "palaestra.runner.match")
END_SECONDS = 2.0
STDERR_BYTES = 4096  # kept for the error message
STDOUT = 1


class MatchViewerMessage(ViewerMessage):
    action: int | None = Field(None, ge=0, le=100_000)
    pace: float | None = Field(None, ge=0, le=FASTEST)
    paused: bool | None = None
    again: int | None = Field(None, ge=0, lt=1 << 32, description="restart with this seed")

    def match_message(self) -> dict[str, Any]:
        """Returns the fields that the match process handles."""
        values = {name: getattr(self, name) for name in ("action", "pace", "paused", "again")}
        return {name: value for name, value in values.items() if value is not None}


async def play_match(context: AppContext, websocket: WebSocket) -> None:
    await websocket.accept()
    busy: set[str] = context.services.setdefault(SERVICE, set())
    buffer_name = f"m{secrets.token_hex(12)}"
    try:
        plan = resolve_targets(context, await _receive_plan(websocket))
        if len(busy) >= MAX_MATCHES:
            raise TooManyViewers(f"{MAX_MATCHES} matches are running (the maximum).", "Close one first.")
        busy.add(buffer_name)
        await _serve(context, websocket, plan, buffer_name)
    except TooManyViewers as error:
        await close_with(websocket, TRY_AGAIN_LATER, error)
    except (InvalidRequest, PalaestraError) as error:
        await close_with(websocket, POLICY_VIOLATION, error)
    except (WebSocketDisconnect, OSError):
        return
    finally:
        busy.discard(buffer_name)


async def _receive_plan(websocket: WebSocket) -> MatchPlan:
    try:
        text = await asyncio.wait_for(receive_text(websocket), PLAN_TIMEOUT_SECONDS)
    except TimeoutError as error:
        raise HttpError(408, "No plan was sent.", "The first message must be the plan of the match.") from error
    return parse_message(MatchPlan, text)


def resolve_targets(context: AppContext, plan: MatchPlan) -> MatchPlan:
    """Replaces run names with ids. Only checkpoints of known runs are accepted, never a path from a viewer."""

    def resolve(player: str) -> str:
        if player in {"", RANDOM, PERSON}:
            return player
        match = TARGET.fullmatch(player)
        if match is None:
            raise HttpError(
                422, f"Unknown player {player[:80]!r}.", "Use RUN:EPOCH, RUN:best, RUN:latest, random or person."
            )
        return f"{context.daemon.get(match['run']).id}:{match['selector']}"

    seats = tuple(
        seat.model_copy(update={"player": resolve(seat.player), "others": resolve(seat.others)}) for seat in plan.seats
    )
    return plan.model_copy(update={"seats": seats, "env_of": resolve(plan.env_of)})


async def _serve(context: AppContext, websocket: WebSocket, plan: MatchPlan, buffer_name: str) -> None:
    service, ready = frame_service(context), asyncio.Event()
    viewer = Viewer(on_ready=ready.set)
    watch = service.hub.join(buffer_name, ROLE, viewer)
    subscription = FrameSubscription(buffer_name, "match", ROLE, is_fixed=True, viewer=viewer, watch=watch)
    pending: deque[dict[str, Any]] = deque(maxlen=MAX_PENDING_MESSAGES)
    try:
        async with running_match(plan, context.daemon.root, buffer_name) as match:
            await run_until_first(
                receive_messages(websocket, viewer, ready, MatchViewerMessage, partial(_forward, match)),
                _receive_match_messages(match, pending, ready),
                send_frames(
                    websocket, service, subscription, ready, reason=_describe_state, messages=partial(_drain, pending)
                ),
            )
    finally:
        service.hub.leave(subscription.watch, viewer)


def _forward(match: MatchProcess, viewer_message: MatchViewerMessage) -> None:
    if message := viewer_message.match_message():
        match.send(message)


async def _receive_match_messages(match: MatchProcess, pending: deque[dict[str, Any]], ready: asyncio.Event) -> None:
    """Collects the messages of the match. An error message ends the socket with its reason."""
    async for message in match.messages():
        if "error" in message:
            raise HttpError(409, message["error"]["message"], message["error"]["hint"])
        pending.append(message)
        ready.set()


def _describe_state(status: Status) -> str:
    return "Loading the players." if status.condition == "unavailable" else status.reason


def _drain(pending: deque[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    while pending:
        yield pending.popleft()


class MatchProcess(asyncio.SubprocessProtocol):
    """The process that plays a match, created by `running_match`."""

    def __init__(self) -> None:
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._has_ended = asyncio.Event()
        self._partial_line = self._stderr = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._transport = transport

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd != STDOUT:
            self._stderr = (self._stderr + data)[-STDERR_BYTES:]
            return
        *lines, self._partial_line = (self._partial_line + data).split(b"\n")
        for line in lines:
            self._lines.put_nowait(line)

    def connection_lost(self, _error: Exception | None) -> None:
        """Called after the process has ended and its output was read."""
        self._lines.put_nowait(None)
        self._has_ended.set()

    def send(self, message: dict[str, Any]) -> None:
        """Sends a message; one to an ended process is lost."""
        pipe = self._transport.get_pipe_transport(0)
        assert isinstance(pipe, asyncio.WriteTransport)
        if not pipe.is_closing():
            pipe.write(json.dumps(message).encode() + b"\n")

    async def messages(self) -> AsyncIterator[dict[str, Any]]:
        """Yields messages until the process ends, and an error if it failed without one."""
        has_error = False
        while (line := await self._lines.get()) is not None:
            message = json.loads(line)
            has_error = has_error or "error" in message
            yield message
        code = self._transport.get_returncode()
        if code and not has_error:
            reason = self._stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or ["no output"]
            yield {"error": {"message": f"The match ended with exit code {code}: {reason[0][:300]}", "hint": ""}}

    async def stop(self) -> None:
        """Closes its standard input, so that it removes its frame buffer, and kills it after END_SECONDS."""
        pipe = self._transport.get_pipe_transport(0)
        assert pipe is not None
        pipe.close()
        try:
            await asyncio.wait_for(self._has_ended.wait(), END_SECONDS)
        except TimeoutError:
            self._transport.kill()
            await self._has_ended.wait()
        finally:
            self._transport.close()


@contextlib.asynccontextmanager
async def running_match(plan: MatchPlan, runs_root: Path, buffer_name: str) -> AsyncIterator[MatchProcess]:
    """Runs a match for the duration of the block; its frames are in the named frame buffer."""
    _, match = await asyncio.get_running_loop().subprocess_exec(
        MatchProcess,
        *(sys.executable, *PROGRAM),
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        start_new_session=True,  # Ctrl-C must reach the daemon only
    )
    try:
        match.send({"frame_buffer": buffer_name, "runs": str(runs_root), "plan": plan.model_dump(mode="json")})
        yield match
    finally:
        with anyio.CancelScope(shield=True):  # a disconnecting viewer must leave no process
            await match.stop()


ROUTES = (
    Socket(
        "/api/match",
        play_match,
        "runs a match and shows it while the socket is open",
        (LiveState, LiveHud, MatchMessage),
        (MatchPlan,),
    ),
)
