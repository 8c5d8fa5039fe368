"""The loop that keeps slots busy: start what is next, hear who ended, stop who is not wanted any more."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from palaestra.core.errors import RunFailed
from palaestra.core.executor import load_service
from palaestra.runner.signals import StopNow, exit_code_of, stop_on_signals

if TYPE_CHECKING:
    from collections.abc import Iterable

    from palaestra.core.trials import SlotsPlugin, TrialEnd, TrialOrder, TrialRunner

LOOK_SECONDS = 0.5
RESTARTS = 3  # of a run whose machine was lost, or whose process was killed by others
EMPTY_SECONDS = 60.0  # without a single slot, before the rest is left for another time


class Work(Protocol):
    """What is to be done; it also keeps the books."""

    def next_order(self) -> TrialOrder | None:
        """None: nothing to start now, perhaps later when something has ended."""
        ...

    def ended(self, order: TrialOrder, end: TrialEnd, *, was_stopped: bool) -> None:
        """`was_stopped`: we all go home, the run is to be continued another time."""
        ...

    def continued(self, order: TrialOrder, end: TrialEnd) -> None:
        """Its machine or its process was lost; it starts again from its last checkpoint."""
        ...

    def unwanted(self) -> Iterable[str]:
        """Names of runs that need not go on."""
        ...


def find_slots(executor: str) -> SlotsPlugin:
    """Who has slots, by name; nothing is opened yet."""
    return load_service(executor, "trial_slots")


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
    stopped: set[str] = set()  # handles that were asked to stop
    restarts: Counter[str] = Counter()
    queue = _Queue(work)
    empty_since: float | None = None
    with closing(runner), stop_on_signals() as stop:
        while True:
            while not stop and len(running) < runner.slots and (order := queue.next()) is not None:
                running[runner.start(order)] = order
            if not running and (stop or queue.is_empty()):
                return exit_code_of(stop.signal) if stop.signal else 0
            empty_since = None if running else (empty_since or time.monotonic())
            _demand_slots(empty_since)
            for end in runner.finished(LOOK_SECONDS):
                order = running.pop(end.handle)
                was_asked = bool(stop) or end.handle in stopped
                is_lost = end.is_lost or end.exit_code < 0
                if is_lost and not was_asked and restarts[order.name] < RESTARTS:
                    restarts[order.name] += 1
                    queue.put_back(order)
                    work.continued(order, end)
                else:
                    work.ended(order, replace(end, is_lost=is_lost and not was_asked), was_stopped=bool(stop))
            names = {order.name: handle for handle, order in running.items()}
            unwanted = names if stop else work.unwanted()
            for handle in {names[name] for name in unwanted if name in names} - stopped:
                runner.stop(handle)
                stopped.add(handle)


class _Queue:
    """Lost runs first, then what the work has next."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._waiting: list[TrialOrder] = []

    def next(self) -> TrialOrder | None:
        return self._waiting.pop(0) if self._waiting else self._work.next_order()

    def put_back(self, order: TrialOrder) -> None:
        self._waiting.append(order)

    def is_empty(self) -> bool:
        """Whether nothing is left to be started; what is found is kept for `next`."""
        if not self._waiting and (order := self._work.next_order()) is not None:
            self._waiting.append(order)
        return not self._waiting


def _demand_slots(empty_since: float | None) -> None:
    if empty_since is not None and time.monotonic() - empty_since > EMPTY_SECONDS:
        raise RunFailed(
            f"There has been no slot for a run for {EMPTY_SECONDS:.0f} s: all machines have left the cluster.",
            "Start workers again; the same command continues where this one ended.",
        )
