"""MuJoCo environments of Gymnasium stepped as one batch, on several threads, with the numbers that Gymnasium gives.

MuJoCo steps all simulations in one call (`mujoco.batch`); a rule computes all observations and rewards. Every row keeps
its Gymnasium environment for resets, rendering and its state, which equals that of environments stepped one by one.
`mujoco.rollout` is not enough: it does not keep the warm start of the solver, without which the last bits differ.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium.wrappers import TimeLimit

from palaestra.core.episodes import EpisodeResult
from palaestra.core.errors import RunFailed
from palaestra.core.spaces import BoxSpec
from palaestra.envs import snapshot
from palaestra.envs.spaces import interface_of
from palaestra.envs.vector.in_process import Ending, InProcessEnvs, VectorStep, action_rows, scalars
from palaestra.envs.vector.mujoco_rules import rule_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from palaestra.core.spaces import EnvInterface
    from palaestra.envs.make import AnyEnv
    from palaestra.envs.vector.in_process import Arrays
    from palaestra.envs.vector.mujoco_rules import Rule, StepResult

CHECKED_STEPS = 12


class MujocoEnvs:
    """A `palaestra.envs.vector.in_process.VectorEnvs` for environments with an empty `why_not_batched`."""

    def __init__(self, make: Callable[[], AnyEnv], count: int, threads: int) -> None:
        self._mujoco: Any = importlib.import_module("mujoco")
        self.envs = [make() for _ in range(count)]
        self.count = count
        self.threads = min(threads, count)
        self.interface: EnvInterface = interface_of(self.envs[0])
        first: Any = self.envs[0].unwrapped
        self._batch: Any = importlib.import_module("mujoco.batch").Batch(first.model, count, self.threads)
        self._controls = self._batch.bind("ctrl")
        self._frames: int = first.frame_skip
        self._all = int(self._mujoco.mjtState.mjSTATE_INTEGRATION)
        rule: Any = rule_for(first)
        self._rule: Rule = rule(first, self._batch)
        self._to_env_actions = action_rows(self.interface.action_space)
        self._limit = _time_limit(self.envs[0])
        self._seeds: list[int | None] = [None] * count
        self._returns = np.zeros(count)
        self._lengths = np.zeros(count, np.int64)

    def reset(self, seeds: Sequence[int], out: Arrays) -> None:
        self._seeds = [int(seed) for seed in seeds]
        self._returns[:] = 0.0
        self._lengths[:] = 0
        for index, seed in zip(range(self.count), self._seeds, strict=True):
            self._begin(index, out, seed)

    def _begin(self, index: int, out: Arrays, seed: int | None = None) -> None:
        assert isinstance(out, np.ndarray)
        observation, _ = self.envs[index].reset(seed=seed)
        out[index] = observation
        self._take(index)

    def _take(self, index: int) -> None:
        """From the environment into the batch, with the warm start of the solver."""
        env: Any = self.envs[index].unwrapped
        self._mujoco.mj_getState(env.model, env.data, self._batch.state[index], self._all)

    def put(self, index: int) -> None:
        """From the batch into the environment: it is then as if it had been stepped itself, but for fields that
        neither its step nor its state needs."""
        env: Any = self.envs[index].unwrapped
        row = self._batch.state[index]
        self._mujoco.mj_setState(env.model, env.data, row, self._all)
        self._mujoco.mj_forward(env.model, env.data)
        self._mujoco.mj_setState(env.model, env.data, row, self._all)  # what is computed also warms the solver
        if self._limit is not None:
            vars(self.envs[index])["_elapsed_steps"] = int(self._lengths[index])

    def step(self, actions: np.ndarray, out: Arrays) -> VectorStep:
        """Take `actions` [B, …]; the observations to act on next are written into `out` [B, …]."""
        assert isinstance(out, np.ndarray)
        rows = self._to_env_actions(actions)
        self._lengths += 1
        self._rule.record_state()
        self._controls[:] = rows
        try:
            self._batch.step(nstep=self._frames)
        except RuntimeError as error:
            raise self._failure(rows, error) from error
        result = self._rule.evaluate_step(rows)
        self._returns += result.rewards
        out[:] = result.observations
        ended = result.terminated if self._limit is None else result.terminated | (self._lengths >= self._limit)
        endings = [self._end(int(index), result, out) for index in np.flatnonzero(ended)]
        return VectorStep(result.rewards.tolist(), endings)

    def _end(self, index: int, result: StepResult, out: Arrays) -> Ending:
        episode = EpisodeResult(
            seed=None,
            total_reward=float(self._returns[index]),
            length=int(self._lengths[index]),
            terminated=bool(result.terminated[index]),
            env_index=index,
            extras=scalars(self._rule.info(index)),
        )
        self._returns[index] = 0.0
        self._lengths[index] = 0
        self._begin(index, out)
        return Ending(index, result.observations[index].copy(), episode)

    def _failure(self, rows: np.ndarray, error: RuntimeError) -> RunFailed:
        index = int(next(iter(getattr(error, "ids", [0]))))
        return RunFailed(
            f"Environment {index} (seed {self._seeds[index]}) raised {type(error).__name__} at step "
            f"{self._lengths[index]} of its episode, with action {rows[index]!r}: {error}."
        )

    def episode_progress(self, index: int) -> tuple[float, int]:
        """Return and steps of the episode that environment `index` plays now"""
        return float(self._returns[index]), int(self._lengths[index])

    def why_inexact(self) -> str:
        return snapshot.why_not(self.envs[0])

    def capture(self) -> dict[str, Any] | None:
        """The same format as `InProcessEnvs.capture`; either can restore the other's."""
        for index in range(self.count):
            self.put(index)
        states = [snapshot.capture(env) for env in self.envs]
        if any(state is None for state in states):
            return None
        return {"envs": states, "returns": self._returns.tolist(), "lengths": self._lengths.tolist()}

    def restore(self, state: dict[str, Any]) -> None:
        for index, (env, saved) in enumerate(zip(self.envs, state["envs"], strict=True)):
            snapshot.restore(env, saved)
            self._take(index)
        self._returns[:] = state["returns"]
        self._lengths[:] = state["lengths"]

    def close(self) -> None:
        for env in self.envs:
            env.close()


def why_not_batched(make: Callable[[], AnyEnv]) -> str:
    """Empty when the copies that `make` makes can be stepped as a batch with the same numbers; else the reason.

    Nothing is believed: both ways are played for a few steps and must agree in every bit.
    """
    env = make()
    try:
        reason = _why_unfit(env)
    finally:
        env.close()
    return reason or ("" if _agree(make) else "Gymnasium's numbers are others, perhaps those of a newer version")


def _why_unfit(env: AnyEnv) -> str:
    if rule_for(env.unwrapped) is None:
        return f"there is no rule for {type(env.unwrapped).__name__}"
    if importlib.util.find_spec("mujoco.batch") is None:
        return "this version of MuJoCo has no batches"
    if env.unwrapped.render_mode is not None:
        return "it draws while it is stepped"
    layers: AnyEnv = env.env if type(env) is TimeLimit else env
    return f"it is wrapped in {type(layers).__name__}" if isinstance(layers, gymnasium.Wrapper) else ""


def _agree(make: Callable[[], AnyEnv]) -> bool:
    batch = MujocoEnvs(make, 2, 2)
    return _story(batch) == _story(InProcessEnvs(make, 2))


def _story(envs: MujocoEnvs | InProcessEnvs) -> list[Any]:
    """Everything that two environments show and pay in a few steps."""
    seen, taken = envs.interface.observation_space, envs.interface.action_space
    assert isinstance(seen, BoxSpec)
    assert isinstance(taken, BoxSpec)
    chance, out, story = np.random.default_rng(0), np.zeros((2, *seen.shape)), []
    envs.reset([1, 2], out)
    for _ in range(CHECKED_STEPS):
        result = envs.step(chance.normal(size=(2, taken.size)).astype(np.float32), out)
        story += [out.tolist(), result.rewards, [ending.episode for ending in result.endings]]
    envs.close()
    return story


def _time_limit(env: AnyEnv) -> int | None:
    return env._max_episode_steps if type(env) is TimeLimit else None
