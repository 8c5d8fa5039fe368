"""What the script's environments look like, for whoever watches, within a budget of its time.

Nobody watches: one word of memory is looked at, ten times a second. Somebody watches: a painter beside the script draws
what it can, and the rest is drawn here. What goes wrong with a picture ends the live view
of this process, once and with a message, and nothing else.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from .easel import Easel, fitted
from .lane import Lane, Numbers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .lane import Demand
    from .painter import Painter

LOOK_SECONDS = 0.1
SAVED_SECONDS = 1.0  # of earning that may be kept for later
FELT = 0.25  # of what a painter's core does, on this one: they may share caches and units


class Show:
    """Time to draw is earned at the rate of the budget and spent by drawing, so the share holds whatever it costs."""

    def __init__(self, path: Path, budget: float, say: Callable[..., None], painter: Painter | None = None) -> None:
        self._path = path
        self._painter = painter
        self._budget = budget
        self._say = say
        self._lane: Lane | None = None
        self._easels: dict[int, Easel] = {}
        self._next_at: dict[int, float] = {}  # by slot
        self._last = -1  # slot that was drawn last
        self._earned = 0.0
        self._looked_at: float | None = None  # when there was a viewer, the last time
        self._spent = self._watched = 0.0
        self._owner = os.getpid()
        self.figures: Callable[[], tuple[int, int]] | None = None  # steps and episodes, where this process tells them

    def look(self, probes: dict[int, Any], now: float) -> float:
        """When to look again. `probes`: of this process, by slot; only those that are in an episode are drawn."""
        if self._lane is None:
            try:
                self._lane = Lane(self._path)
            except OSError:  # not made yet
                return now + LOOK_SECONDS
            if os.getpid() != self._owner:  # one environment of several, of which each slows all of them down
                self._budget, self.figures = self._budget / self._lane.slot_count, None
        try:
            due = self._publish(self._lane, probes, now)
        except Exception as error:  # noqa: BLE001  what draws may raise anything, and training must not notice
            reason = f"{type(error).__name__}: {error}".rstrip(".")
            self._beat(self._lane, reason)
            self._say("unseen", reason)
            return float("inf")
        self._beat(self._lane)
        return due

    def close(self) -> None:
        if self._lane is not None:
            self._lane.close()
            self._lane = None
        if self._painter is not None:
            self._painter.close()

    def _publish(self, lane: Lane, probes: dict[int, Any], now: float) -> float:
        demand = lane.demand(now)
        if demand is None:
            self._looked_at = None
            if self._painter is not None:
                self._painter.rest(now)
            return now + LOOK_SECONDS
        if self._looked_at is not None:
            self._watched += now - self._looked_at
            self._earned = min(self._earned + (now - self._looked_at) * self._budget, SAVED_SECONDS * self._budget)
        self._looked_at = now
        wanted = {slot: probe for slot, probe in probes.items() if slot < lane.slot_count and demand.mask >> slot & 1}
        if not wanted:
            return now + LOOK_SECONDS
        if self._painter is not None:
            drawn = self._painter.attend(next(iter(wanted.values())).env, now)
            lane.frames += drawn.pictures
            self._earned -= FELT * drawn.seconds
            if self._painter.is_ready:
                return self._tell(self._painter, wanted, demand, now)
            if self._painter.is_coming(now):
                return now + LOOK_SECONDS
        return self._draw_all(lane, wanted, demand, now)

    def _tell(self, painter: Painter, wanted: dict[int, Any], demand: Demand, now: float) -> float:
        """All tiles at once, which wakes the painter once."""
        pause = 1 / demand.frames_per_second
        if self._earned >= 0 and not painter.is_busy:
            began = time.monotonic()
            painter.tell({slot: (probe.env, numbers_of(probe)) for slot, probe in wanted.items()}, now)
            cost = time.monotonic() - began
            self._spent += cost
            self._earned -= cost
        return now + min(max(pause, -self._earned / self._budget), LOOK_SECONDS)

    def _draw_all(self, lane: Lane, wanted: dict[int, Any], demand: Demand, now: float) -> float:
        while (slot := self._whose_turn(list(wanted), now)) is not None:
            self._draw(lane, slot, wanted[slot], demand, now)
        affordable = now + max(0.0, -self._earned) / self._budget
        due = max(affordable, min(self._next_at.get(slot, now) for slot in wanted))
        return min(due, now + LOOK_SECONDS)

    def _whose_turn(self, wanted: list[int], now: float) -> int | None:
        if self._earned < 0:
            return None
        due = [slot for slot in wanted if self._next_at.get(slot, now) <= now]
        return min(due, key=lambda slot: (slot <= self._last, slot)) if due else None

    def _draw(self, lane: Lane, slot: int, probe: Any, demand: Demand, now: float) -> None:
        began, is_first = time.monotonic(), not self._easels
        if slot not in self._easels or self._easels[slot].env is not probe.env:
            self._easels[slot] = Easel(probe.env)
        picture = fitted(self._easels[slot].draw(), demand.largest_side, lane.largest_side)
        lane.write(slot, picture, numbers_of(probe))
        lane.ring(demand, slot)
        cost = time.monotonic() - began
        self._spent += cost
        self._earned -= 0.0 if is_first else cost  # the first loads what draws; that is not paid off by standing still
        self._last = slot
        self._next_at[slot] = now + 1 / demand.frames_per_second

    def _beat(self, lane: Lane, reason: str = "") -> None:
        if self.figures is not None:
            lane.beat(*self.figures(), self._spent, self._watched, reason)


def numbers_of(probe: Any) -> Numbers:
    return Numbers(probe.steps, probe.reward, probe.total, probe.length)
