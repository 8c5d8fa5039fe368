"""The teacher of a kickstarted run, from its checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palaestra.algorithms.group import ALONE
from palaestra.runner.shared_policy import load_shared_policy

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.algorithms.group import Group
    from palaestra.config.train import TrainConfig
    from palaestra.policies.agent import Agent


def load_teacher(config: TrainConfig, runs_root: Path, group: Group = ALONE) -> Agent | None:
    """A collective. What `ppo.kickstart.teacher` names: RUN, RUN:best, RUN:10 or a path. None: there is no teacher."""
    target = config.ppo.kickstart.teacher
    return None if target is None else load_shared_policy(target, runs_root, group).policy
