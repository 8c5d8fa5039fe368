"""The event bus: numbered changes of runs, for sockets, the terminal and tests."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from palaestra.daemon.run_entry import RunEntry

RunChange = Literal["accepted", "started", "changed", "ended", "removed"]
MAX_EVENTS = 10_000


@dataclass(frozen=True)
class RunEvent:
    sequence: int  # counted from 1 since the daemon started
    change: RunChange
    run: str
    entry: RunEntry | None  # after the change; None when it was removed


class EventBus:
    """Thread-safe history of events with subscribers.

    Of each run only the newest "changed" event is stored: heartbeats would displace everything else, at 2 KB each.
    """

    def __init__(self, max_events: int = MAX_EVENTS) -> None:
        self._lock = threading.Lock()
        self._max_events = max_events
        self._events: dict[int, RunEvent] = {}  # by sequence number, oldest first
        self._newest_change: dict[str, int] = {}  # run -> sequence number of its newest "changed" event
        self._last_dropped = 0  # the last event dropped for lack of space, not replaced by a newer one
        self._sequence = 0
        self._subscribers: dict[int, Callable[[RunEvent], None]] = {}
        self._subscriber_count = 0

    @property
    def sequence(self) -> int:
        """Sequence number of the last event."""
        return self._sequence

    def publish(self, change: RunChange, run: str, entry: RunEntry | None) -> None:
        with self._lock:
            self._sequence += 1
            event = RunEvent(self._sequence, change, run, entry)
            self._store(event)
            subscribers = list(self._subscribers.values())
        for subscriber in subscribers:
            subscriber(event)

    def _store(self, event: RunEvent) -> None:
        if event.change == "changed":
            self._events.pop(self._newest_change.pop(event.run, 0), None)
            self._newest_change[event.run] = event.sequence
        elif event.entry is None:
            self._newest_change.pop(event.run, None)
        self._events[event.sequence] = event
        while len(self._events) > self._max_events:
            self._last_dropped = next(iter(self._events))
            del self._events[self._last_dropped]

    def since(self, sequence: int) -> list[RunEvent] | None:
        """Returns all events after `sequence`; None when some were dropped, so that the caller must list the runs."""
        with self._lock:
            if not self._last_dropped <= sequence <= self._sequence:
                return None
            return [event for event in self._events.values() if event.sequence > sequence]

    def subscribe(self, subscriber: Callable[[RunEvent], None]) -> Callable[[], None]:
        """Calls `subscriber` with every new event, in the daemon's threads. Returns a function that unsubscribes.

        The subscriber must return at once and not raise, such as `loop.call_soon_threadsafe(queue.put_nowait, event)`.
        """
        with self._lock:
            self._subscriber_count += 1
            key = self._subscriber_count
            self._subscribers[key] = subscriber

        def unsubscribe() -> None:
            with self._lock:
                self._subscribers.pop(key, None)

        return unsubscribe
