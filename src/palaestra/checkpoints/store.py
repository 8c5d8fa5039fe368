"""All that is done with the `checkpoints/` of a run: save, verify, find, retain. Nothing else writes there.

`CheckpointManager` (manager.py) is the simple class over it, for a program of the user's own.
"""

from __future__ import annotations

import logging
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from math import isfinite
from typing import TYPE_CHECKING, Any

from palaestra.checkpoints import durable, replay_segments, retention, selection
from palaestra.checkpoints.files import SaveFailed, model_name, temporary_name, trainer_state_name
from palaestra.checkpoints.log import CheckpointLog
from palaestra.checkpoints.retention import exclusive_change, in_use
from palaestra.checkpoints.sidecar import digest
from palaestra.core.checkpoint import Checkpoint
from palaestra.core.errors import DamagedFile, UsageError, did_you_mean
from palaestra.core.lazy_import import lazy_import
from palaestra.runs.environment import installed_version

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import BinaryIO

    from numpy.typing import NDArray
    from torch import Tensor, nn

    from palaestra.checkpoints import torch_file
    from palaestra.checkpoints import weights as weight_files
    from palaestra.checkpoints.files import FileSystem
    from palaestra.checkpoints.selection import OpenedCheckpoint, Survey
    from palaestra.config.train import CheckpointConfig

    Arrays = Mapping[str, NDArray[Any]]  # of a policy's state_dict
else:
    torch_file = lazy_import("palaestra.checkpoints.torch_file")
    weight_files = lazy_import("palaestra.checkpoints.weights")

logger = logging.getLogger(__name__)

FIXED_FIELDS = frozenset({"epoch", "files", "replay_segments", "path"})  # what the files themselves decide


@dataclass(frozen=True)
class PreparedSave:
    """Everything a save needs, as bytes: training may go on while another thread commits it."""

    checkpoint: Checkpoint
    parts: Mapping[str, bytes]
    replay_rows: Sequence[replay_segments.Rows] = field(default=())  # what is new in the replay buffers


@dataclass(frozen=True)
class ResumePoint:
    """Weights and trainer state of one and the same commit."""

    checkpoint: Checkpoint
    weights: dict[str, Tensor]
    trainer_state: dict[str, Any]


class CheckpointStore:
    def __init__(self, directory: Path, config: CheckpointConfig | None = None, fs: FileSystem = durable.REAL) -> None:
        """Without `config` nothing is ever removed; with it, retention follows every save."""
        self.directory = directory
        self._config = config
        self._fs = fs
        self._log = CheckpointLog(self.directory, fs)
        self.segments = replay_segments.SegmentWriter(directory, fs)

    def ensure_writable(self) -> None:
        """Say now, not at the first save, that the directory cannot be written to."""
        probe = self.directory / temporary_name("probe")
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            probe.write_bytes(b"")
            probe.unlink()
        except OSError as error:
            raise SaveFailed(f"Checkpoints cannot be written to {self.directory}: {error.strerror}.") from error

    def save(
        self,
        policy: nn.Module | Arrays,
        checkpoint: Checkpoint,
        trainer_state: Mapping[str, Any] | None = None,
        replay_rows: Sequence[replay_segments.Rows] = (),
    ) -> Checkpoint:
        """Weights, trainer state and new rows as they are now, durable together when this returns."""
        return self.commit(self.prepare(policy, checkpoint, trainer_state, replay_rows))

    def prepare(
        self,
        policy: nn.Module | Arrays,
        checkpoint: Checkpoint,
        trainer_state: Mapping[str, Any] | None = None,
        replay_rows: Sequence[replay_segments.Rows] = (),
    ) -> PreparedSave:
        """The part of a save that must not overlap with learning. With arrays for a policy, torch is not needed.

        `replay_rows` are taken as they are: copies, if training goes on before `commit`.
        """
        files = torch_file if isinstance(policy, Mapping) else weight_files
        parts = {model_name(checkpoint.epoch): files.policy_to_bytes(policy)}
        if trainer_state is not None:
            parts[trainer_state_name(checkpoint.epoch)] = files.trainer_state_to_bytes(trainer_state)
        described = replace(checkpoint, versions=checkpoint.versions or dict(_versions()))
        return PreparedSave(described, parts, replay_rows)

    def commit(self, prepared: PreparedSave) -> Checkpoint:
        """The part of a save that touches the disk. Saving the same weights again keeps their score."""
        checkpoint, parts = prepared.checkpoint, dict(prepared.parts)
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SaveFailed(f"{self.directory} cannot be made: {error.strerror}.") from error
        with exclusive_change(self.directory):
            segments = self.segments.write(prepared.replay_rows)
            checkpoint = replace(checkpoint, replay_segments={one.name: one.entry for one in segments})
            saved = self._describe_again(checkpoint, parts) or durable.commit(
                self.directory, checkpoint.epoch, parts, checkpoint, self._fs
            )
            self.segments.confirm()
            self._clean_up()
        return saved

    def open(self, selector: str | int | Path = "latest") -> OpenedCheckpoint:
        """The verified bytes of a checkpoint, and which ones were refused on the way to it."""
        return selection.open_checkpoint(self.directory, selector)

    def load_weights(self, selector: str | int | Path = "latest") -> tuple[dict[str, Tensor], Checkpoint]:
        opened = self.open(selector)
        return _weights(opened), opened.checkpoint

    def add_trainer_state(self, epoch: int, trainer_state: Mapping[str, Any], **changes: Any) -> Checkpoint:
        """Add the state to an epoch that is saved already, or replace the one it has; `changes` go to the sidecar."""
        data = weight_files.trainer_state_to_bytes(trainer_state)
        with exclusive_change(self.directory):
            checkpoint, _ = durable.verify(self.directory, epoch)
            return self._write_trainer_state(replace(checkpoint, **changes), data)

    def load_trainer_state(self, selector: str | int | Path = "latest") -> dict[str, Any] | None:
        """Of `latest`: the newest there is, None when no checkpoint has one. Else of the very one selected."""
        if selector == "latest":
            point, damaged = self._newest_state()
            if point is None and damaged:
                raise self._not_resumable(damaged)
            return point.trainer_state if point else None
        return _trainer_state(self.open(selector))

    def load_for_resume(self, *, with_replay_rows: bool = True) -> ResumePoint | None:
        """The newest checkpoint that can be continued from. None only when the run has no checkpoint at all.

        What is saved next adds to the segments of its replay buffers; without `with_replay_rows` these are not read.
        """
        point, damaged = self._newest_state(with_replay_rows=with_replay_rows)
        if point is None and durable.committed_epochs(self.directory):
            raise self._not_resumable(damaged)
        if point is not None and with_replay_rows:
            self.segments.continue_from(replay_segments.segments_of(point.checkpoint))
        return point

    def read_replay_rows(
        self, checkpoint: Checkpoint, rank: int, read: Callable[[BinaryIO, int, str], Iterator[Any]]
    ) -> Iterator[Any]:
        """What `read` finds in the segments of that rank, which `load_for_resume` has verified; oldest rows first."""
        segments = [one for one in replay_segments.segments_of(checkpoint) if one.rank == rank]
        return replay_segments.read_segments(self.directory, segments, read)

    def _newest_state(self, *, with_replay_rows: bool = False) -> tuple[ResumePoint | None, list[str]]:
        """The newest commit with a trainer state that verifies, and what is wrong with those that do not."""
        found = self.survey()
        damaged = [one.reason for one in found.refused]
        for checkpoint in reversed(found.checkpoints):
            if trainer_state_name(checkpoint.epoch) not in checkpoint.files:
                logger.warning("Checkpoint %d has no trainer state; looking further back.", checkpoint.epoch)
                continue
            try:
                opened = self.open(checkpoint.epoch)
                state = _trainer_state(opened)
                weights = _weights(opened)
                if with_replay_rows:
                    replay_segments.verify(self.directory, replay_segments.segments_of(checkpoint))
            except DamagedFile as error:
                logger.warning("Checkpoint %d is damaged and is not used: %s", checkpoint.epoch, error.message)
                damaged.append(error.message)
                continue
            if state is not None:
                return ResumePoint(opened.checkpoint, weights, state), damaged
        return None, damaged

    def _not_resumable(self, damaged: list[str]) -> DamagedFile:
        return DamagedFile(
            f"No checkpoint in {self.directory} can be continued from. {' '.join(damaged)}".strip(),
            damage_hint(damaged),
        )

    def find_best_checkpoint(self, metric: str = "score") -> Checkpoint | None:
        """The best that verifies; None when no checkpoint was judged by `metric`."""
        found = self.survey()
        if not found.checkpoints:
            return None
        selection.check_metric(metric, found.checkpoints)
        if not selection.rank_from_best(found.checkpoints, metric):
            return None
        opened = selection.open_best(self.directory, metric)
        return opened.checkpoint if opened else None

    def find_checkpoints_by_score(self, min_score: float) -> list[Checkpoint]:
        """The best first."""
        return selection.at_least(self.list_all_checkpoints(), min_score)

    def list_all_checkpoints(self) -> list[Checkpoint]:
        """From the oldest to the newest; `survey` also tells which were refused."""
        return list(self.survey().checkpoints)

    def survey(self) -> Survey:
        return selection.survey(self.directory)

    def in_use(self, epoch: int) -> AbstractContextManager[None]:
        """Hold on to a checkpoint: no retention, in whatever process, removes it meanwhile."""
        return in_use(self.directory, epoch)

    def update_metadata(self, epoch: int, **changes: Any) -> Checkpoint:
        """Change what the sidecar says, e.g. the score after an evaluation; `metrics` are added to those there."""
        changeable = {field.name for field in fields(Checkpoint)} - FIXED_FIELDS
        for name in changes:
            if name not in changeable:
                hint = did_you_mean(name, changeable) or f"These can: {', '.join(sorted(changeable))}."
                raise UsageError(f"A checkpoint's '{name}' cannot be changed.", hint)
        for name in ("score", "avg_reward"):
            value = changes.get(name)
            if value is not None and not isfinite(value):
                raise UsageError(f"{name}={value} is no judgement.", "Leave it out, or give None.")
        with exclusive_change(self.directory):
            before = durable.read_sidecar(self.directory, epoch)
            if "metrics" in changes:
                changes["metrics"] = {**before.metrics, **changes["metrics"]}
            return durable.rewrite_sidecar(self.directory, replace(before, **changes), self._fs)

    def uncommitted_files(self) -> list[Path]:
        """Data without a sidecar: never served, listed so that a person can look at it."""
        return durable.uncommitted_files(self.directory)

    def retain(self, keep: int, keep_trainer_states: int) -> retention.Removed:
        with exclusive_change(self.directory):
            found = self.survey().checkpoints
            removed = retention.retain(self.directory, found, keep, keep_trainer_states, self._fs)
            left = removed.rest(found)
            retention.sweep(self.directory, left, keep, self._fs)
            self._log.update(left)
        return removed

    def _describe_again(self, checkpoint: Checkpoint, parts: dict[str, bytes]) -> Checkpoint | None:
        """The same weights saved twice (by interval and at the end) need no new files; None when they are not there."""
        weights, state = model_name(checkpoint.epoch), trainer_state_name(checkpoint.epoch)
        if checkpoint.epoch not in durable.committed_epochs(self.directory):
            return None
        try:
            before, there = durable.verify(self.directory, checkpoint.epoch)
        except DamagedFile as error:
            logger.warning("Checkpoint %d is damaged and is saved anew: %s", checkpoint.epoch, error.message)
            return None
        if there[weights] != parts[weights]:
            logger.warning("Checkpoint %d is replaced by other weights of the same epoch.", checkpoint.epoch)
            return None
        described = replace(
            checkpoint,
            files=before.files,
            score=before.score if checkpoint.score is None else checkpoint.score,
            metrics={**before.metrics, **checkpoint.metrics},  # how many episodes the score is the mean of is there
        )
        if state in parts and state not in there:
            return self._write_trainer_state(described, parts[state])
        return durable.rewrite_sidecar(self.directory, described, self._fs)

    def _write_trainer_state(self, checkpoint: Checkpoint, data: bytes) -> Checkpoint:
        """The sidecar never names a state that is not there: it lets go of the old one before that is replaced."""
        name = trainer_state_name(checkpoint.epoch)
        if name in checkpoint.files:
            without = {other: entry for other, entry in checkpoint.files.items() if other != name}
            durable.rewrite_sidecar(self.directory, replace(checkpoint, files=without), self._fs)
        durable.replace_file(self.directory, name, data, self._fs)
        files = {**checkpoint.files, name: digest(data)}
        return durable.rewrite_sidecar(self.directory, replace(checkpoint, files=files), self._fs)

    def _clean_up(self) -> None:
        """Retention and log after a save that stands already: their failure is named and tried again next time."""
        try:
            found: Sequence[Checkpoint] = self.survey().checkpoints
            if self._config is not None:
                keep, keep_states = self._config.keep, self._config.keep_trainer_states
                found = retention.retain(self.directory, found, keep, keep_states, self._fs).rest(found)
                retention.sweep(self.directory, found, keep, self._fs)
            self._log.update(found)
        except (OSError, SaveFailed, DamagedFile) as error:
            logger.warning("The checkpoint is saved, but tidying up after it failed: %s", error)


def damage_hint(damaged: Sequence[str]) -> str:
    """What to do about a run that cannot be continued."""
    if any(f"/{replay_segments.FOLDER}/" in reason for reason in damaged):
        return "Restore it from a copy, or continue without it: --resume --without-replay-buffer fills a new one."
    return "Restore one from a copy, or start a new run."


def _weights(opened: OpenedCheckpoint) -> dict[str, Tensor]:
    name = model_name(opened.checkpoint.epoch)
    return weight_files.weights_from_bytes(opened.parts[name], name)


def _trainer_state(opened: OpenedCheckpoint) -> dict[str, Any] | None:
    name = trainer_state_name(opened.checkpoint.epoch)
    return weight_files.trainer_state_from_bytes(opened.parts[name], name) if name in opened.parts else None


@cache
def _versions() -> dict[str, str]:
    """Of what this process has loaded; looking them up takes longer than writing a small checkpoint."""
    packages = ("palaestra", "torch", "numpy", "gymnasium", "safetensors")
    return {"python": platform.python_version(), **{name: installed_version(name) for name in packages}}
