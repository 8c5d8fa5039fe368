"""Steps per second from differences of steps, so that a resumed run does not count steps it did not make."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from palaestra.core.clock import Clock


class StepRate:
    """The rate over the last `window_seconds`, or since `first_step` while the run is younger than that."""

    def __init__(self, clock: Clock, first_step: int, window_seconds: float = 10.0) -> None:
        self._clock = clock
        self._window_seconds = window_seconds
        self._marks: deque[tuple[float, int]] = deque([(clock.monotonic(), first_step)])

    def update(self, step: int) -> float:
        """Steps per second; 0 as long as no time has passed."""
        now = self._clock.monotonic()
        self._marks.append((now, step))
        while len(self._marks) > 2 and now - self._marks[0][0] > self._window_seconds:
            self._marks.popleft()
        then, earlier_step = self._marks[0]
        return (step - earlier_step) / (now - then) if now > then else 0.0
