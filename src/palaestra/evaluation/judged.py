"""The checkpoint that is judged: found by what somebody typed, loaded, and not left behind by its run."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pydantic import ValidationError

from palaestra.checkpoints.loaded import LoadedPolicy, policy_from
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.checkpoints.reading import survey
from palaestra.checkpoints.targets import FILE_ENDINGS, find_target
from palaestra.config.evaluation import EvaluationConfig
from palaestra.core.errors import DamagedFile, NotFound, RefusedFile, UsageError
from palaestra.core.evaluation import DEFAULT
from palaestra.evaluation.guests import Guest, find_guest
from palaestra.evaluation.suites import Suite, suite_of
from palaestra.runs.directory import RunDirectory
from palaestra.runs.documents import read_config

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from palaestra.checkpoints.reading import OpenedCheckpoint
    from palaestra.checkpoints.targets import Target
    from palaestra.core.checkpoint import Checkpoint

OWN_SUITE = "own"  # the name of the suite that a run's configuration describes
ALL = ":all"  # the end of a target that means every checkpoint


@dataclass(frozen=True)
class Subject:
    """Known by its sidecar; whoever plays it, here or elsewhere, loads it."""

    checkpoint: Checkpoint
    directory: RunDirectory | None  # None: the file came without its run
    is_own: bool  # lies in the user's own store of runs, and so may name modules to import
    settings: EvaluationConfig  # as its run has them; without a run, the defaults

    @property
    def name(self) -> str:
        return f"{self.checkpoint.run}:{self.checkpoint.epoch}"

    def own_suite(self) -> Suite:
        """What its score is the score of."""
        suite = suite_of(OWN_SUITE if self.settings.simulations else DEFAULT, self.settings, self.checkpoint.env)
        if not self.is_own:
            for simulation in suite.simulations:
                refuse_foreign_module(simulation.env.id)
        return suite

    def held(self) -> AbstractContextManager[None]:
        """For the block's duration retention does not remove it."""
        if self.directory is None:
            return nullcontext()
        return CheckpointManager(self.directory).in_use(self.checkpoint.epoch)


@dataclass(frozen=True)
class Judged(Subject):
    loaded: LoadedPolicy


@dataclass(frozen=True)
class Visiting(Subject):
    """Its policy is not of our making: a plugin knows who can play it."""

    guest: Guest


def invite(target: str, runs_root: Path) -> Judged | Visiting:
    """Without a selector the best is meant, or the latest while none was judged."""
    found = find_target(target, runs_root)
    opened = _open(target, found)
    subject = _subject(opened.checkpoint, is_own=found.is_own)
    about = (opened.checkpoint, subject.directory, subject.is_own, subject.settings)
    guest = find_guest(opened, subject.directory, is_own=found.is_own)
    if guest is not None:
        return Visiting(*about, guest)
    return Judged(*about, policy_from(opened, trust_module=found.is_own))


def load_judged(target: str, runs_root: Path) -> Judged:
    """The same for those who want the policy itself in this process."""
    found = invite(target, runs_root)
    if isinstance(found, Visiting):
        raise UsageError(
            f"{found.name} was saved by a run of kind '{found.checkpoint.policy['kind']}', which alone can play it.",
            f"To judge it: palaestra eval {found.name}",
        )
    return found


def find_subjects(target: str, runs_root: Path) -> list[Subject]:
    """The same without loading it; `RUN:all` means every checkpoint that the run has, from the oldest on."""
    if not target.endswith(ALL):
        found = find_target(target, runs_root)
        return [_subject(_open(target, found).checkpoint, is_own=found.is_own)]
    found = find_target(target.removesuffix(ALL), runs_root)
    checkpoints = survey(found.directory).checkpoints
    if not checkpoints:
        raise NotFound(f"There is no checkpoint in {found.directory}.", "Has the run saved one yet?")
    return [_subject(checkpoint, is_own=found.is_own) for checkpoint in checkpoints]


def _open(target: str, found: Target) -> OpenedCheckpoint:
    has_selector = ":" in target or target.endswith(FILE_ENDINGS)
    try:
        return (found if has_selector else replace(found, selector="best")).open()
    except NotFound:
        if has_selector:
            raise
        return found.open()


def _subject(checkpoint: Checkpoint, *, is_own: bool) -> Subject:
    if not is_own:
        refuse_foreign_module(str(checkpoint.env.get("id", "")))
    directory = run_directory_of(checkpoint)
    settings = EvaluationConfig() if directory is None else read_settings(directory)
    return Subject(checkpoint, directory, is_own, settings)


def run_directory_of(checkpoint: Checkpoint) -> RunDirectory | None:
    """The run whose `checkpoints/` the sidecar lies in; None for a file that came without its run."""
    assert checkpoint.path is not None, "a loaded checkpoint knows its sidecar"
    directory = RunDirectory(checkpoint.path.resolve().parent.parent)
    in_run = checkpoint.path.resolve().parent == directory.checkpoints and directory.status_file.is_file()
    return directory if in_run else None


def read_settings(directory: RunDirectory) -> EvaluationConfig:
    """How the run judges its checkpoints."""
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
