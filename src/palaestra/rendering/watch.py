"""One frame buffer and all who watch it, without a thread and without waiting; `palaestra.rendering.hub` drives it.

A frame is read when the first viewer takes it, encoded once for all who want it in the same size, and forgotten when
the next one comes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from .demand import LEASE_SECONDS, Demand, merge
from .encode import encode
from .errors import FrameBufferNotFound, InvalidFrameBuffer
from .frame_reader import Frame, FrameReader

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .heartbeat import Heartbeat
    from .viewer import Viewer

STALE_SECONDS = 10.0  # without a step; a long update is shorter

Condition = Literal["unavailable", "connected", "stale", "failed", "closed"]


@dataclass(frozen=True)
class Status:
    """In what state a frame buffer is, and for a line under its pictures."""

    condition: Condition
    reason: str = ""
    slot_count: int = 0
    beat: Heartbeat | None = None
    steps_per_second: float | None = None
    dropped: int = 0  # frames that could not be believed
    owner_started_at: float | None = None  # the process that has the lane, as `process_started_at` counts


@dataclass
class _Shot:
    frame: Frame
    messages: dict[tuple[int, int], bytes] = field(default_factory=dict)  # by largest side and quality


class Watch:
    def __init__(self, path: Path, notifier: int, ticket: int, is_alive: Callable[[int, float], bool]) -> None:
        self.path = path
        self.ticket = ticket
        self.viewers: set[Viewer] = set()
        self.status = Status("unavailable", "The run has no frame buffer yet.")
        self.encoded = 0  # messages made; fewer than were sent when viewers share them
        self._notifier = notifier
        self._is_alive = is_alive
        self._reader: FrameReader | None = None
        self._shots: dict[int, _Shot] = {}
        self._rate: tuple[float, int] | None = None  # time and steps of an earlier beat
        self._dropped = 0  # by readers that are closed

    def join(self, viewer: Viewer, now: float) -> None:
        self.viewers.add(viewer)
        self.renew(now)

    def leave(self, viewer: Viewer) -> None:
        self.viewers.discard(viewer)

    def renew(self, now: float) -> Status:
        """Twice a second at least: prolongs what is wanted, and says in what state the frame buffer is."""
        self._follow()
        if self._reader is not None:
            self.status = self._examine(self._reader, now)
            if self.viewers and self.status.condition in {"connected", "stale"}:
                self._want(self._reader, now)
            for slot in self._wanted(self._reader):  # a ring may have been lost
                self.mark_new(slot)
        return self.status

    def mark_new(self, slot: int) -> None:
        """There is something new in this slot; a slot that there is not is nobody's."""
        if self._reader is None or slot >= self._reader.slot_count:
            return
        for viewer in self.viewers:
            viewer.offer(slot)

    def take(self, viewer: Viewer, now: float) -> bytes | None:
        """The newest frame that this viewer has not seen, as a message; None when there is none or no credit."""
        while self._reader is not None and (slot := viewer.next_slot(now)) is not None:
            shot = self._newest(self._reader, slot)
            if shot is None or viewer.has_seen(slot, shot.frame.sequence):
                viewer.pass_over(slot)
                continue
            viewer.took(slot, shot.frame.sequence, now)
            return self._message(shot, *viewer.request.size)
        return None

    def close(self) -> None:
        if self._reader is not None:
            self._dropped += self._reader.dropped.total()
            self._reader.close()
        self._reader = None
        self._shots.clear()

    def _newest(self, reader: FrameReader, slot: int) -> _Shot | None:
        known = self._shots.get(slot)
        frame = reader.read(slot, known.frame.sequence if known else 0)
        if frame is None:
            return known
        self._shots[slot] = shot = _Shot(frame)
        return shot

    def _message(self, shot: _Shot, largest_side: int, quality: int) -> bytes:
        size = (largest_side, quality) if shot.frame.is_image else (0, 0)
        if size not in shot.messages:
            shot.messages[size] = encode(shot.frame, largest_side, quality)
            self.encoded += 1
        return shot.messages[size]

    def _follow(self) -> None:
        """Open the frame buffer, or the one that took its place when the run went on."""
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
            viewer.forget()

    def _examine(self, reader: FrameReader, now: float) -> Status:
        beat = reader.heartbeat() or self.status.beat
        condition, reason = self._condition(reader, beat, now)
        dropped = self._dropped + reader.dropped.total()
        rate = self._steps_per_second(beat) if condition == "connected" else None
        return Status(condition, reason, reader.slot_count, beat, rate, dropped, reader.about.owner_started_at)

    def _condition(self, reader: FrameReader, beat: Heartbeat | None, now: float) -> tuple[Condition, str]:
        if beat is not None and beat.condition == "failed":
            return "failed", beat.reason
        if beat is not None and beat.condition == "closed":
            return "closed", "The run has ended."
        if reader.is_removed or not self._is_alive(reader.about.owner_pid, reader.about.owner_started_at):
            return "closed", "The run's process ended without a word."
        if beat is not None and now - beat.at > STALE_SECONDS:
            return "stale", f"No step for {now - beat.at:.0f} s."
        return "connected", ""

    def _steps_per_second(self, beat: Heartbeat | None) -> float | None:
        """Over the last seconds"""
        before = self._rate
        if beat is None:
            return None
        if before is not None and beat.env_steps < before[1]:  # the run went back to a checkpoint
            before = None
        if before is None or beat.at - before[0] > STALE_SECONDS:
            self._rate = (beat.at, beat.env_steps)
        if before is None or beat.at <= before[0]:
            return self.status.steps_per_second
        return (beat.env_steps - before[1]) / (beat.at - before[0])

    def _want(self, reader: FrameReader, now: float) -> None:
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
            reader.want(merged, now + LEASE_SECONDS)

    def _wanted(self, reader: FrameReader) -> list[int]:
        wanted = [slot for slot in range(reader.slot_count) if any(viewer.wants(slot) for viewer in self.viewers)]
        self._shots = {slot: shot for slot, shot in self._shots.items() if slot in wanted}
        return wanted
