"""An evaluation as a run of its own: it judges a checkpoint of another run, whose directory gets the results."""

from __future__ import annotations

import os
import signal
from itertools import count
from typing import TYPE_CHECKING

from pydantic import ValidationError

from palaestra.contracts.clock import SystemClock
from palaestra.contracts.errors import DamagedFile, PalaestraError
from palaestra.contracts.evaluation import Stopped
from palaestra.evaluation.judged import invite
from palaestra.evaluation.local import Asked, Evaluation, Watcher
from palaestra.runs.documents import read_config
from palaestra.runs.lock import run_lock
from palaestra.runs.logs import run_log
from palaestra.workers.evaluate_kind import EvaluateConfig
from palaestra.workers.session import RunSession
from palaestra.workers.signals import StopNow, exit_code_of, stop_on_signals

if TYPE_CHECKING:
    from palaestra.contracts.episodes import EpisodeResult
    from palaestra.contracts.evaluation import SuiteReport
    from palaestra.contracts.run import RunRequest
    from palaestra.runs.directory import RunDirectory
    from palaestra.workers.signals import StopRequest


def run_evaluation(directory: RunDirectory, request: RunRequest) -> int:
    del request  # the config says it all
    config = stored_config(directory)
    with run_lock(directory), run_log(directory), stop_on_signals() as stop:
        evaluation = Evaluation(invite(config.target, directory.path.parent), _asked(config))
        episodes = sum(len(plan.seeds) for plan in evaluation.plans())
        session = RunSession(directory, 0 if config.repeat else episodes, SystemClock())
        session.journal.record("run.started", pid=os.getpid(), total_steps=session.record.total_steps)
        return _carry_out(evaluation, session, stop, repeats=config.repeat)


def stored_config(directory: RunDirectory) -> EvaluateConfig:
    try:
        return EvaluateConfig.model_validate(read_config(directory))
    except ValidationError as error:
        raise DamagedFile(f"{directory.config_file} does not describe an evaluation: {error}.") from error


def _asked(config: EvaluateConfig) -> Asked:
    return Asked(
        suite=config.suite,
        episodes=config.episodes,
        seed=config.seed,
        deterministic=config.deterministic,
        overrides=config.env,
        video=config.video,
        replays=config.replays,
        workers=config.workers,
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
    """Batch after batch; `epoch` counts them, `agent_step` counts episodes."""
    summary: dict[str, float] = {}
    played = 0

    def on_episode(_episode: EpisodeResult) -> None:
        nonlocal played
        played += 1
        session.beat(batch, played, played / max(session.seconds, 1e-9), summary)

    with evaluation:
        for batch in count() if repeats else (0,):
            summary = _figures(evaluation.judge(batch, Watcher(on_episode, lambda: bool(stop))))
            session.beat(batch + 1, played, played / max(session.seconds, 1e-9), summary)


def _figures(report: SuiteReport) -> dict[str, float]:
    return {"mean": report.mean, "std": report.std, "min": min(report.returns), "max": max(report.returns)}
