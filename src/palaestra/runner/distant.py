"""`evaluate_remote`: requests to somebody elsewhere (see `RemoteEvaluator`), and what comes back, written down here."""

from __future__ import annotations

import time
from importlib.util import find_spec
from typing import TYPE_CHECKING

from palaestra.core.clock import Clock, SystemClock
from palaestra.core.errors import MissingExtra, PalaestraError
from palaestra.core.executor import has_service, load_service
from palaestra.evaluation.judged import OWN_SUITE
from palaestra.evaluation.plan import make_plans
from palaestra.evaluation.records import Manner, Records, find_judgement
from palaestra.evaluation.request import make_request
from palaestra.evaluation.suites import suite_of
from palaestra.loggers.samples import evaluation_sample_of
from palaestra.runner.spare import Verdict

if TYPE_CHECKING:
    from palaestra.config.evaluation import EvaluationConfig
    from palaestra.core.checkpoint import Checkpoint
    from palaestra.core.evaluation import EvaluationRequest, RemoteEvaluator, SuiteReport
    from palaestra.runs.directory import RunDirectory

EXECUTOR = "ray"
SERVICE = "remote_evaluator"
EXTRA = "cluster"


def require_remote() -> None:
    """Before anything is on disk: whoever asks for it without the means is told so."""
    if find_spec(EXECUTOR) is None or not has_service(EXECUTOR, SERVICE):
        raise MissingExtra("evaluate_remote=true", EXTRA)


def open_remote(directory: RunDirectory) -> RemoteEvaluator:
    require_remote()
    evaluator: RemoteEvaluator = load_service(EXECUTOR, SERVICE)(directory)
    return evaluator


class DistantEvaluator:
    """The remote evaluator as one of those that a training asks."""

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
        self._asked: dict[int, Checkpoint] = {}
        self._late_at: dict[int, float] = {}  # when an epoch is given up
        self._ready: list[Verdict] = []  # answered without being sent

    @property
    def outstanding(self) -> int:
        return len(self._asked) + len(self._ready)

    def ask(self, checkpoint: Checkpoint) -> None:
        suite = suite_of(OWN_SUITE, self._settings, checkpoint.env)
        request = make_request(checkpoint, make_plans(f"{checkpoint.run}:{checkpoint.epoch}", suite))
        assert checkpoint.path is not None, "it was saved just now"
        try:
            known = find_judgement(self._directory, checkpoint, request.plans)
            if known is not None:
                self._ready.append(_verdict(checkpoint, known))
                return
            self._remote.submit(request, checkpoint.path)
        except PalaestraError as error:
            self._ready.append(Verdict(checkpoint.epoch, error=str(error)))
            return
        self._asked[checkpoint.epoch] = checkpoint
        self._late_at[checkpoint.epoch] = self._clock.monotonic() + self._settings.timeout_seconds

    def collect(self) -> list[Verdict]:
        answers = [one for one in self._remote.collect() if one[0].epoch in self._asked]  # the others came too late
        heard = [*self._ready, *(self._take(request, result) for request, result in answers), *self._late()]
        self._ready.clear()
        return heard

    def wait(self, seconds: float) -> None:
        """There is nothing to listen to, only to ask again."""
        time.sleep(seconds)

    def close(self) -> None:
        self._remote.close()

    def _late(self) -> list[Verdict]:
        now, limit = self._clock.monotonic(), self._settings.timeout_seconds
        late = [epoch for epoch in self._asked if self._late_at[epoch] < now]
        for epoch in late:
            del self._asked[epoch]
        return [Verdict(epoch, error=f"No answer within evaluation.timeout_seconds={limit:g}.") for epoch in late]

    def _take(self, request: EvaluationRequest, result: SuiteReport | str) -> Verdict:
        checkpoint = self._asked.pop(request.epoch)
        if isinstance(result, str):
            return Verdict(request.epoch, error=result)
        try:
            with Records(self._directory, checkpoint, Manner(asked_by="remote", keeps_metrics=False)) as records:
                records.add(result)
        except PalaestraError as error:
            return Verdict(request.epoch, error=str(error))
        return _verdict(checkpoint, result)


def _verdict(checkpoint: Checkpoint, report: SuiteReport) -> Verdict:
    sample = evaluation_sample_of(report, checkpoint.agent_step, 0.0)
    return Verdict(checkpoint.epoch, sample.step, sample.metrics, sample.timings)
