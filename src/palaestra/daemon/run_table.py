"""The run table: all runs that a daemon knows. Every change is written to the index and published as an event."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from palaestra.core.errors import NotFound, did_you_mean
from palaestra.daemon.queue import sort_queue
from palaestra.runs.identity import is_run_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from palaestra.core.run import RunState
    from palaestra.daemon.event_bus import EventBus, RunChange
    from palaestra.daemon.index import Index
    from palaestra.daemon.run_entry import RunEntry


class RunTable:
    """Thread-safe table of runs. Hold `lock` (reentrant) to read and then write."""

    def __init__(self, index: Index, event_bus: EventBus) -> None:
        self.lock = threading.RLock()
        self._index = index
        self._event_bus = event_bus
        self._entries = {entry.id: entry for entry in index.load()}
        self._sequence = max(
            [index.sequence(), *(entry.submission.sequence for entry in self._entries.values() if entry.submission)]
        )
        self._reserved = 0  # queue places of requests that are being accepted

    def all(self) -> list[RunEntry]:
        """Newest first."""
        with self.lock:
            return [self._entries[run_id] for run_id in sorted(self._entries, reverse=True)]

    def ids(self) -> set[str]:
        with self.lock:
            return set(self._entries)

    def find(self, run_id: str) -> RunEntry | None:
        return self._entries.get(run_id)

    def resolve(self, selector: str) -> RunEntry:
        """Finds a run by id, name, `latest`, or a unique id prefix. The selector is never used as a path."""
        with self.lock:
            if is_run_id(selector) and selector.upper() in self._entries:
                return self._entries[selector.upper()]
            if selector == "latest" and self._entries:
                return self._entries[max(self._entries)]
            named = [entry for entry in self._entries.values() if entry.record.name == selector]
            found = named or [entry for run_id, entry in self._entries.items() if _has_prefix(run_id, selector)]
        if len(found) == 1:
            return found[0]
        if found:
            raise NotFound(f"'{selector}' matches {len(found)} runs.", "Give a longer part of the id.")
        names = [entry.record.name for entry in self.all()]
        raise NotFound(f"No run named '{selector}'.", did_you_mean(selector, names))

    def is_name_taken(self, name: str) -> bool:
        with self.lock:
            return any(entry.record.name == name for entry in self._entries.values())

    def waiting(self) -> list[RunEntry]:
        with self.lock:
            return sort_queue(self._entries.values())

    def waiting_count(self) -> int:
        """Returns the length of the queue, including requests that are being accepted."""
        with self.lock:
            return self._reserved + sum(entry.is_waiting for entry in self._entries.values())

    def in_states(self, states: Iterable[RunState]) -> list[RunEntry]:
        wanted = set(states)
        with self.lock:
            return [entry for entry in self._entries.values() if entry.state in wanted]

    def reserve(self, limit: int) -> int | None:
        """Reserves a queue place until `release`, and returns the next sequence number; None if the queue is full."""
        with self.lock:
            if self.waiting_count() >= limit:
                return None
            self._reserved += 1
            self._sequence += 1
            return self._sequence

    def release(self) -> None:
        with self.lock:
            self._reserved -= 1

    def accept(self, entry: RunEntry) -> None:
        """Adds a new run. Raises StoreRefused if the index cannot be written; then nothing changes."""
        with self.lock:
            self._index.set_sequence(self._sequence)
            self._index.put(entry)
            self._entries[entry.id] = entry
            self._event_bus.publish("accepted", entry.id, entry)

    def put(self, entry: RunEntry, change: RunChange) -> None:
        """Stores a change that is on disk already; if the index cannot be written, it is updated later."""
        with self.lock:
            self._entries[entry.id] = entry
            self._index.try_put(entry)
            self._event_bus.publish(change, entry.id, entry)

    def update_in_memory(self, entry: RunEntry) -> None:
        """Updates the heartbeat of a run without writing to the index."""
        with self.lock:
            self._entries[entry.id] = entry
            self._event_bus.publish("changed", entry.id, entry)

    def remove(self, run_id: str) -> None:
        with self.lock:
            if self._entries.pop(run_id, None) is not None:
                self._index.try_remove(run_id)
                self._event_bus.publish("removed", run_id, None)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Writes several changes to the index in one transaction."""
        with self.lock, self._index.transaction():
            yield

    def put_without_event(self, entry: RunEntry) -> None:
        """Stores an entry without an event, at startup."""
        with self.lock:
            self._entries[entry.id] = entry
            self._index.try_put(entry)


def _has_prefix(run_id: str, selector: str) -> bool:
    return bool(selector) and run_id.startswith(selector.upper())
