"""An evaluation as a run of its own: it evaluates a checkpoint of another run, and both directories get the results.

Its own directory has a line per batch, metrics, TensorBoard events, and statistics over all batches; batches are
numbered from 1. The run whose checkpoint is evaluated gets the same batches (`palaestra.evaluation.records`).
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from math import inf, sqrt
from typing import TYPE_CHECKING, Any, Self

from pydantic import ValidationError

from palaestra.core.clock import SystemClock
from palaestra.core.errors import DamagedFile, PalaestraError, RunFailed
from palaestra.core.evaluation import Stopped
from palaestra.core.metrics_logger import Sample
from palaestra.evaluation.records import EvaluationEvents
from palaestra.evaluation.session import EvaluationCallbacks, EvaluationOptions, EvaluationSession
from palaestra.evaluation.summary import add_batch, describe, only_writer, read_batches
from palaestra.evaluation.targets import load_target
from palaestra.loggers.samples import EVALUATED_RETURN, evaluation_sample_of
from palaestra.rendering.hud import evaluation_line
from palaestra.runner.evaluate_kind import EvaluateConfig
from palaestra.runner.session import RunSession
from palaestra.runner.signals import StopNow, exit_code_of, stop_on_signals
from palaestra.runs.documents import read_config
from palaestra.runs.lock import run_lock
from palaestra.runs.logs import run_log
from palaestra.runs.metrics.writer import MetricsWriter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from palaestra.core.clock import Clock
    from palaestra.core.episodes import EpisodeResult
    from palaestra.core.evaluation import SuiteReport
    from palaestra.core.run import RunRequest
    from palaestra.runner.signals import StopRequest
    from palaestra.runs.directory import RunDirectory

JOURNAL_FIELDS = ("batch", "checkpoint", "epoch", "suite", "complete")  # of a batch, in the journal


def run_evaluation(directory: RunDirectory, request: RunRequest) -> int:
    del request  # the config is complete
    config = stored_config(directory)
    with run_lock(directory), run_log(directory), stop_on_signals() as stop:
        evaluation = EvaluationSession(
            load_target(config.target, directory.path.parent), _options(config, directory.id)
        )
        session = RunSession(directory, 0, SystemClock())
        session.journal.record("run.started", pid=os.getpid(), total_steps=0)
        return _run(evaluation, session, stop, repeats=config.repeat)


def stored_config(directory: RunDirectory) -> EvaluateConfig:
    try:
        return EvaluateConfig.model_validate(read_config(directory))
    except ValidationError as error:
        raise DamagedFile(f"{directory.config_file} does not describe an evaluation: {error}.") from error


def _options(config: EvaluateConfig, run_id: str) -> EvaluationOptions:
    return EvaluationOptions(
        suite=config.suite,
        episodes=config.episodes,
        seed=config.seed,
        deterministic=config.deterministic,
        max_steps=config.max_steps,
        overrides={"env": config.env} if config.env else {},
        video=config.video,
        replays=config.replays,
        workers=config.workers,
        evaluation=run_id,
    )


def _run(evaluation: EvaluationSession, session: RunSession, stop: StopRequest, *, repeats: bool) -> int:
    try:
        _play(evaluation, session, stop, repeats=repeats)
    except (Stopped, StopNow):
        number = stop.signal or signal.SIGTERM
        session.cancelled(signal.Signals(number).name, exit_code_of(number))
        return exit_code_of(number)
    except BaseException as error:
        session.failed(error, error.exit_code if isinstance(error, PalaestraError) else 1)
        raise
    session.finished()
    return 0


def _play(evaluation: EvaluationSession, session: RunSession, stop: StopRequest, *, repeats: bool) -> None:
    """Plays the batches. The status of the run counts batches as `epoch` and environment steps as `agent_step`."""
    with evaluation, EvaluationResults(session.directory) as results:
        progress = Progress(session, results, 0 if repeats else _episodes_of(evaluation))
        _print_plan(evaluation, repeats=repeats)
        for batch in count(results.batch_count) if repeats else (0,):
            report = evaluation.evaluate(batch, EvaluationCallbacks(progress.on_episode, lambda: bool(stop)))
            entry = results.add(report, evaluation.target.checkpoint.epoch)
            progress.on_batch()
            figures = {key: entry[key] for key in ("episodes", "mean", "min", "max", "std", "seconds")}
            session.journal.record("eval.batch", **{key: entry[key] for key in JOURNAL_FIELDS}, **figures)


class Progress:
    """Writes the progress of the evaluation to the status of the run."""

    def __init__(self, session: RunSession, results: EvaluationResults, total_episodes: int) -> None:
        self._session = session
        self._results = results
        self._total_episodes = total_episodes  # 0: it repeats until it is stopped
        self._first_step = self._steps = results.steps
        self._played = int(results.statistics.get("episodes", 0))
        self.on_batch()

    def on_episode(self, episode: EpisodeResult) -> None:
        self._steps += episode.length
        self._played += 1
        self._write_status()

    def on_batch(self) -> None:
        statistics = self._results.statistics
        score = {"score": statistics["mean"]} if statistics else {}
        self._summary = {**statistics, **score, "batches": float(self._results.batch_count)}
        self._write_status()

    def _write_status(self) -> None:
        rate = (self._steps - self._first_step) / max(self._session.seconds, 1e-9)
        episodes = {"episodes_played": float(self._played), "episodes_total": float(self._total_episodes)}
        summary = {**self._summary, **episodes, "steps_per_second": rate}
        self._session.heartbeat(self._results.batch_count, self._steps, rate, summary)


def _episodes_of(evaluation: EvaluationSession) -> int:
    return sum(len(plan.seeds) for plan in evaluation.plans())


def _print_plan(evaluation: EvaluationSession, *, repeats: bool) -> None:
    """Prints the first line of the run's log."""
    plans = evaluation.plans()
    envs = ", ".join(dict.fromkeys(plan.env_id for plan in plans))
    mode = "deterministic" if plans[0].deterministic else "sampled"
    batches = "batch after batch" if repeats else "one batch"
    print(
        f"Evaluating {evaluation.target.name} in {envs}: {_episodes_of(evaluation)} episodes from seed "
        f"{plans[0].seeds[0]}, {mode} actions, {batches}.",
        file=sys.stderr,
        flush=True,
    )


class EvaluationResults:
    """The results of an evaluation run; a restarted run continues after its last batch."""

    def __init__(self, directory: RunDirectory, clock: Clock | None = None) -> None:
        self._directory = directory
        self._clock = clock or SystemClock()
        self._stack = ExitStack()
        self._batches = read_batches(directory)
        self._statistics = Statistics(self._batches)

    def __enter__(self) -> Self:
        self._metrics = self._stack.enter_context(MetricsWriter(self._directory.metrics_file))
        self._events = EvaluationEvents(self._directory, self._clock)
        self._stack.callback(self._events.close)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def batch_count(self) -> int:
        return len(self._batches)

    @property
    def steps(self) -> int:
        """Environment steps of all batches."""
        return int(self._batches[-1]["steps"]) if self._batches else 0

    @property
    def statistics(self) -> dict[str, float]:
        """Of all episodes of all batches; empty before the first."""
        return self._statistics.figures()

    def add(self, report: SuiteReport, epoch: int) -> dict[str, Any]:
        """Records one batch, prints its line, and returns the recorded entry."""
        entry = self._entry(report, epoch)
        try:
            with only_writer(self._directory):
                add_batch(self._directory, self._batches, entry)
                self._batches.append({"batch": len(self._batches) + 1, **entry})
                self._statistics.add(entry)
                sample = _sample(report, entry)
                self._metrics.write(sample)
                self._events.write(sample)
        except OSError as error:
            raise RunFailed(
                f"A batch could not be written to {self._directory.path}: {error.strerror}.",
                "Free space on that disk.",
            ) from error
        print(evaluation_line(self._batches), file=sys.stderr, flush=True)
        return self._batches[-1]

    def _entry(self, report: SuiteReport, epoch: int) -> dict[str, Any]:
        plan = report.reports[0].plan
        simulations = [
            {"simulation": one.plan.simulation, "category": one.plan.category, **describe(one)}
            for one in report.reports
        ]
        return {
            "checkpoint": report.checkpoint,
            "epoch": epoch,
            **describe(report),
            "steps": self.steps + sum(episode.length for episode in report.episodes),
            "suite": report.suite,
            "seed": plan.seeds[0],
            "deterministic": plan.deterministic,
            "complete": report.complete,
            "simulations": simulations,
            "at": self._clock.now(),
        }


@dataclass
class Moments:
    """Count, mean, sum of squared deviations, minimum and maximum of returns, updated group by group."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    low: float = inf
    high: float = -inf

    def add(self, group: Mapping[str, Any]) -> None:
        """`group` has episodes, mean, std, min and max, as `describe` returns them; in a file NaN is a string."""
        mean, std, low, high = (float(group[key]) for key in ("mean", "std", "min", "max"))
        count = group["episodes"]
        difference, total = mean - self.mean, self.count + count
        self.squares += count * std**2 + difference**2 * self.count * count / total
        self.mean += difference * count / total
        self.count, self.low, self.high = total, min(self.low, low), max(self.high, high)


class Statistics:
    """Statistics of all episodes so far. The mean is the mean over simulations, as for a score."""

    def __init__(self, batches: Sequence[Mapping[str, Any]]) -> None:
        self._all = Moments()
        self._simulations: dict[str, Moments] = {}
        for batch in batches:
            self.add(batch)

    def add(self, batch: Mapping[str, Any]) -> None:
        for part in batch["simulations"]:
            self._all.add(part)
            self._simulations.setdefault(part["simulation"], Moments()).add(part)

    def figures(self) -> dict[str, float]:
        """Empty before the first batch."""
        if not self._all.count:
            return {}
        means = [one.mean for one in self._simulations.values()]
        return {
            "mean": sum(means) / len(means),
            "std": sqrt(self._all.squares / self._all.count),
            "min": self._all.low,
            "max": self._all.high,
            "episodes": float(self._all.count),
        }


def _sample(report: SuiteReport, entry: Mapping[str, Any]) -> Sample:
    """The metrics of a batch, at the environment steps that this evaluation has played."""
    sample = evaluation_sample_of(report, entry["steps"], entry["at"])
    spread = {f"{EVALUATED_RETURN}_{name}": float(entry[name]) for name in ("min", "max", "std")}
    return Sample(sample.step, {**sample.metrics, **spread}, sample.timings, at=sample.at)
