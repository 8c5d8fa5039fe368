"""Evaluated episodes as replay files, for environments whose package knows how to record them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from palaestra.core import plugins
from palaestra.core.errors import UsageError
from palaestra.envs.build import make_playable
from palaestra.runs.replays import replay_path

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.config.env import EnvConfig
    from palaestra.core.checkpoint import Checkpoint
    from palaestra.core.evaluation import EvaluationPlan
    from palaestra.evaluation.play import Playable

GROUP = "recorders"  # parts of apps, named like the id of an environment; see `Recording.make`


def require_recorder(env_id: str) -> None:
    known = plugins.names(GROUP)
    if env_id not in known:
        raise UsageError(
            f"Episodes of '{env_id}' cannot be recorded as replays.",
            f"Those of {', '.join(known) or 'no environment here'} can; --video makes a film of any that draws itself.",
        )


@dataclass(frozen=True)
class Recording:
    """Where replays go and where they come from."""

    place: Path
    checkpoint: Checkpoint
    plan: EvaluationPlan

    def make(self, env: EnvConfig, render_mode: str | None) -> Playable:
        """What one episode is played in; its replay appears when it has ended.

        The plugin is called with `(worlds: NativeBatch, kwargs: dict, path_of: seed -> Path, about: dict)` and gives a
        NativeBatch that plays the same and writes.
        """
        self.place.mkdir(exist_ok=True)
        limit = {} if env.max_episode_steps is None else {"max_steps": env.max_episode_steps}
        record: Any = plugins.load(GROUP, env.id)
        worlds: Playable = record(
            make_playable(env, render_mode),
            {**env.kwargs, **limit},
            partial(replay_path, self.place, self.checkpoint.epoch, simulation=self.plan.simulation),
            self.about(),
        )
        return worlds

    def about(self) -> dict[str, Any]:
        return {
            "run": self.checkpoint.run,
            "run_name": self.checkpoint.run_name,
            "epoch": self.checkpoint.epoch,
            "agent_step": self.checkpoint.agent_step,
            "env": self.plan.env_id,
            "simulation": self.plan.simulation,
            "deterministic": self.plan.deterministic,
        }
