"""What happened to which run, numbered, for whoever wants to follow: sockets, the terminal, tests."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from palaestra.daemon.entry import Entry

Happening = Literal["accepted", "started", "changed", "ended", "removed"]
KEPT = 10_000


@dataclass(frozen=True)
class News:
    number: int  # counted from 1 since the daemon started
    happening: Happening
    run: str
    entry: Entry | None  # as it is now; None when it was removed


class Newsroom:
    """Any thread may tell, read and listen.

    Of each run only the newest change is kept: heartbeats would push everything else out, at 2 KB each.
    """

    def __init__(self, kept: int = KEPT) -> None:
        self._guard = threading.Lock()
        self._most = kept
        self._kept: dict[int, News] = {}  # by number, oldest first
        self._changed: dict[str, int] = {}  # run -> number of its newest change
        self._gone = 0  # the last one that had to go for want of room, and not for something newer
        self._number = 0
        self._listeners: dict[int, Callable[[News], None]] = {}
        self._listener_number = 0

    @property
    def number(self) -> int:
        """Of the last news."""
        return self._number

    def tell(self, happening: Happening, run: str, entry: Entry | None) -> None:
        with self._guard:
            self._number += 1
            news = News(self._number, happening, run, entry)
            self._keep(news)
            listeners = list(self._listeners.values())
        for listener in listeners:
            listener(news)

    def _keep(self, news: News) -> None:
        if news.happening == "changed":
            self._kept.pop(self._changed.pop(news.run, 0), None)
            self._changed[news.run] = news.number
        elif news.entry is None:
            self._changed.pop(news.run, None)
        self._kept[news.number] = news
        while len(self._kept) > self._most:
            self._gone = next(iter(self._kept))
            del self._kept[self._gone]

    def since(self, number: int) -> list[News] | None:
        """Everything after `number`; None when some of it is no longer kept, so that one has to list anew."""
        with self._guard:
            if not self._gone <= number <= self._number:
                return None
            return [news for news in self._kept.values() if news.number > number]

    def listen(self, listener: Callable[[News], None]) -> Callable[[], None]:
        """Call `listener` with all news from now on, in the daemon's own threads; what is returned ends it.

        It must return at once and raise nothing: `loop.call_soon_threadsafe(queue.put_nowait, news)` is a good one.
        """
        with self._guard:
            self._listener_number += 1
            own = self._listener_number
            self._listeners[own] = listener

        def forget() -> None:
            with self._guard:
                self._listeners.pop(own, None)

        return forget
