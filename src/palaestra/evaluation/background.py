"""Evaluators that work while a training continues: a process beside it, or a cluster.

Both implement `palaestra.evaluation.evaluator.BackgroundEvaluator`.
"""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from palaestra.core.child_process import LineChild, import_path, module_command
from palaestra.core.clock import Clock, SystemClock
from palaestra.core.errors import MissingExtra, PalaestraError
from palaestra.core.executor import has_service, load_service
from palaestra.evaluation.evaluator import CheckpointEvaluation
from palaestra.evaluation.plans import make_plans, make_request
from palaestra.evaluation.records import EvaluationRecorder, RecordOptions, find_recorded_report
from palaestra.evaluation.suites import suite_of
from palaestra.evaluation.targets import OWN_SUITE
from palaestra.loggers.samples import evaluation_sample_of
from palaestra.runs.environment import RANK_VARIABLES

if TYPE_CHECKING:
    from palaestra.config.evaluation import EvaluationConfig
    from palaestra.core.checkpoint import Checkpoint
    from palaestra.core.evaluation import EvaluationRequest, RemoteEvaluator, SuiteReport
    from palaestra.runs.directory import RunDirectory

logger = logging.getLogger(__name__)

EXIT_SECONDS = 0.5  # between the last message of a process and its exit
ATTEMPTS = 2  # a checkpoint that crashes the process twice would do so again
EXECUTOR = "ray"
SERVICE = "remote_evaluator"
EXTRA = "cluster"


class WorkerProcess:
    """`palaestra.evaluation.background_worker`; it gets one epoch at a time, so that a crash names its checkpoint."""

    def __init__(self, directory: RunDirectory) -> None:
        variables = {name: value for name, value in os.environ.items() if name not in RANK_VARIABLES}
        with (directory.logs / "evaluator.log").open("ab") as log:
            self.child = LineChild(
                module_command("palaestra.evaluation.background_worker", directory.path, os.getpid()),
                variables={**variables, "OMP_NUM_THREADS": "1", "PYTHONPATH": import_path()},
                output=log,
                errors=log,
                own_session=True,  # Ctrl-C must reach only the trainer
            )

    def send(self, epoch: int) -> None:
        self.child.send(epoch)

    def receive(self) -> dict[str, Any] | None:
        """A complete message, if one has arrived. Raises EOFError when the process has ended."""
        messages = self.child.receive()  # one at most: the next epoch is sent after its arrival
        return messages[0] if messages else None

    def exit_reason(self) -> str:
        """How the process ended, once its pipe is closed."""
        reason = self.child.describe_exit(EXIT_SECONDS)
        self.kill()
        return reason

    def kill(self) -> None:
        """At once: its files are replaced whole or not at all."""
        self.child.end()


class ProcessEvaluator:
    """`evaluate_local`: evaluates checkpoints in order, in a process that starts with the first and records results."""

    def __init__(self, directory: RunDirectory, timeout_seconds: float, clock: Clock | None = None) -> None:
        self._directory = directory
        self._timeout_seconds = timeout_seconds
        self._clock = clock or SystemClock()
        self._waiting: deque[int] = deque()
        self._current: int | None = None
        self._sent_at = 0.0  # when the current epoch was sent
        self._attempts = 0  # at the current epoch
        self._process: WorkerProcess | None = None
        self._failed: list[CheckpointEvaluation] = []

    @property
    def outstanding(self) -> int:
        return len(self._waiting) + (self._current is not None) + len(self._failed)

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.child.pid

    def submit(self, checkpoint: Checkpoint) -> None:
        self._waiting.append(checkpoint.epoch)
        self._send_next()

    def collect(self) -> list[CheckpointEvaluation]:
        results = [*self._failed, *self._receive()]
        self._failed.clear()
        self._send_next()
        return results

    def wait(self, seconds: float) -> None:
        if self._process is not None and not self._failed:
            self._process.child.wait(seconds)

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None

    def _receive(self) -> list[CheckpointEvaluation]:
        if self._process is None or self._current is None:
            return []
        try:
            message = self._process.receive()
        except EOFError:
            return self._try_again(self._process.exit_reason())
        if message is None:
            return self._give_up() if self._is_late() else []
        self._current = None
        return [CheckpointEvaluation(**message)]

    def _is_late(self) -> bool:
        return self._clock.monotonic() - self._sent_at > self._timeout_seconds

    def _give_up(self) -> list[CheckpointEvaluation]:
        """No second attempt: an environment that hangs would hang again."""
        assert self._current is not None
        epoch, self._current = self._current, None
        self.close()
        limit = f"evaluation.timeout_seconds={self._timeout_seconds:g}"
        return [CheckpointEvaluation(epoch, error=f"Its evaluation was killed: it took longer than {limit}.")]

    def _send_next(self) -> None:
        if self._current is None and self._waiting:
            self._current, self._attempts = self._waiting.popleft(), 0
            self._send(self._current)

    def _send(self, epoch: int) -> None:
        self._attempts += 1
        self._sent_at = self._clock.monotonic()
        try:
            if self._process is None:
                self._process = WorkerProcess(self._directory)
        except OSError as error:  # no memory, no more processes, no space for its log: no reason to stop training
            reason = f"The evaluation process could not be started: {error.strerror}."
            self._failed.append(CheckpointEvaluation(epoch, error=reason))
            self._current = None
            return
        self._process.send(epoch)

    def _try_again(self, reason: str) -> list[CheckpointEvaluation]:
        assert self._current is not None
        epoch, self._process = self._current, None
        if self._attempts >= ATTEMPTS:
            self._current = None
            log = self._directory.logs / "evaluator.log"
            return [CheckpointEvaluation(epoch, error=f"The evaluation process {reason}, {ATTEMPTS} times; see {log}.")]
        logger.warning("The evaluation process %s at epoch %d; a new one tries again. Training goes on.", reason, epoch)
        self._send(epoch)
        return []


class RemoteCheckpointEvaluator:
    """`evaluate_remote`: sends requests to a `RemoteEvaluator` and records its reports here."""

    def __init__(
        self,
        remote: RemoteEvaluator,
        directory: RunDirectory,
        settings: EvaluationConfig,
        clock: Clock | None = None,
    ) -> None:
        self._remote = remote
        self._directory = directory
        self._settings = settings
        self._clock = clock or SystemClock()
        self._submitted: dict[int, Checkpoint] = {}  # by epoch
        self._deadlines: dict[int, float] = {}  # by epoch
        self._ready: list[CheckpointEvaluation] = []  # known without sending a request

    @property
    def outstanding(self) -> int:
        return len(self._submitted) + len(self._ready)

    def submit(self, checkpoint: Checkpoint) -> None:
        suite = suite_of(OWN_SUITE, self._settings, checkpoint.env)
        request = make_request(checkpoint, make_plans(f"{checkpoint.run}:{checkpoint.epoch}", suite))
        assert checkpoint.path is not None, "it was saved just now"
        try:
            known = find_recorded_report(self._directory, checkpoint, request.plans)
            if known is not None:
                self._ready.append(_result(checkpoint, known))
                return
            self._remote.submit(request, checkpoint.path)
        except PalaestraError as error:
            self._ready.append(CheckpointEvaluation(checkpoint.epoch, error=str(error)))
            return
        self._submitted[checkpoint.epoch] = checkpoint
        self._deadlines[checkpoint.epoch] = self._clock.monotonic() + self._settings.timeout_seconds

    def collect(self) -> list[CheckpointEvaluation]:
        responses = [one for one in self._remote.collect() if one[0].epoch in self._submitted]  # others came too late
        results = [
            *self._ready,
            *(self._record(request, response) for request, response in responses),
            *self._expired(),
        ]
        self._ready.clear()
        return results

    def wait(self, seconds: float) -> None:
        """A `RemoteEvaluator` offers nothing to wait on, so this sleeps."""
        time.sleep(seconds)

    def close(self) -> None:
        self._remote.close()

    def _expired(self) -> list[CheckpointEvaluation]:
        now, limit = self._clock.monotonic(), self._settings.timeout_seconds
        expired = [epoch for epoch in self._submitted if self._deadlines[epoch] < now]
        for epoch in expired:
            del self._submitted[epoch]
        message = f"No result arrived within evaluation.timeout_seconds={limit:g}."
        return [CheckpointEvaluation(epoch, error=message) for epoch in expired]

    def _record(self, request: EvaluationRequest, response: SuiteReport | str) -> CheckpointEvaluation:
        checkpoint = self._submitted.pop(request.epoch)
        if isinstance(response, str):
            return CheckpointEvaluation(request.epoch, error=response)
        options = RecordOptions(submitted_by="remote", writes_metrics=False)
        try:
            with EvaluationRecorder(self._directory, checkpoint, options) as recorder:
                recorder.add(response)
        except PalaestraError as error:
            return CheckpointEvaluation(request.epoch, error=str(error))
        return _result(checkpoint, response)


def require_remote() -> None:
    """Refuses `evaluate_remote` without its plugin or without Ray, before anything is on disk."""
    if find_spec(EXECUTOR) is None or not has_service(EXECUTOR, SERVICE):
        raise MissingExtra("evaluate_remote=true", EXTRA)


def open_remote(directory: RunDirectory) -> RemoteEvaluator:
    require_remote()
    evaluator: RemoteEvaluator = load_service(EXECUTOR, SERVICE)(directory)
    return evaluator


def _result(checkpoint: Checkpoint, report: SuiteReport) -> CheckpointEvaluation:
    sample = evaluation_sample_of(report, checkpoint.agent_step, 0.0)
    return CheckpointEvaluation(checkpoint.epoch, sample.step, sample.metrics, sample.timings)
