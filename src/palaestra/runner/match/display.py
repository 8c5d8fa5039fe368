"""Writes the frames of a match into its frame buffer after every step, for the tiles that a viewer asks for."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from palaestra.rendering.frame_format import Heartbeat
from palaestra.rendering.images import fit
from palaestra.runner.match.seats import ExternalSeat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palaestra.rendering.frame_format import Condition, Demand
    from palaestra.rendering.frame_writer import FrameWriter
    from palaestra.runner.match.seats import Seat

HEARTBEAT_SECONDS = 0.1
SHOW_AGAIN_SECONDS = 0.5  # while nothing moves, for viewers that connect later or want a larger frame


class Display:
    """The tiles of one match."""

    def __init__(self, writer: FrameWriter, largest_side: int) -> None:
        self._writer = writer
        self._largest_side = largest_side
        self._steps = 0
        self._heartbeat_at = self._shown_at = 0.0
        self._spent = 0.0  # seconds on drawing

    def show(self, seats: Sequence[Seat | ExternalSeat]) -> None:
        """Call it after every step."""
        self._steps += sum(not seat.is_over for seat in seats)
        self._draw([(slot, seat) for slot, seat in enumerate(seats) if not isinstance(seat, ExternalSeat)])

    def refresh(self, seats: Sequence[Seat | ExternalSeat]) -> None:
        """Call it between steps, as often as convenient."""
        now = monotonic()
        if now - self._shown_at >= SHOW_AGAIN_SECONDS:
            self.show_again(seats)
        if now - self._heartbeat_at >= HEARTBEAT_SECONDS:
            self._write_heartbeat("open")

    def show_again(self, seats: Sequence[Seat | ExternalSeat]) -> None:
        """Renders again while nothing moves: for viewers that connect later or want a larger frame."""
        for seat in seats:
            if isinstance(seat, ExternalSeat):
                seat.show()
        self._draw([(slot, seat) for slot, seat in enumerate(seats) if not isinstance(seat, ExternalSeat)])

    def close(self) -> None:
        self._write_heartbeat("closed")

    def _draw(self, seats: Sequence[tuple[int, Seat]]) -> None:
        """The seats that do not write their frames by themselves."""
        self._shown_at = began_at = monotonic()
        demand = self._writer.demand(began_at)
        for slot, seat in seats:
            if demand is not None and slot in demand.slots:
                self._write(slot, seat, demand)
        self._spent += monotonic() - began_at

    def _write(self, slot: int, seat: Seat, demand: Demand) -> None:
        content, numbers = seat.view()
        if not isinstance(content, bytes):
            content = fit(content, demand.largest_side, self._largest_side)
        self._writer.write(slot, content, numbers)
        self._writer.notify(demand, slot)

    def _write_heartbeat(self, condition: Condition) -> None:
        self._heartbeat_at = monotonic()
        self._writer.write_heartbeat(
            Heartbeat(self._heartbeat_at, self._steps, 0, self._writer.total_frames(), self._spent, 0.0, condition)
        )
