"""From a job to a run that can train: ranks joined, run found or created, state built or restored, session started."""

from __future__ import annotations

import json
import logging
import os
import resource
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from palaestra.checkpoints.manager import CheckpointManager
from palaestra.core import plugins
from palaestra.core.clock import Clock, SystemClock
from palaestra.core.errors import RunFailed, UsageError
from palaestra.core.lazy_import import lazy_import
from palaestra.core.tracebacks import user_errors_reported
from palaestra.policies.shipped import self_contained
from palaestra.runner.abort import Abort, exits_reported, explain_crashes
from palaestra.runner.find_run import Found, find_run
from palaestra.runner.initial_policies import find_warm_start, load_teacher
from palaestra.runner.job import TrainOutcome, outcome_on_disk
from palaestra.runner.launcher import die_with_launcher
from palaestra.runner.logs import warnings_on_stderr
from palaestra.runner.rank_checks import require_one_config, require_same_code, share_config
from palaestra.runner.resume import Resumed, resume
from palaestra.runner.session import FollowerSession, RunSession
from palaestra.runner.watchdog import Watchdog, watch_steps
from palaestra.runs.directory import RunDirectory
from palaestra.runs.documents import read_config, write_config
from palaestra.runs.journal import Journal
from palaestra.runs.lock import run_lock
from palaestra.runs.logs import run_log
from palaestra.runs.status import read_record
from palaestra.runs.store import RunStore
from palaestra.training.distributed.joining import open_group
from palaestra.training.distributed.rank_info import elastic_restarts, read_rank_info
from palaestra.training.distributed.reports import equalize, import_torch_together
from palaestra.training.replay_memory import refuse_full_disk
from palaestra.training.state import TrainingState, new_training_state

if TYPE_CHECKING:
    from palaestra.algorithms.group import Group
    from palaestra.config.train import TrainConfig
    from palaestra.evaluation import background, suites, targets
    from palaestra.runner.job import TrainingJob
else:
    targets = lazy_import("palaestra.evaluation.targets")
    suites = lazy_import("palaestra.evaluation.suites")
    background = lazy_import("palaestra.evaluation.background")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PreparedRun:
    """A run whose directory is locked, whose state is built or restored, and whose session has started."""

    job: TrainingJob
    state: TrainingState
    manager: CheckpointManager
    session: RunSession
    resumed: Resumed | None  # None: it starts from the first step
    initial_weights: str  # RUN:EPOCH of the checkpoint that the first weights come from; empty: none
    is_found: bool  # the run existed before this process
    watchdog: Watchdog
    clock: Clock


def prepare_run(job: TrainingJob, stack: ExitStack) -> PreparedRun | TrainOutcome:
    """What `stack` holds open lasts until the run ends. A refused job leaves nothing on disk.

    Gives the outcome at once when the run has taken all its steps already.
    """
    require_open_files()
    if read_rank_info(os.environ) is not None:
        die_with_launcher()
    clock = SystemClock()
    abort = Abort()
    own_config = job.config.model_copy(update={"policy": self_contained(job.config.policy)})
    group = stack.enter_context(open_group(own_config.distributed, own_config.device, abort.end_after_loss))
    abort.group = group
    store = RunStore(job.runs_root, clock)
    config, found = _agree_on_config(job, own_config, store, group)
    code_differences = require_same_code(config, group)
    finished = group.broadcast_bytes(str(found.directory.path).encode() if found and found.is_done else b"").decode()
    if finished:
        return _finished_before(RunDirectory(Path(finished)), config, group, clock)
    _require_plugins(config)
    teacher = load_teacher(config, job.runs_root, group)
    warm_start = find_warm_start(config, job.runs_root, found.directory if found else None, group)
    explain_crashes()
    stack.enter_context(exits_reported(abort))
    watchdog = stack.enter_context(watch_steps(config.env.step_timeout, abort))
    with user_errors_reported():
        state = new_training_state(config, group, teacher, warm_start)  # refuses a bad environment or network
    stack.enter_context(closing(state.envs))
    _require_own_suite(state)
    if found is None and group.is_leader:
        refuse_full_disk(state.config, state.algorithm.interface, store.root, group.world_size)
    group.barrier()  # a rank that refuses does so before anything is on disk
    directory, is_found = _enter_directory(stack, store, job, state, found)
    if group.is_leader:
        _record_restart(directory, job.restart or elastic_restarts(os.environ))
        for difference in code_differences:
            Journal(directory).record("code.differs", **asdict(difference))
    manager = CheckpointManager(directory, state.config.checkpoints)
    resumed = _restore(manager, state, is_found=is_found, with_replay_buffer=not job.without_replay_buffer)
    abort.session = session = _begin_session(directory, state, found, clock)
    initial_weights = warm_start.checkpoint if warm_start else ""
    return PreparedRun(job, state, manager, session, resumed, initial_weights, is_found, watchdog, clock)


def _agree_on_config(
    job: TrainingJob, config: TrainConfig, store: RunStore, group: Group
) -> tuple[TrainConfig, Found | None]:
    """A collective: every rank trains with the leader's configuration. Only the leader finds the run."""
    require_one_config(config, group, job.request.config if job.takes_settings else None)
    found = None
    if group.is_leader:
        found = find_run(store, job.request, config, must_exist=job.resume_only, accept_changes=job.accept_changes)
        config = found.config if found else config
    return share_config(config, group), found


def _require_plugins(config: TrainConfig) -> None:
    """A misspelt plugin or a missing extra is refused before anything is on disk."""
    with user_errors_reported():
        for name in config.loggers.plugins:
            plugins.load("loggers", name)
    if config.evaluate_interval and config.evaluate_remote:
        background.require_remote()


def _require_own_suite(state: TrainingState) -> None:
    """Refuses evaluation settings that this policy cannot play."""
    config = state.config
    if config.evaluate_interval:
        suite = suites.suite_of(targets.OWN_SUITE, config.evaluation, config.env.model_dump(mode="json"))
        suites.refuse_unplayable(suite, state.algorithm.interface, config.env)


def _enter_directory(
    stack: ExitStack, store: RunStore, job: TrainingJob, state: TrainingState, found: Found | None
) -> tuple[RunDirectory, bool]:
    """The run's directory, locked and logged into for as long as `stack` lasts, and whether it was there before."""
    path, group = "", state.group
    if group.is_leader:
        own = found.directory if found else _create(store, job, state.config)
        path = str(own.path)
        stack.enter_context(run_lock(own))
        stack.enter_context(warnings_on_stderr())
    path, is_found = json.loads(group.broadcast_bytes(json.dumps([path, found is not None]).encode()))
    directory = RunDirectory(Path(path))
    if not group.is_leader:
        directory = _log_directory(directory, store.root)
    stack.enter_context(run_log(directory, group.rank))
    return directory, bool(is_found)


def _create(store: RunStore, job: TrainingJob, config: TrainConfig) -> RunDirectory:
    return store.create(job.request, config.model_dump(mode="json"), job.request.name or None, config.total_steps)


def _log_directory(leader: RunDirectory, runs_root: Path) -> RunDirectory:
    """The leader's on a shared disk; else one with the same id in this machine's runs folder, for logs only."""
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


def _record_restart(directory: RunDirectory, restart: int) -> None:
    """The status still holds the cause: this process has not replaced it yet."""
    if restart:
        before = read_record(directory)
        Journal(directory).record(
            "run.restarted", restart=restart, cause=before.failure, epoch=before.epoch, step=before.agent_step
        )


def _restore(
    manager: CheckpointManager, state: TrainingState, *, is_found: bool, with_replay_buffer: bool
) -> Resumed | None:
    """A collective: from the newest checkpoint if there is one; afterwards all ranks have the same weights."""
    if state.group.is_leader:
        manager.ensure_writable()
    resumed = resume(manager, state, with_replay_buffer=with_replay_buffer) if is_found else None
    if state.group.world_size > 1:
        import_torch_together(state.group)
        equalize(state.algorithm.weights(), state.group)
    return resumed


def _begin_session(directory: RunDirectory, state: TrainingState, found: Found | None, clock: Clock) -> RunSession:
    config, changes = state.config, found.changes if found else []
    if not state.group.is_leader:
        return FollowerSession(directory, config.total_steps, clock)
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


def _finished_before(directory: RunDirectory, config: TrainConfig, group: Group, clock: Clock) -> TrainOutcome:
    if not group.is_leader:  # its machine may not have the directory
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


LEAST = 64  # a run's own files, loggers, libraries that are loaded meanwhile


def require_open_files(least: int = LEAST) -> None:
    """Raise the soft limit to the hard one where it is low; `UsageError` when that does not suffice."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _is_enough(soft, least):
        return
    if not _is_enough(hard, least):
        raise UsageError(
            f"This process may open only {hard} files; training needs at least {least}.",
            "Raise the limit in this shell (ulimit -n 1024), or in the service or container that starts it.",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _is_enough(limit: int, least: int) -> bool:
    return limit == resource.RLIM_INFINITY or limit >= least
