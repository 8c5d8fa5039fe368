"""The teacher of a kickstarted run, from its checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palaestra.contracts.later import later

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.checkpoints import loaded
    from palaestra.config.train import TrainConfig
    from palaestra.policies.agent import Agent
else:
    loaded = later("palaestra.checkpoints.loaded")


def load_teacher(config: TrainConfig, runs_root: Path) -> Agent | None:
    """What `ppo.kickstart.teacher` names: RUN, RUN:best, RUN:10 or a path. None when no teacher is asked for."""
    target = config.ppo.kickstart.teacher
    return None if target is None else loaded.load_policy(target, runs_root).policy
