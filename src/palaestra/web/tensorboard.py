"""TensorBoard on demand, for the chosen runs and for signed-in users only."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from secrets import compare_digest
from typing import TYPE_CHECKING, TypedDict

from pydantic import ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from palaestra.core.errors import NotFound
from palaestra.daemon.home import DaemonHome
from palaestra.web.reading import Body, Query, limited_stream
from palaestra.web.route import MEBIBYTE, Call, Endpoint
from palaestra.web.tensorboard_process import TensorBoardProcess, clear, start_tensorboard
from palaestra.web.tensorboard_proxy import ask

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from starlette.responses import Response

    from palaestra.runs.directory import RunDirectory
    from palaestra.web.house import House

logger = logging.getLogger(__name__)

ROOM = "tensorboard"
IDLE_SECONDS = 300.0
LOOK_SECONDS = 5.0
MOST_RUNS = 100
FORMS = ("application/json", "application/x-www-form-urlencoded", "multipart/form-data")


class Chosen(Body):
    runs: list[str] = Field(min_length=1, max_length=MOST_RUNS, description="runs to look at")


class AnyQuery(Query):
    """What TensorBoard's own page asks for is its own business."""

    model_config = ConfigDict(frozen=True, extra="allow")


class Desk:
    """At most one TensorBoard at a time: asking for other runs ends the one before."""

    def __init__(self, place: Path, idle_seconds: float = IDLE_SECONDS) -> None:
        self._place = place
        self._idle_seconds = idle_seconds
        self._lock = asyncio.Lock()
        self.board: TensorBoardProcess | None = None

    async def open(self, runs: list[tuple[str, RunDirectory]]) -> TensorBoardProcess:
        async with self._lock:
            wanted = frozenset(directory.id for _, directory in runs)
            if self.board is not None and self.board.is_alive and self.board.runs == wanted:
                return self.board
            await self._end("other runs were chosen")
            self.board = await asyncio.to_thread(start_tensorboard, self._place, runs)
            logger.info("TensorBoard shows %d runs (process %d)", len(runs), self.board.process.pid)
            return self.board

    def find(self, key: str) -> TensorBoardProcess:
        board = self.board
        if board is None or not compare_digest(board.key.encode(), key.encode("utf-8", "replace")):
            raise NotFound("This TensorBoard has ended.", "Open it again from the run's page.")
        return board

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.end_if_idle()

    async def end_if_idle(self) -> None:
        async with self._lock:
            if self.board is not None and (not self.board.is_alive or self.board.idle_seconds > self._idle_seconds):
                await self._end("nobody looks at it any more")

    async def close(self) -> None:
        async with self._lock:
            await self._end("the daemon ends")

    async def _end(self, why: str) -> None:
        board, self.board = self.board, None
        if board is not None:
            logger.info("TensorBoard ends: %s", why)
            await asyncio.to_thread(board.stop)


@contextlib.asynccontextmanager
async def keep_tensorboard(house: House) -> AsyncIterator[None]:
    place = DaemonHome(house.daemon.root).path / "tensorboard"
    await asyncio.to_thread(clear, place)
    desk = house.rooms[ROOM] = Desk(place)
    watching = asyncio.create_task(desk.watch())
    try:
        yield
    finally:
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
        await desk.close()


class TensorBoardPage(TypedDict):
    path: str


async def open_tensorboard(call: Call) -> TensorBoardPage:
    """Comes back when it answers; the first time that takes some seconds."""
    daemon = call.house.daemon
    entries = {entry.id: entry for entry in (daemon.get(run) for run in call.body.runs)}
    board = await _desk(call).open([(entry.record.name, daemon.directory(entry.id)) for entry in entries.values()])
    return {"path": f"{board.prefix}/"}


def look(call: Call) -> Response:
    return ask(_desk(call).find(call.path["key"]), call.request, b"")


async def send(call: Call) -> Response:
    board = _desk(call).find(call.path["key"])
    pieces = [piece async for piece in limited_stream(call.request, MEBIBYTE)]
    return await run_in_threadpool(ask, board, call.request, b"".join(pieces))


def _desk(call: Call) -> Desk:
    desk = call.house.rooms[ROOM]
    assert isinstance(desk, Desk)
    return desk


_UNDER = "/tensorboard/{key}/{rest:path}"
ROUTES = (
    Endpoint(
        "POST",
        "/api/tensorboard",
        open_tensorboard,
        "a TensorBoard for some runs",
        body=Chosen,
        response=TensorBoardPage,
        errors=(409,),
    ),
    Endpoint("GET", _UNDER, look, "what TensorBoard answers", AnyQuery, media="*/*", errors=(502,)),
    Endpoint(
        "POST",
        _UNDER,
        send,
        "what TensorBoard answers",
        AnyQuery,
        media="*/*",
        errors=(502,),
        takes=FORMS,
        is_stream=True,
    ),
)
