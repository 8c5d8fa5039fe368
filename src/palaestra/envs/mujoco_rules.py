"""What Gymnasium's MuJoCo environments see and are paid, worked out for all copies of a batch at once.

Each rule says the same as one class of Gymnasium, to the last bit, for settings of any value; types of numbers are
part of that (the cost of float32 actions is a float32). `mujoco_batch` holds every rule against its class before it is
used. Not here: Ant, Humanoid and HumanoidStandup, who see contact forces that MuJoCo's batch does not give with their
integrator; Reacher, Pusher and InvertedDoublePendulum, whose figures NumPy rounds otherwise for many than for one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

MODULE = "gymnasium.envs.mujoco"
SPEED_LIMIT = 10  # of what Hopper and Walker2d see


@dataclass(frozen=True)
class Judged:
    observations: NDArray[np.float64]  # [B, …]
    rewards: NDArray[np.float64]  # [B]
    terminated: NDArray[np.bool_]  # [B]


class Rule(Protocol):
    def remember(self) -> None:
        """What the next judgement needs of the state before the step."""

    def judge(self, actions: NDArray[np.float32]) -> Judged: ...

    def info(self, row: int) -> dict[str, Any]:
        """As the class gives it for the step that was judged last."""
        ...


def rule_for(env: Any) -> Callable[[Any, Any], Rule] | None:
    """For the environment itself, without wrappers; None for classes that have no rule."""
    return RULES.get(f"{type(env).__module__}.{type(env).__qualname__}")


class _Moving:
    """Paid for speed along x, less the cost of actions."""

    def __init__(self, env: Any, batch: Any) -> None:
        self._env = env
        self._qpos: NDArray[np.float64] = batch.bind("qpos")  # [B, nq], of the state as it is now
        self._qvel: NDArray[np.float64] = batch.bind("qvel")  # [B, nv]
        self._skipped: int = env.observation_structure["skipped_qpos"]
        self._before = self._velocity = self._forward = np.empty(0)
        self._cost: NDArray[Any] = np.empty(0)

    def remember(self) -> None:
        self._before = self._qpos[:, :2].copy()

    def judge(self, actions: NDArray[np.float32]) -> Judged:
        self._velocity = (self._qpos[:, :2] - self._before) / self._env.dt
        self._forward = self._env._forward_reward_weight * self._velocity[:, 0]
        self._cost = self._env._ctrl_cost_weight * np.sum(np.square(actions), axis=1)
        observations = np.concatenate((self._qpos[:, self._skipped :], self._seen_velocity()), axis=1)
        return Judged(observations, self._rewards(), self._terminated())

    def _seen_velocity(self) -> NDArray[np.float64]:
        return self._qvel

    def _rewards(self) -> NDArray[np.float64]:
        rewards: NDArray[np.float64] = self._forward - self._cost
        return rewards

    def _terminated(self) -> NDArray[np.bool_]:
        return np.zeros(len(self._qpos), bool)

    def _rewards_apart(self, row: int) -> dict[str, Any]:
        return {"reward_forward": self._forward[row], "reward_ctrl": -self._cost[row]}


class HalfCheetah(_Moving):
    def info(self, row: int) -> dict[str, Any]:
        return {
            "x_position": self._qpos[row, 0],
            "x_velocity": self._velocity[row, 0],
            **self._rewards_apart(row),
        }


class Swimmer(_Moving):
    def info(self, row: int) -> dict[str, Any]:
        return {
            "x_position": self._qpos[row, 0],
            "y_position": self._qpos[row, 1],
            "distance_from_origin": np.linalg.norm(self._qpos[row, 0:2], ord=2),
            "x_velocity": self._velocity[row, 0],
            "y_velocity": self._velocity[row, 1],
            **self._rewards_apart(row),
        }


class Walker2d(_Moving):
    """Also paid for standing upright, and by default over when it does not."""

    def __init__(self, env: Any, batch: Any) -> None:
        super().__init__(env, batch)
        self._healthy = np.empty(0, bool)
        self._survival = np.empty(0)

    def _seen_velocity(self) -> NDArray[np.float64]:
        return np.clip(self._qvel, -SPEED_LIMIT, SPEED_LIMIT)

    def _rewards(self) -> NDArray[np.float64]:
        self._healthy = self._is_healthy()
        self._survival = self._healthy * self._env._healthy_reward
        rewards: NDArray[np.float64] = self._forward + self._survival - self._cost
        return rewards

    def _is_healthy(self) -> NDArray[np.bool_]:
        height, angle = self._qpos[:, 1], self._qpos[:, 2]
        return _between(height, self._env._healthy_z_range) & _between(angle, self._env._healthy_angle_range)

    def _terminated(self) -> NDArray[np.bool_]:
        return ~self._healthy if self._env._terminate_when_unhealthy else super()._terminated()

    def info(self, row: int) -> dict[str, Any]:
        return {
            "x_position": self._qpos[row, 0],
            "z_distance_from_origin": self._qpos[row, 1] - self._env.init_qpos[1],
            "x_velocity": self._velocity[row, 0],
            **self._rewards_apart(row),
            "reward_survive": self._survival[row],
        }


class Hopper(Walker2d):
    def _is_healthy(self) -> NDArray[np.bool_]:
        state = np.concatenate((self._qpos[:, 2:], self._qvel), axis=1)
        return super()._is_healthy() & _between(state, self._env._healthy_state_range).all(axis=1)


class InvertedPendulum:
    """Paid one for every step that it stands."""

    def __init__(self, env: Any, batch: Any) -> None:
        del env
        self._qpos: NDArray[np.float64] = batch.bind("qpos")
        self._qvel: NDArray[np.float64] = batch.bind("qvel")
        self._rewards = np.empty(0)

    def remember(self) -> None:
        """Nothing"""

    def judge(self, actions: NDArray[np.float32]) -> Judged:
        del actions
        observations = np.concatenate((self._qpos, self._qvel), axis=1)
        terminated = ~np.isfinite(observations).all(axis=1) | (np.abs(observations[:, 1]) > 0.2)
        self._rewards = (~terminated).astype(np.float64)
        return Judged(observations, self._rewards, terminated)

    def info(self, row: int) -> dict[str, Any]:
        return {"reward_survive": self._rewards[row]}


def _between(values: NDArray[np.float64], limits: tuple[float, float]) -> NDArray[np.bool_]:
    low, high = limits
    return (low < values) & (values < high)


RULES: dict[str, Callable[[Any, Any], Rule]] = {
    f"{MODULE}.half_cheetah_v5.HalfCheetahEnv": HalfCheetah,
    f"{MODULE}.hopper_v5.HopperEnv": Hopper,
    f"{MODULE}.inverted_pendulum_v5.InvertedPendulumEnv": InvertedPendulum,
    f"{MODULE}.swimmer_v5.SwimmerEnv": Swimmer,
    f"{MODULE}.walker2d_v5.Walker2dEnv": Walker2d,
}
