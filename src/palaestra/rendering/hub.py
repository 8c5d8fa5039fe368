"""Serves the viewers of all frame buffers through one notifier. For a server's event loop:

loop.add_reader(hub.fileno(), hub.on_notification)      # calls `on_ready` of viewers that can take a frame
every RENEW_SECONDS: hub.renew(time.monotonic())
watch = hub.join(run_id, role, viewer)          # then watch.take(viewer, now) until it returns None
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING, Literal

from .frame_buffer import FrameBufferNotFound, InvalidFrameBuffer, InvalidRequest, frame_buffer_path
from .frame_format import LEASE_SECONDS, Demand, merge
from .frame_reader import Frame, FrameReader
from .images import encode
from .notifier import NotificationReceiver

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .frame_format import Heartbeat
    from .viewer import Viewer

RENEW_SECONDS = 0.5
MAX_VIEWERS = 64


class TooManyViewers(InvalidRequest):
    """The hub serves no further viewer until one has left."""


class Hub:
    def __init__(self, is_alive: Callable[[int, float], bool], max_viewers: int = MAX_VIEWERS) -> None:
        """`is_alive`: whether a process with this pid and start time runs, see `palaestra.runs.processes`."""
        self._is_alive = is_alive
        self._max_viewers = max_viewers
        self._notifier = NotificationReceiver()
        self._tickets = count(1)
        self._watches: dict[Path, Watch] = {}

    def fileno(self) -> int:
        """Readable when `on_notification` has something to do."""
        return self._notifier.fileno()

    @property
    def viewer_count(self) -> int:
        return sum(len(watch.viewers) for watch in self._watches.values())

    def join(self, run_id: str, role: str, viewer: Viewer) -> Watch:
        """Adds a viewer. The frame buffer need not exist yet: the status says so until it does."""
        if self.viewer_count >= self._max_viewers:
            raise TooManyViewers(f"{self._max_viewers} viewers are connected.", "Close another live view first.")
        path = frame_buffer_path(run_id, role)
        if path not in self._watches:
            self._watches[path] = Watch(path, self._notifier.number, next(self._tickets), self._is_alive)
        watch = self._watches[path]
        watch.join(viewer, monotonic())
        return watch

    def leave(self, watch: Watch, viewer: Viewer) -> None:
        watch.leave(viewer)
        if not watch.viewers:
            watch.close()
            self._watches.pop(watch.path, None)

    def on_notification(self) -> None:
        by_ticket = {watch.ticket: watch for watch in self._watches.values()}
        for ticket, slot in self._notifier.receive():
            if ticket in by_ticket:
                by_ticket[ticket].mark_new(slot)

    def renew(self, now: float) -> None:
        for watch in self._watches.values():
            watch.renew(now)

    def close(self) -> None:
        for watch in self._watches.values():
            watch.close()
        self._watches.clear()
        self._notifier.close()


STALE_SECONDS = 10.0  # without a step; a long update is shorter

Condition = Literal["unavailable", "connected", "stale", "failed", "closed"]


@dataclass(frozen=True)
class Status:
    """The condition of a frame buffer, and the figures shown under its frames."""

    condition: Condition
    reason: str = ""
    slot_count: int = 0
    heartbeat: Heartbeat | None = None
    steps_per_second: float | None = None
    dropped: int = 0  # invalid frames
    owner_started_at: float | None = None  # of the owning process, as `process_started_at` counts


@dataclass
class _NewestFrame:
    frame: Frame
    messages: dict[tuple[int, int], bytes] = field(default_factory=dict)  # by largest side and quality


class Watch:
    """One frame buffer and its viewers. A frame is encoded once for all viewers of the same size."""

    def __init__(self, path: Path, notifier: int, ticket: int, is_alive: Callable[[int, float], bool]) -> None:
        self.path = path
        self.ticket = ticket
        self.viewers: set[Viewer] = set()
        self.status = Status("unavailable", "The run has no frame buffer yet.")
        self.encoded = 0  # messages encoded; fewer than were sent if viewers share them
        self._notifier = notifier
        self._is_alive = is_alive
        self._reader: FrameReader | None = None
        self._newest_frames: dict[int, _NewestFrame] = {}
        self._rate: tuple[float, int] | None = None  # time and steps of an earlier heartbeat
        self._dropped = 0  # by closed readers

    def join(self, viewer: Viewer, now: float) -> None:
        self.viewers.add(viewer)
        self.renew(now)

    def leave(self, viewer: Viewer) -> None:
        self.viewers.discard(viewer)

    def renew(self, now: float) -> Status:
        """Renews the demand and updates the status; to be called at least twice a second."""
        self._open_newest()
        if self._reader is not None:
            self.status = self._current_status(self._reader, now)
            if self.viewers and self.status.condition in {"connected", "stale"}:
                self._request(self._reader, now)
            for slot in self._wanted_slots(self._reader):  # a notification may have been lost
                self.mark_new(slot)
        return self.status

    def mark_new(self, slot: int) -> None:
        """Offers a slot with a new frame to its viewers; a slot number that does not exist is ignored."""
        if self._reader is None or slot >= self._reader.slot_count:
            return
        for viewer in self.viewers:
            viewer.offer(slot)

    def take(self, viewer: Viewer, now: float) -> bytes | None:
        """The newest frame that this viewer does not have yet, as a message; None without one or without credit."""
        while self._reader is not None and (slot := viewer.next_slot(now)) is not None:
            newest = self._newest(self._reader, slot)
            if newest is None or viewer.has_received(slot, newest.frame.sequence):
                viewer.skip(slot)
                continue
            viewer.record_sent(slot, newest.frame.sequence, now)
            return self._message(newest, *viewer.request.size)
        return None

    def close(self) -> None:
        if self._reader is not None:
            self._dropped += self._reader.dropped.total()
            self._reader.close()
        self._reader = None
        self._newest_frames.clear()

    def _newest(self, reader: FrameReader, slot: int) -> _NewestFrame | None:
        known = self._newest_frames.get(slot)
        frame = reader.read(slot, known.frame.sequence if known else 0)
        if frame is None:
            return known
        self._newest_frames[slot] = newest = _NewestFrame(frame)
        return newest

    def _message(self, newest: _NewestFrame, largest_side: int, quality: int) -> bytes:
        size = (largest_side, quality) if newest.frame.is_image else (0, 0)
        if size not in newest.messages:
            newest.messages[size] = encode(newest.frame, largest_side, quality)
            self.encoded += 1
        return newest.messages[size]

    def _open_newest(self) -> None:
        """Opens the frame buffer, or the new one after the run was resumed."""
        if self._reader is not None and not self._reader.is_removed:
            return
        try:
            opened = FrameReader(self.path)
        except FrameBufferNotFound:
            return
        except InvalidFrameBuffer as error:
            if self._reader is None:
                self.status = Status("unavailable", error.message)
            return
        self.close()
        self._reader, self._rate = opened, None
        for viewer in self.viewers:
            viewer.reset()

    def _current_status(self, reader: FrameReader, now: float) -> Status:
        heartbeat = reader.heartbeat() or self.status.heartbeat
        condition, reason = self._condition(reader, heartbeat, now)
        dropped = self._dropped + reader.dropped.total()
        rate = self._steps_per_second(heartbeat) if condition == "connected" else None
        return Status(condition, reason, reader.slot_count, heartbeat, rate, dropped, reader.about.owner_started_at)

    def _condition(self, reader: FrameReader, heartbeat: Heartbeat | None, now: float) -> tuple[Condition, str]:
        if heartbeat is not None and heartbeat.condition == "failed":
            return "failed", heartbeat.reason
        if heartbeat is not None and heartbeat.condition == "closed":
            return "closed", "The run has ended."
        if reader.is_removed or not self._is_alive(reader.about.owner_pid, reader.about.owner_started_at):
            return "closed", "The run's process ended unexpectedly."
        if heartbeat is not None and now - heartbeat.at > STALE_SECONDS:
            return "stale", f"No step for {now - heartbeat.at:.0f} s."
        return "connected", ""

    def _steps_per_second(self, heartbeat: Heartbeat | None) -> float | None:
        """The mean over the last seconds."""
        before = self._rate
        if heartbeat is None:
            return None
        if before is not None and heartbeat.env_steps < before[1]:  # the run was resumed from a checkpoint
            before = None
        if before is None or heartbeat.at - before[0] > STALE_SECONDS:
            self._rate = (heartbeat.at, heartbeat.env_steps)
        if before is None or heartbeat.at <= before[0]:
            return self.status.steps_per_second
        return (heartbeat.env_steps - before[1]) / (heartbeat.at - before[0])

    def _request(self, reader: FrameReader, now: float) -> None:
        merged = merge(
            Demand(
                viewer.request.frames_per_second,
                viewer.request.size[0],
                frozenset(range(reader.slot_count)) if viewer.request.slots is None else viewer.request.slots,
                self._notifier,
                self.ticket,
            )
            for viewer in self.viewers
        )
        if merged is not None:
            reader.request(merged, now + LEASE_SECONDS)

    def _wanted_slots(self, reader: FrameReader) -> list[int]:
        wanted = [slot for slot in range(reader.slot_count) if any(viewer.wants(slot) for viewer in self.viewers)]
        self._newest_frames = {slot: newest for slot, newest in self._newest_frames.items() if slot in wanted}
        return wanted
