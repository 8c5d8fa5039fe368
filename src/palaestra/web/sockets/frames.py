"""The live view of one run over a WebSocket (see `live_socket`): pictures as fast as this viewer takes them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.websockets import WebSocketDisconnect

from palaestra.core.errors import NotFound, PalaestraError
from palaestra.rendering.frame_buffer import InvalidRequest
from palaestra.rendering.hub import TooManyViewers
from palaestra.rendering.viewer import Viewer
from palaestra.web.endpoints import Socket
from palaestra.web.resources.run_data import EVALUATION
from palaestra.web.sockets.live_view import (
    NOT_UNDERSTOOD,
    TRY_LATER,
    LiveHud,
    LiveState,
    Said,
    close_with,
    frames_room,
    hear,
    show,
    together,
)

if TYPE_CHECKING:
    from starlette.websockets import WebSocket

    from palaestra.web.context import House

NO_SUCH_RUN = 4404


async def watch_frames(house: House, websocket: WebSocket) -> None:
    await websocket.accept()
    try:
        await _serve(house, websocket)
    except TooManyViewers as error:
        await close_with(websocket, TRY_LATER, error)
    except NotFound as error:
        await close_with(websocket, NO_SUCH_RUN, error)
    except (InvalidRequest, PalaestraError) as error:
        await close_with(websocket, NOT_UNDERSTOOD, error)
    except (WebSocketDisconnect, OSError):
        return


async def _serve(house: House, websocket: WebSocket) -> None:
    room, ready = frames_room(house), asyncio.Event()
    viewer = Viewer(on_ready=ready.set)
    entry = house.daemon.get(websocket.path_params["id"])
    shown = await asyncio.to_thread(room.shown, entry, websocket.query_params.get("role"))
    seat = room.sit(*shown, viewer, evaluation_id=entry.id if entry.record.kind == EVALUATION else "")
    try:
        await together(
            hear(websocket, viewer, ready, Said, lambda _said: None),
            show(websocket, room, seat, ready, why=lambda status: status.reason),
        )
    finally:
        room.leave(seat)


ROUTES = (Socket("/api/runs/{id}/frames", watch_frames, "live frames", (LiveState, LiveHud)),)
