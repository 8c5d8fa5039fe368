"""Prepares a machine for a rank or trial: the same code, environment variables, and runs that it cannot read."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from palaestra.checkpoints.targets import find_target
from palaestra.cluster.training.rank_actor import OWN_DISK, RunUpload
from palaestra.cluster.training.run_changes import METRICS, CheckpointSaved, FilePatch, RunScanner
from palaestra.cluster.training.run_sender import RunReport
from palaestra.core.errors import PalaestraError
from palaestra.runs.directory import RunDirectory
from palaestra.runs.environment import CodeDifferences, code_identity, describe_differences, shorten
from palaestra.runs.status import read_written_record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from palaestra.cluster.training.rank_actor import ActorSite
    from palaestra.cluster.training.run_changes import Change
    from palaestra.cluster.training.run_mirror import RunMirror
    from palaestra.config.train import TrainConfig

FORWARDED = ("PALAESTRA_", "OMP_", "MKL_", "TORCH_", "NCCL_", "GLOO_", "MUJOCO_", "PYTHONHASHSEED", "NO_COLOR")
NAMED_FILES = 3


def forwarded_variables() -> dict[str, str]:
    """The driver's environment variables that processes on all machines get."""
    return {name: value for name, value in os.environ.items() if name.startswith(FORWARDED) and name != OWN_DISK}


def upload_for(config: TrainConfig, runs_root: Path, mirror: RunMirror | None) -> RunUpload:
    """The run with its checkpoints so far, and the checkpoints of other runs that its configuration names."""
    runs = {}
    for target in filter(None, (config.initial_weights, config.ppo.kickstart.teacher)):
        runs.update(_named_checkpoint(target, runs_root))
    own = mirror.contents() if mirror is not None else None
    if mirror is not None and own is not None:
        runs[mirror.name] = own
    return RunUpload(tuple(runs.items()))


def _named_checkpoint(target: str, runs_root: Path) -> dict[str, RunReport]:
    """The run that `RUN:best` names, with that checkpoint only; empty if it is unknown on this machine."""
    try:
        found = find_target(target, runs_root)
        directory = RunDirectory(found.directory.parent)
        if directory.path.parent != runs_root.resolve():
            return {}
        epoch = found.open().checkpoint.epoch
        name = read_written_record(directory).name
    except PalaestraError:  # the trainer says it in its own words
        return {}
    folders = frozenset(path.name for path in directory.path.iterdir() if path.is_dir())
    changes = RunScanner(directory, folders).scan()
    wanted = [one for one in changes if _is_wanted(one, epoch)]
    return {name: RunReport(directory.id, tuple(wanted))}


def _is_wanted(change: Change, epoch: int) -> bool:
    """Whether a file is needed of a run of which only one checkpoint is read: that checkpoint and its metadata."""
    if isinstance(change, CheckpointSaved):
        return change.epoch == epoch
    return isinstance(change, FilePatch) and change.path != METRICS


def different_code(ray: Any, actor: Any, site: ActorSite, modules: Sequence[str], timeout: float) -> str:
    """A short description of how that machine's code differs from this process's; empty if it does not."""
    own = code_identity(modules)
    if site.code is None or own == site.code:
        return ""
    found = ray.get(actor.code_differences.remote(asdict(own)), timeout=timeout)
    return "" if found is None else shorten(describe_differences(CodeDifferences(**found)), NAMED_FILES)


def modules_of(config: TrainConfig) -> tuple[str, ...]:
    """The user's modules that a training imports."""
    env = config.env.id if ":" in config.env.id else ""
    return tuple(filter(None, (env, config.policy.module)))


@contextmanager
def marker_file(runs_root: Path) -> Iterator[str]:
    """The name of a marker file that exists during the block. Empty folders created for it are removed."""
    made = [folder for folder in (runs_root, *runs_root.parents) if not folder.exists()]
    runs_root.mkdir(parents=True, exist_ok=True)
    file = runs_root / f".shared-{uuid4().hex}"
    try:
        file.touch()
        yield file.name
    finally:
        file.unlink(missing_ok=True)
        with suppress(OSError):  # runs were made in it meanwhile
            for folder in made:
                folder.rmdir()
