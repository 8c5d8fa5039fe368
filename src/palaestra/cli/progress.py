"""How far a batch of episodes is: one line that is written over, on a terminal; elsewhere nothing."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Self

from palaestra.cli.output import clean
from palaestra.core.clock import Clock, SystemClock

if TYPE_CHECKING:
    from collections.abc import Sized
    from types import TracebackType

    from palaestra.core.episodes import EpisodeResult

DRAW_SECONDS = 0.1
BACK = "\r\x1b[K"  # to the beginning of a line that is empty from there on


class Progress:
    """On stderr, so that stdout stays what it is."""

    def __init__(self, target: str, batch: int, total: int, clock: Clock | None = None) -> None:
        self._label = f"{clean(target)} | eval batch {batch}"
        self._total = total
        self._clock = clock or SystemClock()
        self._drawn_at = float("-inf")
        self._returns: list[float] = []
        self._is_shown = sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_shown:
            print(BACK, end="", file=sys.stderr, flush=True)

    def count(self, episode: EpisodeResult) -> None:
        self._returns.append(episode.total_reward)
        now = self._clock.monotonic()
        if self._is_shown and now - self._drawn_at >= DRAW_SECONDS:
            self._drawn_at = now
            print(f"{BACK}{self.text()}", end="", file=sys.stderr, flush=True)

    def text(self) -> str:
        """`first | eval batch 3 | episodes=12/50 avg=112.3 min=90.1 max=142.6`"""
        figures = f"avg={sum(self._returns) / len(self._returns):.1f} " if self._returns else ""
        figures += f"min={min(self._returns):.1f} max={max(self._returns):.1f}" if self._returns else ""
        return f"{self._label} | episodes={len(self._returns)}/{self._total} {figures}".rstrip()


WIDTH = 24  # of the bar, in characters


class RequestProgress:
    """On stderr, so that stdout stays what it is. Episodes move the bar: they come back share by share."""

    def __init__(self, evaluations: int, episodes: int, clock: Clock | None = None) -> None:
        self._evaluations = evaluations
        self._episodes = episodes
        self._clock = clock or SystemClock()
        self._drawn_at = float("-inf")
        self._finished = 0
        self._failed = 0
        self._played = 0
        self._is_shown = sys.stderr.isatty()

    def __enter__(self) -> Self:
        self._draw()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_shown:
            print(BACK, end="", file=sys.stderr, flush=True)

    def count(self, episodes: Sized) -> None:
        self._played += len(episodes)
        self._draw()

    def finished(self, *, failed: bool) -> None:
        self._finished += 1
        self._failed += failed
        self._draw()

    def text(self) -> str:
        """`[######------] 12/1000 evaluations | 60/5000 episodes | 2 failed`"""
        full = WIDTH * self._played // max(1, self._episodes)
        bar = "#" * full + "-" * (WIDTH - full)
        failed = f" | {self._failed} failed" if self._failed else ""
        counts = f"{self._finished}/{self._evaluations} evaluations | {self._played}/{self._episodes} episodes"
        return f"[{bar}] {counts}{failed}"

    def _draw(self) -> None:
        now = self._clock.monotonic()
        if self._is_shown and now - self._drawn_at >= DRAW_SECONDS:
            self._drawn_at = now
            print(f"{BACK}{self.text()}", end="", file=sys.stderr, flush=True)
