"""What a peer says while it trains: JSON lines on stdout, few of them. Only the standard library.

| event | fields |
|---|---|
| versions | name: version |
| started | seconds from the start of the process to the first finished update, and its steps |
| solved | seconds from the start of the process, and steps |
| measured | steps and seconds from the end of warming up to the last update |
| used | cpu_seconds and memory_mb (peak) of the process and of its ended children |

Anything else on stdout is somebody else's talk and is passed over. A peer that fails ends with another code than 0,
and the last line of its stderr is the reason.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections import deque
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from peers.settings import SOLVED_EPISODES, SOLVED_RETURN, Setting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

JOB = "PALAESTRA_PEER_JOB"


class TimedSetting(Protocol):
    """What the clock needs to know of a setting."""

    @property
    def warm_up_updates(self) -> int: ...
    @property
    def warm_up_steps(self) -> int: ...
    @property
    def total_steps(self) -> int: ...
    @property
    def until_solved(self) -> bool: ...


Setting_co = TypeVar("Setting_co", bound=TimedSetting, covariant=True)


@dataclass(frozen=True)
class Job(Generic[Setting_co]):
    setting: Setting_co
    seconds: float  # to measure for, after warming up; less where all steps are taken before
    seed: int
    began: float  # when the process was started, in seconds since 1970

    def text(self) -> str:
        return json.dumps(asdict(self))


def read_job() -> Job[Setting]:
    told = json.loads(os.environ[JOB])
    return Job(**{**told, "setting": Setting(**told["setting"])})


def say(event: str, **fields: Any) -> None:
    print(json.dumps({"event": event, **fields}), flush=True)


class Meter:
    """A peer calls `begin` before its first rollout and `update` after each update; `update` says whether to go on."""

    def __init__(
        self,
        job: Job[TimedSetting],
        say: Callable[..., None] = say,
        clock: Callable[[], float] = time.time,
        **versions: str,
    ) -> None:
        self._job, self._say, self._clock = job, say, clock
        self._returns: deque[float] = deque(maxlen=SOLVED_EPISODES)
        self._updates = 0
        self._first: tuple[int, float] | None = None  # steps and time when warming up ended
        self._last: tuple[int, float] | None = None
        self._is_solved = False
        say("versions", python=sys.version.split()[0], **versions)

    def begin(self) -> None:
        if self._job.setting.warm_up_updates == 0:
            self._first = (0, self._clock())

    def update(self, steps: int, finished: Iterable[float]) -> bool:
        """`steps` so far, and the returns of the episodes that ended since the last call, in order."""
        now, setting = self._clock(), self._job.setting
        self._updates += 1
        self._last = (steps, now)
        if self._updates == 1:
            self._say("started", seconds=now - self._job.began, steps=steps)
        if self._first is None and steps >= setting.warm_up_steps:
            self._first = self._last
        self._count(finished, now, steps)
        return steps < setting.total_steps and not self._is_over(now)

    def finish(self) -> None:
        if self._first and self._last and self._last[0] > self._first[0]:
            self._say("measured", steps=self._last[0] - self._first[0], seconds=self._last[1] - self._first[1])
        say_used(self._say)

    def _count(self, finished: Iterable[float], now: float, steps: int) -> None:
        for total_reward in finished:
            self._returns.append(total_reward)
            if not self._is_solved and is_solved(self._returns):
                self._is_solved = True
                self._say("solved", seconds=now - self._job.began, steps=steps)

    def _is_over(self, now: float) -> bool:
        if self._job.setting.until_solved:
            return self._is_solved
        return self._first is not None and now - self._first[1] >= self._job.seconds


def is_solved(returns: deque[float]) -> bool:
    return len(returns) == SOLVED_EPISODES and sum(returns) / len(returns) >= SOLVED_RETURN


def say_used(say: Callable[..., None] = say) -> None:
    """Peak memory is that of the largest process; a tree of several is looked at from outside as well."""
    own, ended = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    say(
        "used",
        cpu_seconds=own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime,
        memory_mb=max(own.ru_maxrss, ended.ru_maxrss) / 1024,
    )
