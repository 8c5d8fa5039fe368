"""The spare process that judges beside a training: asked, listened to without waiting, and replaced when it is lost."""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import subprocess
import sys
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from palaestra.core.clock import SystemClock
from palaestra.runs.environment import RANK_VARIABLES

if TYPE_CHECKING:
    from palaestra.core.checkpoint import Checkpoint
    from palaestra.core.clock import Clock
    from palaestra.runs.directory import RunDirectory

logger = logging.getLogger(__name__)

FATE_SECONDS = 0.5  # between the end of its last word and its own
ATTEMPTS = 2  # whatever takes the process down twice with one checkpoint will do so again


@dataclass(frozen=True)
class Verdict:
    """What an evaluator has to say of an epoch: figures at the step that was judged, or why there are none."""

    epoch: int
    step: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)
    error: str = ""


class SpareProcess:
    """Told one epoch at a time, so that whoever finds it dead knows which one it died of."""

    def __init__(self, directory: RunDirectory) -> None:
        self._text = b""
        self.answers, told = os.pipe()
        os.set_blocking(self.answers, False)
        variables = {name: value for name, value in os.environ.items() if name not in RANK_VARIABLES}
        words = [str(directory.path), str(told), str(os.getpid())]
        with (directory.logs / "evaluator.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "palaestra.runner.evaluator", *words],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**variables, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                pass_fds=(told,),
                start_new_session=True,  # a Ctrl-C is for the trainer
            )
        os.close(told)

    def tell(self, epoch: int) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{epoch}\n".encode())
            self.process.stdin.flush()
        except BrokenPipeError:  # it is gone; `hear` says so
            return

    def hear(self) -> dict[str, Any] | None:
        """A whole answer, if one has come. Raises EOFError when none will come any more."""
        try:
            data = os.read(self.answers, 1 << 20)
        except BlockingIOError:
            return None
        if not data:
            raise EOFError
        self._text += data
        line, newline, rest = self._text.partition(b"\n")
        if not newline:
            return None
        self._text = rest
        answer: dict[str, Any] = json.loads(line)
        return answer

    def fate(self) -> str:
        """How it ended, once it says nothing any more."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(FATE_SECONDS)
        code = self.process.returncode
        self.end()
        if code is None:
            return "fell silent"
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    def end(self) -> None:
        """At once: what it writes is there whole or not at all."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # an epoch that it never read is thrown away with it
            self.process.stdin.close()
        os.close(self.answers)


class SpareEvaluator:
    """`evaluate_local`: epochs wait here, in order; the process is started when there is one to judge."""

    def __init__(self, directory: RunDirectory, timeout_seconds: float, clock: Clock | None = None) -> None:
        self._directory = directory
        self._timeout_seconds = timeout_seconds
        self._clock = clock or SystemClock()
        self._waiting: deque[int] = deque()
        self._current: int | None = None
        self._told_at = 0.0  # when the current one was begun
        self._attempts = 0  # at the current one
        self._process: SpareProcess | None = None
        self._failed: list[Verdict] = []

    @property
    def outstanding(self) -> int:
        return len(self._waiting) + (self._current is not None) + len(self._failed)

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.process.pid

    def ask(self, checkpoint: Checkpoint) -> None:
        self._waiting.append(checkpoint.epoch)
        self._feed()

    def collect(self) -> list[Verdict]:
        """What was said since the last call; never waits."""
        heard = [*self._failed, *self._hear()]
        self._failed.clear()
        self._feed()
        return heard

    def wait(self, seconds: float) -> None:
        """Until there may be something to collect, and no longer than that."""
        if self._process is not None and not self._failed:
            select.select([self._process.answers], [], [], seconds)

    def close(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None

    def _hear(self) -> list[Verdict]:
        if self._process is None or self._current is None:
            return []
        try:
            answer = self._process.hear()
        except EOFError:
            return self._try_again(self._process.fate())
        if answer is None:
            return self._give_up() if self._is_late() else []
        self._current = None
        return [Verdict(**answer)]

    def _is_late(self) -> bool:
        return self._clock.monotonic() - self._told_at > self._timeout_seconds

    def _give_up(self) -> list[Verdict]:
        """An environment that hangs would hang again: there is no second attempt."""
        assert self._current is not None
        epoch, self._current = self._current, None
        self.close()
        limit = f"evaluation.timeout_seconds={self._timeout_seconds:g}"
        return [Verdict(epoch, error=f"The process that judged it was ended: it took longer than {limit}.")]

    def _feed(self) -> None:
        if self._current is None and self._waiting:
            self._current, self._attempts = self._waiting.popleft(), 0
            self._tell(self._current)

    def _tell(self, epoch: int) -> None:
        self._attempts += 1
        self._told_at = self._clock.monotonic()
        try:
            if self._process is None:
                self._process = SpareProcess(self._directory)
        except OSError as error:  # no memory, no more processes, no room for its log: no reason to stop training
            self._failed.append(Verdict(epoch, error=f"No process to judge it could be started: {error.strerror}."))
            self._current = None
            return
        self._process.tell(epoch)

    def _try_again(self, how: str) -> list[Verdict]:
        assert self._current is not None
        epoch, self._process = self._current, None
        if self._attempts >= ATTEMPTS:
            self._current = None
            log = self._directory.logs / "evaluator.log"
            return [Verdict(epoch, error=f"The process that judged it {how}, {ATTEMPTS} times; see {log}.")]
        logger.warning(
            "The process that judges checkpoints %s at epoch %d; another tries again. Training goes on.", how, epoch
        )
        self._tell(epoch)
        return []
