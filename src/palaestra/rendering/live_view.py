"""The live view of environments while they are stepped, within a share of the stepping process's time.

Without a viewer one word of memory is read ten times a second. With a viewer, a render process renders environments
whose state can be described, and this process renders the others. An error while rendering ends only the live view of
this process, with one message.
"""

from __future__ import annotations

from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from .frame_format import Heartbeat
from .images import fit
from .render_client import Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Protocol

    from .frame_format import Condition, Demand, Numbers
    from .frame_writer import FrameWriter
    from .images import Pixels
    from .render_client import RenderClient

    class FrameSource(Protocol):
        """Environments that can be shown, by slot of the frame buffer."""

        def slots(self) -> Sequence[int]:
            """Slots of environments that can be shown now."""
            ...

        def numbers(self, slot: int) -> Numbers: ...

        def view(self, slot: int) -> View:
            """Renders in this process."""
            ...

        def describable(self, slot: int) -> tuple[Any, Callable[[], dict[str, Any]]] | None:
            """The environment and a function with the recipe of a copy; None if only this process can render it."""
            ...


CHECK_SECONDS = 0.1  # between two checks for viewers
# Of the budget, if a render process renders. Its work on another core slows this one down, because they share caches
# and units: measured in total, sending a state costs three to four times as long as the call.
SENDING_SHARE = 0.15
SAVED_SECONDS = 1.0  # of unused budget kept for later, so a long update is followed by a few frames at once


class View(NamedTuple):
    """A frame of one environment, with its numbers."""

    content: Pixels | bytes  # bytes: a state that the browser draws
    numbers: Numbers


def _nothing() -> None:
    """Default for sources that are always up to date."""


class Pacing:
    """Limits rendering to a share of the time, whatever a frame costs.

    Rendering time is earned at the rate of the budget and spent by rendering; what a frame cost must be earned back
    before the next one. All times are seconds on one monotonic clock.
    """

    def __init__(self, budget: float) -> None:
        """`budget`: the share of the time that rendering may take, above 0."""
        self.budget = budget
        self._earned = 0.0
        self._counted_at: float | None = None
        self._next_at: dict[int, float] = {}  # by slot
        self._last = -1  # the slot rendered last

    def earn(self, now: float) -> None:
        """Earns for the time since the last call; the first frame is free."""
        if self._counted_at is not None:
            earned = self._earned + (now - self._counted_at) * self.budget
            self._earned = min(earned, SAVED_SECONDS * self.budget)
        self._counted_at = now

    def next_slot(self, wanted: Iterable[int], now: float) -> int | None:
        """The next due slot in round-robin order; None if none is due or the budget is used up."""
        if self._earned < 0:
            return None
        due = [slot for slot in wanted if self._next_at.get(slot, now) <= now]
        return min(due, key=lambda slot: (slot <= self._last, slot)) if due else None

    def record_frame(self, slot: int, began_at: float, cost: float, frames_per_second: float) -> None:
        """`cost`: seconds that rendering took."""
        self.pay(cost)
        self._last = slot
        self._next_at[slot] = began_at + 1 / frames_per_second

    def pay(self, cost: float) -> None:
        """Charges seconds that were spent on frames of any slot."""
        self._earned -= cost

    def due_at(self, wanted: Iterable[int], now: float) -> float:
        """The time of the next check."""
        affordable = now + max(0.0, -self._earned) / self.budget
        return max(affordable, min((self._next_at.get(slot, now) for slot in wanted), default=now))


class LiveView:
    """Writes frames of a source into a frame buffer. Call `check` between two steps once `due` has passed."""

    def __init__(
        self,
        writer: FrameWriter,
        budget: float,
        largest_side: int,
        *,
        client: RenderClient | None = None,
        writes_heartbeat: bool = True,
        on_failure: Callable[[str], None] = lambda _reason: None,
    ) -> None:
        """`budget`: share of the time. `writes_heartbeat`: one process writes it for all writers of a frame buffer."""
        self.due = 0.0  # on the machine's monotonic clock
        self.env_steps = 0  # of the run
        self.episodes = 0
        self._writer = writer
        self._budget = budget
        self._pacing = Pacing(budget)
        self._largest_side = largest_side
        self._client = client
        self._writes_heartbeat = writes_heartbeat
        self._on_failure = on_failure
        self._watched_at: float | None = None  # time of the last check with a viewer
        self._seconds_spent = self._seconds_watched = 0.0
        self._has_rendered = False

    @property
    def is_watched(self) -> bool:
        """Whether there was a viewer at the last check."""
        return self._watched_at is not None and self.due < inf

    def check(self, source: FrameSource, bring_up_to_date: Callable[[], None] = _nothing) -> None:
        """`bring_up_to_date` is called before anything of the source is read."""
        now = monotonic()
        demand = self._writer.demand(now)
        if demand is None:
            self._watched_at = None
            self.due = now + CHECK_SECONDS
            if self._client is not None:
                self._client.release(now)
        else:
            try:
                self._publish(source, demand, now, bring_up_to_date)
            except Exception as error:  # noqa: BLE001  rendering may raise anything, and training must not notice
                self._fail(error)
                return
        self._write_heartbeat("open")

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
        if self.due < inf:
            self._write_heartbeat("closed")
        self.due = inf

    def _publish(self, source: FrameSource, demand: Demand, now: float, bring_up_to_date: Callable[[], None]) -> None:
        if self._watched_at is not None:
            self._seconds_watched += now - self._watched_at
        self._watched_at = now
        slots = [slot for slot in source.slots() if slot in demand.slots and slot < self._writer.about.slot_count]
        self._pacing.earn(now)
        status = self._status(source, slots, now)
        if status is Status.READY and self._client is not None:
            self._send(self._client, source, slots, demand.frames_per_second, now, bring_up_to_date)
        elif status is Status.FAILED:
            self._render(source, slots, demand, now, bring_up_to_date)
        else:
            self.due = now + CHECK_SECONDS

    def _status(self, source: FrameSource, slots: Sequence[int], now: float) -> Status:
        """READY: the render process takes states. FAILED: this process renders. Otherwise the process is starting."""
        client = self._client
        if client is None:
            return Status.FAILED
        if client.status is Status.FAILED:
            client.end()
            return Status.FAILED
        for slot in slots:
            found = source.describable(slot)
            if found is None or not client.can_describe(slot, *found):
                return Status.FAILED
        if not client.is_needed:
            return Status.FAILED
        status = client.attend(now, self._writer.total_frames())
        return status if status is Status.READY or client.must_wait(now) else Status.FAILED

    def _send(
        self,
        client: RenderClient,
        source: FrameSource,
        slots: Sequence[int],
        frames_per_second: float,
        now: float,
        bring_up_to_date: Callable[[], None],
    ) -> None:
        """Sends all slots in one round, so that its preparation (an engine hands back environments, a process wakes up)
        is needed once. The round is charged when it is over."""
        self._pacing.budget = self._budget * SENDING_SHARE
        waiting = [slot for slot in slots if client.is_due(slot, self._writer, now)]
        is_up_to_date = False
        while (slot := self._pacing.next_slot(waiting, now)) is not None:
            if not is_up_to_date:
                bring_up_to_date()
                is_up_to_date = True
            client.send(slot, source.numbers(slot), self._writer, now)
            if client.status is not Status.READY:
                break  # the next check decides how to continue
            self._pacing.record_frame(slot, now, 0.0, frames_per_second)
        if is_up_to_date:
            self._pacing.pay(self._spent(now))
        self.due = min(max(self._pacing.due_at(slots, now), now + 1 / frames_per_second), now + CHECK_SECONDS)

    def _render(
        self,
        source: FrameSource,
        slots: Sequence[int],
        demand: Demand,
        now: float,
        bring_up_to_date: Callable[[], None],
    ) -> None:
        """Renders one slot after the other as the budget allows, rarely two in one call."""
        self._pacing.budget = self._budget
        began_at = now
        while (slot := self._pacing.next_slot(slots, now)) is not None:
            bring_up_to_date()
            content, numbers = source.view(slot)
            if not isinstance(content, bytes):
                content = fit(content, demand.largest_side, self._largest_side)
            self._writer.write(slot, content, numbers)
            self._writer.notify(demand, slot)
            self._pacing.record_frame(slot, now, self._spent(began_at), demand.frames_per_second)
            began_at = monotonic()
        self.due = min(self._pacing.due_at(slots, now), now + CHECK_SECONDS)

    def _spent(self, began_at: float) -> float:
        """Counts the seconds since `began_at` and returns how many are charged: the first frame loads libraries, which
        happens once and must not stop the view for long."""
        cost = monotonic() - began_at
        self._seconds_spent += cost
        charged, self._has_rendered = cost if self._has_rendered else 0.0, True
        return charged

    def _fail(self, error: Exception) -> None:
        self.due = inf
        if self._client is not None:
            self._client.close()
        reason = f"{type(error).__name__}: {error}".strip().rstrip(".")
        self._write_heartbeat("failed", reason)
        self._on_failure(reason)

    def _write_heartbeat(self, condition: Condition, reason: str = "") -> None:
        if not self._writes_heartbeat:
            return
        figures = (self.env_steps, self.episodes, self._writer.total_frames())
        spent = (self._seconds_spent, self._seconds_watched)
        self._writer.write_heartbeat(Heartbeat(monotonic(), *figures, *spent, condition, reason))
