"""The loop that keeps slots busy: start what is next, hear who ended, stop who is not wanted any more."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Protocol

from palaestra import plugins
from palaestra.sweeps.local_slots import LocalSlots
from palaestra.workers.signals import stop_on_signals

if TYPE_CHECKING:
    from collections.abc import Iterable

    from palaestra.contracts.trials import SlotsWanted, TrialEnd, TrialOrder, TrialRunner

LOOK_SECONDS = 0.5
LOCAL = "local"


class Work(Protocol):
    """What is to be done; it also keeps the books."""

    def next_order(self) -> TrialOrder | None:
        """None: nothing to start now, perhaps later when something has ended."""
        ...

    def ended(self, order: TrialOrder, end: TrialEnd, *, was_stopped: bool) -> None:
        """`was_stopped`: we all go home, the run is to be continued another time."""
        ...

    def unwanted(self) -> Iterable[str]:
        """Names of runs that need not go on."""
        ...


def open_slots(executor: str, wanted: SlotsWanted) -> TrialRunner:
    if executor == LOCAL:
        return LocalSlots(wanted)
    runner: TrialRunner = plugins.load("slots", executor)(wanted)
    return runner


def fan_out(runner: TrialRunner, work: Work) -> int:
    """Until all is done, or a signal came and all have saved. Returns that signal, or 0.

    The second signal ends everything at once (StopNow); runs are then continued from their last checkpoint.
    """
    running: dict[str, TrialOrder] = {}  # by handle
    told: set[str] = set()  # handles that were asked to stop
    with closing(runner), stop_on_signals() as stop:
        while True:
            while not stop and len(running) < runner.slots and (order := work.next_order()) is not None:
                running[runner.start(order)] = order
            if not running:
                return stop.signal or 0
            for end in runner.finished(LOOK_SECONDS):
                work.ended(running.pop(end.handle), end, was_stopped=bool(stop))
            names = {order.name: handle for handle, order in running.items()}
            unwanted = names if stop else work.unwanted()
            for handle in {names[name] for name in unwanted if name in names} - told:
                runner.stop(handle)
                told.add(handle)
