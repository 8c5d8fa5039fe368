"""The evaluation of one checkpoint: batch after batch is played by an evaluator and recorded in the run's directory."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.core.clock import SystemClock
from palaestra.core.errors import PalaestraError, RunFailed, UsageError
from palaestra.core.evaluation import EvaluationReport, Stopped, SuiteReport
from palaestra.evaluation.live import publish_frames
from palaestra.evaluation.local import LocalEvaluator, one_thread
from palaestra.evaluation.plans import make_plans, merge_episodes
from palaestra.evaluation.pool import PolicyPoolEvaluator
from palaestra.evaluation.records import EvaluationRecorder, RecordOptions, find_recorded_report
from palaestra.evaluation.suites import apply_overrides, find_suite, suite_of
from palaestra.evaluation.targets import ExternalTarget, load_target
from palaestra.runs.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType

    from palaestra.core.episodes import EpisodeResult
    from palaestra.core.evaluation import EvaluationPlan
    from palaestra.evaluation.evaluator import Evaluator
    from palaestra.evaluation.suites import Suite
    from palaestra.evaluation.targets import EvaluationTarget, LoadedTarget

CHANGED = "changed"  # the suite of an environment that was changed for one evaluation


@dataclass(frozen=True)
class EvaluationOptions:
    """Deviations from the settings of the checkpoint and its run; None and empty mean: as they say."""

    suite: str = ""
    episodes: int | None = None
    seed: int | None = None
    deterministic: bool | None = None
    max_steps: int | None = None  # of one episode
    overrides: Mapping[str, Any] = field(default_factory=dict)  # of the environment
    video: bool = False
    replays: bool = False
    workers: int = 1  # processes that play
    time_limit: float | None = None  # seconds for one batch
    submitted_by: str = "eval"
    evaluation: str = ""  # id of the evaluation run; empty: the evaluation has no run of its own
    is_standalone: bool = True  # False: a training reports metrics and failures itself


def _ignore_episode(_episode: EpisodeResult) -> None:
    pass


def _never() -> bool:
    return False


@dataclass(frozen=True)
class EvaluationCallbacks:
    """Called while a batch is played."""

    on_episode: Callable[[EpisodeResult], None] = _ignore_episode
    is_stopped: Callable[[], bool] = _never


class EvaluationSession:
    """Evaluates one checkpoint, which retention keeps until the session is closed."""

    def __init__(
        self,
        target: LoadedTarget | ExternalTarget,
        options: EvaluationOptions,
        evaluator: Evaluator | None = None,
    ) -> None:
        """`evaluator`: None for this process, or a pool when `options.workers` is above 1."""
        self.target = target
        self._options = options
        self._suite, is_own_suite = choose_suite(target, options)
        self._record_options = RecordOptions(
            dict(options.overrides), is_own_suite, options.submitted_by, options.is_standalone, options.evaluation
        )
        self._clock = SystemClock()
        self._total: SuiteReport | None = None  # all batches so far
        directory = target.directory
        self._videos = (Path("videos") if directory is None else directory.videos) if options.video else None
        self._replays = (Path("replays") if directory is None else directory.replays) if options.replays else None
        self._evaluator = self._choose_evaluator(target, evaluator)
        self._stack = ExitStack()

    def _choose_evaluator(self, target: LoadedTarget | ExternalTarget, evaluator: Evaluator | None) -> Evaluator:
        """Refuses plans that the policy cannot play."""
        workers = self._options.workers
        if isinstance(target, ExternalTarget):
            if evaluator is not None or self._replays is not None:
                raise UsageError(
                    f"{target.name} holds an external policy: it is played on this machine and leaves no replays.",
                    "Leave out remote=true and --replays.",
                )
            for plan in self.plans():
                target.policy.prepare(plan)
            return target.policy.pool_evaluator(workers, self._videos)
        local = LocalEvaluator(target.loaded, self._videos, self._replays)
        for plan in self.plans():
            local.prepare(plan)
        if evaluator is not None:
            return evaluator
        return PolicyPoolEvaluator(target, workers, self._videos, self._replays) if workers > 1 else local

    def __enter__(self) -> EvaluationSession:
        self._stack.enter_context(self.target.in_use())
        self._stack.enter_context(publish_frames(self.target.directory, self._evaluator))
        self._stack.enter_context(self._evaluator)
        self._recorder: EvaluationRecorder | None = None
        if self.target.directory is not None:
            self._recorder = self._stack.enter_context(
                EvaluationRecorder(self.target.directory, self.target.checkpoint, self._record_options)
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def plans(self, batch: int = 0) -> tuple[EvaluationPlan, ...]:
        options = self._options
        return make_plans(
            self.target.name,
            self._suite,
            batch=batch,
            episodes=options.episodes,
            seed=options.seed,
            deterministic=options.deterministic,
            max_steps=options.max_steps,
        )

    def evaluate(self, batch: int = 0, callbacks: EvaluationCallbacks | None = None) -> SuiteReport:
        """Plays and records a batch. Raises `Stopped` when the callbacks stop it; nothing of the batch is recorded."""
        plans = self.plans(batch)
        with self._journaled(plans, batch):
            report = self._play(plans, callbacks or EvaluationCallbacks())
            self._total = report if self._total is None else _joined(self._total, report)
            if self._recorder is not None:
                self._recorder.add(report, self._total)
                self._journal_files(report)
        return report

    def find_recorded(self) -> SuiteReport | None:
        """The recorded report of the first batch, if these weights have played it; updates the checkpoint's score."""
        if self._recorder is None or self.target.directory is None:
            return None
        found = find_recorded_report(self.target.directory, self.target.checkpoint, self.plans())
        if found is not None:
            self._recorder.update_score(found)
        return found

    def _play(self, plans: tuple[EvaluationPlan, ...], callbacks: EvaluationCallbacks) -> SuiteReport:
        limit, began = self._options.time_limit, self._clock.monotonic()

        def is_stopped() -> bool:
            return callbacks.is_stopped() or (limit is not None and self._clock.monotonic() - began > limit)

        reports: list[EvaluationReport] = []
        with one_thread():
            for plan in plans:
                started = self._clock.monotonic()
                episodes = []
                for episode in self._evaluator.evaluate(plan, is_stopped):
                    callbacks.on_episode(episode)
                    episodes.append(episode)
                if callbacks.is_stopped() and len(episodes) < len(plan.seeds):
                    raise Stopped
                if episodes:
                    reports.append(merge_episodes(plan, episodes, self._clock.monotonic() - started))
        if not reports:
            raise RunFailed(
                f"No episode of '{plans[0].env_id}' ended within {limit:g} s.",
                "Allow more time, or give the environment a time limit: env.max_episode_steps=1000",
            )
        played = {report.plan.simulation for report in reports}
        missing = tuple(plan.simulation for plan in plans if plan.simulation not in played)
        return SuiteReport(tuple(reports), self._clock.monotonic() - began, missing, self._evaluator.code_differences)

    def _journal_files(self, report: SuiteReport) -> None:
        assert self.target.directory is not None
        for event, folder in {"video.saved": self._videos, "replay.saved": self._replays}.items():
            if folder is not None:
                Journal(self.target.directory).record(
                    event, **self.target.journal_fields(), file=folder.name, episodes=len(report.episodes)
                )

    @contextmanager
    def _journaled(self, plans: tuple[EvaluationPlan, ...], batch: int) -> Iterator[None]:
        """Records the start of an evaluation, and its error when it fails."""
        if self.target.directory is None:
            yield
            return
        journal = Journal(self.target.directory)
        fields = self.target.journal_fields()
        if batch == 0:
            episodes = sum(len(plan.seeds) for plan in plans)
            journal.record("eval.started", **fields, episodes=episodes, seed=plans[0].seeds[0], suite=plans[0].suite)
        try:
            yield
        except PalaestraError as error:
            if self._options.is_standalone:
                journal.record("eval.failed", **fields, error=str(error))
            raise


def choose_suite(target: EvaluationTarget, options: EvaluationOptions) -> tuple[Suite, bool]:
    """The simulations to play, and whether they are those that the scores of the run are measured in."""
    if options.overrides:
        env = apply_overrides(target.checkpoint.env, options.overrides).model_dump(mode="json")
        if options.suite:
            return find_suite(options.suite, env), False
        return suite_of(CHANGED, target.settings.model_copy(update={"simulations": {}}), env), False
    own = target.own_suite()
    if not options.suite:
        return own, True
    suite = find_suite(options.suite, target.checkpoint.env)
    return suite, suite.has_same_simulations(own)


def evaluate_target(target: str, runs_root: Path, **options: Any) -> SuiteReport:
    """Evaluates `RUN[:best|:latest|:EPOCH]` or a path once; `options` are those of `EvaluationOptions`.

    The score reaches the sidecar only when the simulations are the run's own and all episodes were played.
    """
    with EvaluationSession(load_target(target, runs_root), EvaluationOptions(**options)) as session:
        return session.evaluate()


def _joined(before: SuiteReport, after: SuiteReport) -> SuiteReport:
    """Two batches of one suite as one report."""
    later = {one.plan.simulation: one for one in after.reports}
    reports = tuple(_appended(one, later.get(one.plan.simulation)) for one in before.reports)
    code = {**before.code_differences, **after.code_differences}
    return SuiteReport(reports, before.seconds + after.seconds, before.missing + after.missing, code)


def _appended(one: EvaluationReport, other: EvaluationReport | None) -> EvaluationReport:
    if other is None:
        return one
    plan = replace(one.plan, seeds=one.plan.seeds + other.plan.seeds)
    return EvaluationReport(
        plan, one.episodes + other.episodes, one.seconds + other.seconds, one.complete and other.complete
    )
