"""The interface of vectorised environments, and environments stepped one after the other in this process.

An episode that ends is reset in the same step: the returned observation is already the first of the new episode. The
last observation of the old one is in its `Ending`, so that a truncated episode can bootstrap from it.
"""

from __future__ import annotations

import operator
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from palaestra.core.episodes import EpisodeResult
from palaestra.core.errors import RunFailed, UsageError
from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec, EnvInterface, MultiDiscreteSpec, SpaceSpec
from palaestra.core.tracebacks import describe_error, with_user_traceback
from palaestra.envs import tasks as task_envs
from palaestra.envs.spaces import interface_of, observation_arrays

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import gymnasium
    from numpy.typing import NDArray

    from palaestra.envs.tasks import TaskSource

Arrays = np.ndarray | dict[str, np.ndarray]  # [B, …], or named parts of it


@dataclass(frozen=True)
class Ending:
    """An episode that ended in this step."""

    env_index: int
    final_observation: Any  # as from `observation_arrays`
    episode: EpisodeResult


class VectorStep(NamedTuple):
    rewards: list[float] | NDArray[np.float32]  # [B], valid until the next step
    endings: list[Ending]  # in the order of their environments


class VectorEnvs(Protocol):
    """Vectorised environments as the trainer uses them: `InProcessEnvs`, `WorkerEnvs`, `MujocoEnvs`, `BatchEnvs`."""

    count: int  # rows: environments, or players where a world has several
    interface: EnvInterface

    def reset(self, seeds: Sequence[int], out: Arrays) -> None: ...

    def step(self, actions: np.ndarray, out: Arrays) -> VectorStep: ...

    def why_inexact(self) -> str: ...

    def capture(self) -> dict[str, Any] | None: ...

    def restore(self, state: dict[str, Any]) -> None: ...

    def close(self) -> None: ...


class InProcessEnvs:
    """`count` environments, stepped one after the other; the fastest way for cheap environments."""

    def __init__(
        self,
        make: Callable[[], gymnasium.Env[Any, Any]],
        count: int,
        tasks: TaskSource | None = None,
        first_index: int = 0,
    ) -> None:
        """`first_index`: global index of the first one, if these are a share of all environments."""
        self.envs = [make() for _ in range(count)]
        self.count = count
        self.first_index = first_index
        self.interface: EnvInterface = interface_of(self.envs[0])
        self._to_env_actions = _action_converter(self.interface.action_space)
        self._write = _observation_writer(self.interface.observation_space)
        self._steps: list[Callable[[Any], Any]] = [env.step for env in self.envs]
        self.tasks = tasks
        self._seeds: list[int | None] = [None] * count
        self._returns = [0.0] * count
        self._lengths = [0] * count

    def reset(self, seeds: Sequence[int], out: Arrays) -> None:
        self._seeds = [int(seed) for seed in seeds]
        self._returns = [0.0] * self.count
        self._lengths = [0] * self.count
        for index, seed in zip(range(self.count), self._seeds, strict=True):
            try:
                self._write(out, index, self._begin(index, seed))
            except (Exception, SystemExit) as error:
                raise self._failure(index, None, error) from error

    def step(self, actions: np.ndarray, out: Arrays) -> VectorStep:
        """Take `actions` [B, …]; the observations to act on next are written into `out` [B, …]."""
        rewards: list[float] = []
        endings: list[Ending] = []
        write, returns, lengths = self._write, self._returns, self._lengths
        for index, action in enumerate(self._to_env_actions(actions)):
            lengths[index] += 1
            try:
                observation, reward, terminated, truncated, info = self._steps[index](action)
                if reward.__class__ is not float:
                    reward = _as_number(reward)
                returns[index] += reward
                if terminated or truncated:
                    endings.append(self._end(index, observation, bool(terminated), info))
                    observation = self._begin(index)
                write(out, index, observation)
            except (Exception, SystemExit) as error:
                raise self._failure(index, action, error) from error
            rewards.append(reward)
        return VectorStep(rewards, endings)

    def _begin(self, index: int, seed: int | None = None) -> Any:
        """The first observation of the next episode."""
        options = {} if self.tasks is None else {"options": self.tasks.next_options(self.first_index + index)}
        observation, _ = self.envs[index].reset(seed=seed, **options)
        return observation

    def _end(self, index: int, observation: Any, terminated: bool, info: dict[str, Any]) -> Ending:
        episode = EpisodeResult(
            seed=None,
            total_reward=self._returns[index],
            length=self._lengths[index],
            terminated=terminated,
            env_index=self.first_index + index,
            extras=scalars(info),
        )
        if self.tasks is not None:
            self.tasks.ended(episode.env_index, episode.total_reward)
        self._returns[index] = 0.0
        self._lengths[index] = 0
        kept = deepcopy(observation)  # the reset may write into the same array
        return Ending(episode.env_index, observation_arrays(self.interface.observation_space, kept), episode)

    def _failure(self, index: int, action: Any, error: BaseException) -> RunFailed:
        length = self._lengths[index]
        where = f"at step {length} of its episode, with action {action!r}" if length else "when it began an episode"
        who = f"Environment {self.first_index + index} (seed {self._seeds[index]})"
        return with_user_traceback(RunFailed(f"{who} {describe_error(error, where)}."), error)

    def describe_position(self, index: int, action: Any) -> str:
        """What environment `index` does now, for a report about a step that hangs."""
        length = self._lengths[index]
        position = (
            f"at step {length} of its episode, with action {action!r}" if length else "where it begins an episode"
        )
        return f"environment {self.first_index + index} (seed {self._seeds[index]}), {position}"

    def episode_progress(self, index: int) -> tuple[float, int]:
        """Return and length so far of the current episode of environment `index`."""
        return self._returns[index], self._lengths[index]

    def set_episode_progress(self, index: int, total_reward: float, length: int) -> None:
        """Sets return and length of the current episode, after environment `index` was stepped elsewhere."""
        self._returns[index] = total_reward
        self._lengths[index] = length

    def why_inexact(self) -> str:
        """Why the state cannot be captured; empty if it can."""
        return task_envs.why_not(self.envs[0])

    def capture(self) -> dict[str, Any] | None:
        """The whole state as plain data, or None if an environment cannot be captured."""
        states = [task_envs.capture(env) for env in self.envs]
        if any(state is None for state in states):
            return None
        return {"envs": states, "returns": list(self._returns), "lengths": list(self._lengths)}

    def restore(self, state: dict[str, Any]) -> None:
        for env, saved in zip(self.envs, state["envs"], strict=True):
            task_envs.restore(env, saved)
        self._returns = list(state["returns"])
        self._lengths = list(state["lengths"])

    def close(self) -> None:
        for env in self.envs:
            env.close()


def _as_number(reward: Any) -> float:
    """Accepts NumPy and torch scalars; rejects text, which `float` alone would parse."""
    if isinstance(reward, str | bytes | bytearray):
        raise TypeError(f"its reward is the text {reward!r}, not a number")
    return float(reward)


def _action_converter(space: SpaceSpec) -> Callable[[np.ndarray], Sequence[Any]]:
    """Converts the network's actions [B, …] to arguments of `step`."""
    convert = action_rows(space)
    if isinstance(space, DiscreteSpec):
        return lambda actions: convert(actions).tolist()
    return lambda actions: list(convert(actions))


def action_rows(space: SpaceSpec) -> Callable[[np.ndarray], np.ndarray]:
    """Converts the network's actions [B, …] to the environments': choices get their start, boxes are clipped."""
    match space:
        case DiscreteSpec(start=0):
            return lambda actions: actions
        case DiscreteSpec():
            return lambda actions: actions + space.start
        case MultiDiscreteSpec():
            starts = np.array(space.starts or (0,) * len(space.counts))
            return lambda actions: actions + starts
        case BoxSpec():
            low = np.array(space.low, dtype=space.dtype).reshape(-1)
            high = np.array(space.high, dtype=space.dtype).reshape(-1)
            shape = (-1, *space.shape)
            return lambda actions: np.clip(actions.astype(space.dtype, copy=False), low, high).reshape(shape)
        case DictSpec():
            raise UsageError("Actions with named parts are not supported.", "Flatten them with a Gymnasium wrapper.")


def _observation_writer(space: SpaceSpec) -> Callable[[Any, int, Any], None]:
    """Writes one environment's observation into row `index` of the batch."""
    if isinstance(space, MultiDiscreteSpec):
        return lambda out, index, observation: operator.setitem(out, index, np.ravel(observation))
    if not isinstance(space, DictSpec):
        return operator.setitem

    def write_parts(out: dict[str, np.ndarray], index: int, observation: Any) -> None:
        for name, part in dict(observation_arrays(space, observation)).items():
            out[name][index] = part

    return write_parts


def scalars(info: dict[str, Any]) -> dict[str, float]:
    """The numbers and booleans of an `info`, which become extra figures of the episode."""
    return {
        str(name): float(value) for name, value in info.items() if isinstance(value, int | float | np.number | np.bool)
    }
