"""Evaluation in this process: the policy plays every plan it is given, and leaves videos or replays where wanted."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import torch

from palaestra.core import plugins
from palaestra.core.errors import UsageError
from palaestra.core.evaluation import DEFAULT
from palaestra.envs.build import make_playable
from palaestra.evaluation.plans import env_of
from palaestra.evaluation.play import play_episodes
from palaestra.evaluation.suites import playable_interface
from palaestra.evaluation.video import VideoFile, frame_rate_of
from palaestra.runs.replays import replay_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path
    from types import TracebackType

    from palaestra.checkpoints.loading import LoadedPolicy
    from palaestra.config.env import EnvConfig
    from palaestra.core.checkpoint import Checkpoint
    from palaestra.core.episodes import EpisodeResult
    from palaestra.core.evaluation import EvaluationPlan
    from palaestra.evaluation.play import EpisodeViewer, Playable
    from palaestra.policies.agent import Agent

GROUP = "recorders"  # parts of apps, named like the id of an environment; see `ReplayRecorder.make`


def _never() -> bool:
    return False


class LocalEvaluator:
    """An `Evaluator` that plays in this process; the processes of a pool and Ray's workers use it as well."""

    def __init__(self, loaded: LoadedPolicy, videos: Path | None = None, replays: Path | None = None) -> None:
        self._loaded = loaded
        self._videos = videos
        self._replays = replays
        self.viewer: EpisodeViewer | None = None
        self._prepared: dict[str, Agent] = {}  # by environment

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to release."""

    @property
    def code_differences(self) -> Mapping[str, tuple[str, ...]]:
        return {}

    def prepare(self, plan: EvaluationPlan) -> Agent:
        """The policy for the plan's environment. Refuses an environment that the policy cannot play."""
        env = env_of(plan)
        key = env.model_dump_json()
        if key not in self._prepared:
            if self._replays is not None:
                require_recorder(env.id)
            policy = self._loaded.policy
            self._prepared[key] = policy.playing_in(playable_interface(env, policy.interface))
        return self._prepared[key]

    def evaluate(self, plan: EvaluationPlan, is_stopped: Callable[[], bool] = _never) -> Iterator[EpisodeResult]:
        agent, env = self.prepare(plan), env_of(plan)
        make: Callable[..., Playable] = make_playable
        if self._replays is not None:
            make = ReplayRecorder(self._replays, self._loaded.checkpoint, plan).make
        render_mode = None if self._videos is None else "rgb_array"
        return play_episodes(
            plan,
            agent,
            partial(make, env, render_mode),
            record=None if self._videos is None else partial(self._open_video, self._videos, plan.simulation),
            is_stopped=is_stopped,
            viewer=self.viewer,
        )

    def _open_video(self, videos: Path, simulation: str, seed: int, env: Playable) -> VideoFile:
        videos.mkdir(exist_ok=True)
        name = "" if simulation == DEFAULT else f"{simulation}-"
        path = videos / f"{self._loaded.checkpoint.epoch}-{name}seed{seed}.mp4"
        return VideoFile(path, frame_rate_of(env.metadata))


@contextmanager
def one_thread() -> Iterator[None]:
    """Limits torch to one thread: a batch of one row gains nothing from a second, and rounding must not vary."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def require_recorder(env_id: str) -> None:
    known = plugins.names(GROUP)
    if env_id not in known:
        raise UsageError(
            f"The environment '{env_id}' has no replay recorder.",
            f"Environments with one: {', '.join(known) or 'none installed'}. --video records any that renders.",
        )


@dataclass(frozen=True)
class ReplayRecorder:
    """Writes a replay file of each evaluated episode, for environments whose package has a recorder."""

    folder: Path
    checkpoint: Checkpoint
    plan: EvaluationPlan

    def make(self, env: EnvConfig, render_mode: str | None) -> Playable:
        """The environment of one episode; the replay file appears when the episode has ended.

        The plugin is called with `(worlds: NativeBatch, kwargs: dict, path_of: seed -> Path, about: dict)` and returns
        a NativeBatch that plays the same and writes the file.
        """
        self.folder.mkdir(exist_ok=True)
        limit = {} if env.max_episode_steps is None else {"max_steps": env.max_episode_steps}
        record: Any = plugins.load(GROUP, env.id)
        batch: Playable = record(
            make_playable(env, render_mode),
            {**env.kwargs, **limit},
            partial(replay_path, self.folder, self.checkpoint.epoch, simulation=self.plan.simulation),
            self.about(),
        )
        return batch

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
