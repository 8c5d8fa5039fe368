"""Many environments stepped side by side in this process.

An episode that ends is reset in the same step: `observations` already show the new episode, and the observation
that the old one ended with is kept apart in `finals`, so that a truncated episode can bootstrap from its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.contracts.episodes import EpisodeResult
from palaestra.contracts.errors import RunFailed, UsageError
from palaestra.contracts.spaces import BoxSpec, DictSpec, DiscreteSpec, EnvInterface, MultiDiscreteSpec, SpaceSpec
from palaestra.envs import snapshot
from palaestra.envs.spaces import interface_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import gymnasium

Arrays = np.ndarray | dict[str, np.ndarray]  # [B, …], or named parts of it


@dataclass(frozen=True)
class Ending:
    """An episode that ended in this step."""

    env_index: int
    final_observation: Any  # as the environment gave it
    episode: EpisodeResult


@dataclass(frozen=True)
class VectorStep:
    rewards: list[float]  # [B]
    terminated: list[bool]  # [B]
    truncated: list[bool]  # [B]
    endings: list[Ending]


class InProcessEnvs:
    """`count` environments, stepped one after the other; the cheapest way for light environments."""

    def __init__(self, make: Callable[[], gymnasium.Env[Any, Any]], count: int) -> None:
        self.envs = [make() for _ in range(count)]
        self.count = count
        self.interface: EnvInterface = interface_of(self.envs[0])
        self._to_env_actions = _action_door(self.interface.action_space)
        self._write = _observation_door(self.interface.observation_space)
        self._returns = [0.0] * count
        self._lengths = [0] * count

    def reset(self, seeds: Sequence[int], out: Arrays) -> None:
        for index, (env, seed) in enumerate(zip(self.envs, seeds, strict=True)):
            observation, _ = env.reset(seed=int(seed))
            self._write(out, index, observation)
        self._returns = [0.0] * self.count
        self._lengths = [0] * self.count

    def step(self, actions: np.ndarray, out: Arrays) -> VectorStep:
        """Take `actions` [B, …]; the observations to act on next are written into `out` [B, …]."""
        rewards: list[float] = []
        terminations: list[bool] = []
        truncations: list[bool] = []
        endings: list[Ending] = []
        write, returns, lengths = self._write, self._returns, self._lengths
        for index, action in enumerate(self._to_env_actions(actions)):
            env = self.envs[index]
            try:
                observation, reward, terminated, truncated, info = env.step(action)
            except Exception as error:
                raise RunFailed(
                    f"Environment {index} raised {type(error).__name__} at step {lengths[index] + 1} of its episode, "
                    f"with action {action!r}: {error}."
                ) from error
            reward = float(reward)
            returns[index] += reward
            lengths[index] += 1
            if terminated or truncated:
                endings.append(self._end(index, observation, bool(terminated), info))
                observation, _ = env.reset()
            write(out, index, observation)
            rewards.append(reward)
            terminations.append(bool(terminated))
            truncations.append(bool(truncated) and not terminated)
        return VectorStep(rewards, terminations, truncations, endings)

    def _end(self, index: int, observation: Any, terminated: bool, info: dict[str, Any]) -> Ending:
        extras = {name: float(value) for name, value in info.items() if isinstance(value, int | float | np.number)}
        episode = EpisodeResult(
            seed=None,
            total_reward=self._returns[index],
            length=self._lengths[index],
            terminated=terminated,
            env_index=index,
            extras=extras,
        )
        self._returns[index] = 0.0
        self._lengths[index] = 0
        return Ending(index, observation, episode)

    def why_inexact(self) -> str:
        """Empty when every environment can give its state; else why it cannot."""
        return snapshot.why_not(self.envs[0])

    def capture(self) -> dict[str, Any] | None:
        """The whole state as plain data, or None when an environment cannot give it."""
        states = [snapshot.capture(env) for env in self.envs]
        if any(state is None for state in states):
            return None
        return {"envs": states, "returns": list(self._returns), "lengths": list(self._lengths)}

    def restore(self, state: dict[str, Any]) -> None:
        for env, saved in zip(self.envs, state["envs"], strict=True):
            snapshot.restore(env, saved)
        self._returns = list(state["returns"])
        self._lengths = list(state["lengths"])

    def close(self) -> None:
        for env in self.envs:
            env.close()


def _action_door(space: SpaceSpec) -> Callable[[np.ndarray], Sequence[Any]]:
    """From the network's actions [B, …] to what each environment's step takes."""
    match space:
        case DiscreteSpec(start=0):
            return lambda actions: actions.tolist()
        case DiscreteSpec():
            return lambda actions: (actions + space.start).tolist()
        case MultiDiscreteSpec():
            starts = np.array(space.starts or (0,) * len(space.counts))
            return lambda actions: list(actions + starts)
        case BoxSpec():
            low = np.array(space.low, dtype=space.dtype).reshape(-1)
            high = np.array(space.high, dtype=space.dtype).reshape(-1)
            shape = (-1, *space.shape)
            return lambda actions: list(np.clip(actions.astype(space.dtype, copy=False), low, high).reshape(shape))
        case DictSpec():
            raise UsageError("Actions with named parts are not supported.", "Flatten them with a Gymnasium wrapper.")


def _observation_door(space: SpaceSpec) -> Callable[[Arrays, int, Any], None]:
    """Writes one environment's observation into row `index` of the batch."""
    if isinstance(space, DictSpec):
        names = [name for name, _ in space.parts]

        def write_parts(out: Arrays, index: int, observation: Any) -> None:
            assert isinstance(out, dict)
            for name in names:
                out[name][index] = observation[name]

        return write_parts

    def write(out: Arrays, index: int, observation: Any) -> None:
        assert not isinstance(out, dict)
        out[index] = observation

    return write
