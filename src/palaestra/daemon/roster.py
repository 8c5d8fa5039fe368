"""All runs that a daemon knows, in memory, with every change of state in the index and among the news."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from palaestra.core.errors import NotFound, did_you_mean
from palaestra.daemon.queue import in_order
from palaestra.runs.identity import is_run_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from palaestra.core.run import RunState
    from palaestra.daemon.entry import Entry
    from palaestra.daemon.index import Index
    from palaestra.daemon.news import Happening, Newsroom


class Roster:
    """Whoever reads and then writes holds `guard` meanwhile; it may be taken again by who has it."""

    def __init__(self, index: Index, news: Newsroom) -> None:
        self.guard = threading.RLock()
        self._index = index
        self._news = news
        self._entries = {entry.id: entry for entry in index.load()}
        self._sequence = max(
            [index.sequence(), *(entry.ticket.sequence for entry in self._entries.values() if entry.ticket)]
        )
        self._reserved = 0  # places in the queue of requests that are being written down

    def all(self) -> list[Entry]:
        """Newest first."""
        with self.guard:
            return [self._entries[run_id] for run_id in sorted(self._entries, reverse=True)]

    def ids(self) -> set[str]:
        with self.guard:
            return set(self._entries)

    def find(self, run_id: str) -> Entry | None:
        return self._entries.get(run_id)

    def resolve(self, selector: str) -> Entry:
        """By id, name, `latest`, or a unique beginning of an id. Nothing is ever made a path of."""
        with self.guard:
            if is_run_id(selector) and selector.upper() in self._entries:
                return self._entries[selector.upper()]
            if selector == "latest" and self._entries:
                return self._entries[max(self._entries)]
            named = [entry for entry in self._entries.values() if entry.record.name == selector]
            found = named or [entry for run_id, entry in self._entries.items() if _begins(run_id, selector)]
        if len(found) == 1:
            return found[0]
        if found:
            raise NotFound(f"'{selector}' could be any of {len(found)} runs.", "Type more of the id.")
        names = [entry.record.name for entry in self.all()]
        raise NotFound(f"No run is called '{selector}' here.", did_you_mean(selector, names))

    def is_name_taken(self, name: str) -> bool:
        with self.guard:
            return any(entry.record.name == name for entry in self._entries.values())

    def waiting(self) -> list[Entry]:
        with self.guard:
            return in_order(self._entries.values())

    def waiting_count(self) -> int:
        """With those that are being accepted just now."""
        with self.guard:
            return self._reserved + sum(entry.is_waiting for entry in self._entries.values())

    def in_states(self, states: Iterable[RunState]) -> list[Entry]:
        wanted = set(states)
        with self.guard:
            return [entry for entry in self._entries.values() if entry.state in wanted]

    def reserve(self, limit: int) -> int | None:
        """The next sequence number, with a place in the queue until `release`; None when the queue is full."""
        with self.guard:
            if self.waiting_count() >= limit:
                return None
            self._reserved += 1
            self._sequence += 1
            return self._sequence

    def release(self) -> None:
        with self.guard:
            self._reserved -= 1

    def accept(self, entry: Entry) -> None:
        """StoreRefused when the index has no room; then it is as if nothing had been asked."""
        with self.guard:
            self._index.count_up_to(self._sequence)
            self._index.put(entry)
            self._entries[entry.id] = entry
            self._news.tell("accepted", entry.id, entry)

    def put(self, entry: Entry, happening: Happening) -> None:
        """A move that has happened on disk already; an index that cannot be written only knows it later."""
        with self.guard:
            self._entries[entry.id] = entry
            self._index.try_put(entry)
            self._news.tell(happening, entry.id, entry)

    def note(self, entry: Entry) -> None:
        """A heartbeat: shown, but not worth a write."""
        with self.guard:
            self._entries[entry.id] = entry
            self._news.tell("changed", entry.id, entry)

    def drop(self, run_id: str) -> None:
        with self.guard:
            if self._entries.pop(run_id, None) is not None:
                self._index.try_drop(run_id)
                self._news.tell("removed", run_id, None)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Many changes at once, written to the index as one."""
        with self.guard, self._index.together():
            yield

    def replace_quietly(self, entry: Entry) -> None:
        """While the daemon gathers what it finds at its start."""
        with self.guard:
            self._entries[entry.id] = entry
            self._index.try_put(entry)


def _begins(run_id: str, selector: str) -> bool:
    return bool(selector) and run_id.startswith(selector.upper())
