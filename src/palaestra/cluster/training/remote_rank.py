"""The driver's handle of a rank or trial on a machine of the cluster: polled without blocking, as it may be lost."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

from palaestra.cluster.training.run_mirror import add_log
from palaestra.core.errors import PalaestraError
from palaestra.runner.launcher import ExitReport

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from palaestra.cluster.training.rank_actor import RankReport
    from palaestra.cluster.training.run_mirror import RunMirror
    from palaestra.cluster.training.run_sender import RunReport

LOST = 1  # exit code of a rank whose machine or actor is gone
RETRY_SECONDS = 1.0  # between two attempts at a disk that is full
GIVE_UP_SECONDS = 60.0  # of such attempts, after the process has ended
LONGEST_PAUSE = 1.0  # seconds between two polls that count; more means that the driver itself stood still
CLOSE_SECONDS = 10.0
MAX_REASON = 160  # characters of what Ray says


class RemoteRank:
    """What `workers.launch` wants to know of a rank, gathered from the reports of its actor.

    `mirror` is the copy of its run, where the run lives on a disk of its own machine; below `runs_root` is the run to
    whose logs a rank other than the leader adds. Without a report for `node_timeout` seconds the rank counts as lost;
    None leaves that to Ray.
    """

    def __init__(
        self,
        ray: Any,
        actor: Any,
        number: int,
        host: str,
        *,
        mirror: RunMirror | None = None,
        node_timeout: float | None = None,
        write_output: Callable[[bytes], None] | None = None,
        runs_root: Path | None = None,
    ) -> None:
        self.number = number
        self.code: int | None = None
        self.ended_at: float | None = None  # of the driver's monotonic clock
        self.was_killed = False
        self.is_lost = False  # with its actor or its machine
        self.exit_report: ExitReport | None = None
        self.pid = 0
        self.host = host
        self.mirror = mirror
        self.there = ""  # the folder of runs on its machine, where that is its own
        self._runs_root = runs_root
        self._logs: list[RunReport] = []  # that came before the run was here
        self._ray = ray
        self._actor = actor
        self._timeout = node_timeout
        self._write_output = write_output or _to_standard_error
        self._pending_report: Any = None
        self._silence = 0.0  # seconds
        self._polled_at = time.monotonic()
        self._retry_at = 0.0
        self._has_ended = False  # its process; there may be more to report
        self._final: RankReport | None = None  # the last report, while the disk has not taken all of the run
        self._signals: list[int] = []

    def send_signal(self, number: int) -> None:
        """Remembers the signal, which may arrive during a call into Ray; the next poll sends it."""
        self._signals.append(number)

    def poll(self) -> None:
        """Sends pending signals and reads the actor's reports."""
        now = time.monotonic()
        pause, self._polled_at = min(now - self._polled_at, LONGEST_PAUSE), now
        if self.code is not None:
            return
        self._retry(now)
        if self._final is not None:
            return
        while self._signals:
            self._actor.signal.remote(self._signals.pop(0))
        if self._pending_report is None:
            self._pending_report, self._silence = self._actor.report.remote(wants_run=not self._is_behind()), 0.0
        if not self._ray.wait([self._pending_report], timeout=0)[0]:
            self._silence += pause
            if self._timeout is not None and self._silence > self._timeout:
                self._lose(f"no sign of life for {self._timeout:g} s")
            return
        asked, self._pending_report = self._pending_report, None
        try:
            report = self._ray.get(asked)
        except self._ray.exceptions.RayError as error:
            self._lose(first_line(error))
            return
        self._take(report)

    def kill(self) -> None:
        if self.code is None and not self.was_killed and not self._has_ended:
            self.was_killed = True
            self._actor.kill.remote()

    def _take(self, report: RankReport) -> None:
        if report.output:
            self._write_output(
                report.output.replace(self.there.encode(), self._here()) if self.there else report.output
            )
        self._has_ended = report.has_ended
        self.pid = os.getpid() if self.mirror is not None else report.pid  # whom the status of the run names
        try:
            if report.run is not None and self.mirror is not None:
                self.mirror.apply(report.run, self.there)
            elif report.run is not None and self._runs_root is not None:
                self._logs.append(report.run)
            self._logs = [one for one in self._logs if not add_log(self._runs_root, one)]
        except PalaestraError as error:
            self._fail(error)
            return
        if report.code is not None and self._is_behind():
            self._final = report
        elif report.code is not None:
            self._end(report)

    def _end(self, report: RankReport) -> None:
        behind = time.monotonic() - report.now  # their clock against ours; the way here is shorter than what matters
        self.code = report.code
        self.ended_at = behind + (report.ended_at or report.now)
        if report.exit_report is not None:
            exit_report = ExitReport(**{**report.exit_report, "at": report.exit_report["at"] + behind})
            self.exit_report = self._localized(exit_report) if self.there else exit_report

    def _retry(self, now: float) -> None:
        """The driver's disk is full: training continues remotely, and what it sent is written once there is room."""
        if not self._is_behind() or now < self._retry_at:
            return
        assert self.mirror is not None, "it is behind"
        self._retry_at = now + RETRY_SECONDS
        self.mirror.retry()
        if self._final is None:
            return
        if not self.mirror.is_behind:
            self._end(self._final)
        elif now - self._final_since() > GIVE_UP_SECONDS:
            self.code, self.ended_at = LOST, now
            self.exit_report = ExitReport(
                LOST, now, error=self.mirror.problem, hint="Make room, then continue the run."
            )

    def _final_since(self) -> float:
        if self.ended_at is None:
            self.ended_at = time.monotonic()
        return self.ended_at

    def _is_behind(self) -> bool:
        return self.mirror is not None and self.mirror.is_behind

    def _lose(self, reason: str) -> None:
        now = time.monotonic()
        self.code, self.ended_at = LOST, now
        self.is_lost = not self.was_killed
        if not self.was_killed:
            message = f"Ray lost it on {self.host}: {reason}"
            self.exit_report = ExitReport(LOST, now, error=message)
            if self.mirror is not None:
                self.mirror.lose(message)

    def _fail(self, error: PalaestraError) -> None:
        """The received files cannot belong to this run; the remote process is stopped."""
        self.kill()
        now = time.monotonic()
        self.code, self.ended_at = error.exit_code, now
        self.exit_report = ExitReport(error.exit_code, now, error=error.message, hint=error.hint)

    def _localized(self, exit_report: ExitReport) -> ExitReport:
        here = self._here().decode()
        texts = {name: getattr(exit_report, name).replace(self.there, here) for name in ("directory", "error", "hint")}
        return ExitReport(**{**vars(exit_report), **texts})

    def _here(self) -> bytes:
        assert self.mirror is not None, "the run lives over there"
        return str(self.mirror.root).encode()


def end_actors(ray: Any, actors: Sequence[Any]) -> None:
    """Ends the actors; each gets a moment to remove its files. Lost machines are not waited for."""
    closed = [actor.close.remote() for actor in actors]
    if closed:
        ray.wait(closed, num_returns=len(closed), timeout=CLOSE_SECONDS)
    for actor in actors:
        ray.kill(actor)


def first_line(error: Exception) -> str:
    found = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return found if len(found) <= MAX_REASON else f"{found[:MAX_REASON]}..."


def _to_standard_error(output: bytes) -> None:
    sys.stderr.buffer.write(output)
    sys.stderr.flush()
