"""What happened to which run, numbered, for whoever wants to follow: sockets, the terminal, tests."""

from __future__ import annotations

import threading
from collections import deque
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
    """Any thread may tell, read and listen."""

    def __init__(self, kept: int = KEPT) -> None:
        self._guard = threading.Lock()
        self._kept: deque[News] = deque(maxlen=kept)
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
            self._kept.append(news)
            listeners = list(self._listeners.values())
        for listener in listeners:
            listener(news)

    def since(self, number: int) -> list[News] | None:
        """Everything after `number`; None when some of it is no longer kept, so that one has to list anew."""
        with self._guard:
            if number > self._number or (self._kept and number < self._kept[0].number - 1):
                return None
            return [news for news in self._kept if news.number > number]

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
