"""An environment of your own: register it with Gymnasium, check it, train in it.

python examples/own_environment.py
PYTHONPATH=examples palaestra train env.id=own_environment:GuessTheNumber-v0 total_steps=50000
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from palaestra import evaluate, train
from palaestra.config.env import EnvConfig
from palaestra.testing.check_env import check_env

NAME = "GuessTheNumber-v0"


class GuessTheNumber(gymnasium.Env[np.ndarray, int]):
    """A number from 0 to 7 is hidden; after each guess one sees whether it was too low or too high."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (2,), np.float32)  # lowest and highest possible, over 7
        self.action_space = spaces.Discrete(8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed, options=options)
        self.hidden = int(self.np_random.integers(8))  # self.np_random: the same seed, the same numbers
        self.low, self.high = 0, 7
        return self._observe(), {}

    def step(self, action: int):
        found = action == self.hidden
        if action < self.hidden:
            self.low = max(self.low, int(action) + 1)
        elif action > self.hidden:
            self.high = min(self.high, int(action) - 1)
        return self._observe(), 1.0 if found else -0.1, bool(found), False, {}

    def _observe(self) -> np.ndarray:
        return np.array([self.low, self.high], np.float32) / 7


if NAME not in gymnasium.registry:
    gymnasium.register(NAME, "own_environment:GuessTheNumber", max_episode_steps=16)

if __name__ == "__main__":
    env_id = (
        f"own_environment:{NAME}"  # the module before the colon is imported first, also by a later `palaestra eval`
    )
    check = check_env(EnvConfig(id=env_id))
    print("resumes bit for bit" if not check.why_inexact else check.why_inexact)
    outcome = train(env={"id": env_id}, total_steps=50_000, ppo={"learning_rate": 1e-3})
    print(f"mean return over 100 games: {evaluate(outcome.record.name, episodes=100).mean:.2f}")
