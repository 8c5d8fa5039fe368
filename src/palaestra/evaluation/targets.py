"""What is evaluated: a checkpoint, its run, and who can play its policy."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import ValidationError

from palaestra.checkpoints.loading import LoadedPolicy, load_opened_policy
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.checkpoints.selection import survey
from palaestra.checkpoints.targets import FILE_ENDINGS, find_target
from palaestra.config.evaluation import EvaluationConfig
from palaestra.core import plugins
from palaestra.core.errors import DamagedFile, NotFound, RefusedFile, UsageError
from palaestra.core.evaluation import DEFAULT
from palaestra.evaluation.suites import Suite, suite_of
from palaestra.runs.directory import RunDirectory
from palaestra.runs.documents import read_config

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from palaestra.checkpoints.selection import OpenedCheckpoint
    from palaestra.checkpoints.targets import Target
    from palaestra.core.checkpoint import Checkpoint
    from palaestra.core.evaluation import EvaluationPlan
    from palaestra.evaluation.pool import PoolEvaluator, Program

OWN_SUITE = "own"  # the name of the suite that a run's configuration describes
ALL = ":all"  # the end of a target that means every checkpoint
GROUP = "external_policies"  # parts of apps: kind of run -> (opened checkpoint, run directory) -> ExternalPolicy


class ExternalPolicy(Protocol):
    """The policy of a checkpoint that another program trained, a CleanRL script for example."""

    def prepare(self, plan: EvaluationPlan) -> None:
        """Refuses a plan that the policy cannot play."""
        ...

    def pool_evaluator(self, count: int, videos: Path | None) -> PoolEvaluator:
        """Processes that play plans; `videos`: the folder for videos of the episodes, if they are wanted."""
        ...

    def match_player(self) -> tuple[dict[str, Any], Program]:
        """Start message and program of a process that plays step by step (`palaestra.runner.match.seats`)."""
        ...


@dataclass(frozen=True)
class EvaluationTarget:
    """A checkpoint, known by its sidecar; the evaluator loads the weights."""

    checkpoint: Checkpoint
    directory: RunDirectory | None  # None: the file came without its run
    is_own: bool  # in the user's own runs folder, so it may name modules to import
    settings: EvaluationConfig  # of its run; the defaults without one

    @property
    def name(self) -> str:
        return f"{self.checkpoint.run}:{self.checkpoint.epoch}"

    def own_suite(self) -> Suite:
        """The simulations that its score is measured in."""
        suite = suite_of(OWN_SUITE if self.settings.simulations else DEFAULT, self.settings, self.checkpoint.env)
        if not self.is_own:
            for simulation in suite.simulations:
                refuse_foreign_module(simulation.env.id)
        return suite

    def in_use(self) -> AbstractContextManager[None]:
        """Keeps retention from removing the checkpoint for the duration of the block."""
        if self.directory is None:
            return nullcontext()
        return CheckpointManager(self.directory).in_use(self.checkpoint.epoch)

    def journal_fields(self) -> dict[str, Any]:
        """The fields that every journal entry about an evaluation has."""
        return {"checkpoint": self.name, "epoch": self.checkpoint.epoch}


@dataclass(frozen=True)
class LoadedTarget(EvaluationTarget):
    loaded: LoadedPolicy


@dataclass(frozen=True)
class ExternalTarget(EvaluationTarget):
    policy: ExternalPolicy


def load_target(target: str, runs_root: Path) -> LoadedTarget | ExternalTarget:
    """Without a selector: the best checkpoint, or the latest while none has a score."""
    found = find_target(target, runs_root)
    opened = _open(target, found)
    known = _target_of(opened.checkpoint, is_own=found.is_own)
    fields = (opened.checkpoint, known.directory, known.is_own, known.settings)
    external = find_external_policy(opened, known.directory, is_own=found.is_own)
    if external is not None:
        return ExternalTarget(*fields, external)
    return LoadedTarget(*fields, load_opened_policy(opened, trust_module=found.is_own))


def load_policy_target(target: str, runs_root: Path) -> LoadedTarget:
    """The same, for callers that need the policy itself in this process."""
    found = load_target(target, runs_root)
    if isinstance(found, ExternalTarget):
        raise UsageError(
            f"{found.name} was saved by a run of kind '{found.checkpoint.policy['kind']}' and cannot be loaded here.",
            f"To evaluate it: palaestra eval {found.name}",
        )
    return found


def find_targets(target: str, runs_root: Path) -> list[EvaluationTarget]:
    """The same without loading weights; `RUN:all` means every checkpoint of the run, oldest first."""
    if not target.endswith(ALL):
        found = find_target(target, runs_root)
        return [_target_of(_open(target, found).checkpoint, is_own=found.is_own)]
    found = find_target(target.removesuffix(ALL), runs_root)
    checkpoints = survey(found.directory).checkpoints
    if not checkpoints:
        raise NotFound(f"There is no checkpoint in {found.directory}.", "Has the run saved one yet?")
    return [_target_of(checkpoint, is_own=found.is_own) for checkpoint in checkpoints]


def find_external_policy(
    opened: OpenedCheckpoint, directory: RunDirectory | None, *, is_own: bool
) -> ExternalPolicy | None:
    """None for a built-in policy. An external policy executes its own code, so the run must be the user's own."""
    kind = str(opened.checkpoint.policy.get("kind", ""))
    if kind not in plugins.names(GROUP):
        return None
    if not is_own or directory is None:
        raise RefusedFile(
            f"{opened.checkpoint.path or 'This checkpoint'} was saved by a run of kind '{kind}'; playing it would run "
            "the code that came with it.",
            "If you trust it, copy the whole run into your own runs directory.",
        )
    external: ExternalPolicy = plugins.load(GROUP, kind)(opened, directory)
    return external


def _open(target: str, found: Target) -> OpenedCheckpoint:
    has_selector = ":" in target or target.endswith(FILE_ENDINGS)
    try:
        return (found if has_selector else replace(found, selector="best")).open()
    except NotFound:
        if has_selector:
            raise
        return found.open()


def _target_of(checkpoint: Checkpoint, *, is_own: bool) -> EvaluationTarget:
    if not is_own:
        refuse_foreign_module(str(checkpoint.env.get("id", "")))
    directory = run_directory_of(checkpoint)
    settings = EvaluationConfig() if directory is None else read_settings(directory)
    return EvaluationTarget(checkpoint, directory, is_own, settings)


def run_directory_of(checkpoint: Checkpoint) -> RunDirectory | None:
    """The run whose `checkpoints/` contains the sidecar; None for a file outside of a run."""
    assert checkpoint.path is not None, "a loaded checkpoint knows its sidecar"
    directory = RunDirectory(checkpoint.path.resolve().parent.parent)
    in_run = checkpoint.path.resolve().parent == directory.checkpoints and directory.status_file.is_file()
    return directory if in_run else None


def read_settings(directory: RunDirectory) -> EvaluationConfig:
    """The evaluation settings of the run."""
    try:
        return EvaluationConfig.model_validate(read_config(directory).get("evaluation", {}))
    except NotFound:
        return EvaluationConfig()
    except ValidationError as error:
        raise DamagedFile(
            f"{directory.config_file}: its evaluation cannot be read: {error.errors()[0]['msg']}."
        ) from error


def refuse_foreign_module(env_id: str) -> None:
    """`module:Env-v0` imports the module, and that runs its code."""
    module, _, _ = env_id.rpartition(":")
    if module and module not in sys.modules:
        raise RefusedFile(
            f"This checkpoint names the environment {env_id}; making it would import '{module}' and run its code.",
            "If you trust it, import the module first, or copy the run into your own runs directory.",
        )
