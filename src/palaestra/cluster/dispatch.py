"""Which share is to be played next, and what is known of each request; whoever plays them is somebody else's affair.

Shares wait here and not in Ray: what is lost is counted here, and a queue of thousands costs Ray nothing.
"""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, Any

from palaestra.contracts.clock import Clock, SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palaestra.cluster.answers import Played, Refusal
    from palaestra.contracts.evaluation import EvaluationPlan, EvaluationRequest

RETRIES = 3  # of one share, whatever took it down: a lost worker, a lost machine, garbage
LARGEST_SHARE = 16  # episodes; what is lost with a worker, and how seldom one hears of it
SHARES_PER_PROCESSOR = 2  # so that all end at about the same time

Message = dict[str, Any]  # for who asked; see `palaestra.cluster.link`


@dataclass(frozen=True)
class Work:
    """A share on its way."""

    number: int  # of the request
    plan: EvaluationPlan
    attempt: int = 0


@dataclass
class _Open:
    request: EvaluationRequest
    plans: deque[EvaluationPlan]  # not dealt yet
    shares: deque[Work]  # dealt, to be sent
    began: float | None = None  # when the first share was sent
    under_way: int = 0
    retries: int = 0
    error: str = ""
    hint: str = ""
    exit_code: int = 0

    @property
    def is_over(self) -> bool:
        return not (self.plans or self.shares or self.under_way)


class Dispatch:
    """Requests in the order in which they came."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._open: dict[int, _Open] = {}
        self._episodes = 0  # not dealt yet, of all requests
        self._clock = clock or SystemClock()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, number: int, request: EvaluationRequest) -> None:
        self._open[number] = _Open(request, deque(request.plans), deque())
        self._episodes += sum(len(plan.seeds) for plan in request.plans)

    def request_of(self, work: Work) -> EvaluationRequest:
        return self._open[work.number].request

    def next(self, processors: int) -> Work | None:
        """Something to play for a cluster of that size; None when all is under way."""
        for number, one in self._open.items():
            if not one.shares and one.plans:
                plan = one.plans.popleft()
                one.shares.extend(Work(number, share) for share in _dealt(plan, self._share_size(processors)))
                self._episodes -= len(plan.seeds)
            if one.shares:
                one.began = self._clock.monotonic() if one.began is None else one.began
                one.under_way += 1
                return one.shares.popleft()
        return None

    def played(self, work: Work, played: Played) -> list[Message]:
        if work.number not in self._open:  # given up meanwhile
            return []
        self._open[work.number].under_way -= 1
        rows = [asdict(episode) for episode in played.episodes]
        told = {"id": work.number, "simulation": work.plan.simulation, "seconds": played.seconds, "episodes": rows}
        return [told, *self._ended(work.number)]

    def lost(self, work: Work, why: str) -> list[Message]:
        """Played again, as often as that is worth it; then the request goes on without these episodes."""
        if work.number not in self._open:
            return []
        one = self._open[work.number]
        one.under_way -= 1
        if work.attempt < RETRIES:
            one.retries += 1
            one.shares.appendleft(replace(work, attempt=work.attempt + 1))
            return []
        first, count = work.plan.seeds[0], len(work.plan.seeds)
        one.error = (
            f"{count} episodes of '{work.plan.simulation}' from seed {first} on failed {RETRIES + 1} times: {why}"
        )
        one.exit_code = 1
        return self._ended(work.number)

    def refused(self, work: Work, refusal: Refusal) -> list[Message]:
        """Nothing of this request can be played; what is under way of it is not waited for."""
        if work.number not in self._open:
            return []
        return self.given_up(work.number, refusal.message, refusal.hint, refusal.exit_code)

    def given_up(self, number: int, error: str, hint: str = "", exit_code: int = 1) -> list[Message]:
        one = self._open[number]
        self._episodes -= sum(len(plan.seeds) for plan in one.plans)
        one.plans.clear()
        one.shares.clear()
        one.under_way = 0
        one.error, one.hint, one.exit_code = error, hint, exit_code
        return self._ended(number)

    def numbers(self) -> list[int]:
        return list(self._open)

    def _share_size(self, processors: int) -> int:
        """Small where little is to be done and all must be busy, large where there is plenty."""
        return min(LARGEST_SHARE, max(1, ceil(self._episodes / (SHARES_PER_PROCESSOR * max(1, processors)))))

    def _ended(self, number: int) -> list[Message]:
        one = self._open[number]
        if not one.is_over:
            return []
        del self._open[number]
        seconds = 0.0 if one.began is None else self._clock.monotonic() - one.began
        words = {"error": one.error, "hint": one.hint, "exit_code": one.exit_code}
        return [{"id": number, "done": True, "seconds": seconds, "retries": one.retries, **words}]


def _dealt(plan: EvaluationPlan, size: int) -> Iterator[EvaluationPlan]:
    for first in range(0, len(plan.seeds), size):
        yield replace(plan, seeds=plan.seeds[first : first + size])
