"""Shows environments to viewers while they are stepped, within a budget of the process that steps them.

Without a viewer one word of memory is read, ten times a second. With a viewer, a render process renders what can be
described to it, and the rest is rendered here. What goes wrong with a frame ends the live view of this process, once
and with a message, and nothing else.
"""

from __future__ import annotations

from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from .heartbeat import Heartbeat
from .pacing import Pacing
from .render_client import Status
from .shrink import fit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol

    from .demand import Demand
    from .frame_header import Numbers
    from .frame_writer import FrameWriter
    from .heartbeat import Condition
    from .render_client import RenderClient
    from .shrink import Pixels

    class FrameSource(Protocol):
        """Environments that can be shown, by slot of the frame buffer."""

        def slots(self) -> Sequence[int]:
            """Of environments that have something to show now."""
            ...

        def numbers(self, slot: int) -> Numbers: ...

        def view(self, slot: int) -> View:
            """Rendered here."""
            ...

        def describable(self, slot: int) -> tuple[Any, Callable[[], dict[str, Any]]] | None:
            """The environment and how a copy of it is made; None when only this process can render it."""
            ...


CHECK_SECONDS = 0.1  # between two looks for viewers
# Of the budget, where a render process renders. What it does on another core is felt on this one, where the two share
# caches and units: by the clock a state that is sent costs three to four times the moment that it takes to send.
SENDING_SHARE = 0.15


class View(NamedTuple):
    """What there is to see of one environment."""

    content: Pixels | bytes  # the latter is a state that the browser draws by itself
    numbers: Numbers


def _nothing() -> None:
    """There is nothing to bring up to date."""


class LiveView:
    """Writes what a source shows into a frame buffer. Call `check` once `due` has come, between two steps."""

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
        """`budget`: share of the time. `writes_heartbeat`: there is one for all who write into a frame buffer."""
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
        self._watched_at: float | None = None  # when there was a viewer, the last time
        self._seconds_spent = self._seconds_watched = 0.0
        self._has_rendered = False

    @property
    def is_watched(self) -> bool:
        """Whether there was a viewer at the last check"""
        return self._watched_at is not None and self.due < inf

    def check(self, source: FrameSource, bring_up_to_date: Callable[[], None] = _nothing) -> None:
        """`bring_up_to_date`: the source, before anything of it is shown."""
        now = monotonic()
        demand = self._writer.demand(now)
        if demand is None:
            self._watched_at = None
            self.due = now + CHECK_SECONDS
            if self._client is not None:
                self._client.rest(now)
        else:
            try:
                self._publish(source, demand, now, bring_up_to_date)
            except Exception as error:  # noqa: BLE001  rendering may raise anything, and training must not notice
                self._fail(error)
                return
        self._beat("open")

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
        if self.due < inf:
            self._beat("closed")
        self.due = inf

    def _publish(self, source: FrameSource, demand: Demand, now: float, bring_up_to_date: Callable[[], None]) -> None:
        if self._watched_at is not None:
            self._seconds_watched += now - self._watched_at
        self._watched_at = now
        slots = [slot for slot in source.slots() if slot in demand.slots and slot < self._writer.about.slot_count]
        self._pacing.begin(now)
        status = self._status(source, slots, now)
        if status is Status.READY and self._client is not None:
            self._send(self._client, source, slots, demand.frames_per_second, now, bring_up_to_date)
        elif status is Status.FAILED:
            self._render(source, slots, demand, now, bring_up_to_date)
        else:
            self.due = now + CHECK_SECONDS

    def _status(self, source: FrameSource, slots: Sequence[int], now: float) -> Status:
        """READY: the render process takes states. FAILED: frames are rendered here. Otherwise they are waited for."""
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
        """All slots in one round, however far apart they were sent before: what a round needs beforehand (environments
        that an engine hands back, a process woken) is needed once. It is paid for when it is over."""
        self._pacing.budget = self._budget * SENDING_SHARE
        waiting = [slot for slot in slots if client.is_due(slot, self._writer, now)]
        is_up_to_date = False
        while (slot := self._pacing.next_slot(waiting, now)) is not None:
            if not is_up_to_date:
                bring_up_to_date()
                is_up_to_date = True
            client.send(slot, source.numbers(slot), self._writer, now)
            if client.status is not Status.READY:
                break  # how it goes on is decided at the next check
            self._pacing.drawn(slot, now, 0.0, frames_per_second)
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
        """One after the other as the budget allows, seldom two in one go"""
        self._pacing.budget = self._budget
        began_at = now
        while (slot := self._pacing.next_slot(slots, now)) is not None:
            bring_up_to_date()
            content, numbers = source.view(slot)
            if not isinstance(content, bytes):
                content = fit(content, demand.largest_side, self._largest_side)
            self._writer.write(slot, content, numbers)
            self._writer.notify(demand, slot)
            self._pacing.drawn(slot, now, self._spent(began_at), demand.frames_per_second)
            began_at = monotonic()
        self.due = min(self._pacing.due_at(slots, now), now + CHECK_SECONDS)

    def _spent(self, began_at: float) -> float:
        """Seconds since then, counted, and how many of them must be earned: the first frame loads what renders it; that
        happens once and is not paid off by standing still."""
        cost = monotonic() - began_at
        self._seconds_spent += cost
        owed, self._has_rendered = cost if self._has_rendered else 0.0, True
        return owed

    def _fail(self, error: Exception) -> None:
        self.due = inf
        if self._client is not None:
            self._client.close()
        reason = f"{type(error).__name__}: {error}".strip().rstrip(".")
        self._beat("failed", reason)
        self._on_failure(reason)

    def _beat(self, condition: Condition, reason: str = "") -> None:
        if not self._writes_heartbeat:
            return
        figures = (self.env_steps, self.episodes, self._writer.total_frames())
        spent = (self._seconds_spent, self._seconds_watched)
        self._writer.write_heartbeat(Heartbeat(monotonic(), *figures, *spent, condition, reason))
