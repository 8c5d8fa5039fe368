"""Several processes that play one plan: each gets a share when it has nothing to do, and gives results as they come.

Seeds decide results, so it does not matter who plays which. A process that is lost costs time: its share goes to the
others.
"""

from __future__ import annotations

import json
import logging
import os
import selectors
import subprocess
import sys
from collections import deque
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from palaestra.core.errors import RunFailed
from palaestra.evaluation.request import episode_from

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path
    from types import TracebackType

    from palaestra.core.episodes import EpisodeResult
    from palaestra.core.evaluation import EvaluationPlan
    from palaestra.evaluation.judged import Judged

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.1  # how soon a stop is noticed while nothing comes
STANDARD_ERROR = 2


@dataclass(frozen=True)
class Program:
    """What each process runs; the descriptor for its answers is added as the last word."""

    command: tuple[str, ...]
    variables: dict[str, str]  # beside those that we have
    directory: Path | None = None  # to work in


class PlayerProcess:
    """One process with the policy; it ends with the one that started it, however that ends."""

    def __init__(self, number: int, start: dict[str, Any], program: Program) -> None:
        self.number = number
        self.share: list[int] = []  # seeds that it was given and has not answered
        self._text = b""
        self.answers, told = os.pipe()
        # What an environment prints must not get between the answers, so they have a pipe of their own.
        self._process = subprocess.Popen(
            [*program.command, str(told)],
            stdin=subprocess.PIPE,
            stdout=STANDARD_ERROR,
            cwd=program.directory,
            env={**os.environ, "OMP_NUM_THREADS": "1", **program.variables},
            pass_fds=(told,),
            process_group=0,  # Ctrl-C is for who started it
        )
        os.close(told)
        self._say(start)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: dict[str, Any]) -> None:
        """To a process that takes other messages than plans."""
        self._say(message)

    def give(self, plan: EvaluationPlan, seeds: list[int]) -> None:
        self.share = seeds
        self._say({"plan": asdict(replace(plan, seeds=tuple(seeds)))})

    def hear(self) -> list[dict[str, Any]] | None:
        """Whole answers that have come; None when it has ended."""
        data = os.read(self.answers, 1 << 16)
        if not data:
            return None
        *lines, self._text = (self._text + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):  # what it had not yet read is of no use to it now
                self._process.stdin.close()
        os.close(self.answers)

    def _say(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:  # it is gone; `hear` says so
            return


class Troupe:
    """Processes that are told `start` and then plans, whatever it is that they run."""

    def __init__(self, start: dict[str, Any], count: int, program: Program) -> None:
        self._start = {**start, "parent": os.getpid()}
        self._program = program
        self.lane: Path | None = None  # where they can be watched, each in the slot of its number
        self.count = count
        self._players: list[PlayerProcess] = []

    def __enter__(self) -> Self:
        for number in range(self.count):
            self._players.append(PlayerProcess(number, self._start_of(number), self._program))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._players:
            self._players.pop().end()

    def _start_of(self, number: int) -> dict[str, Any]:
        return {**self._start, "lane": None if self.lane is None else str(self.lane), "slot": number}

    @property
    def code_differences(self) -> Mapping[str, tuple[str, ...]]:
        """None: they are started from the code that is here."""
        return {}

    @property
    def pids(self) -> list[int]:
        return [player.pid for player in self._players]

    def episodes(self, plan: EvaluationPlan, is_late: Callable[[], bool]) -> Iterator[EpisodeResult]:
        """As they come, in no order. When it gets late, those under way are given up, and the processes with them."""
        if not self._players:  # it got late once before
            self.__enter__()
        waiting = deque(plan.seeds)
        missing = set(plan.seeds)
        with selectors.DefaultSelector() as selector:
            for player in self._players:
                selector.register(player.answers, selectors.EVENT_READ, player)
                self._supply(player, plan, waiting)
            while missing:
                if is_late():
                    self.__exit__(None, None, None)
                    return
                for key, _ in selector.select(LOOK_SECONDS):
                    for episode in self._take(key.data, plan, waiting, selector):
                        missing.discard(int(episode.seed or 0))
                        yield episode

    def episode_of(self, answer: dict[str, Any]) -> EpisodeResult:
        return episode_from(answer["episode"])

    def _take(
        self, player: PlayerProcess, plan: EvaluationPlan, waiting: deque[int], selector: selectors.BaseSelector
    ) -> Iterator[EpisodeResult]:
        answers = player.hear()
        if answers is None:
            selector.unregister(player.answers)
            self._bury(player, plan, waiting)
            return
        for answer in answers:
            if "error" in answer:
                error = RunFailed(answer["error"], answer["hint"])
                error.exit_code = answer["exit_code"]
                raise error
            episode = self.episode_of(answer)
            player.share.remove(int(episode.seed or 0))
            yield episode
        if not player.share:
            self._supply(player, plan, waiting)

    def _supply(self, player: PlayerProcess, plan: EvaluationPlan, waiting: deque[int]) -> None:
        """Large shares first, so that little is said; small ones at last, so that all end at about the same time."""
        size = max(1, len(waiting) // (2 * len(self._players)))
        seeds = [waiting.popleft() for _ in range(min(size, len(waiting)))]
        if seeds:
            player.give(plan, seeds)

    def _bury(self, player: PlayerProcess, plan: EvaluationPlan, waiting: deque[int]) -> None:
        """What it had still to play goes to the others; without any it is the end."""
        self._players.remove(player)
        player.end()
        if not self._players:
            raise RunFailed(
                f"All {self.count} processes that played '{plan.env_id}' ended without a word.",
                "Does the environment take the process down? Try one: --workers 1",
            )
        logger.warning("Process %d of %d that play is lost; the others take over.", player.number + 1, self.count)
        waiting.extendleft(reversed(player.share))
        for other in self._players:
            if not other.share:
                self._supply(other, plan, waiting)


class Crowd(Troupe):
    """Of our own policies."""

    def __init__(self, judged: Judged, count: int, videos: Path | None = None, replays: Path | None = None) -> None:
        start = {
            "sidecar": str(judged.checkpoint.path),
            "trust_module": True,  # whoever loaded it here has decided that already
            "videos": None if videos is None else str(videos),
            "replays": None if replays is None else str(replays),
        }
        path = os.pathsep.join(filter(None, sys.path))
        command = (sys.executable, "-m", "palaestra.evaluation.player_process")
        super().__init__(start, count, Program(command, {"PYTHONPATH": path}))
