"""Going on from the newest checkpoint that can be continued, and saying whether it is bit for bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from palaestra.contracts.errors import DamagedFile
from palaestra.runs.environment import package_versions

if TYPE_CHECKING:
    from palaestra.checkpoints.manager import CheckpointManager
    from palaestra.training.state import TrainingState

DECISIVE_PACKAGES = ("torch", "numpy", "gymnasium", "mujoco", "palaestra")


@dataclass(frozen=True)
class Resumed:
    epoch: int
    checkpoint: str
    session: dict[str, Any]  # what the loop around the trainer had gathered
    why_inexact: str  # empty: bit for bit


def resume(manager: CheckpointManager, state: TrainingState) -> Resumed | None:
    """Put `state` where the newest good checkpoint left it; None when the run has none yet."""
    point = manager.load_for_resume()
    if point is None:
        return None
    try:
        state.agent.load_state_dict(point.weights)
        training, session = point.trainer_state["training"], point.trainer_state["session"]
    except (KeyError, RuntimeError) as error:
        raise DamagedFile(
            f"Checkpoint {point.checkpoint.epoch} does not fit this run's policy: {error}.",
            "Was policy.* changed? Continue with the old settings, or start a new run.",
        ) from error
    state.restore(training)
    path = point.checkpoint.path
    return Resumed(
        epoch=point.checkpoint.epoch,
        checkpoint=path.name if path else "",
        session=session,
        why_inexact=" ".join(filter(None, [state.envs.why_inexact(), _other_versions(point.checkpoint.versions)])),
    )


def _other_versions(then: dict[str, str]) -> str:
    now = package_versions()
    changed = [
        f"{name} {then[name]} is now {now[name]}"
        for name in DECISIVE_PACKAGES
        if name in then and name in now and then[name] != now[name]
    ]
    return f"Since the checkpoint, {', '.join(changed)}." if changed else ""
