"""Restores a training from its newest usable checkpoint, and says whether it continues bit for bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from palaestra.core.errors import DamagedFile
from palaestra.core.lazy_import import lazy_import
from palaestra.runner.replay_rows import RowLoader
from palaestra.runner.trainer_state import own_capture, share_trainer_state
from palaestra.runs.environment import package_versions
from palaestra.training.state import engine_of

if TYPE_CHECKING:
    from palaestra.checkpoints import restore
    from palaestra.checkpoints.manager import CheckpointManager
    from palaestra.checkpoints.store import ResumePoint
    from palaestra.training.state import TrainingState
else:
    restore = lazy_import("palaestra.checkpoints.restore")

DECISIVE_PACKAGES = ("torch", "numpy", "gymnasium", "mujoco", "palaestra")


@dataclass(frozen=True)
class Resumed:
    epoch: int
    checkpoint: str
    session: dict[str, Any]  # the state of saver and loggers
    why_inexact: str  # empty: bit for bit


def resume(manager: CheckpointManager, state: TrainingState, *, with_replay_buffer: bool = True) -> Resumed | None:
    """Restores `state` from the newest good checkpoint; None when the run has none yet.

    `with_replay_buffer`: False: the transitions in the checkpoint are not read; the buffer is filled anew
    A collective: the leader reads and broadcasts. Weights go to all ranks afterwards, see `equalize`.
    """
    group = state.group
    point = manager.load_for_resume(with_replay_rows=with_replay_buffer) if group.is_leader else None
    if point is not None:
        _load_weights(point, state)
    trainer_state = share_trainer_state(point.trainer_state if point else None, group)
    if trainer_state is None:
        return None
    capture = own_capture(trainer_state, group)
    load_rows = RowLoader(manager, point, group, is_left_out=not with_replay_buffer)
    state.restore(capture, load_rows)
    if point is None:  # on a follower
        return Resumed(state.iteration, "", {}, "")
    path = point.checkpoint.path
    return Resumed(
        epoch=point.checkpoint.epoch,
        checkpoint=path.name if path else "",
        session=point.trainer_state["session"],
        why_inexact=" ".join(
            filter(None, [load_rows.why_not, *_why_inexact(state, engine_of(capture), point.checkpoint.versions)])
        ),
    )


def _load_weights(point: ResumePoint, state: TrainingState) -> None:
    try:
        restore.fill_module(state.algorithm.policy(), point.weights, f"Checkpoint {point.checkpoint.epoch}")
    except DamagedFile as error:
        hint = error.hint or "Was policy.* changed? Continue with the previous settings, or start a new run."
        raise DamagedFile(error.message, hint) from error
    missing = {"training", "session"} - point.trainer_state.keys()
    if missing:
        raise DamagedFile(f"The trainer state of checkpoint {point.checkpoint.epoch} lacks {', '.join(missing)}.")


def _why_inexact(state: TrainingState, began_with: str, versions: dict[str, str]) -> list[str]:
    engine = state.algorithm.engine
    other = f"It was trained with engine={began_with} and continues with {engine}." if began_with != engine else ""
    return [state.envs.why_inexact(), other, _other_versions(versions)]


def _other_versions(then: dict[str, str]) -> str:
    now = package_versions()
    changed = [
        f"{name} {then[name]} is now {now[name]}"
        for name in DECISIVE_PACKAGES
        if name in then and name in now and then[name] != now[name]
    ]
    return f"Since the checkpoint, {', '.join(changed)}." if changed else ""
