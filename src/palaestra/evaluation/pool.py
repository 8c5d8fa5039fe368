"""Several processes of this machine that share the seeds of a plan.

Each process gets a share of the seeds when it is idle and sends results as episodes end. The share of a process that
dies goes to the others.
"""

from __future__ import annotations

import logging
import os
import selectors
import sys
from collections import deque
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from palaestra.core.child_process import LineChild
from palaestra.core.errors import RunFailed
from palaestra.evaluation.plans import episode_from

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path
    from types import TracebackType

    from palaestra.core.episodes import EpisodeResult
    from palaestra.core.evaluation import EvaluationPlan
    from palaestra.evaluation.targets import LoadedTarget

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.1  # how soon a stop is noticed while no result comes


@dataclass(frozen=True)
class Program:
    """What each process runs; the file descriptor for its messages is appended to the command."""

    command: tuple[str, ...]
    variables: dict[str, str]  # added to the environment of this process
    directory: Path | None = None  # working directory


class EvaluatorProcess:
    """A process that holds a policy; it is killed when the process that started it ends."""

    def __init__(self, number: int, start: dict[str, Any], program: Program) -> None:
        self.number = number
        self.share: list[int] = []  # assigned seeds without a result
        self._child = LineChild(
            program.command,
            variables={**os.environ, "OMP_NUM_THREADS": "1", **program.variables},
            folder=program.directory,
        )
        self.messages = self._child.descriptor  # the descriptor to select on
        self.send(start)

    @property
    def pid(self) -> int:
        return self._child.pid

    def send(self, message: dict[str, Any]) -> None:
        self._child.send(message)

    def assign(self, plan: EvaluationPlan, seeds: list[int]) -> None:
        self.share = seeds
        self.send({"plan": asdict(replace(plan, seeds=tuple(seeds)))})

    def receive(self) -> list[dict[str, Any]] | None:
        """The complete messages that have arrived; None when the process has ended."""
        try:
            return self._child.receive()
        except EOFError:
            return None

    def kill(self) -> None:
        self._child.end()


class PoolEvaluator:
    """An `Evaluator` with `count` processes, which receive `start` and then plans."""

    def __init__(self, start: dict[str, Any], count: int, program: Program) -> None:
        self._start = {**start, "parent": os.getpid()}
        self._program = program
        self.frame_buffer: Path | None = None  # where the processes publish frames, each in the slot of its number
        self.count = count
        self._processes: list[EvaluatorProcess] = []

    def __enter__(self) -> Self:
        for number in range(self.count):
            self._processes.append(EvaluatorProcess(number, self._start_message(number), self._program))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._processes:
            self._processes.pop().kill()

    def _start_message(self, number: int) -> dict[str, Any]:
        path = None if self.frame_buffer is None else str(self.frame_buffer)
        return {**self._start, "frame_buffer": path, "slot": number}

    @property
    def code_differences(self) -> Mapping[str, tuple[str, ...]]:
        """Empty: the processes run the code of this one."""
        return {}

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    def evaluate(self, plan: EvaluationPlan, is_stopped: Callable[[], bool]) -> Iterator[EpisodeResult]:
        """Once `is_stopped`, the processes are killed and their unfinished episodes are dropped."""
        if not self._processes:  # an earlier plan was stopped
            self.__enter__()
        waiting = deque(plan.seeds)
        missing = set(plan.seeds)
        with selectors.DefaultSelector() as selector:
            for process in self._processes:
                selector.register(process.messages, selectors.EVENT_READ, process)
                self._assign_next(process, plan, waiting)
            while missing:
                if is_stopped():
                    self.__exit__(None, None, None)
                    return
                for key, _ in selector.select(POLL_SECONDS):
                    for episode in self._receive(key.data, plan, waiting, selector):
                        missing.discard(int(episode.seed or 0))
                        yield episode

    def parse_episode(self, message: dict[str, Any]) -> EpisodeResult:
        return episode_from(message["episode"])

    def _receive(
        self, process: EvaluatorProcess, plan: EvaluationPlan, waiting: deque[int], selector: selectors.BaseSelector
    ) -> Iterator[EpisodeResult]:
        messages = process.receive()
        if messages is None:
            selector.unregister(process.messages)
            self._reassign(process, plan, waiting)
            return
        for message in messages:
            if "error" in message:
                error = RunFailed(message["error"], message["hint"])
                error.exit_code = message["exit_code"]
                raise error
            episode = self.parse_episode(message)
            process.share.remove(int(episode.seed or 0))
            yield episode
        if not process.share:
            self._assign_next(process, plan, waiting)

    def _assign_next(self, process: EvaluatorProcess, plan: EvaluationPlan, waiting: deque[int]) -> None:
        """Large shares first, for few messages; small ones at the end, so that all processes end at about one time."""
        size = max(1, len(waiting) // (2 * len(self._processes)))
        seeds = [waiting.popleft() for _ in range(min(size, len(waiting)))]
        if seeds:
            process.assign(plan, seeds)

    def _reassign(self, process: EvaluatorProcess, plan: EvaluationPlan, waiting: deque[int]) -> None:
        """Gives the seeds of a dead process to the others; an error when no process is left."""
        self._processes.remove(process)
        process.kill()
        if not self._processes:
            raise RunFailed(
                f"All {self.count} processes that played '{plan.env_id}' died without an error message.",
                "The environment may crash the process. Try a single one: --workers 1",
            )
        logger.warning(
            "Evaluation process %d of %d died; the others play its episodes.", process.number + 1, self.count
        )
        waiting.extendleft(reversed(process.share))
        for other in self._processes:
            if not other.share:
                self._assign_next(other, plan, waiting)


class PolicyPoolEvaluator(PoolEvaluator):
    """Processes that run `palaestra.evaluation.pool_worker` with a checkpoint of the built-in trainer."""

    def __init__(
        self, target: LoadedTarget, count: int, videos: Path | None = None, replays: Path | None = None
    ) -> None:
        start = {
            "sidecar": str(target.checkpoint.path),
            "trust_module": True,  # decided when it was loaded in this process
            "videos": None if videos is None else str(videos),
            "replays": None if replays is None else str(replays),
        }
        path = os.pathsep.join(filter(None, sys.path))
        command = (sys.executable, "-m", "palaestra.evaluation.pool_worker")
        super().__init__(start, count, Program(command, {"PYTHONPATH": path}))
