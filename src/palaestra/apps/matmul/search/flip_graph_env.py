"""`palaestra/FlipGraph-v0`: an environment whose actions choose among flips of a scheme over gf2."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from palaestra.apps.matmul.schemes.bit_masks import Masks, check_fits_word, from_masks, to_masks
from palaestra.apps.matmul.schemes.factorization import Factorization, naive_factorization, parse_format
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.formulas import draw_factors
from palaestra.apps.matmul.schemes.known_ranks import known_rank
from palaestra.apps.matmul.search.flip_guided_walk import FEATURES, UNIFORM_WEIGHTS, start_guided_walk
from palaestra.core.errors import UsageError

MOST = 1_000.0  # bound of the features: a scheme has fewer rows
STEP_COST = 0.01
SEEDS = 2**63


class FlipGraphEnv(gymnasium.Env[Any, Any]):
    """Each step offers `choices` flips, sampled from all (with repetition only if there are fewer).

    Observation: [choices, features], see `flip_guided_walk.FEATURES`. Reward: the reduction of the rank minus 0.01.
    The episode terminates at `target` (0: the best known rank) or without a possible flip, and is truncated after
    `max_flips`. `info["solved"]` is 1 if the target is reached.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012  as Gymnasium has it

    def __init__(
        self,
        render_mode: str | None = None,
        format: str = "2x2x2",  # noqa: A002  the word of every other command
        target: int = 0,
        choices: int = 16,
        max_flips: int = 4_000,
    ) -> None:
        if choices < 1 or max_flips < 1 or target < 0:
            raise UsageError(
                f"Invalid settings: choices={choices}, max_flips={max_flips}, target={target}.",
                "choices and max_flips must be at least 1, target at least 0.",
            )
        self.render_mode = render_mode
        self._format = parse_format(format)
        check_fits_word(self._format)
        self._target = target or known_rank(self._format, Field.GF2) or 1
        self._max_flips = max_flips
        self.observation_space = spaces.Box(-MOST, MOST, (choices, len(FEATURES)), np.float32)
        self.action_space = spaces.Discrete(choices)
        self._choices = choices
        self._start = to_masks(naive_factorization(self._format, Field.GF2))
        self._path: list[int] = []  # flips so far: set_state replays them
        self._walk = start_guided_walk(self._start, UNIFORM_WEIGHTS, 1)
        self._offered = np.zeros(choices, np.int64)  # flip index of each action

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._walk = start_guided_walk(self._start, UNIFORM_WEIGHTS, 1)
        self._path = []
        return self._offer(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        before, flip = self._walk.rank, int(self._offered[int(action)])
        self._walk.take(flip)
        self._path.append(flip)
        reduction = before - self._walk.rank
        observation = self._offer()
        solved = self._walk.rank <= self._target
        is_stuck = not self._walk.features()
        reward = reduction - STEP_COST
        info = {"rank": float(self._walk.rank), "flips": float(len(self._path)), "solved": float(solved)}
        ended = solved or is_stuck
        return observation, reward, ended, not ended and len(self._path) >= self._max_flips, info

    def factorization(self) -> Factorization:
        return from_masks(self._masks, self._format)

    def render(self) -> Any:
        if self.render_mode != "rgb_array":
            return None
        return draw_factors(self.factorization(), self._format.naive_rank)

    def get_state(self) -> dict[str, Any]:
        return {"path": np.array(self._path, np.int64), "offered": self._offered.copy()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Replays the walk flip by flip, since the visit counts are part of the observation."""
        self._walk = start_guided_walk(self._start, UNIFORM_WEIGHTS, 1)
        self._path = [int(flip) for flip in state["path"]]
        for flip in self._path:
            self._walk.take(flip)
        self._offered = np.array(state["offered"], np.int64)

    @property
    def _masks(self) -> Masks:
        return [list(row) for row in self._walk.current]

    def _offer(self) -> np.ndarray:
        described = np.array(self._walk.features(), np.float32).reshape(-1, len(FEATURES))
        if not len(described):
            return np.zeros((self._choices, len(FEATURES)), np.float32)
        order = self.np_random.permutation(len(described))
        self._offered = np.resize(order, self._choices)
        shown: np.ndarray = described[self._offered]
        return shown
