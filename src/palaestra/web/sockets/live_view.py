"""The live view over a WebSocket, for a run or a match: viewers subscribe to frame buffers and get frames.

The viewer sends `ViewerMessage`: its settings and acknowledgements of frames. It gets frames (binary, see
docs/live.md), `{"state", "reason", "role"}` when the state changes, and `{"hud": {…}}` twice a second. Nothing is
queued: a frame that cannot be sent now is replaced by a newer one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, TypeVar

from pydantic import BaseModel, Field, ValidationError
from starlette.websockets import WebSocketDisconnect

from palaestra.core.errors import PalaestraError, UsageError
from palaestra.evaluation.summary import read_newest_batch
from palaestra.rendering.frame_buffer import EVALUATE, TRAIN, InvalidRequest, roles_of
from palaestra.rendering.hub import RENEW_SECONDS, Condition, Hub, TooManyViewers
from palaestra.rendering.hud import evaluation_line, run_line
from palaestra.rendering.viewer import Viewer, ViewerRequest
from palaestra.runs.documents import read_config
from palaestra.runs.processes import is_alive, wall_time
from palaestra.web.request_parsing import Body, parse_json
from palaestra.web.resources.run_data import EVALUATION
from palaestra.web.responses import HttpError, encode_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable

    from starlette.websockets import WebSocket

    from palaestra.daemon.run_entry import RunEntry
    from palaestra.daemon.service import Daemon
    from palaestra.rendering.hub import Status, Watch
    from palaestra.rendering.viewer import Viewer
    from palaestra.web.context import AppContext

MessageT = TypeVar("MessageT", bound=BaseModel)
Message = dict[str, Any]

POLICY_VIOLATION, TRY_AGAIN_LATER = 1008, 1013
HUD_SECONDS = 0.5
MAX_ACKNOWLEDGED = 64
CANCEL_SECONDS = 0.5  # a cancellation can be lost to an event at the same instant; then it is repeated
MAX_REASON_BYTES = 120  # a close frame holds 123
logger = logging.getLogger(__name__)
SERVICE = "frames"


class LiveState(TypedDict):
    state: Condition
    reason: str
    role: str


class LiveHud(TypedDict):
    hud: Hud


class ViewerMessage(Body):
    """Settings of a viewer; a missing field keeps its value."""

    fps: float | None = Field(None, gt=0, le=60)
    side: int | None = Field(None, ge=16, le=4096)
    slots: list[int] | None = Field(None, max_length=1024)
    quality: int | None = Field(None, ge=1, le=100)
    ack: int = Field(0, ge=0, le=MAX_ACKNOWLEDGED)

    def request(self, before: ViewerRequest) -> ViewerRequest:
        given = self.model_fields_set
        slots = None if self.slots is None else frozenset(self.slots)
        try:
            return ViewerRequest(
                self.fps or before.frames_per_second,
                slots if "slots" in given else before.slots,
                self.side or before.largest_side,
                self.quality or before.quality,
            )
        except InvalidRequest as error:
            raise HttpError(422, error.message, error.hint) from error


ViewerMessageT = TypeVar("ViewerMessageT", bound=ViewerMessage)


async def receive_messages(
    websocket: WebSocket,
    viewer: Viewer,
    ready: asyncio.Event,
    kind: type[ViewerMessageT],
    on_message: Callable[[ViewerMessageT], None],
) -> None:
    """Applies messages until the viewer disconnects or sends an invalid one."""
    while True:
        message = parse_message(kind, await receive_text(websocket))
        viewer.request = message.request(viewer.request)
        viewer.acknowledge(message.ack)
        on_message(message)
        ready.set()


async def receive_text(websocket: WebSocket) -> str:
    """Returns the next text message. A binary one raises `HttpError`; Starlette's own method raises KeyError."""
    message = await websocket.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", 1005))
    text: str | None = message.get("text")
    if text is None:
        raise binary_message_error()
    return text


def binary_message_error() -> HttpError:
    return HttpError(400, "Binary messages are not supported.", "Send JSON as text.")


async def send_frames(
    websocket: WebSocket,
    service: FrameService,
    subscription: FrameSubscription,
    ready: asyncio.Event,
    *,
    reason: Callable[[Status], str],
    messages: Callable[[], Iterable[Message]] = tuple,
) -> None:
    """Sends state, HUD and frames as fast as the viewer acknowledges them, and the pending `messages`."""
    state, hud_at = "", 0.0
    while True:
        service.switch_buffer(subscription)
        now, status = monotonic(), subscription.watch.status
        if status.condition != state:
            state = status.condition
            live_state: LiveState = {"state": status.condition, "reason": reason(status), "role": subscription.role}
            await _send(websocket, live_state)
        for message in messages():
            await _send(websocket, message)
        if now >= hud_at:
            hud_at = now + HUD_SECONDS
            figures: LiveHud = {"hud": await service.hud(subscription)}
            await _send(websocket, figures)
        while (frame := subscription.watch.take(subscription.viewer, monotonic())) is not None:
            await websocket.send_bytes(frame)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, hud_at - monotonic())):
                await ready.wait()
        ready.clear()


async def run_until_first(*jobs: Coroutine[Any, Any, None]) -> None:
    """Runs jobs until the first one ends or fails, and cancels the others."""
    tasks = [asyncio.create_task(job) for job in jobs]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            await task
    finally:
        while unfinished := [task for task in tasks if not task.done()]:
            for task in unfinished:
                task.cancel()
            await asyncio.wait(unfinished, timeout=CANCEL_SECONDS)
        for task in tasks:
            if not task.cancelled():
                task.exception()  # retrieved: the first one is raised, the others follow from it


def parse_message(kind: type[MessageT], text: str) -> MessageT:
    """Parses and validates a message. Raises `HttpError` with the first error."""
    try:
        return kind.model_validate(parse_json(text.encode("utf-8", "replace")))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the message"
        raise HttpError(422, f"Invalid value for {where}: {first['msg'].lower()}.") from error


async def close_with(websocket: WebSocket, code: int, error: PalaestraError | InvalidRequest) -> None:
    reason = f"{error.message} {error.hint}".strip().encode()[:MAX_REASON_BYTES].decode("utf-8", "ignore")
    with contextlib.suppress(WebSocketDisconnect, OSError, RuntimeError):
        await websocket.close(code, reason)


async def _send(websocket: WebSocket, data: Message | LiveState | LiveHud) -> None:
    await websocket.send_text(encode_json(data).decode())


class Hud(TypedDict):
    line: str
    role: str
    roles: list[str]  # frame buffers that the run has now
    slots: int
    step: int | None
    steps_per_second: float | None
    cost: float | None  # share of the run's time
    sent: int
    skipped: int
    dropped: int
    evaluation: NotRequired[str]


@dataclass
class FrameSubscription:
    """One viewer of one frame buffer. Without a fixed role it follows whichever buffer the run has."""

    run_id: str
    name: str
    role: str
    is_fixed: bool  # the viewer chose the role
    viewer: Viewer
    watch: Watch
    evaluation_id: str = ""  # the evaluation run whose batches the HUD shows; empty: the run itself


class FrameService:
    """All viewers of live frames, and which frame buffer each of them watches."""

    def __init__(self, daemon: Daemon, hub: Hub) -> None:
        self._daemon = daemon
        self.hub = hub
        self._logged_states: dict[tuple[str, str], str] = {}  # run and role -> the state that was last logged
        self._subscriptions: list[FrameSubscription] = []

    def resolve_run(self, entry: RunEntry, role: str | None) -> tuple[str, str, str | None]:
        """Returns id, name and role of the frame buffer: that of an evaluation belongs to the evaluated run."""
        if entry.record.kind == EVALUATION and not entry.state.is_over:  # later another evaluation may use the buffer
            with contextlib.suppress(PalaestraError):
                target = str(read_config(self._daemon.directory(entry.id)).get("target", ""))
                evaluated = self._daemon.get(target.partition(":")[0])
                return evaluated.id, evaluated.record.name, role or EVALUATE
        return entry.id, entry.record.name, role

    def subscribe(
        self, run_id: str, name: str, role: str | None, viewer: Viewer, *, evaluation_id: str = ""
    ) -> FrameSubscription:
        """Adds a viewer. Raises TooManyViewers, or UsageError for an unknown role."""
        if role is not None and not (role.startswith(TRAIN) or role == EVALUATE):
            raise UsageError(
                f"No frame buffer has the role {role[:40]!r}.", f"Known: {TRAIN}, {TRAIN}1, …, {EVALUATE}."
            )
        chosen = role or next(iter(roles_of(run_id)), TRAIN)
        try:
            watch = self.hub.join(run_id, chosen, viewer)
        except TooManyViewers:
            raise
        except InvalidRequest as error:
            raise UsageError(error.message, error.hint) from error
        subscription = FrameSubscription(run_id, name, chosen, role is not None, viewer, watch, evaluation_id)
        self._subscriptions.append(subscription)
        return subscription

    def unsubscribe(self, subscription: FrameSubscription) -> None:
        self.hub.leave(subscription.watch, subscription.viewer)
        self._subscriptions.remove(subscription)
        if not any(
            (other.run_id, other.role) == (subscription.run_id, subscription.role) for other in self._subscriptions
        ):
            self._logged_states.pop((subscription.run_id, subscription.role), None)

    def switch_buffer(self, subscription: FrameSubscription) -> None:
        """Moves the viewer to another frame buffer of the run when its own is gone."""
        self._log(subscription, subscription.watch.status)
        if subscription.is_fixed or subscription.watch.status.condition not in {"unavailable", "closed"}:
            return
        role = next((role for role in roles_of(subscription.run_id) if role != subscription.role), None)
        if role is not None:
            self.hub.leave(subscription.watch, subscription.viewer)
            subscription.viewer.reset()
            subscription.role, subscription.watch = role, self.hub.join(subscription.run_id, role, subscription.viewer)

    async def hud(self, subscription: FrameSubscription) -> Hud:
        """Returns the line under the frames and the values in it."""
        status, is_evaluation = subscription.watch.status, subscription.role == EVALUATE
        heartbeat = status.heartbeat
        values: Hud = {
            "line": run_line(subscription.name, status, is_evaluation=is_evaluation),
            "role": subscription.role,
            "roles": roles_of(subscription.run_id),
            "slots": status.slot_count,
            "step": None if heartbeat is None else heartbeat.env_steps,
            "steps_per_second": status.steps_per_second,
            "cost": None if heartbeat is None or heartbeat.seconds_watched <= 0 else heartbeat.cost,
            "sent": subscription.viewer.sent,
            "skipped": subscription.viewer.skipped,
            "dropped": status.dropped,
        }
        if is_evaluation:
            values["evaluation"] = await asyncio.to_thread(self._evaluation_line, subscription)
        return values

    def _evaluation_line(self, subscription: FrameSubscription) -> str:
        """Describes the evaluation on view, not one that ended before it started."""
        started_at = subscription.watch.status.owner_started_at
        try:
            newest = read_newest_batch(self._daemon.directory(subscription.evaluation_id or subscription.run_id))
            if not subscription.evaluation_id and started_at is not None:
                newest = [batch for batch in newest if batch.get("at", inf) >= wall_time(started_at)]
            return evaluation_line(newest)
        except PalaestraError as error:
            return f"eval | {error.message}"

    def _log(self, subscription: FrameSubscription, status: Status) -> None:
        """Logs a change of state once, for any number of viewers."""
        buffer = (subscription.run_id, subscription.role)
        if self._logged_states.get(buffer) != status.condition:
            self._logged_states[buffer] = status.condition
            logger.info("frames.%s run=%s role=%s %s", status.condition, *buffer, status.reason)


@contextlib.asynccontextmanager
async def frames_lifespan(context: AppContext) -> AsyncIterator[None]:
    hub = Hub(is_alive)
    context.services[SERVICE] = FrameService(context.daemon, hub)
    loop = asyncio.get_running_loop()
    loop.add_reader(hub.fileno(), hub.on_notification)
    renewing = asyncio.create_task(_renew(hub))
    try:
        yield
    finally:
        renewing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await renewing
        loop.remove_reader(hub.fileno())
        hub.close()


async def _renew(hub: Hub) -> None:
    while True:
        hub.renew(monotonic())
        await asyncio.sleep(RENEW_SECONDS)


def frame_service(context: AppContext) -> FrameService:
    service = context.services[SERVICE]
    assert isinstance(service, FrameService)
    return service
