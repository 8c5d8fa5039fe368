"""Runs trials on slots: starts the next one, collects results, stops pruned ones. Also the slots of this machine."""

from __future__ import annotations

import os
import time
from collections import Counter
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from palaestra.core.child_process import LineChild, describe_exit, module_command
from palaestra.core.errors import RunFailed
from palaestra.core.executor import load_service
from palaestra.core.trials import SlotRequest, TrialRequest, TrialResult
from palaestra.runner.launcher import LAUNCHER, REPORT_VARIABLE, receive_report
from palaestra.runner.signals import StopNow, exit_code_of, stop_on_signals

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from palaestra.core.trials import SlotRequest, SlotsPlugin, TrialRequest, TrialRunner

POLL_SECONDS = 0.5
RESTARTS = 3  # of a run whose machine was lost or whose process was killed
EMPTY_SECONDS = 60.0  # without a slot, before the sweep is interrupted


class TrialSource(Protocol):
    """Provides trials and records their results."""

    def next_order(self) -> TrialRequest | None:
        """None: nothing to start now, perhaps after a result."""
        ...

    def on_result(self, order: TrialRequest, end: TrialResult, *, was_stopped: bool) -> None:
        """`was_stopped`: the sweep was interrupted, and the run is to be continued later."""
        ...

    def on_restart(self, order: TrialRequest, end: TrialResult) -> None:
        """Called when the machine or the process was lost; the run restarts from its last checkpoint."""
        ...

    def names_to_stop(self) -> Iterable[str]:
        """Names of runs to stop."""
        ...


def find_slots(executor: str) -> SlotsPlugin:
    """The slots of an executor, by name; nothing is opened yet."""
    return load_service(executor, "trial_slots")


def run_trials(runner: TrialRunner, work: TrialSource) -> int:
    """Runs all trials. Returns 0, or the exit code of a signal (130, 143) once all have saved.

    A second signal kills all at once; runs are then continued from their last checkpoint.
    """
    try:
        return _work(runner, work)
    except StopNow as now:
        return now.exit_code


def _work(runner: TrialRunner, work: TrialSource) -> int:
    running: dict[str, TrialRequest] = {}  # by handle
    stopped: set[str] = set()  # handles with a requested stop
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
            _require_slots(empty_since)
            for end in runner.finished(POLL_SECONDS):
                order = running.pop(end.handle)
                was_asked = bool(stop) or end.handle in stopped
                is_lost = end.is_lost or end.exit_code < 0
                if is_lost and not was_asked and restarts[order.name] < RESTARTS:
                    restarts[order.name] += 1
                    queue.put_back(order)
                    work.on_restart(order, end)
                else:
                    work.on_result(order, replace(end, is_lost=is_lost and not was_asked), was_stopped=bool(stop))
            names = {order.name: handle for handle, order in running.items()}
            names_to_stop = names if stop else work.names_to_stop()
            for handle in {names[name] for name in names_to_stop if name in names} - stopped:
                runner.stop(handle)
                stopped.add(handle)


class _Queue:
    """Lost runs first, then the next trials."""

    def __init__(self, work: TrialSource) -> None:
        self._work = work
        self._waiting: list[TrialRequest] = []

    def next(self) -> TrialRequest | None:
        return self._waiting.pop(0) if self._waiting else self._work.next_order()

    def put_back(self, order: TrialRequest) -> None:
        self._waiting.append(order)

    def is_empty(self) -> bool:
        """Whether nothing is left to start; a trial that is found is kept for `next`."""
        if not self._waiting and (order := self._work.next_order()) is not None:
            self._waiting.append(order)
        return not self._waiting


def _require_slots(empty_since: float | None) -> None:
    if empty_since is not None and time.monotonic() - empty_since > EMPTY_SECONDS:
        raise RunFailed(
            f"No slot was available for {EMPTY_SECONDS:.0f} s: all machines have left the cluster.",
            "Start workers again; the same command resumes the sweep.",
        )


PROCESS_POLL_SECONDS = 0.05
RANK_VARIABLES = {"RANK", "LOCAL_RANK", "WORLD_SIZE"}  # a trial is a separate training, not a rank of this one
TAIL_BYTES = 2_000


class LocalTrial:
    """In a process group of its own, so that a Ctrl-C reaches it once, through us; killed when we are killed."""

    def __init__(self, order: TrialRequest) -> None:
        self._log = order.log
        variables = {name: value for name, value in os.environ.items() if name not in RANK_VARIABLES}
        with order.log.open("ab") as log:
            self._child = LineChild(
                module_command("palaestra.runner"),
                variables={**variables, LAUNCHER: str(os.getpid())},
                output=log,
                errors=log,
                pipe_variable=REPORT_VARIABLE,
            )
        self.process = self._child.process
        self._child.send_line(order.job)
        self._child.close_input()

    def end(self, handle: str) -> TrialResult:
        """Result of a process that has ended; read once."""
        code = self.process.returncode
        exit_report = receive_report(self._child)
        if exit_report is not None:
            return TrialResult(handle, code, f"{exit_report.error} {exit_report.hint}".strip())
        if code < 0:
            return TrialResult(handle, code, f"Its process {describe_exit(code)}.")
        return TrialResult(handle, code, "" if code == 0 else last_line(self._log))


class LocalSlots:
    """Trials as processes of this machine. The kernel ends a trial with the thread that started it."""

    def __init__(self, wanted: SlotRequest) -> None:
        self.slots = wanted.count or max(1, core_count() // wanted.cpus_each)
        self._trials: dict[str, LocalTrial] = {}

    def start(self, order: TrialRequest) -> str:
        self._trials[order.name] = LocalTrial(order)
        return order.name

    def finished(self, seconds: float) -> list[TrialResult]:
        deadline = time.monotonic() + seconds
        while True:
            over = [name for name, trial in self._trials.items() if trial.process.poll() is not None]
            if over or time.monotonic() >= deadline:
                return [self._trials.pop(name).end(name) for name in over]
            time.sleep(PROCESS_POLL_SECONDS)

    def stop(self, handle: str) -> None:
        if handle in self._trials:
            self._trials[handle].process.terminate()

    def close(self) -> None:
        for trial in self._trials.values():
            trial.process.kill()
        for trial in self._trials.values():
            trial.process.wait()
            trial.end("")
        self._trials.clear()


def core_count() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def last_line(log: Path) -> str:
    """The last line that a process printed, for one that reported no error."""
    with log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - TAIL_BYTES))
        lines = stream.read().decode(errors="replace").split("\n")
    printed = [line.strip() for line in lines if line.strip()]
    return printed[-1] if printed else f"It printed nothing; see {log}."
