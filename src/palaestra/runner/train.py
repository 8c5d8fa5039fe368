"""What a training process does: open the run, consume the trainer, write down what it reports, leave in order."""

from __future__ import annotations

import json
import logging
import os
import signal
from contextlib import ExitStack, closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.checkpoints.manager import CheckpointManager
from palaestra.core import plugins
from palaestra.core.clock import Clock, SystemClock
from palaestra.core.errors import NonFinite, PalaestraError, RunFailed
from palaestra.core.lazy_import import lazy_import
from palaestra.core.tracebacks import user_errors_reported
from palaestra.envs.build import describe_stepping
from palaestra.loggers.build import build_sinks
from palaestra.loggers.fanout import Fanout
from palaestra.loggers.status import RunHeader
from palaestra.policies.shipped import notes_on_network, self_contained
from palaestra.runner.abort import Abort, exits_reported, explain_crashes
from palaestra.runner.beginning import find_origin
from palaestra.runner.captures import demand_one_config, share_config
from palaestra.runner.code_check import demand_same_code
from palaestra.runner.epitaph import write_for_dead_leader
from palaestra.runner.following import FollowerSaver, FollowerSession
from palaestra.runner.judgements import Evaluator, Judgements
from palaestra.runner.live import live_view
from palaestra.runner.logs import log_traceback, this_rank, warnings_on_stderr
from palaestra.runner.loop import TrainingLoop
from palaestra.runner.open_files import require_open_files
from palaestra.runner.opening import Found, find_run
from palaestra.runner.outcome import TrainOutcome, last_metrics, outcome_on_disk
from palaestra.runner.parent import LAUNCHER, die_with_launcher
from palaestra.runner.resuming import Resumed, resume
from palaestra.runner.saving import Saver
from palaestra.runner.session import RunSession
from palaestra.runner.signals import StopNow, StopRequest, exit_code_of, stop_on_signals
from palaestra.runner.teaching import load_teacher
from palaestra.runner.watchdog import StepTimeout, Watchdog, watch_steps
from palaestra.runs.directory import RunDirectory
from palaestra.runs.documents import read_config, write_config
from palaestra.runs.environment import describe_git
from palaestra.runs.files import read_json
from palaestra.runs.journal import Journal
from palaestra.runs.lock import run_lock
from palaestra.runs.logs import run_log
from palaestra.runs.status import read_record
from palaestra.runs.store import RunStore
from palaestra.training.group import PeerLost
from palaestra.training.joining import open_group
from palaestra.training.place import elastic_restarts, read_place
from palaestra.training.sharing import equalize, import_torch_together
from palaestra.training.state import TrainingState, new_training_state

if TYPE_CHECKING:
    from palaestra.config.train import TrainConfig
    from palaestra.core.run import RunRequest
    from palaestra.evaluation import judged, suites
    from palaestra.runner import distant, spare
    from palaestra.runs.differences import Difference
    from palaestra.training.group import Group
else:
    judged = lazy_import("palaestra.evaluation.judged")
    suites = lazy_import("palaestra.evaluation.suites")
    distant = lazy_import("palaestra.runner.distant")
    spare = lazy_import("palaestra.runner.spare")

logger = logging.getLogger(__name__)


def run_training(
    request: RunRequest,
    config: TrainConfig,
    runs_root: Path,
    *,
    resume_only: bool = False,
    accept_changes: frozenset[str] = frozenset(),
    quiet: bool = False,
    profile: bool = False,
    restart: int = 0,
    takes_settings: bool = False,
) -> TrainOutcome:
    """Train to the end, or until told to stop; a run of that name is continued. Refusals leave nothing behind.

    `restart`: how often the ranks were started again by themselves after a failure. `takes_settings`: this rank
    continues a run that it does not know, with the leader's settings; `config` only says how to join.
    """
    require_open_files()
    if read_place(os.environ) is not None:
        die_with_launcher()
    clock = SystemClock()
    config = config.model_copy(update={"policy": self_contained(config.policy)})
    abort = Abort()
    with open_group(config.distributed, config.device, abort.end_after_loss) as group:
        abort.group = group
        demand_one_config(config, group, request.config if takes_settings else None)
        store = RunStore(runs_root, clock)
        found = None
        if group.is_leader:
            found = find_run(store, request, config, must_exist=resume_only, accept_changes=accept_changes)
            config = found.config if found else config
        config = share_config(config, group)
        code_differences = demand_same_code(config, group)
        done = group.tell(str(found.directory.path).encode() if found and found.is_done else b"").decode()
        if done:
            return _already_done(RunDirectory(Path(done)), config, group, clock)
        with user_errors_reported():
            for name in config.sinks.plugins:
                plugins.load("sinks", name)  # a misspelt one is refused here
        if config.evaluate_interval and config.evaluate_remote:
            distant.require_remote()
        teacher = load_teacher(config, runs_root, group)
        origin = find_origin(config, runs_root, found.directory if found else None, group)
        explain_crashes()
        with exits_reported(abort), watch_steps(config.env.step_timeout, abort) as watchdog, ExitStack() as stack:
            with user_errors_reported():
                state = new_training_state(config, group, teacher, origin)  # refuses a bad environment or network
            stack.enter_context(closing(state.envs))
            if config.evaluate_interval:
                suite = suites.suite_of(judged.OWN_SUITE, config.evaluation, config.env.model_dump(mode="json"))
                suites.refuse_unplayable(suite, state.interface, config.env)
            group.barrier()  # whoever refuses does so before anything is on disk
            directory, is_found = _enter(stack, store, request, state.config, found, group)
            if group.is_leader:
                _record_restart(directory, restart or elastic_restarts(os.environ))
                for difference in code_differences:
                    Journal(directory).record("code.differs", **asdict(difference))
            return _train_in(
                directory, state, found, watchdog, abort, is_found=is_found, quiet=quiet, profile=profile, clock=clock
            )


def _enter(
    stack: ExitStack, store: RunStore, request: RunRequest, config: TrainConfig, found: Found | None, group: Group
) -> tuple[RunDirectory, bool]:
    """The run's directory, held and logged into for as long as `stack` lasts, and whether it was there before."""
    path = ""
    if group.is_leader:
        own = found.directory if found else _create(store, request, config)
        path = str(own.path)
        stack.enter_context(run_lock(own))
        stack.enter_context(warnings_on_stderr())
    path, is_found = json.loads(group.tell(json.dumps([path, found is not None]).encode()))
    directory = RunDirectory(Path(path))
    if not group.is_leader:
        directory = _log_directory(directory, store.root)
    stack.enter_context(run_log(directory, group.rank))
    return directory, bool(is_found)


def _log_directory(leader: RunDirectory, runs_root: Path) -> RunDirectory:
    """The leader's, on a shared disk; else one of the same id in this machine's own runs folder, for logs only."""
    if leader.status_file.is_file():
        return leader
    own = RunDirectory(runs_root / leader.id)
    try:
        own.logs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunFailed(
            f"The log folder {own.logs} of this rank cannot be made: {error.strerror}.",
            "Choose another runs folder with PALAESTRA_RUNS_DIR.",
        ) from error
    return own


def _create(store: RunStore, request: RunRequest, config: TrainConfig) -> RunDirectory:
    return store.create(request, config.model_dump(mode="json"), request.name or None, config.total_steps)


def _record_restart(directory: RunDirectory, restart: int) -> None:
    """The cause is in the status until this process replaces it."""
    if restart:
        before = read_record(directory)
        Journal(directory).record(
            "run.restarted", restart=restart, cause=before.failure, epoch=before.epoch, step=before.agent_step
        )


def _train_in(
    directory: RunDirectory,
    state: TrainingState,
    found: Found | None,
    watchdog: Watchdog,
    abort: Abort,
    *,
    is_found: bool,
    quiet: bool,
    profile: bool,
    clock: Clock,
) -> TrainOutcome:
    group = state.group
    manager = CheckpointManager(directory, state.config.checkpoints)
    if group.is_leader:
        manager.ensure_writable()
    resumed = resume(manager, state) if is_found else None
    if group.world_size > 1:
        import_torch_together(group)
        equalize(state.policy, group)
    if group.is_leader:
        session = _begin(directory, state.config, found.changes if found else [], clock)
    else:
        session = FollowerSession(directory, state.config.total_steps, clock)
    abort.session = session
    try:
        with stop_on_signals() as stop:
            watchdog.stop = stop
            exit_code = _train_with(
                manager, session, state, resumed, stop, is_found=is_found, quiet=quiet, profile=profile, clock=clock
            )
    except StopNow as now:
        if not session.record.state.is_over:  # it may also come while the sinks are closed
            session.cancelled(now.reason, now.exit_code)
        exit_code = session.record.exit_code or 0
    metrics = last_metrics(directory) if group.is_leader else {}
    return TrainOutcome(session.record, directory, exit_code, metrics, group.rank)


def _begin(directory: RunDirectory, config: TrainConfig, changes: list[Difference], clock: Clock) -> RunSession:
    try:
        dumped = config.model_dump(mode="json")
        if changes or read_config(directory)["policy"] != dumped["policy"]:  # policy.graph=auto of a queued run
            write_config(directory, dumped)
        session = RunSession(directory, config.total_steps, clock)
    except OSError as error:
        raise RunFailed(
            f"The run's directory {directory.path} cannot be written: {error.strerror}.", "Make room, then try again."
        ) from error
    if changes:
        session.journal.record("config.changed", differences=[str(change) for change in changes])
    return session


def _train_with(
    manager: CheckpointManager,
    session: RunSession,
    state: TrainingState,
    resumed: Resumed | None,
    stop: StopRequest,
    *,
    is_found: bool,
    quiet: bool,
    profile: bool,
    clock: Clock,
) -> int:
    directory = session.directory
    with _open_sinks(session, directory, state, quiet=quiet, clock=clock) as sinks:
        saver: Saver | FollowerSaver = FollowerSaver()
        if state.group.is_leader:
            saver = Saver(manager, session, sinks, clock, git_commit=_commit(directory, is_found=is_found))
        with closing(Judgements(_evaluators(state, directory), manager, session, sinks, clock)) as judgements:
            loop = TrainingLoop(state, directory, session, sinks, saver, judgements, stop, clock, profile=profile)
            if resumed is not None:
                saver.restore(resumed.session, resumed.epoch)
            sinks.rewind(state.env_steps)
            session.begun(state, resumed, describe_stepping(state.envs))
            sinks.note(f"Engine: {state.engine.description}")
            for line in notes_on_network(state.config.policy, state.interface):
                sinks.note(line)
            judgements.catch_up(state.config.evaluate_interval, state.iteration)
            with live_view(state, session):
                return _run(loop, session, saver, stop, state.group)


def _commit(directory: RunDirectory, *, is_found: bool) -> str:
    """Of the code that trains now. Asking git takes a process; a run that this one has just made has asked already."""
    git: dict[str, Any] | None = (
        describe_git(Path.cwd()) if is_found else read_json(directory.environment_file).get("git")
    )
    return str((git or {}).get("commit", ""))


def _evaluators(state: TrainingState, directory: RunDirectory) -> list[Evaluator]:
    """Of the leader; the others have nothing to say to them."""
    config = state.config
    if not config.evaluate_interval or not state.group.is_leader:
        return []
    evaluators: list[Evaluator] = []
    if config.evaluate_local:
        evaluators.append(spare.SpareEvaluator(directory, config.evaluation.timeout_seconds))
    if config.evaluate_remote:
        evaluators.append(distant.DistantEvaluator(distant.open_remote(directory), directory, config.evaluation))
    return evaluators


def _run(loop: TrainingLoop, session: RunSession, saver: Saver | FollowerSaver, stop: StopRequest, group: Group) -> int:
    """The loop, and every way in which it can end."""
    try:
        with user_errors_reported():
            is_complete = loop.run()
    except StopNow:
        raise
    except StepTimeout as timeout:
        log_traceback(timeout)
        session.failed(timeout.failure, timeout.failure.exit_code)
        raise timeout.failure from timeout
    except BaseException as error:
        log_traceback(error)
        if isinstance(error, PeerLost):
            error.message = group.explain_loss(error.message)
        _add_hint(error, session, saver)
        session.failed(error, error.exit_code if isinstance(error, PalaestraError) else 1)
        if isinstance(error, PeerLost) and this_rank() and LAUNCHER not in os.environ:
            write_for_dead_leader(session.directory, str(error))
        raise
    if is_complete:
        session.finished()
        return 0
    assert stop.signal is not None, "only a signal ends the loop early"
    session.cancelled(signal.Signals(stop.signal).name, exit_code_of(stop.signal))
    return exit_code_of(stop.signal)


def _open_sinks(
    session: RunSession, directory: RunDirectory, state: TrainingState, *, quiet: bool, clock: Clock
) -> Fanout:
    config = state.config
    asked = config.sinks.model_copy(update={"console": False}) if quiet else config.sinks
    header = RunHeader(session.record.name, session.record.recipe, config.total_steps, directory.path)

    def on_dropped(name: str, error: Exception) -> None:
        log_traceback(error)
        logger.warning("The sink '%s' is no longer used: %s", name, error)
        session.journal.record("sink.failed", sink=name, error=str(error))

    if not state.group.is_leader:
        return Fanout(on_dropped)
    return build_sinks(asked, directory, header, config.model_dump(mode="json"), on_dropped, clock)


def _add_hint(error: BaseException, session: RunSession, saver: Saver | FollowerSaver) -> None:
    """What only this process knows: where the run can go on, and where to read more."""
    if isinstance(error, NonFinite):
        last = f"The last good checkpoint is epoch {saver.saved_epoch}"
        if saver.saved_epoch < 0:
            last = "No checkpoint was saved before it"
        error.hint = f"{last}. {error.hint}" if error.hint else f"{last}; try a smaller ppo.learning_rate."
    elif isinstance(error, PalaestraError) and error.user_traceback and not error.hint:
        error.hint = f"The whole traceback is in {session.directory.log_file(this_rank())}."


def _already_done(directory: RunDirectory, config: TrainConfig, group: Group, clock: Clock) -> TrainOutcome:
    if not group.is_leader:  # who may not even see the directory
        session = FollowerSession(directory, config.total_steps, clock)
        session.finished()
        return TrainOutcome(session.record, directory, 0, {}, group.rank)
    outcome = outcome_on_disk(directory, 0)
    logger.warning(
        "Run '%s' is finished at step %d. To go on: total_steps=MORE --override total_steps",
        outcome.record.name,
        outcome.record.agent_step,
    )
    return outcome
