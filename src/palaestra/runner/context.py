"""What surrounds the trainer while a run trains: opened once, in order, and passed on as one value."""

from __future__ import annotations

import logging
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.core.lazy_import import lazy_import
from palaestra.envs.build import describe_stepping
from palaestra.loggers.build import build_loggers
from palaestra.loggers.fanout import LoggerFanout
from palaestra.loggers.status import RunHeader
from palaestra.policies.shipped import notes_on_network
from palaestra.runner.evaluation_scheduler import EvaluationScheduler
from palaestra.runner.live import live_view
from palaestra.runner.logs import log_traceback
from palaestra.runner.saving import FollowerSaver, Saver
from palaestra.runs.environment import describe_git
from palaestra.runs.files import read_json
from palaestra.training import replay_memory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palaestra.core.clock import Clock
    from palaestra.evaluation import background
    from palaestra.evaluation.evaluator import BackgroundEvaluator
    from palaestra.runner.prepare import PreparedRun
    from palaestra.runner.session import RunSession
    from palaestra.runner.signals import StopRequest
    from palaestra.runs.directory import RunDirectory
    from palaestra.training.state import TrainingState
else:
    background = lazy_import("palaestra.evaluation.background")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunContext:
    """Every rank has one; only the leader's session, loggers and saver write files."""

    state: TrainingState
    session: RunSession
    loggers: LoggerFanout
    saver: Saver | FollowerSaver
    evaluations: EvaluationScheduler
    stop: StopRequest
    clock: Clock
    profile: bool = False

    @property
    def directory(self) -> RunDirectory:
        return self.session.directory


@contextmanager
def run_context(run: PreparedRun, stop: StopRequest) -> Iterator[RunContext]:
    """The context of `run`, ready for the first iteration; the live view, evaluators and loggers are closed after."""
    state, session = run.state, run.session
    with _open_loggers(run) as loggers:
        saver: Saver | FollowerSaver = FollowerSaver()
        if state.group.is_leader:
            saver = Saver(run.manager, session, loggers, run.clock, git_commit=_git_commit(run))
        evaluators = _evaluators(state, session.directory)
        with closing(EvaluationScheduler(evaluators, run.manager, session, loggers, run.clock)) as evaluations:
            profile = run.job.profile and state.group.is_leader
            context = RunContext(state, session, loggers, saver, evaluations, stop, run.clock, profile)
            _announce(context, run)
            with live_view(state, session):
                yield context


def _announce(context: RunContext, run: PreparedRun) -> None:
    """Puts every part where the run stands, and says in journal and console how it starts."""
    state, loggers = context.state, context.loggers
    if run.resumed is not None:
        context.saver.restore(run.resumed.session, run.resumed.epoch)
    loggers.rewind(state.env_steps)
    context.session.begun(state, run.resumed, describe_stepping(state.envs), run.initial_weights)
    loggers.note(f"Engine: {state.algorithm.description}")
    if text := replay_memory.describe(state.config, state.algorithm.interface, state.group.world_size):
        loggers.note(text)
    for line in notes_on_network(state.config.policy, state.algorithm.interface):
        loggers.note(line)
    context.evaluations.submit_missing(state.config.evaluate_interval, state.iteration)


def _git_commit(run: PreparedRun) -> str:
    """The commit of the running code; read from the run if it was just created, which saves a call of git."""
    git: dict[str, Any] | None = (
        describe_git(Path.cwd()) if run.is_found else read_json(run.session.directory.environment_file).get("git")
    )
    return str((git or {}).get("commit", ""))


def _evaluators(state: TrainingState, directory: RunDirectory) -> list[BackgroundEvaluator]:
    """Only the leader has any."""
    config = state.config
    if not config.evaluate_interval or not state.group.is_leader:
        return []
    evaluators: list[BackgroundEvaluator] = []
    if config.evaluate_local:
        evaluators.append(background.ProcessEvaluator(directory, config.evaluation.timeout_seconds))
    if config.evaluate_remote:
        evaluators.append(
            background.RemoteCheckpointEvaluator(background.open_remote(directory), directory, config.evaluation)
        )
    return evaluators


def _open_loggers(run: PreparedRun) -> LoggerFanout:
    config, session = run.state.config, run.session
    wanted = config.loggers.model_copy(update={"console": False}) if run.job.quiet else config.loggers
    record, path = session.record, session.directory.path
    header = RunHeader(record.name, record.recipe, config.total_steps, path, config.algorithm)

    def on_dropped(name: str, error: Exception) -> None:
        log_traceback(error)
        logger.warning("Logger '%s' failed and is disabled: %s", name, error)
        session.journal.record("sink.failed", sink=name, error=str(error))

    if not run.state.group.is_leader:
        return LoggerFanout(on_dropped)
    return build_loggers(wanted, session.directory, header, config.model_dump(mode="json"), on_dropped, run.clock)
