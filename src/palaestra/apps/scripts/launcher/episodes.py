"""One episode of the script's own environment, played by its own networks.

What counts is the environment under all wrappers: a life that is lost ends an episode for the learner and not for the
score, a reward that is clipped is clipped for the learner alone.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Callable

LARGEST_SEED = 2**32  # of NumPy's
DEFAULT_MAX_STEPS = 10_000  # as palaestra.core.evaluation has it


class EpisodeCounter:
    """Stands where the observer stands in a training, and keeps the score."""

    is_gathering = False
    warm = None  # nothing is learned that could be begun

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Another environment."""
        self.probe: Any = None  # around the environment that plays
        self.forget()

    def forget(self) -> None:
        self.ended: tuple[float, int, bool] | None = None  # return, length, terminated

    def made(self, probe: Any, env_id: str) -> None:
        del env_id
        self.probe = probe

    def take_index(self) -> int:
        return 0

    def stepped(self) -> None:
        """Episodes are watched from above."""

    def episode_ended(self, index: int, total: float, length: int, *, terminated: bool) -> None:
        del index
        self.ended = (total, length, terminated)

    def episode_left(self, total: float, length: int) -> None:
        """Reset before it had ended by itself: a time limit of the script's own."""
        if self.ended is None:
            self.ended = (total, length, False)


def play(
    env: Any,
    act: Callable[[Any, bool], Any],
    seed: int,
    referee: EpisodeCounter,
    *,
    is_likeliest: bool,
    max_steps: int | None = None,
    look: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """As `palaestra.core.episodes.EpisodeResult`; `look` is called after the reset and after every step."""
    seed_everything(seed)
    observation, _ = env.reset(seed=seed)
    referee.forget()  # wrappers may step, and even end an episode, while they reset
    total, length = 0.0, 0
    limit = max_steps or time_limit_of(env) or DEFAULT_MAX_STEPS
    look()
    while length < limit:
        with torch.no_grad():
            action = act(batch_of(observation), is_likeliest)
        observation, reward, terminated, truncated, _ = env.step(as_action(action))
        total, length = total + float(reward), length + 1
        look()
        if referee.ended is None and (terminated or truncated):
            if referee.probe is None:
                return result(seed, total, length, bool(terminated))
            observation, _ = env.reset()  # a life is lost, or the script's own time limit has come
        if referee.ended is not None:
            return result(seed, *referee.ended)
    if referee.probe is not None:  # rewards before the script's wrappers scale or clip them
        total, length = referee.probe.total, referee.probe.length
    return result(seed, total, length, terminated=False, capped=True)


def time_limit_of(env: Any) -> int | None:
    """In steps of the environment under the script's wrappers, which are never more than one each.

    `palaestra.envs.make.time_limit_of` is its twin: what runs inside a script may not import palaestra.
    """
    spec = getattr(env, "spec", None)
    if spec is None:
        return None
    frames, skip = spec.kwargs.get("max_num_frames_per_episode"), spec.kwargs.get("frameskip", 1)
    if spec.max_episode_steps is None and isinstance(frames, int) and isinstance(skip, int) and skip > 0:
        return frames // skip
    limit: int | None = spec.max_episode_steps
    return limit


def result(seed: int, total: float, length: int, terminated: bool, capped: bool = False) -> dict[str, Any]:
    return {
        "seed": seed,
        "total_reward": float(total),
        "length": int(length),
        "terminated": bool(terminated),
        "env_index": 0,
        "env_step": 0,
        "extras": {},
        "capped": capped,
    }


def seed_everything(seed: int) -> None:
    """Results depend on the seed alone, whoever played what before."""
    random.seed(seed)
    np.random.seed(seed % LARGEST_SEED)  # scripts draw from it
    torch.manual_seed(seed)


def batch_of(observation: Any) -> Any:
    """[1, …] as scripts hand it to their networks."""
    if isinstance(observation, dict):
        return {name: batch_of(part) for name, part in observation.items()}
    return torch.as_tensor(np.asarray(observation)[None], dtype=torch.float32)


def as_action(action: Any) -> Any:
    """For one environment: a number for a discrete space, else an array."""
    array = action.detach().cpu().numpy() if isinstance(action, torch.Tensor) else np.asarray(action)
    return array.reshape(-1)[0] if array.size == 1 and array.ndim <= 1 else array[0]
