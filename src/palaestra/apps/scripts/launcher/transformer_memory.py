"""How an agent with a transformer's memory acts: `get_action_and_value(x, memory, memory_mask, memory_indices)`.

As CleanRL's ppo_trxl.py: every step leaves one vector per layer, and the agent sees a window of the last ones.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any

import torch

from .weights import NotFitting

PARAMETERS = ["memory", "memory_mask", "memory_indices"]  # after the observation
WINDOW = "trxl_memory_length"  # argument of the script: steps that the agent sees at once
WIDTH = "trxl_dim"


def has_transformer_memory(network: Any) -> bool:
    function = getattr(network, "get_action_and_value", None)
    if function is None or not hasattr(getattr(network, "transformer", None), "transformer_layers"):
        return False
    return list(inspect.signature(function).parameters)[1:4] == PARAMETERS


class TransformerMemory:
    """Of one episode. `vectors`: [1, steps, layers, width], 0 where nothing has happened yet."""

    def __init__(self, agent: Any) -> None:
        arguments = getattr(sys.modules.get(type(agent).__module__), "args", None)
        if not hasattr(arguments, WINDOW) or not hasattr(arguments, WIDTH):
            raise NotFitting(
                f"{type(agent).__name__} has a transformer's memory; the script must have the arguments "
                f"{WINDOW} (steps that it sees) and {WIDTH} (width of a vector)"
            )
        self._agent = agent
        self._length = min(int(getattr(arguments, WINDOW)), int(agent.max_episode_steps))
        layers, width = len(agent.transformer.transformer_layers), int(getattr(arguments, WIDTH))
        self.vectors = torch.zeros(1, int(agent.max_episode_steps), layers, width)
        self._step = 0

    def act(self, observations: Any) -> Any:
        """Actions [1, branches]; what the agent remembers of this step is kept."""
        last = self.vectors.shape[1] - 1
        step = min(self._step, last)  # an episode that is longer than it may be overwrites its end
        first = max(0, step - self._length + 1)
        indices = torch.arange(first, first + self._length).unsqueeze(0)  # [1, window]
        mask = torch.arange(self._length).unsqueeze(0) < min(step, self._length - 1)  # [1, window]: what is past
        window = self.vectors[:, indices[0]]
        action, *_, new = self._agent.get_action_and_value(observations, window, mask, indices)
        self.vectors[:, step] = new
        self._step += 1
        return action
