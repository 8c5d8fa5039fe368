"""Plays one episode of a script's environment with the script's networks.

Scores are those of the unwrapped environment: an episode does not end when a life is lost, and rewards are not
clipped.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Callable

LARGEST_SEED = 2**32  # seeds of NumPy are below
DEFAULT_MAX_STEPS = 10_000  # equals palaestra.core.evaluation.DEFAULT_MAX_STEPS


class EpisodeCounter:
    """Takes the place of the Observer during an evaluation: records return and length of one episode."""

    in_vector_env = False
    warm_start = None  # an evaluation has no initial weights to load

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Forgets the environment of the episode before."""
        self.probe: Any = None  # around the environment of this episode
        self.clear_episode()

    def clear_episode(self) -> None:
        self.ended: tuple[float, int, bool] | None = None  # return, length, terminated

    def add_env(self, probe: Any, env_id: str) -> None:
        del env_id
        self.probe = probe

    def take_index(self) -> int:
        return 0

    def count_steps(self) -> None:
        """Nothing to do: `play` counts."""

    def episode_ended(self, index: int, total: float, length: int, *, terminated: bool) -> None:
        del index
        self.ended = (total, length, terminated)

    def episode_abandoned(self, total: float, length: int) -> None:
        """Reset before its end: a time limit of the script's own wrappers."""
        if self.ended is None:
            self.ended = (total, length, False)


def play(
    env: Any,
    act: Callable[[Any, bool], Any],
    seed: int,
    counter: EpisodeCounter,
    *,
    deterministic: bool,
    max_steps: int | None = None,
    on_step: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """As `palaestra.core.episodes.EpisodeResult`; `look` is called after the reset and every step."""
    seed_everything(seed)
    observation, _ = env.reset(seed=seed)
    counter.clear_episode()  # wrappers may step the environment, and even end an episode, in their reset
    total, length = 0.0, 0
    limit = max_steps or time_limit_of(env) or DEFAULT_MAX_STEPS
    on_step()
    while length < limit:
        with torch.no_grad():
            action = act(batch_of(observation), deterministic)
        observation, reward, terminated, truncated, _ = env.step(as_action(action))
        total, length = total + float(reward), length + 1
        on_step()
        if counter.ended is None and (terminated or truncated):
            if counter.probe is None:
                return episode_result(seed, total, length, bool(terminated))
            observation, _ = env.reset()  # a life was lost, or a wrapper of the script truncated
        if counter.ended is not None:
            return episode_result(seed, *counter.ended)
    if counter.probe is not None:  # rewards before the script's wrappers scale or clip them
        total, length = counter.probe.total, counter.probe.length
    return episode_result(seed, total, length, terminated=False, capped=True)


def time_limit_of(env: Any) -> int | None:
    """Time limit in steps of the unwrapped environment; a step of a wrapper takes at least one of them.

    Same as `palaestra.envs.make.time_limit_of`, which code inside a script's interpreter cannot import.
    """
    spec = getattr(env, "spec", None)
    if spec is None:
        return None
    frames, skip = spec.kwargs.get("max_num_frames_per_episode"), spec.kwargs.get("frameskip", 1)
    if spec.max_episode_steps is None and isinstance(frames, int) and isinstance(skip, int) and skip > 0:
        return frames // skip
    limit: int | None = spec.max_episode_steps
    return limit


def episode_result(seed: int, total: float, length: int, terminated: bool, capped: bool = False) -> dict[str, Any]:
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
    """Results depend on the seed alone, not on episodes played before."""
    random.seed(seed)
    np.random.seed(seed % LARGEST_SEED)
    torch.manual_seed(seed)


def batch_of(observation: Any) -> Any:
    """A batch of one, [1, …], as the script's networks expect it."""
    if isinstance(observation, dict):
        return {name: batch_of(part) for name, part in observation.items()}
    return torch.as_tensor(np.asarray(observation)[None], dtype=torch.float32)


def as_action(action: Any) -> Any:
    """For one environment: a number for a discrete space, else an array."""
    array = action.detach().cpu().numpy() if isinstance(action, torch.Tensor) else np.asarray(action)
    return array.reshape(-1)[0] if array.size == 1 and array.ndim <= 1 else array[0]
