"""Where calls are worked on that keep a core busy: few at a time, and behind whoever trains or draws the page."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING

from starlette.responses import Response

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

NICENESS = 5  # steps behind the daemon: next to a training that wants the same core, a quarter of it
LOWEST_PRIORITY = 19
CLIENT_LEFT = 499  # nobody sees it


class Workbench:
    """Has places for half of the cores: the others are for those who look at the answers. More threads would only wait
    for each other, and the browser beside them with them."""

    def __init__(self) -> None:
        self.places = max(1, (os.cpu_count() or 1) // 2)
        self._queue = asyncio.Semaphore(self.places)

    async def work(self, request: Request, what: Callable[[], Response]) -> Response:
        """Done when there is a place, unless whoever asked has left by then: a person who zooms on does not want the
        curves of the step before."""
        async with self._queue:
            if await request.is_disconnected():
                return Response(status_code=CLIENT_LEFT)
            piece = Piece(what)
            threading.Thread(target=piece.do, name="palaestra-workbench", daemon=True).start()
            return await asyncio.wrap_future(piece.answer)


class Piece:
    """What one thread does. The threads of an executor would be waited for when the daemon leaves, however long they
    still have to do; what these read and keep can be left at any point."""

    def __init__(self, what: Callable[[], Response]) -> None:
        self.answer: Future[Response] = Future()
        self.answer.set_running_or_notify_cancel()  # from now on nobody can take it back, and it is told once
        self._what = what

    def do(self) -> None:
        step_back()
        with self:
            self.answer.set_result(self._what())

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        """An error is for whoever waits for the answer."""
        if error is not None:
            self.answer.set_exception(error)
        return True


def step_back() -> None:
    """This thread alone; where threads have no priority of their own (outside of Linux), nothing. Further back than a
    daemon that was started with little priority itself: nobody may step forward."""
    if os.uname().sysname == "Linux":
        thread = threading.get_native_id()
        here = os.getpriority(os.PRIO_PROCESS, thread)
        os.setpriority(os.PRIO_PROCESS, thread, min(here + NICENESS, LOWEST_PRIORITY))
