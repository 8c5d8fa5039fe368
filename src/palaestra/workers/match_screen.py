"""The tiles of a match, written into its lane after every step, as far as somebody wants to see them."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from palaestra.frames.beat import Beat
from palaestra.frames.note import Numbers
from palaestra.frames.shrink import shrink, shrink_roughly

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palaestra.frames.beat import Condition
    from palaestra.frames.demand import Demand
    from palaestra.frames.writer import FrameWriter
    from palaestra.workers.match_seat import Seat

BEAT_SECONDS = 0.1
SHOW_AGAIN_SECONDS = 0.5  # while nothing moves, for whoever comes later or wants it larger


class Screen:
    def __init__(self, writer: FrameWriter, largest_side: int) -> None:
        self._writer = writer
        self._largest_side = largest_side
        self._steps = 0
        self._beat_at = self._shown_at = 0.0
        self._spent = 0.0  # seconds on drawing

    def show(self, seats: Sequence[Seat]) -> None:
        """After a step"""
        self._steps += sum(not seat.is_over for seat in seats)
        self._draw(seats)

    def keep(self, seats: Sequence[Seat]) -> None:
        """Between steps, as often as one likes"""
        now = monotonic()
        if now - self._shown_at >= SHOW_AGAIN_SECONDS:
            self._draw(seats)
        if now - self._beat_at >= BEAT_SECONDS:
            self._beat("open")

    def close(self) -> None:
        self._beat("closed")

    def _draw(self, seats: Sequence[Seat]) -> None:
        self._shown_at = began_at = monotonic()
        demand = self._writer.demand(began_at)
        for slot in [] if demand is None else sorted(demand.slots):
            if slot < len(seats):
                assert demand is not None
                self._write(slot, seats[slot], demand)
        self._spent += monotonic() - began_at

    def _write(self, slot: int, seat: Seat, demand: Demand) -> None:
        view = seat.view()
        content = view.content
        if not isinstance(content, bytes):
            content = shrink(shrink_roughly(content, demand.largest_side or self._largest_side), self._largest_side)
        numbers = Numbers(seat.length, view.reward, view.total_reward, view.length)
        self._writer.write(slot, content, numbers)
        self._writer.ring(demand, slot)

    def _beat(self, condition: Condition) -> None:
        self._beat_at = monotonic()
        self._writer.beat(Beat(self._beat_at, self._steps, 0, self._writer.frames, self._spent, 0.0, condition))
