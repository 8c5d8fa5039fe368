"""Trials as processes of this machine, as many side by side as there are slots."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from palaestra.core.child_process import LineChild, describe_exit, module_command
from palaestra.core.trials import SlotsWanted, TrialEnd, TrialOrder
from palaestra.runner.launcher import LAUNCHER, REPORT_VARIABLE, receive_report

if TYPE_CHECKING:
    from pathlib import Path

LOOK_SECONDS = 0.05
RANK_VARIABLES = {"RANK", "LOCAL_RANK", "WORLD_SIZE"}  # a trial is a training of its own, not a part of ours
TAIL_BYTES = 2_000


class LocalTrial:
    """In a process group of its own, so that a Ctrl-C reaches it once, through us; killed when we are killed."""

    def __init__(self, order: TrialOrder) -> None:
        self._log = order.log
        variables = {name: value for name, value in os.environ.items() if name not in RANK_VARIABLES}
        with order.log.open("ab") as log:
            self._child = LineChild(
                module_command("palaestra.runner"),
                variables={**variables, LAUNCHER: str(os.getpid())},
                output=log,
                errors=log,
                answer_variable=REPORT_VARIABLE,
            )
        self.process = self._child.process
        self._child.send_line(order.job)
        self._child.close_input()

    def end(self, handle: str) -> TrialEnd:
        """Of a process that is over; asked once."""
        code = self.process.returncode
        exit_report = receive_report(self._child)
        if exit_report is not None:
            return TrialEnd(handle, code, f"{exit_report.error} {exit_report.hint}".strip())
        if code < 0:
            return TrialEnd(handle, code, f"Its process {describe_exit(code)}.")
        return TrialEnd(handle, code, "" if code == 0 else last_line(self._log))


class LocalSlots:
    """Started from the thread that waits for them: the kernel ends a trial together with that thread."""

    def __init__(self, wanted: SlotsWanted) -> None:
        self.slots = wanted.count or max(1, core_count() // wanted.cpus_each)
        self._trials: dict[str, LocalTrial] = {}

    def start(self, order: TrialOrder) -> str:
        self._trials[order.name] = LocalTrial(order)
        return order.name

    def finished(self, seconds: float) -> list[TrialEnd]:
        deadline = time.monotonic() + seconds
        while True:
            over = [name for name, trial in self._trials.items() if trial.process.poll() is not None]
            if over or time.monotonic() >= deadline:
                return [self._trials.pop(name).end(name) for name in over]
            time.sleep(LOOK_SECONDS)

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
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def last_line(log: Path) -> str:
    """The end of what a process printed before it left without a word of its own."""
    with log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - TAIL_BYTES))
        lines = stream.read().decode(errors="replace").split("\n")
    spoken = [line.strip() for line in lines if line.strip()]
    return spoken[-1] if spoken else f"It left without a word; see {log}."
