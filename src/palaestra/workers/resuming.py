"""Going on from the newest checkpoint that can be continued, and saying whether it is bit for bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from palaestra.contracts.errors import DamagedFile
from palaestra.runs.environment import package_versions
from palaestra.workers.captures import own_capture, share_trainer_state

if TYPE_CHECKING:
    from palaestra.checkpoints.manager import CheckpointManager, ResumePoint
    from palaestra.training.state import TrainingState

DECISIVE_PACKAGES = ("torch", "numpy", "gymnasium", "mujoco", "palaestra")


@dataclass(frozen=True)
class Resumed:
    epoch: int
    checkpoint: str
    session: dict[str, Any]  # what the loop around the trainer had gathered
    why_inexact: str  # empty: bit for bit


def resume(manager: CheckpointManager, state: TrainingState) -> Resumed | None:
    """Put `state` where the newest good checkpoint left it; None when the run has none yet.

    A collective: the leader reads, the others are told. Weights go to all ranks afterwards, see `equalize`.
    """
    group = state.group
    point = manager.load_for_resume() if group.is_leader else None
    if point is not None:
        _load_weights(point, state)
    trainer_state = share_trainer_state(point.trainer_state if point else None, group)
    if trainer_state is None:
        return None
    state.restore(own_capture(trainer_state, group))
    if point is None:  # a follower, who was told all it needs
        return Resumed(state.iteration, "", {}, "")
    path = point.checkpoint.path
    return Resumed(
        epoch=point.checkpoint.epoch,
        checkpoint=path.name if path else "",
        session=point.trainer_state["session"],
        why_inexact=" ".join(filter(None, [state.envs.why_inexact(), _other_versions(point.checkpoint.versions)])),
    )


def _load_weights(point: ResumePoint, state: TrainingState) -> None:
    try:
        state.agent.load_state_dict(point.weights)
        missing = {"training", "session"} - point.trainer_state.keys()
    except RuntimeError as error:
        raise DamagedFile(
            f"Checkpoint {point.checkpoint.epoch} does not fit this run's policy: {error}.",
            "Was policy.* changed? Continue with the old settings, or start a new run.",
        ) from error
    if missing:
        raise DamagedFile(f"The trainer state of checkpoint {point.checkpoint.epoch} lacks {', '.join(missing)}.")


def _other_versions(then: dict[str, str]) -> str:
    now = package_versions()
    changed = [
        f"{name} {then[name]} is now {now[name]}"
        for name in DECISIVE_PACKAGES
        if name in then and name in now and then[name] != now[name]
    ]
    return f"Since the checkpoint, {', '.join(changed)}." if changed else ""
