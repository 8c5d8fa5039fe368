"""Observations and rewards of Gymnasium's MuJoCo environments, computed for a whole batch.

Each rule equals one class of Gymnasium to the last bit for all settings, including dtypes (the cost of float32 actions
is a float32). `mujoco_batch` compares every rule with its class before using it. Where NumPy or the C library may round
differently for arrays than for scalars (sines, powers, dot products), rows are computed one by one. Not supported: Ant,
Humanoid and HumanoidStandup, which observe contact forces that MuJoCo's batch does not provide with their integrator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

MODULE = "gymnasium.envs.mujoco"
SPEED_LIMIT = 10  # of observed velocities of Hopper and Walker2d


@dataclass(frozen=True)
class StepResult:
    observations: NDArray[np.float64]  # [B, …]
    rewards: NDArray[np.float64]  # [B]
    terminated: NDArray[np.bool_]  # [B]


class Rule(Protocol):
    def record_state(self) -> None:
        """Records what `evaluate_step` needs of the state before the step."""

    def evaluate_step(self, actions: NDArray[np.float32]) -> StepResult: ...

    def info(self, row: int) -> dict[str, Any]:
        """The `info` of the class for the last step."""
        ...


def rule_for(env: Any) -> Callable[[Any, Any], Rule] | None:
    """The rule for an environment without wrappers; None for classes without a rule."""
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

    def record_state(self) -> None:
        self._before = self._qpos[:, :2].copy()

    def evaluate_step(self, actions: NDArray[np.float32]) -> StepResult:
        self._velocity = (self._qpos[:, :2] - self._before) / self._env.dt
        self._forward = self._env._forward_reward_weight * self._velocity[:, 0]
        self._cost = self._env._ctrl_cost_weight * np.sum(np.square(actions), axis=1)
        observations = np.concatenate((self._qpos[:, self._skipped :], self._observed_velocity()), axis=1)
        return StepResult(observations, self._rewards(), self._terminated())

    def _observed_velocity(self) -> NDArray[np.float64]:
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

    def _observed_velocity(self) -> NDArray[np.float64]:
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

    def record_state(self) -> None:
        """Does nothing."""

    def evaluate_step(self, actions: NDArray[np.float32]) -> StepResult:
        del actions
        observations = np.concatenate((self._qpos, self._qvel), axis=1)
        terminated = ~np.isfinite(observations).all(axis=1) | (np.abs(observations[:, 1]) > 0.2)
        self._rewards = (~terminated).astype(np.float64)
        return StepResult(observations, self._rewards, terminated)

    def info(self, row: int) -> dict[str, Any]:
        return {"reward_survive": self._rewards[row]}


class InvertedDoublePendulum:
    """Paid for standing, less for being away from the middle and for swinging."""

    def __init__(self, env: Any, batch: Any) -> None:
        self._env = env
        self._qpos: NDArray[np.float64] = batch.bind("qpos")
        self._qvel: NDArray[np.float64] = batch.bind("qvel")
        self._tips: NDArray[np.float64] = batch.bind("site_xpos")  # [B, sites, 3], of the substep before, as there
        self._forces: NDArray[np.float64] = batch.bind("qfrc_constraint")  # [B, nv]
        self._reward_terms: list[tuple[float, float, float]] = []  # alive, distance, velocity

    def record_state(self) -> None:
        """Does nothing."""

    def evaluate_step(self, actions: NDArray[np.float32]) -> StepResult:
        del actions
        sines, cosines = np.empty((2, len(self._qpos), self._qpos.shape[1] - 1))
        for row, angles in enumerate(self._qpos):
            np.sin(angles[1:], out=sines[row])
            np.cos(angles[1:], out=cosines[row])
        velocities = np.clip(self._qvel, -SPEED_LIMIT, SPEED_LIMIT)
        forces = np.clip(self._forces, -SPEED_LIMIT, SPEED_LIMIT)[:, :1]
        observations = np.concatenate((self._qpos[:, :1], sines, cosines, velocities, forces), axis=1)
        terminated = self._tips[:, 0, 2] <= 1
        self._reward_terms = [
            (
                self._env._healthy_reward * int(not is_over),
                0.01 * x**2 + (y - 2) ** 2,
                1e-3 * first**2 + 5e-3 * second**2,
            )
            for (x, _, y), (first, second), is_over in zip(
                self._tips[:, 0].tolist(), self._qvel[:, 1:3].tolist(), terminated.tolist(), strict=True
            )
        ]
        rewards = np.array(
            [alive - distance - velocity for alive, distance, velocity in self._reward_terms], np.float64
        )
        return StepResult(observations, rewards, terminated)

    def info(self, row: int) -> dict[str, Any]:
        alive, distance, velocity = self._reward_terms[row]
        return {"reward_survive": alive, "distance_penalty": -distance, "velocity_penalty": -velocity}


class Reacher:
    """Paid for a fingertip near its target, less the cost of actions."""

    def __init__(self, env: Any, batch: Any) -> None:
        self._env = env
        self._qpos: NDArray[np.float64] = batch.bind("qpos")
        self._qvel: NDArray[np.float64] = batch.bind("qvel")
        self._positions: NDArray[np.float64] = batch.bind("xpos")  # [B, bodies, 3], of the substep before, as there
        self._reward_terms: dict[str, NDArray[Any]] = {}  # by name, each [B]

    def record_state(self) -> None:
        """Does nothing."""

    def evaluate_step(self, actions: NDArray[np.float32]) -> StepResult:
        cost = -np.square(actions).sum(axis=1) * self._env._reward_control_weight
        self._reward_terms = {**self._distances(), "reward_ctrl": cost}
        return StepResult(self._observations(), self._rewards(), np.zeros(len(self._qpos), bool))

    def _distances(self) -> dict[str, NDArray[Any]]:
        return {"reward_dist": -_lengths(self._vector("fingertip", "target")) * self._env._reward_dist_weight}

    def _rewards(self) -> NDArray[np.float64]:
        rewards: NDArray[np.float64] = self._reward_terms["reward_dist"] + self._reward_terms["reward_ctrl"]
        return rewards

    def _observations(self) -> NDArray[np.float64]:
        angles = np.empty((len(self._qpos), 4))
        for row, theta in enumerate(self._qpos):
            np.cos(theta[:2], out=angles[row, :2])
            np.sin(theta[:2], out=angles[row, 2:])
        vector = self._vector("fingertip", "target")[:, :2]
        return np.concatenate((angles, self._qpos[:, 2:], self._qvel[:, :2], vector), axis=1)

    def _position(self, body: str) -> NDArray[np.float64]:
        return self._positions[:, self._env.model.body(body).id]

    def _vector(self, begin: str, end: str) -> NDArray[np.float64]:
        return self._position(begin) - self._position(end)

    def info(self, row: int) -> dict[str, Any]:
        return {name: values[row] for name, values in self._reward_terms.items()}


class Pusher(Reacher):
    """Also paid for being near to what it pushes."""

    def _distances(self) -> dict[str, NDArray[Any]]:
        near, far = self._vector("object", "tips_arm"), self._vector("object", "goal")
        return {
            "reward_dist": -_lengths(far) * self._env._reward_dist_weight,
            "reward_near": -_lengths(near) * self._env._reward_near_weight,
        }

    def _rewards(self) -> NDArray[np.float64]:
        rewards: NDArray[np.float64] = super()._rewards() + self._reward_terms["reward_near"]
        return rewards

    def _observations(self) -> NDArray[np.float64]:
        positions = [self._position(body) for body in ("tips_arm", "object", "goal")]
        return np.concatenate((self._qpos[:, :7], self._qvel[:, :7], *positions), axis=1)


def _lengths(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """[B] of [B, 3]"""
    lengths: NDArray[np.float64] = np.sqrt([row.dot(row) for row in vectors])
    return lengths


def _between(values: NDArray[np.float64], limits: tuple[float, float]) -> NDArray[np.bool_]:
    low, high = limits
    return (low < values) & (values < high)


RULES: dict[str, Callable[[Any, Any], Rule]] = {
    f"{MODULE}.half_cheetah_v5.HalfCheetahEnv": HalfCheetah,
    f"{MODULE}.hopper_v5.HopperEnv": Hopper,
    f"{MODULE}.inverted_double_pendulum_v5.InvertedDoublePendulumEnv": InvertedDoublePendulum,
    f"{MODULE}.inverted_pendulum_v5.InvertedPendulumEnv": InvertedPendulum,
    f"{MODULE}.pusher_v5.PusherEnv": Pusher,
    f"{MODULE}.reacher_v5.ReacherEnv": Reacher,
    f"{MODULE}.swimmer_v5.SwimmerEnv": Swimmer,
    f"{MODULE}.walker2d_v5.Walker2dEnv": Walker2d,
}
