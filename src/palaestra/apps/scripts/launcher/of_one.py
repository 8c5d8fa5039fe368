"""A vector environment of one member, seen as that member: for scripts that put wrappers around all environments."""

from __future__ import annotations

from typing import Any

import numpy as np


class OfOne:
    def __init__(self, envs: Any) -> None:
        self.env = envs  # under the name by which wrappers are followed inwards
        self.action_space = envs.single_action_space
        self.metadata: dict[str, Any] = dict(envs.metadata or {})

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        observations, infos = self.env.reset(seed=seed)
        return first(observations), infos

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observations, rewards, terminated, truncated, infos = self.env.step(np.asarray(action)[None])
        return first(observations), float(rewards[0]), bool(terminated[0]), bool(truncated[0]), infos

    def render(self) -> Any:
        pictures = self.env.render()
        return pictures[0] if pictures else None

    def close(self) -> None:
        self.env.close()


def first(observations: Any) -> Any:
    """Of [1, …], or of a dictionary of such."""
    if isinstance(observations, dict):
        return {name: first(part) for name, part in observations.items()}
    return observations[0]
