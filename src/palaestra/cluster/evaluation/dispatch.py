"""Which share is played next, and the state of each request.

Shares wait here and not in Ray, so that losses are counted here and a long queue costs Ray nothing. A share may be sent
twice: when a node falls silent, every share that was sent is sent again once nothing else waits. The first result of a
share counts, later ones are dropped.
"""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from math import ceil
from typing import TYPE_CHECKING, Any

from palaestra.core.clock import Clock, SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palaestra.cluster.evaluation.messages import PlayedShare, Refusal
    from palaestra.core.evaluation import EvaluationPlan, EvaluationRequest

RETRIES = 3  # of one share: after a lost worker, a lost machine, or an invalid response
LARGEST_SHARE = 16  # episodes that are lost with a worker, and between two messages
SHARES_PER_PROCESSOR = 2  # so that all end at about the same time

Message = dict[str, Any]  # for the client; see `palaestra.cluster.evaluation.client`


@dataclass(frozen=True)
class Work:
    """A share that is played."""

    number: int  # of the request
    plan: EvaluationPlan
    index: int = 0  # of the share; copies of one share have the same
    attempt: int = 0


@dataclass
class _Open:
    request: EvaluationRequest
    plans: deque[EvaluationPlan]  # not divided into shares yet
    waiting: deque[Work] = field(default_factory=deque)  # to be sent
    backups: deque[Work] = field(default_factory=deque)  # out on a node that may be lost
    copies: dict[int, int] = field(default_factory=dict)  # by index of a share without a result: how often it is out
    began: float | None = None  # when the first share was sent
    retries: int = 0
    error: str = ""
    hint: str = ""
    exit_code: int = 0
    code_differences: dict[str, list[str]] = field(default_factory=dict)  # by host that played with other code

    @property
    def is_over(self) -> bool:
        return not (self.plans or self.waiting or self.copies)


class Dispatch:
    """Requests in the order in which they came."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._open: dict[int, _Open] = {}
        self._episodes = 0  # not divided into shares yet, of all requests
        self._indices = count()
        self._clock = clock or SystemClock()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, number: int, request: EvaluationRequest) -> None:
        self._open[number] = _Open(request, deque(request.plans))
        self._episodes += sum(len(plan.seeds) for plan in request.plans)

    def request_of(self, work: Work) -> EvaluationRequest:
        return self._open[work.number].request

    def is_open(self, work: Work) -> bool:
        """Whether its result is still needed."""
        return work.number in self._open and work.index in self._open[work.number].copies

    def next(self, processors: int) -> Work | None:
        """The next share for a cluster of that size; None when all were sent."""
        for number, one in self._open.items():
            if not one.waiting and one.plans:
                plan = one.plans.popleft()
                shares = _divide(plan, self._share_size(processors))
                one.waiting.extend(Work(number, share, next(self._indices)) for share in shares)
                self._episodes -= len(plan.seeds)
            if one.waiting:
                return self._sent(one, one.waiting.popleft())
        return self._next_backup()

    def suspect(self, work: Work) -> None:
        """The share may be on a lost node: it is sent a second time when nothing else waits."""
        if self.is_open(work):
            self._open[work.number].backups.append(work)

    def played(self, work: Work, played: PlayedShare, differences: list[str] | None = None) -> list[Message]:
        """`differences` are those of the code that played it, where they were accepted."""
        if not self.is_open(work):  # given up, or a copy was faster
            return []
        one = self._open[work.number]
        del one.copies[work.index]
        if differences:
            one.code_differences[played.worker.host] = differences
        rows = [asdict(episode) for episode in played.episodes]
        told = {"id": work.number, "simulation": work.plan.simulation, "seconds": played.seconds, "episodes": rows}
        return [told, *self._ended(work.number)]

    def returned(self, work: Work) -> None:
        """Takes back the share of a node that cannot be used; this is no attempt."""
        if self._came_back(work):
            self._open[work.number].waiting.appendleft(work)

    def lost(self, work: Work, why: str) -> list[Message]:
        """Plays a lost share again, up to `RETRIES` times; then the request continues without its episodes."""
        if not self._came_back(work):
            return []
        one = self._open[work.number]
        if work.attempt < RETRIES:
            one.retries += 1
            one.waiting.appendleft(replace(work, attempt=work.attempt + 1))
            return []
        first, episodes = work.plan.seeds[0], len(work.plan.seeds)
        one.error = (
            f"{episodes} episodes of '{work.plan.simulation}' from seed {first} on failed {RETRIES + 1} times: {why}"
        )
        one.exit_code = 1
        return self._ended(work.number)

    def refused(self, work: Work, refusal: Refusal) -> list[Message]:
        """Ends a request that cannot be played."""
        if work.number not in self._open:
            return []
        return self.given_up(work.number, refusal.message, refusal.hint, refusal.exit_code)

    def given_up(self, number: int, error: str, hint: str = "", exit_code: int = 1) -> list[Message]:
        one = self._open[number]
        self._episodes -= sum(len(plan.seeds) for plan in one.plans)
        one.plans.clear()
        one.waiting.clear()
        one.copies.clear()
        one.error, one.hint, one.exit_code = error, hint, exit_code
        return self._ended(number)

    def numbers(self) -> list[int]:
        return list(self._open)

    def _sent(self, one: _Open, work: Work) -> Work:
        one.began = self._clock.monotonic() if one.began is None else one.began
        one.copies[work.index] = one.copies.get(work.index, 0) + 1
        return work

    def _next_backup(self) -> Work | None:
        for one in self._open.values():
            while one.backups:
                work = one.backups.popleft()
                if work.index in one.copies:
                    one.retries += 1
                    return self._sent(one, work)
        return None

    def _came_back(self, work: Work) -> bool:
        """Removes a copy without a result. True: no other copy was sent, so the share must be sent again."""
        if not self.is_open(work):
            return False
        one = self._open[work.number]
        one.copies[work.index] -= 1
        if one.copies[work.index]:
            return False
        del one.copies[work.index]
        one.backups = deque(each for each in one.backups if each.index != work.index)
        return True

    def _share_size(self, processors: int) -> int:
        """Small for few episodes, so that all processors are busy; large for many."""
        return min(LARGEST_SHARE, max(1, ceil(self._episodes / (SHARES_PER_PROCESSOR * max(1, processors)))))

    def _ended(self, number: int) -> list[Message]:
        one = self._open[number]
        if not one.is_over:
            return []
        del self._open[number]
        seconds = 0.0 if one.began is None else self._clock.monotonic() - one.began
        outcome = {"error": one.error, "hint": one.hint, "exit_code": one.exit_code}
        code = {"code_differences": one.code_differences} if one.code_differences else {}
        return [{"id": number, "done": True, "seconds": seconds, "retries": one.retries, **outcome, **code}]


def _divide(plan: EvaluationPlan, size: int) -> Iterator[EvaluationPlan]:
    for first in range(0, len(plan.seeds), size):
        yield replace(plan, seeds=plan.seeds[first : first + size])
