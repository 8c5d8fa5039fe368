"""A match over a WebSocket: the shadow of a training, a person at the keyboard, or several policies side by side.

The first message says who plays (`palaestra.runner.match_plan.MatchPlan`). From then on it is a live view like that of
a run (see `live_socket`), with a few words more: the viewer may send `action`, `pace`, `paused` and `again`, and gets
what the match says of itself (`ready`, `round`, `ended`, `newer`, `error`). It lasts as long as the socket.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import Field
from starlette.websockets import WebSocketDisconnect

from palaestra.core.errors import PalaestraError
from palaestra.rendering.errors import InvalidRequest
from palaestra.rendering.hub import TooManyViewers
from palaestra.rendering.viewer import Viewer
from palaestra.runner.match_plan import FASTEST, PERSON, RANDOM, ROLE, MatchMessage, MatchPlan
from palaestra.web.errors import Refusal
from palaestra.web.frames_room import Seat, frames_room
from palaestra.web.live_socket import (
    NOT_UNDERSTOOD,
    TRY_LATER,
    LiveHud,
    LiveState,
    Said,
    close_with,
    hear,
    receive_text,
    show,
    together,
    understood_as,
)
from palaestra.web.match_process import MatchProcess, played
from palaestra.web.route import Socket

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.websockets import WebSocket

    from palaestra.rendering.watch import Status
    from palaestra.web.house import House

ROOM = "matches"
AT_ONCE = 4  # each is a process with torch in it
GREETING_SECONDS = 20.0
MOST_WORDS = 200  # of the match that wait for a slow viewer; the oldest go
TARGET = re.compile(r"(?P<run>[^:/\\]{1,200}):(?P<selector>best|latest|[0-9]{1,9})")


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


ROUTES = (
    Socket(
        "/api/match",
        play_match,
        "a match, played and shown while the socket is open",
        (LiveState, LiveHud, MatchMessage),
        (MatchPlan,),
    ),
)
