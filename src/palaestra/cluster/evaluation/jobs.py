"""The jobs of `palaestra request-eval`: targets times suites, sent to Ray; results are recorded in each run."""

from __future__ import annotations

from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from palaestra.cluster.address import common_cluster
from palaestra.cluster.evaluation.client import RayClient
from palaestra.core.errors import PalaestraError, RunFailed
from palaestra.core.evaluation import Stopped
from palaestra.evaluation.plans import key_of, make_plans, make_request
from palaestra.evaluation.records import EvaluationEvents, EvaluationRecorder, RecordOptions
from palaestra.evaluation.session import EvaluationOptions, choose_suite
from palaestra.evaluation.summary import read_batches
from palaestra.evaluation.targets import find_targets
from palaestra.runs.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from palaestra.cluster.evaluation.client import EvaluationResult
    from palaestra.core.episodes import EpisodeResult
    from palaestra.core.evaluation import EvaluationRequest, SuiteReport
    from palaestra.evaluation.targets import EvaluationTarget
    from palaestra.runs.directory import RunDirectory


class Status(StrEnum):
    NEW = "new"  # will be sent
    KNOWN = "known"  # recorded: the same weights played the same seeds before
    TWICE = "twice"  # another job of this request is equal
    DONE = "done"
    PARTIAL = "partial"  # some episodes were lost
    FAILED = "failed"


@dataclass(frozen=True)
class EvaluationJob:
    """One checkpoint in one suite."""

    number: int  # among the jobs of a request, from 0
    target: EvaluationTarget
    request: EvaluationRequest
    options: RecordOptions
    key: str  # equal for jobs with equal results
    status: Status = Status.NEW
    mean: float | None = None  # of a known job
    error: str = ""
    exit_code: int = 0
    retries: int = 0  # of lost shares
    report: SuiteReport | None = None  # of a new job, once it was played

    @property
    def suite(self) -> str:
        return self.request.plans[0].suite

    @property
    def episodes(self) -> int:
        return sum(len(plan.seeds) for plan in self.request.plans)


def make_jobs(
    targets: Iterable[str], runs_root: Path, options: Iterable[EvaluationOptions], *, again: bool = False
) -> list[EvaluationJob]:
    """The jobs of all targets in all suites; nothing is loaded, played or sent."""
    wanted = list(options)
    jobs: list[EvaluationJob] = []
    for target in targets:
        for found in find_targets(target, runs_root):
            jobs.extend(_make_job(number, found, one) for number, one in enumerate(wanted, len(jobs)))
    return _mark_known_jobs(jobs, again=again)


def _make_job(number: int, target: EvaluationTarget, options: EvaluationOptions) -> EvaluationJob:
    suite, is_own_suite = choose_suite(target, options)
    plans = make_plans(
        target.name,
        suite,
        episodes=options.episodes,
        seed=options.seed,
        deterministic=options.deterministic,
        max_steps=options.max_steps,
    )
    request = make_request(target.checkpoint, plans)
    record_options = RecordOptions(dict(options.overrides), is_own_suite, options.submitted_by)
    return EvaluationJob(number, target, request, record_options, key_of(request.weights, plans))


def _mark_known_jobs(jobs: list[EvaluationJob], *, again: bool) -> list[EvaluationJob]:
    known: dict[Path, dict[str, float]] = {}  # by run: keys of recorded evaluations and their means
    known_pairs: set[tuple[Path | None, str]] = set()
    checked = []
    for job in jobs:
        directory = job.target.directory
        location = None if directory is None else directory.path
        if directory is not None and directory.path not in known:
            known[directory.path] = {} if again else _recorded_keys(directory)
        mean = None if location is None else known[location].get(job.key)
        if (location, job.key) in known_pairs:
            job = replace(job, status=Status.TWICE)
        elif mean is not None:
            job = replace(job, status=Status.KNOWN, mean=mean)
        known_pairs.add((location, job.key))
        checked.append(job)
    return checked


def _recorded_keys(directory: RunDirectory) -> dict[str, float]:
    """The keys of recorded evaluations; read once for all jobs of a run."""
    batches: list[dict[str, Any]] = read_batches(directory)
    return {str(batch["key"]): float(batch["mean"]) for batch in batches if batch.get("key")}


AT_ONCE = 256  # open requests; retention keeps their checkpoints
POLL_SECONDS = 0.1


class JobRunner:
    """Sends jobs, and yields each with its result as results arrive."""

    def __init__(
        self,
        evaluator: RayClient,
        on_episodes: Callable[[list[EpisodeResult]], None] = lambda _episodes: None,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._evaluator = evaluator
        self._on_episodes = on_episodes
        self._is_stopped = is_stopped
        self._sent: dict[int, tuple[EvaluationJob, ExitStack]] = {}
        self._events: dict[Path, EvaluationEvents] = {}  # one event file for each run

    def run(self, jobs: Sequence[EvaluationJob]) -> Iterator[EvaluationJob]:
        """Raises `Stopped` when `is_stopped`; earlier results are recorded."""
        waiting = deque(jobs)
        with ExitStack() as stack:
            stack.callback(self._release_all)
            while waiting or self._sent:
                while waiting and len(self._sent) < AT_ONCE:
                    refused = self._send(waiting.popleft())
                    if refused is not None:
                        yield refused
                self._evaluator.wait(POLL_SECONDS)
                if self._is_stopped():
                    raise Stopped
                for result in self._evaluator.responses():
                    yield self._take(result)
                    if result.is_ray_lost and result.error is not None:
                        yield from (_failed(job, result.error) for job in waiting)
                        waiting.clear()

    def _send(self, job: EvaluationJob) -> EvaluationJob | None:
        path, stack = job.target.checkpoint.path, ExitStack()
        assert path is not None, "it was found on disk"
        try:
            stack.enter_context(job.target.in_use())
            self._record_event(job, "eval.started", episodes=job.episodes, suite=job.suite, seed=_first_seed(job))
            trusted = job.target.is_own
            number = self._evaluator.send(job.request, path, trust_module=trusted, on_episodes=self._on_episodes)
        except PalaestraError as error:
            stack.close()
            return self._failed_with(job, error)
        self._sent[number] = (job, stack)
        return None

    def _take(self, result: EvaluationResult) -> EvaluationJob:
        job, stack = self._sent.pop(result.number)
        with stack:
            if result.report is None:
                return self._failed_with(job, result.error or RunFailed("Nothing was played."))
            try:
                self._write(job, result)
            except PalaestraError as error:
                return self._failed_with(job, error)
        status = Status.DONE if result.report.complete else Status.PARTIAL
        job = job if result.error is None else _failed(job, result.error)
        return replace(job, status=status, mean=result.report.mean, report=result.report, retries=result.retries)

    def _write(self, job: EvaluationJob, result: EvaluationResult) -> None:
        directory = job.target.directory
        if directory is None or result.report is None:
            return
        events = self._events.setdefault(directory.path, EvaluationEvents(directory))
        with EvaluationRecorder(directory, job.target.checkpoint, job.options, events) as records:
            records.add(result.report)

    def _failed_with(self, job: EvaluationJob, error: PalaestraError) -> EvaluationJob:
        self._record_event(job, "eval.failed", error=str(error))
        return _failed(job, error)

    def _record_event(self, job: EvaluationJob, event: str, **data: Any) -> None:
        if job.target.directory is not None:
            traced: dict[str, Any] = {"checkpoint": job.target.name, "epoch": job.target.checkpoint.epoch}
            Journal(job.target.directory).record(event, **traced, **data)

    def _release_all(self) -> None:
        for number, (_, stack) in self._sent.items():
            self._evaluator.cancel(number)
            stack.close()
        self._sent.clear()
        for events in self._events.values():
            events.close()


def request_evaluations(
    jobs: Sequence[EvaluationJob],
    cluster: Mapping[str, Any] | None = None,
    on_episodes: Callable[[list[EpisodeResult]], None] = lambda _episodes: None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> Iterator[EvaluationJob]:
    """Yields every new job with its result, as results arrive; Ray is opened only for new jobs.

    `cluster` holds settings of `ClusterConfig` that override those of the runs.
    """
    new = [job for job in jobs if job.status is Status.NEW]
    if not new:
        return
    chosen = common_cluster((job.target.directory for job in _one_of_each_run(new)), cluster)
    with RayClient(chosen) as evaluator:
        yield from JobRunner(evaluator, on_episodes, is_stopped).run(new)


def _one_of_each_run(jobs: Sequence[EvaluationJob]) -> Iterable[EvaluationJob]:
    return {job.target.checkpoint.run: job for job in jobs}.values()


def _failed(job: EvaluationJob, error: PalaestraError) -> EvaluationJob:
    return replace(job, status=Status.FAILED, error=str(error), exit_code=error.exit_code)


def _first_seed(job: EvaluationJob) -> int:
    return job.request.plans[0].seeds[0]
