"""An evaluation as a run of its own: it evaluates a checkpoint of another run, and both directories get the results."""

from __future__ import annotations

import os
import signal
import sys
from itertools import count
from typing import TYPE_CHECKING

from pydantic import ValidationError

from palaestra.core.clock import SystemClock
from palaestra.core.errors import DamagedFile, PalaestraError
from palaestra.core.evaluation import Stopped
from palaestra.evaluation.judged import invite
from palaestra.evaluation.local import Asked, Evaluation, Watcher
from palaestra.runner.evaluate_kind import EvaluateConfig
from palaestra.runner.evaluation_results import EvaluationResults
from palaestra.runner.session import RunSession
from palaestra.runner.signals import StopNow, exit_code_of, stop_on_signals
from palaestra.runs.documents import read_config
from palaestra.runs.lock import run_lock
from palaestra.runs.logs import run_log

if TYPE_CHECKING:
    from palaestra.core.episodes import EpisodeResult
    from palaestra.core.run import RunRequest
    from palaestra.runner.signals import StopRequest
    from palaestra.runs.directory import RunDirectory

TRACED = ("batch", "checkpoint", "epoch", "suite", "complete")  # of a batch, in the journal


def run_evaluation(directory: RunDirectory, request: RunRequest) -> int:
    del request  # the config says it all
    config = stored_config(directory)
    with run_lock(directory), run_log(directory), stop_on_signals() as stop:
        evaluation = Evaluation(invite(config.target, directory.path.parent), _asked(config, directory.id))
        session = RunSession(directory, 0, SystemClock())
        session.journal.record("run.started", pid=os.getpid(), total_steps=0)
        return _carry_out(evaluation, session, stop, repeats=config.repeat)


def stored_config(directory: RunDirectory) -> EvaluateConfig:
    try:
        return EvaluateConfig.model_validate(read_config(directory))
    except ValidationError as error:
        raise DamagedFile(f"{directory.config_file} does not describe an evaluation: {error}.") from error


def _asked(config: EvaluateConfig, run_id: str) -> Asked:
    return Asked(
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


def _carry_out(evaluation: Evaluation, session: RunSession, stop: StopRequest, *, repeats: bool) -> int:
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


def _play(evaluation: Evaluation, session: RunSession, stop: StopRequest, *, repeats: bool) -> None:
    """Batch after batch. In the run's status `epoch` counts batches and `agent_step` environment steps; episodes are
    in the summary."""
    with evaluation, EvaluationResults(session.directory) as results:
        progress = Progress(session, results, 0 if repeats else _episodes_of(evaluation))
        _print_plan(evaluation, repeats=repeats)
        for batch in count(results.batch_count) if repeats else (0,):
            report = evaluation.judge(batch, Watcher(progress.on_episode, lambda: bool(stop)))
            entry = results.add(report, evaluation.judged.checkpoint.epoch)
            progress.on_batch()
            figures = {key: entry[key] for key in ("episodes", "mean", "min", "max", "std", "seconds")}
            session.journal.record("eval.batch", **{key: entry[key] for key in TRACED}, **figures)


class Progress:
    """Tells the session, and so the page, where the evaluation stands."""

    def __init__(self, session: RunSession, results: EvaluationResults, total_episodes: int) -> None:
        self._session = session
        self._results = results
        self._total_episodes = total_episodes  # 0: it goes on until it is stopped
        self._first_step = self._steps = results.steps
        self._played = int(results.statistics.get("episodes", 0))
        self.on_batch()

    def on_episode(self, episode: EpisodeResult) -> None:
        self._steps += episode.length
        self._played += 1
        self._beat()

    def on_batch(self) -> None:
        statistics = self._results.statistics
        score = {"score": statistics["mean"]} if statistics else {}
        self._summary = {**statistics, **score, "batches": float(self._results.batch_count)}
        self._beat()

    def _beat(self) -> None:
        rate = (self._steps - self._first_step) / max(self._session.seconds, 1e-9)
        episodes = {"episodes_played": float(self._played), "episodes_total": float(self._total_episodes)}
        summary = {**self._summary, **episodes, "steps_per_second": rate}
        self._session.beat(self._results.batch_count, self._steps, rate, summary)


def _episodes_of(evaluation: Evaluation) -> int:
    return sum(len(plan.seeds) for plan in evaluation.plans())


def _print_plan(evaluation: Evaluation, *, repeats: bool) -> None:
    """The first line of the run's log."""
    plans = evaluation.plans()
    envs = ", ".join(dict.fromkeys(plan.env_id for plan in plans))
    how = "deterministic" if plans[0].deterministic else "sampled"
    batches = "batch after batch" if repeats else "one batch"
    print(
        f"Evaluating {evaluation.judged.name} in {envs}: {_episodes_of(evaluation)} episodes from seed "
        f"{plans[0].seeds[0]}, {how} actions, {batches}.",
        file=sys.stderr,
        flush=True,
    )
