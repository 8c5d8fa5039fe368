"""The loop that keeps slots busy: start what is next, hear who ended, stop who is not wanted any more."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Protocol

from palaestra import plugins
from palaestra.sweeps.local_slots import LocalSlots
from palaestra.workers.signals import StopNow, exit_code_of, stop_on_signals

if TYPE_CHECKING:
    from collections.abc import Iterable

    from palaestra.contracts.trials import SlotsPlugin, TrialEnd, TrialOrder, TrialRunner

LOOK_SECONDS = 0.5
ATTEMPTS = 3  # at a run whose process is killed by others: memory, a lost machine
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


def find_slots(executor: str) -> SlotsPlugin:
    """Who has slots, by name; nothing is opened yet."""
    found: SlotsPlugin = LocalSlots if executor == LOCAL else plugins.load("slots", executor)
    return found


def fan_out(runner: TrialRunner, work: Work) -> int:
    """Until all is done, or a signal came and all have saved: then its exit code (130, 143), else 0.

    The second signal ends everything at once; runs are then continued from their last checkpoint.
    """
    try:
        return _work(runner, work)
    except StopNow as now:
        return now.exit_code


def _work(runner: TrialRunner, work: Work) -> int:
    running: dict[str, TrialOrder] = {}  # by handle
    told: set[str] = set()  # handles that were asked to stop
    attempts: Counter[str] = Counter()
    again: list[TrialOrder] = []
    with closing(runner), stop_on_signals() as stop:
        while True:
            while not stop and len(running) < runner.slots and (order := _next(again, work)) is not None:
                attempts[order.name] += 1
                running[runner.start(order)] = order
            if not running:
                return exit_code_of(stop.signal) if stop.signal else 0
            for end in runner.finished(LOOK_SECONDS):
                order = running.pop(end.handle)
                was_asked = bool(stop) or end.handle in told
                if end.exit_code < 0 and not was_asked and attempts[order.name] < ATTEMPTS:
                    again.append(order)
                else:
                    work.ended(order, end, was_stopped=bool(stop))
            names = {order.name: handle for handle, order in running.items()}
            unwanted = names if stop else work.unwanted()
            for handle in {names[name] for name in unwanted if name in names} - told:
                runner.stop(handle)
                told.add(handle)


def _next(again: list[TrialOrder], work: Work) -> TrialOrder | None:
    return again.pop() if again else work.next_order()
