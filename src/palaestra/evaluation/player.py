"""A policy that plays whatever plans it is given, and leaves films or replays where it was told to."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import torch

from palaestra.core.evaluation import DEFAULT
from palaestra.envs.build import make_playable
from palaestra.evaluation.overrides import playable_interface
from palaestra.evaluation.plan import env_of
from palaestra.evaluation.play import play_episodes
from palaestra.evaluation.replays import Recording, require_recorder
from palaestra.evaluation.video import VideoFile, frame_rate_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from palaestra.checkpoints.loaded import LoadedPolicy
    from palaestra.core.episodes import EpisodeResult
    from palaestra.core.evaluation import EvaluationPlan
    from palaestra.evaluation.play import Playable
    from palaestra.evaluation.stage import Onlooker
    from palaestra.policies.agent import Agent


class Player:
    """Whoever plays (this process, one of several, another machine) is one of these."""

    def __init__(self, loaded: LoadedPolicy, videos: Path | None = None, replays: Path | None = None) -> None:
        self._loaded = loaded
        self._videos = videos
        self._replays = replays
        self.onlooker: Onlooker | None = None
        self._ready: dict[str, Agent] = {}  # by environment

    def prepare(self, plan: EvaluationPlan) -> Agent:
        """The policy for the plan's environment; one that it cannot play is refused here, before anything is played."""
        env = env_of(plan)
        key = env.model_dump_json()
        if key not in self._ready:
            if self._replays is not None:
                require_recorder(env.id)
            policy = self._loaded.policy
            self._ready[key] = policy.playing_in(playable_interface(env, policy.interface))
        return self._ready[key]

    def episodes(self, plan: EvaluationPlan, is_late: Callable[[], bool] = lambda: False) -> Iterator[EpisodeResult]:
        """One result per seed, as they come; fewer when it gets late."""
        agent, env = self.prepare(plan), env_of(plan)
        make: Callable[..., Playable] = make_playable
        if self._replays is not None:
            make = Recording(self._replays, self._loaded.checkpoint, plan).make
        render_mode = None if self._videos is None else "rgb_array"
        return play_episodes(
            plan,
            agent,
            partial(make, env, render_mode),
            record=None if self._videos is None else partial(self._film, self._videos, plan.simulation),
            is_late=is_late,
            onlooker=self.onlooker,
        )

    def _film(self, videos: Path, simulation: str, seed: int, env: Playable) -> VideoFile:
        videos.mkdir(exist_ok=True)
        name = "" if simulation == DEFAULT else f"{simulation}-"
        path = videos / f"{self._loaded.checkpoint.epoch}-{name}seed{seed}.mp4"
        return VideoFile(path, frame_rate_of(env.metadata))


@contextmanager
def one_thread() -> Iterator[None]:
    """One row at a time gives a second thread nothing to do but to wait for, and rounding must not depend on it."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
