"""Tiny environments that an agent which learns at all must solve, each with the best return that can be had.

They are registered with Gymnasium when this module is imported, which the entry point `palaestra.envs` does.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

# What a perfect player gets per episode, on average where luck is involved.
OPTIMAL_RETURNS = {
    "palaestra/Identity-v0": 16.0,
    "palaestra/IdentityMultiDiscrete-v0": 16.0,
    "palaestra/IdentityContinuous-v0": 0.0,
    "palaestra/Bandit-v0": 0.9,
    "palaestra/Corridor-v0": 1.0 - 0.01 * 7,
    "palaestra/ConstantReward-v0": 10.0,
    "palaestra/Recall-v0": 1.0,
}

Step = tuple[Any, float, bool, bool, dict[str, Any]]


class Identity(gymnasium.Env[Any, Any]):
    """Say what you see. Reward 1 for the same number, 0 else; 16 steps; optimal return 16, chance 16 / count."""

    def __init__(self, count: int = 4, steps: int = 16) -> None:
        self.observation_space: spaces.Space[Any] = spaces.Discrete(count)
        self.action_space: spaces.Space[Any] = spaces.Discrete(count)
        self._count = count
        self._steps = steps
        self._left = steps
        self._shown: Any = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._left = self._steps
        self._shown = self._draw()
        return self._shown, {}

    def step(self, action: Any) -> Step:
        reward = self._reward(action)
        self._left -= 1
        self._shown = self._draw()
        return self._shown, reward, self._left == 0, False, {}

    def _draw(self) -> Any:
        return np.int64(self.np_random.integers(self._count))

    def _reward(self, action: Any) -> float:
        return float(int(action) == int(self._shown))


class IdentityMultiDiscrete(Identity):
    """As Identity with two numbers at once, from 2 and from 3; half a point for each that is right."""

    COUNTS = (2, 3)

    def __init__(self, steps: int = 16) -> None:
        super().__init__(steps=steps)
        self.observation_space = spaces.MultiDiscrete(list(self.COUNTS))
        self.action_space = spaces.MultiDiscrete(list(self.COUNTS))

    def _draw(self) -> Any:
        return self.np_random.integers(self.COUNTS)

    def _reward(self, action: Any) -> float:
        return float(np.mean(np.asarray(action) == self._shown))


class IdentityContinuous(Identity):
    """As Identity with a number from -1 to 1; reward is minus the squared distance, so the optimal return is 0."""

    def __init__(self, steps: int = 16) -> None:
        super().__init__(steps=steps)
        self.observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def _draw(self) -> Any:
        return self.np_random.uniform(-1.0, 1.0, (1,)).astype(np.float32)

    def _reward(self, action: Any) -> float:
        return -float(np.square(np.asarray(action, np.float64) - self._shown).sum())


class Bandit(gymnasium.Env[Any, Any]):
    """One pull per episode, nothing to see. Arm k pays 1 with its own probability; optimal mean return 0.9."""

    CHANCES = (0.1, 0.3, 0.9, 0.5)

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
        self.action_space = spaces.Discrete(len(self.CHANCES))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Step:
        reward = float(self.np_random.random() < self.CHANCES[int(action)])
        return (
            np.zeros(1, np.float32),
            reward,
            True,
            False,
            {"is_best_arm": int(action) == int(np.argmax(self.CHANCES))},
        )


class Corridor(gymnasium.Env[Any, Any]):
    """Walk right through `length` cells: -0.01 per step before the last, 1 at the end. 8 cells: optimal 0.93.

    The time limit (4 steps per cell) is a truncation, set where the environment is registered.
    """

    def __init__(self, length: int = 8) -> None:
        self.observation_space = spaces.Discrete(length + 1)
        self.action_space = spaces.Discrete(2)  # 0: left, 1: right
        self._length = length
        self._cell = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._cell = 0
        return np.int64(self._cell), {}

    def step(self, action: Any) -> Step:
        self._cell = max(0, self._cell + (1 if int(action) == 1 else -1))
        arrived = self._cell == self._length
        return np.int64(self._cell), 1.0 if arrived else -0.01, arrived, False, {}


class ConstantReward(gymnasium.Env[Any, Any]):
    """Reward 1 for ever, cut after 10 steps by the time limit: the value of every state is 1 / (1 - gamma).

    A learner that takes the cut for an end finds at most 10 instead.
    """

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        return np.ones(1, np.float32), {}

    def step(self, action: Any) -> Step:  # noqa: ARG002  whatever is done, it pays the same
        return np.ones(1, np.float32), 1.0, False, False, {}


class Recall(gymnasium.Env[Any, Any]):
    """Shown one of `cues` signs for one step; `delay` steps later it must name the cue. Reward 1 if it is right.

    Optimal return 1 with memory, 1 / cues (0.5) without. What is done before the question does not matter.
    """

    def __init__(self, cues: int = 2, delay: int = 60) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (cues + 1,), np.float32)  # which sign; "answer now"
        self.action_space = spaces.Discrete(cues)
        self._cues = cues
        self._delay = delay
        self._cue = 0
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._cue = int(self.np_random.integers(self._cues))
        self._steps = 0
        return self._observation(), {}

    def step(self, action: Any) -> Step:
        is_asked = self._steps == self._delay
        self._steps += 1
        return self._observation(), float(is_asked and int(action) == self._cue), is_asked, False, {}

    def _observation(self) -> Any:
        observation = np.zeros(self._cues + 1, np.float32)
        if self._steps == 0:
            observation[self._cue] = 1.0
        elif self._steps == self._delay:
            observation[-1] = 1.0
        return observation


def register() -> None:
    """Once; importing this module twice under two names must not warn."""
    time_limits: dict[str, int | None] = {
        "Identity": None,
        "IdentityMultiDiscrete": None,
        "IdentityContinuous": None,
        "Bandit": None,
        "Corridor": 32,
        "ConstantReward": 10,
        "Recall": None,
    }
    for name, time_limit in time_limits.items():
        if f"palaestra/{name}-v0" not in gymnasium.registry:
            gymnasium.register(f"palaestra/{name}-v0", f"{__name__}:{name}", max_episode_steps=time_limit)


register()
