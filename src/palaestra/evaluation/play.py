"""Plays episodes one at a time, so that no result depends on another episode.

Each episode gets an environment of its own: some (BipedalWalker is one) carry state of the last episode through
`reset(seed=…)`, and then episode 7 would depend on who played episode 6.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Protocol

import gymnasium
import numpy as np
import torch

from palaestra.algorithms.buffers.rollout_buffer import RolloutBuffer
from palaestra.core.clock import Clock, SystemClock
from palaestra.core.episodes import EpisodeResult
from palaestra.core.errors import RunFailed
from palaestra.core.evaluation import DEFAULT_MAX_STEPS, EvaluationPlan, EvaluationReport
from palaestra.core.tracebacks import describe_error, with_user_traceback
from palaestra.envs.make import time_limit_of
from palaestra.envs.spaces import action_converter, observation_arrays
from palaestra.envs.vector.in_process import action_rows, scalars
from palaestra.policies.device import memory_to_device, observation_to_device
from palaestra.policies.features import refuse_other_spaces
from palaestra.policies.observations import to_tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from palaestra.envs.vector.batch import NativeBatch
    from palaestra.evaluation.video import VideoFile
    from palaestra.policies.agent import Agent
    from palaestra.policies.base import Observation

    AnyEnv = gymnasium.Env[Any, Any]
    Playable = AnyEnv | NativeBatch  # the latter of one world

    Frame = np.ndarray[Any, np.dtype[np.uint8]]  # [height, width, 3]

    from palaestra.core.app import OtherPlayers
    from palaestra.core.spaces import EnvInterface
    from palaestra.envs.vector.batch import NativeBatch, WorldEnding
    from palaestra.envs.vector.in_process import Arrays


def play(
    plan: EvaluationPlan,
    policy: Agent,
    make_env: Callable[[], Playable],
    *,
    record: Callable[[int, Playable], VideoFile] | None = None,
    time_limit: float | None = None,
    clock: Clock | None = None,
) -> EvaluationReport:
    """Plays all seeds of the plan, or as many as `time_limit` seconds allow; the report is then marked incomplete."""
    watch = clock or SystemClock()
    started = watch.monotonic()

    def is_stopped() -> bool:
        return time_limit is not None and watch.monotonic() - started > time_limit

    episodes = tuple(play_episodes(plan, policy, make_env, record=record, is_stopped=is_stopped))
    if not episodes:
        raise RunFailed(
            f"No episode of '{plan.env_id}' ended within {time_limit:g} s.",
            "Allow more time, or give the environment a time limit: env.max_episode_steps=1000",
        )
    return EvaluationReport(plan, episodes, watch.monotonic() - started, complete=len(episodes) == len(plan.seeds))


def play_episodes(
    plan: EvaluationPlan,
    policy: Agent,
    make_env: Callable[[], Playable],
    *,
    record: Callable[[int, Playable], VideoFile] | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
    viewer: EpisodeViewer | None = None,
) -> Iterator[EpisodeResult]:
    """One result per seed, in the order of the plan; stops within an episode once `is_stopped` returns True."""
    for seed in plan.seeds:
        env = make_env()
        try:
            with nullcontext() if record is None else record(seed, env) as video:
                settings: dict[str, Any] = {
                    "deterministic": plan.deterministic,
                    "on_frame": None if video is None else video.add,
                    "is_stopped": is_stopped,
                    "viewer": viewer,
                    "max_steps": step_limit(plan, env),
                }
                if isinstance(env, gymnasium.Env):
                    episode = play_episode(policy, env, seed, **settings)
                else:
                    episode = play_batch_episode(policy, env, seed, **settings)
        except OutOfTime:
            return
        finally:
            env.close()
        yield episode


def step_limit(plan: EvaluationPlan, env: Playable) -> int:
    """Steps after which an episode is stopped, so that an evaluation ends with any policy."""
    own = time_limit_of(env.spec) if isinstance(env, gymnasium.Env) else plan.max_episode_steps
    return plan.max_steps or own or DEFAULT_MAX_STEPS


def play_episode(
    policy: Agent,
    env: AnyEnv,
    seed: int,
    *,
    deterministic: bool,
    on_frame: Callable[[Frame], None] | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
    viewer: EpisodeViewer | None = None,
    max_steps: int = DEFAULT_MAX_STEPS,
) -> EpisodeResult:
    """One episode of at most `max_steps`; `on_frame` gets the frame after the reset and after every step."""
    actor = _Actor(policy, seed, deterministic=deterministic)
    observation, info = env.reset(seed=seed)
    total_reward, last_reward, length = 0.0, 0.0, 0
    terminated = truncated = False
    with torch.inference_mode():
        while not (terminated or truncated) and length < max_steps:
            if is_stopped():
                raise OutOfTime
            _render(env, on_frame)
            if viewer is not None:
                viewer.on_step(env, last_reward, total_reward, length)
            action = actor.act(observation)
            try:
                observation, reward, terminated, truncated, info = env.step(action)
            except (Exception, SystemExit) as error:
                where = f"in the episode with seed {seed}, at step {length + 1}, with action {action!r}"
                failure = RunFailed(f"The environment {describe_error(error, where)}.")
                raise with_user_traceback(failure, error) from error
            last_reward = float(reward)
            total_reward += last_reward
            length += 1
    _render(env, on_frame)
    if viewer is not None:
        viewer.on_step(env, last_reward, total_reward, length)
    capped = not (terminated or truncated)
    return EpisodeResult(seed, total_reward, length, bool(terminated), extras=scalars(info), capped=capped)


class _Actor:
    """A policy with the memory and the generator of one episode."""

    def __init__(self, policy: Agent, seed: int, *, deterministic: bool) -> None:
        self._policy = policy
        self._space = policy.interface.observation_space
        self._to_env_action = action_converter(policy.interface.action_space)
        self._device = next(policy.parameters()).device
        self._memory = policy.initial_memory(1)
        self._generator = None if deterministic else torch.Generator(self._device).manual_seed(seed)

    def act(self, observation: Any) -> Any:
        arrays = observation_arrays(self._space, observation)
        batch = self._on_device(to_tensor(self._space, arrays))
        output = self._policy(batch, self._memory)
        self._memory = output.memory
        action = output.distribution.mode() if self._generator is None else output.distribution.sample(self._generator)
        return self._to_env_action(action[0, 0].cpu().numpy())

    def _on_device(self, observation: Observation) -> Observation:
        if isinstance(observation, torch.Tensor):
            return observation.to(self._device)
        return {name: part.to(self._device) for name, part in observation.items()}


def _render(env: AnyEnv, on_frame: Callable[[Frame], None] | None) -> None:
    if on_frame is not None:
        send_frame(env.render(), on_frame, env)


class OutOfTime(Exception):
    """The current episode was stopped; it has no result."""


class EpisodeViewer(Protocol):
    """Observes an episode while it is played, and must not change its environment."""

    def on_step(
        self,
        env: gymnasium.Env[Any, Any] | NativeBatch,
        reward: float,
        total_reward: float,
        length: int,
    ) -> None:
        """Called after the reset and after every step; numbers of a multi-agent environment are means over players."""
        ...


def send_frame(frame: Any, on_frame: Callable[[Frame], None], env: object) -> None:
    """Calls `on_frame` with what `env` rendered; an error when that is no image."""
    if not (isinstance(frame, np.ndarray) and frame.ndim == 3 and frame.shape[2] == 3):
        raise RunFailed(f"{env} rendered {type(frame).__name__} instead of an image [height, width, 3].")
    on_frame(frame.astype(np.uint8, copy=False))


def play_batch_episode(
    policy: Agent,
    batch: NativeBatch,
    seed: int,
    *,
    deterministic: bool,
    on_frame: Callable[[Frame], None] | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
    viewer: EpisodeViewer | None = None,
    max_steps: int = DEFAULT_MAX_STEPS,
) -> EpisodeResult:
    """One episode of environment 0 of a batch; the policy plays all players, with a memory for each.

    The return and the other figures are means over the players. The batch always has the same size, so rounding does
    not depend on who plays which seed.
    """
    batched = BatchedPolicy(policy, batch.agents, seed, deterministic=deterministic)
    buffer = RolloutBuffer(batch.interface.observation_space, 1, batch.agents)
    observations, rewards = buffer.rows[0], np.zeros(batch.agents, np.float32)
    batch.reset([0], [seed], [0], observations)
    ending: WorldEnding | None = None
    steps, total_reward = 0, 0.0
    with torch.inference_mode():
        while ending is None and steps < max_steps:
            if is_stopped():
                raise OutOfTime
            _render_batch(batch, on_frame)
            if viewer is not None:
                viewer.on_step(batch, float(rewards.mean()), total_reward, steps)
            steps += 1
            actions = batched.act(buffer.inputs[0])
            try:
                ending = next(iter(batch.step(actions, observations, rewards)), None)
            except (Exception, SystemExit) as error:
                failure = RunFailed(f"The environment with seed {seed} {describe_error(error, f'at step {steps}')}.")
                raise with_user_traceback(failure, error) from error
            total_reward += float(rewards.mean())
    _render_batch(batch, on_frame)
    if viewer is not None:
        viewer.on_step(batch, float(rewards.mean()), total_reward, steps)
    if ending is None:
        return EpisodeResult(seed, total_reward, steps, terminated=False, capped=True)
    return EpisodeResult(
        seed,
        float(ending.returns.mean()),
        ending.length,
        ending.terminated,
        extras={name: float(values.mean()) for name, values in ending.extras.items()},
    )


def _render_batch(batch: NativeBatch, on_frame: Callable[[Frame], None] | None) -> None:
    if on_frame is not None:
        send_frame(batch.render(0), on_frame, batch)


class BatchedPolicy:
    """A policy that acts for all players of one episode, with a memory for each."""

    def __init__(self, policy: Agent, size: int, seed: int, *, deterministic: bool) -> None:
        self._policy = policy
        self._to_env_actions = action_rows(policy.interface.action_space)
        self._device = next(policy.parameters()).device
        self._memory = memory_to_device(policy.initial_memory(size), self._device)
        self._generator = None if deterministic else torch.Generator(self._device).manual_seed(seed)

    def act(self, observation: Observation) -> np.ndarray:
        """Observations [1, B, …] to actions [B, …]."""
        output = self._policy(observation_to_device(observation, self._device), self._memory)
        self._memory = output.memory
        actions = output.distribution.mode() if self._generator is None else output.distribution.sample(self._generator)
        return self._to_env_actions(actions[0].cpu().numpy())


def make_other_players(policy: Agent, interface: EnvInterface, players: int, seed: int) -> OtherPlayers:
    """A function that acts for all players beside a person (see `palaestra.core.app`); actions are sampled."""
    refuse_other_spaces(policy.interface, interface)
    batched = BatchedPolicy(policy.playing_in(interface), players, seed, deterministic=False)

    def act(observations: Arrays) -> np.ndarray:
        with torch.inference_mode():
            return batched.act(_to_tensors(observations))

    return act


def _to_tensors(observations: Arrays) -> Observation:
    """[T=1, B, …], copied: the next step overwrites the arrays."""
    if isinstance(observations, dict):
        return {name: torch.from_numpy(part.copy())[None] for name, part in observations.items()}
    return torch.from_numpy(observations.copy())[None]
