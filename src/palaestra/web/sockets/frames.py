"""The frame socket: live frames of one run, as fast as this viewer takes them (see `live_view`)."""

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
    POLICY_VIOLATION,
    TRY_AGAIN_LATER,
    LiveHud,
    LiveState,
    ViewerMessage,
    close_with,
    frame_service,
    receive_messages,
    run_until_first,
    send_frames,
)

if TYPE_CHECKING:
    from starlette.websockets import WebSocket

    from palaestra.web.context import AppContext

UNKNOWN_RUN = 4404


async def watch_frames(context: AppContext, websocket: WebSocket) -> None:
    await websocket.accept()
    try:
        await _serve(context, websocket)
    except TooManyViewers as error:
        await close_with(websocket, TRY_AGAIN_LATER, error)
    except NotFound as error:
        await close_with(websocket, UNKNOWN_RUN, error)
    except (InvalidRequest, PalaestraError) as error:
        await close_with(websocket, POLICY_VIOLATION, error)
    except (WebSocketDisconnect, OSError):
        return


async def _serve(context: AppContext, websocket: WebSocket) -> None:
    service, ready = frame_service(context), asyncio.Event()
    viewer = Viewer(on_ready=ready.set)
    entry = context.daemon.get(websocket.path_params["id"])
    run = await asyncio.to_thread(service.resolve_run, entry, websocket.query_params.get("role"))
    subscription = service.subscribe(*run, viewer, evaluation_id=entry.id if entry.record.kind == EVALUATION else "")
    try:
        await run_until_first(
            receive_messages(websocket, viewer, ready, ViewerMessage, lambda _message: None),
            send_frames(websocket, service, subscription, ready, reason=lambda status: status.reason),
        )
    finally:
        service.unsubscribe(subscription)


ROUTES = (Socket("/api/runs/{id}/frames", watch_frames, "live frames", (LiveState, LiveHud)),)
