"""All frame buffers that somebody watches, behind one notifier. For a server's loop:

loop.add_reader(hub.fileno(), hub.on_notification)      # calls `on_ready` of viewers who can take something
every RENEW_SECONDS: hub.renew(time.monotonic())
watch = hub.join(run_id, role, viewer)          # then watch.take(viewer, now) until it gives None
"""

from __future__ import annotations

from itertools import count
from time import monotonic
from typing import TYPE_CHECKING

from .buffer_paths import frame_buffer_path
from .errors import InvalidRequest
from .notifier import NotificationReceiver
from .watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .viewer import Viewer

RENEW_SECONDS = 0.5
MOST_VIEWERS = 64


class TooManyViewers(InvalidRequest):
    """One more cannot be served; somebody has to leave first."""


class Hub:
    def __init__(self, is_alive: Callable[[int, float], bool], most_viewers: int = MOST_VIEWERS) -> None:
        """`is_alive`: of a process with that pid and start time, see `palaestra.runs.processes`"""
        self._is_alive = is_alive
        self._most_viewers = most_viewers
        self._notifier = NotificationReceiver()
        self._tickets = count(1)
        self._watches: dict[Path, Watch] = {}

    def fileno(self) -> int:
        """To be waited for; when it is readable, `on_notification` is to be called."""
        return self._notifier.fileno()

    @property
    def viewer_count(self) -> int:
        return sum(len(watch.viewers) for watch in self._watches.values())

    def join(self, run_id: str, role: str, viewer: Viewer) -> Watch:
        """A run whose frame buffer is not there yet can be waited for: its status says so."""
        if self.viewer_count >= self._most_viewers:
            raise TooManyViewers(f"{self._most_viewers} are watching already.", "Close another live view first.")
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
