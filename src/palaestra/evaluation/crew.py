"""A policy for all players of one world at once, each with a memory of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from palaestra.envs.vector import action_rows
from palaestra.policies.device import memory_on, moved
from palaestra.policies.features import refuse_other_spaces

if TYPE_CHECKING:
    import numpy as np

    from palaestra.core.app import OtherPlayers
    from palaestra.core.spaces import EnvInterface
    from palaestra.envs.vector import Arrays
    from palaestra.policies.agent import Agent
    from palaestra.policies.base import Observation


class Crew:
    """A policy with the memories and the dice of all players of one episode."""

    def __init__(self, policy: Agent, size: int, seed: int, *, deterministic: bool) -> None:
        self._policy = policy
        self._to_env_actions = action_rows(policy.interface.action_space)
        self._device = next(policy.parameters()).device
        self._memory = memory_on(policy.initial_memory(size), self._device)
        self._dice = None if deterministic else torch.Generator(self._device).manual_seed(seed)

    def act(self, observation: Observation) -> np.ndarray:
        """[1, B, …] to [B, …]"""
        output = self._policy(moved(observation, self._device), self._memory)
        self._memory = output.memory
        actions = output.distribution.mode() if self._dice is None else output.distribution.sample(self._dice)
        return self._to_env_actions(actions[0].cpu().numpy())


def hire(policy: Agent, interface: EnvInterface, players: int, seed: int) -> OtherPlayers:
    """Company for a person, see `palaestra.core.app`; actions are drawn, as in training."""
    refuse_other_spaces(policy.interface, interface)
    crew = Crew(policy.playing_in(interface), players, seed, deterministic=False)

    def act(seen: Arrays) -> np.ndarray:
        with torch.inference_mode():
            return crew.act(_batch(seen))

    return act


def _batch(seen: Arrays) -> Observation:
    """[T=1, B, …], copied: the rows are overwritten by the next step"""
    if isinstance(seen, dict):
        return {name: torch.from_numpy(part.copy())[None] for name, part in seen.items()}
    return torch.from_numpy(seen.copy())[None]
