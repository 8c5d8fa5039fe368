"""Who plays the agents that no person plays: a policy, or chance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch

from palaestra.apps.arena.tables import ACTIONS

if TYPE_CHECKING:
    from palaestra.apps.arena.world_batch import Arrays
    from palaestra.policies.agent import Agent
    from palaestra.policies.base import Observation


class Crowd(Protocol):
    def act(self, seen: Arrays) -> np.ndarray:
        """An action for each row, int64 [agents]"""


class RandomCrowd:
    def __init__(self, agents: int, seed: int) -> None:
        self._agents = agents
        self._dice = np.random.default_rng(seed)

    def act(self, seen: Arrays) -> np.ndarray:
        del seen
        return self._dice.integers(len(ACTIONS), size=self._agents, dtype=np.int64)


class PolicyCrowd:
    """One policy for all, each with a memory of its own; actions are drawn, as in training."""

    def __init__(self, policy: Agent, agents: int, seed: int) -> None:
        self._policy = policy
        self._memory = policy.initial_memory(agents)
        self._dice = torch.Generator().manual_seed(seed)

    def act(self, seen: Arrays) -> np.ndarray:
        with torch.inference_mode():
            intent = self._policy.act(_batch(seen), self._memory)
            actions = intent.distribution.sample(self._dice)
        self._memory = intent.memory
        chosen: np.ndarray = actions[0].numpy().astype(np.int64)
        return chosen


def _batch(seen: Arrays) -> Observation:
    """[T=1, B, …], copied: the rows are overwritten by the next step"""
    if isinstance(seen, dict):
        return {name: torch.from_numpy(part.copy())[None] for name, part in seen.items()}
    return torch.from_numpy(seen.copy())[None]
