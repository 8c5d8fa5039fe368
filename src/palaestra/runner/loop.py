"""The loop that consumes the trainer: it logs, saves, evaluates and stops."""

from __future__ import annotations

import logging
import signal
from collections import deque
from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from palaestra.core.episodes import episode_returns
from palaestra.core.errors import RunFailed
from palaestra.core.gc_tuning import default_collection
from palaestra.core.lazy_import import lazy_import
from palaestra.loggers.samples import OTHER_SECONDS, TASKS_COMPLETED, TASKS_PER_SECOND, sample_of
from palaestra.loggers.status import StepRate
from palaestra.runner.logs import log_master
from palaestra.training.distributed.reports import weights_digest
from palaestra.training.trainer import is_due, train

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from palaestra.config.train import TrainConfig
    from palaestra.core.metrics_logger import Sample
    from palaestra.core.reports import IterationReport
    from palaestra.runner import profiling
    from palaestra.runner.context import RunContext
else:
    profiling = lazy_import("palaestra.runner.profiling")

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.2  # between two checks for the last evaluations
DEFAULT_SAVE_INTERVAL = 50  # iterations; the default of checkpoints.save_interval
DEFAULT_SAVE_SECONDS = 1.0  # the least time between default saves: small networks take 50 iterations in less
REPORT_SECONDS = 0.05  # how late loggers and status may get a report: fast trainings make hundreds a second
QUICK_SECONDS = 0.25  # shorter iterations do not wait for a default save to reach the disk


class PendingReport(NamedTuple):
    """A report that loggers and status have not got yet, and the figures of the moment in which it came."""

    report: IterationReport
    at: float
    steps_per_second: float
    tasks_per_second: float
    other_seconds: float


class TrainingLoop:
    """Every rank runs it, so that all reach every collective; only the leader's session and loggers write."""

    def __init__(self, context: RunContext) -> None:
        state, clock = context.state, context.clock
        self._context = context
        self._state = state
        self._config: TrainConfig = state.config
        self._session = context.session
        self._loggers = context.loggers
        self._saver = context.saver
        self._evaluations = context.evaluations
        self._stop = context.stop
        self._clock = clock
        self._rate = StepRate(clock, state.env_steps)
        self._task_rate = StepRate(clock, state.curriculum.completed if state.curriculum else 0)
        self._taken_at = clock.monotonic()
        self._stragglers = StragglerWatch()
        self._pending: list[PendingReport] = []
        self._reported_at = float("-inf")
        self._saved_at = float("-inf")
        self._must_retry = 0  # a save that failed is due again
        self._may_save = 1  # with several ranks: the leader's last save was long enough ago for a default save

    def run(self) -> bool:
        """True when all steps were taken, False when a signal ended it early; either way the end is saved."""
        with default_collection():
            try:
                try:
                    for report in self._reports():
                        self._handle(report)
                        if self._must_stop():
                            break
                finally:
                    self._report_pending()
                self._save_the_end()
            finally:
                self._saver.finish()
        is_complete = self._state.env_steps >= self._config.total_steps
        if is_complete:
            self._evaluations.submit_last(self._state.iteration)
            self._wait_for_evaluations()
        return is_complete

    def _reports(self) -> Iterator[IterationReport]:
        reports = train(self._state)
        return profiling.profiled(reports, self._context.directory.artifacts) if self._context.profile else reports

    def _must_stop(self) -> bool:
        """A collective: whether a signal on any rank ends the training before its last step."""
        number = self._agree()
        if not number or self._state.env_steps >= self._config.total_steps:
            return False
        self._report_pending()
        self._session.stopping(signal.Signals(number).name)
        self._stop.signal = number
        return True

    def _agree(self) -> int:
        """The signal on which to stop, or 0. Called once per iteration, at the same point on every rank.

        A signal that arrives during the collective counts in the next iteration.
        """
        group = self._state.group
        may_save = group.is_leader and self._is_default_save_due()
        requests = (self._stop.signal or 0, int(self._saver.should_retry), int(may_save))
        number, self._must_retry, self._may_save = group.max_over_ranks(*requests)
        return number

    def _save_the_end(self) -> None:
        state = self._state
        self._saver.complete_save()
        (is_missing,) = state.group.max_over_ranks(int(self._saver.saved_epoch != state.iteration))
        if is_missing:
            self._saver.save(state)
        if self._saver.saved_epoch != state.iteration:
            raise RunFailed(
                f"Training ended at epoch {state.iteration}, but its checkpoint could not be written.",
                f"The last one on disk is {self._saver.last_saved}. Make room, then continue the run.",
            )
        logger.info(
            "Ended at epoch %d with weights sha256=%s", state.iteration, weights_digest(state.algorithm.weights())
        )

    def _handle(self, report: IterationReport) -> None:
        steps_per_second = self._rate.update(report.env_steps)
        tasks = report.metrics.get(TASKS_COMPLETED)
        tasks_per_second = 0.0 if tasks is None else self._task_rate.update(int(tasks))
        moment = (self._clock.now(), steps_per_second, tasks_per_second, self._other_seconds(report))
        self._pending.append(PendingReport(report, *moment))
        if self._clock.monotonic() - self._reported_at >= REPORT_SECONDS:
            self._report_pending()
        self._save_and_evaluate(report)

    def _report_pending(self) -> None:
        """Passes pending reports to the loggers, the saver and the session, several at once.

        One by one, between the calls of an engine that fills the processor's caches, they take longer: some 6 % of a
        training with 2 ms per iteration.
        """
        if not self._pending:
            return
        self._reported_at = self._clock.monotonic()
        pending, self._pending = self._pending, []
        self._loggers.write(*map(_sample, pending))
        for last in pending:
            self._saver.count(episode_returns(last.report.episodes))
            self._report_straggler(last.report)
        summary, average = {"steps_per_second": last.steps_per_second}, self._saver.average_return
        if average is not None:
            summary["episodic_return"] = average
        self._session.heartbeat(last.report.iteration, last.report.env_steps, last.steps_per_second, summary)

    def _report_straggler(self, report: IterationReport) -> None:
        straggler = self._stragglers.update(report.rank_seconds)
        if straggler is None:
            return
        logger.warning("%s", straggler)
        self._session.journal.record("rank.slow", **asdict(straggler), epoch=report.iteration, step=report.env_steps)

    def _save_and_evaluate(self, report: IterationReport) -> None:
        """A checkpoint is saved before it is submitted; evaluators read it from disk while training continues."""
        self._evaluations.collect()
        self._saver.complete_save(wait=False)
        iteration = report.iteration
        is_evaluated = is_due(self._config.evaluate_interval, iteration - 1, iteration)
        if not (is_evaluated or self._is_save_due(iteration) or self._must_retry):
            return
        self._report_pending()  # the checkpoint holds the counts up to this iteration
        is_awaited = bool(is_evaluated or self._must_retry)
        saved = self._saver.save(self._state, meanwhile=not is_awaited and self._may_save_meanwhile(report))
        self._saved_at = self._clock.monotonic()
        if is_evaluated and saved is not None:
            self._evaluations.submit(saved)

    def _is_save_due(self, iteration: int) -> bool:
        """A configured interval is exact; default saves follow the leader's clock, so that all ranks save together."""
        interval = self._config.checkpoints.save_interval
        if interval is not None:
            return is_due(interval, iteration - 1, iteration)
        may_save = self._is_default_save_due() if self._state.group.world_size == 1 else bool(self._may_save)
        return may_save and is_due(DEFAULT_SAVE_INTERVAL, iteration - 1, iteration)

    def _is_default_save_due(self) -> bool:
        return self._clock.monotonic() - self._saved_at >= DEFAULT_SAVE_SECONDS

    def _may_save_meanwhile(self, report: IterationReport) -> bool:
        """Whether a thread writes while training continues: for automatic saves that would take much of the time."""
        is_default = self._config.checkpoints.save_interval is None
        return is_default and report.times.rollout + report.times.learn < QUICK_SECONDS

    def _wait_for_evaluations(self) -> None:
        """Waits for submitted evaluations after the last step, until a signal.

        A stopped run does not wait: it submits them again when it continues.
        """
        while True:
            self._evaluations.collect()
            waiting, number = self._state.group.max_over_ranks(self._evaluations.outstanding, self._stop.signal or 0)
            if not waiting:
                return
            if number:
                break
            self._session.alive("evaluate")
            self._evaluations.wait(POLL_SECONDS)
        log_master("%d evaluations were abandoned. Run them with 'palaestra eval'.", waiting, level=logging.WARNING)

    def _other_seconds(self, report: IterationReport) -> float:
        """Seconds of an iteration beyond rollout and learning: loggers, saving, evaluating."""
        now = self._clock.monotonic()
        spent = now - self._taken_at
        self._taken_at = now
        return max(0.0, spent - report.times.rollout - report.times.learn)


def _sample(one: PendingReport) -> Sample:
    sample = sample_of(one.report, one.steps_per_second, one.at)
    sample.timings[OTHER_SECONDS] = one.other_seconds
    if TASKS_COMPLETED in sample.metrics:
        sample.timings[TASKS_PER_SECOND] = one.tasks_per_second
    return sample


WINDOW = 8  # iterations; a rank that is slow once (compilation, a save) is not a straggler
TIMES_SLOWER = 2.0
LEAST_SECONDS = 0.05  # per iteration; less does not matter


@dataclass(frozen=True)
class Straggler:
    rank: int
    seconds: float  # of its own work in one iteration, the median of the window
    others_seconds: float  # of theirs

    def __str__(self) -> str:
        return (
            f"Rank {self.rank} is slow: its own work takes {self.seconds:.2f} s an iteration, that of the others "
            f"{self.others_seconds:.2f} s, and all wait for it. Look at its machine, or at what else runs there."
        )


class StragglerWatch:
    """Finds ranks that the others wait for, each once."""

    def __init__(self) -> None:
        self._recent: deque[Sequence[float]] = deque(maxlen=WINDOW)
        self._reported: set[int] = set()

    def update(self, rank_seconds: Sequence[float]) -> Straggler | None:
        """Call it after every iteration; `rank_seconds` is empty on followers and without other ranks."""
        self._recent.append(rank_seconds)
        if len(self._recent) < WINDOW or len(rank_seconds) < 2:
            return None
        typical = [median(own) for own in zip(*self._recent, strict=True)]
        slowest = max(range(len(typical)), key=typical.__getitem__)
        others = median(typical[:slowest] + typical[slowest + 1 :])
        is_slow = typical[slowest] > TIMES_SLOWER * others and typical[slowest] - others > LEAST_SECONDS
        if not is_slow or slowest in self._reported:
            return None
        self._reported.add(slowest)
        return Straggler(slowest, round(typical[slowest], 4), round(others, 4))
