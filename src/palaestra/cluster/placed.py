"""A rank on a machine of the cluster, as the driver sees it: asked without waiting, because a machine may be gone."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from palaestra.workers.account import Account

if TYPE_CHECKING:
    from palaestra.cluster.rank import RankReport

LOST = 1  # exit code of a rank whose machine or actor is gone


class PlacedRank:
    """What `workers.launch` wants to know of a rank, gathered from the reports of its actor."""

    def __init__(self, ray: Any, actor: Any, number: int, host: str) -> None:
        self.number = number
        self.code: int | None = None
        self.ended_at: float | None = None  # of the driver's monotonic clock
        self.was_killed = False
        self.account: Account | None = None
        self.pid = 0
        self._ray = ray
        self._actor = actor
        self._host = host
        self._asked: Any = None
        self._signals: list[int] = []

    def send_signal(self, number: int) -> None:
        """Only noted: it may come in the middle of a call into Ray, and goes out with the next look."""
        self._signals.append(number)

    def look(self) -> None:
        """Pass signals on and take in what the actor has answered by now."""
        if self.code is not None:
            return
        while self._signals:
            self._actor.signal.remote(self._signals.pop(0))
        if self._asked is None:
            self._asked = self._actor.report.remote()
        if not self._ray.wait([self._asked], timeout=0)[0]:
            return
        asked, self._asked = self._asked, None
        try:
            self._take(self._ray.get(asked))
        except self._ray.exceptions.RayError as error:
            self._lose(error)

    def kill(self) -> None:
        if self.code is None and not self.was_killed:
            self.was_killed = True
            self._actor.kill.remote()

    def _take(self, report: RankReport) -> None:
        sys.stderr.buffer.write(report.output)
        sys.stderr.flush()
        self.pid = report.pid
        if report.code is None:
            return
        behind = time.monotonic() - report.now  # their clock against ours; the way here is shorter than what matters
        self.code = report.code
        self.ended_at = behind + (report.ended_at or report.now)
        if report.account is not None:
            account = Account(**report.account)
            self.account = Account(**{**report.account, "at": account.at + behind})

    def _lose(self, error: Exception) -> None:
        now = time.monotonic()
        first = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        self.code, self.ended_at = LOST, now
        if not self.was_killed:
            self.account = Account(LOST, now, error=f"Ray lost it on {self._host}: {first}")
