"""Episodes, played one at a time so that no result depends on its neighbours.

Each episode gets an environment of its own: some (BipedalWalker is one) carry a trace of the last episode through
`reset(seed=…)`, and then episode 7 would depend on who played episode 6.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import gymnasium
import torch

from palaestra.core.clock import Clock, SystemClock
from palaestra.core.episodes import EpisodeResult
from palaestra.core.errors import RunFailed
from palaestra.core.evaluation import DEFAULT_MAX_STEPS, EvaluationPlan, EvaluationReport
from palaestra.core.tracebacks import describe_error, with_user_traceback
from palaestra.envs.make import time_limit_of
from palaestra.envs.scalars import scalars
from palaestra.envs.spaces import action_converter, observation_arrays
from palaestra.evaluation.stage import OutOfTime, show
from palaestra.evaluation.world import play_world
from palaestra.policies.observations import to_tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from palaestra.envs.batch import NativeBatch
    from palaestra.evaluation.stage import Frame, Onlooker
    from palaestra.evaluation.video import VideoFile
    from palaestra.policies.agent import Agent
    from palaestra.policies.base import Observation

    AnyEnv = gymnasium.Env[Any, Any]
    Playable = AnyEnv | NativeBatch  # the latter of one world


def play(
    plan: EvaluationPlan,
    policy: Agent,
    make_env: Callable[[], Playable],
    *,
    record: Callable[[int, Playable], VideoFile] | None = None,
    time_limit: float | None = None,
    clock: Clock | None = None,
) -> EvaluationReport:
    """Play all seeds of the plan, or as many as `time_limit` seconds allow: then the report is marked incomplete."""
    watch = clock or SystemClock()
    started = watch.monotonic()

    def is_late() -> bool:
        return time_limit is not None and watch.monotonic() - started > time_limit

    episodes = tuple(play_episodes(plan, policy, make_env, record=record, is_late=is_late))
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
    is_late: Callable[[], bool] = lambda: False,
    onlooker: Onlooker | None = None,
) -> Iterator[EpisodeResult]:
    """One result per seed, as they come; the loop that consumes them may log, beat and stop."""
    for seed in plan.seeds:
        env = make_env()
        try:
            with nullcontext() if record is None else record(seed, env) as video:
                how: dict[str, Any] = {
                    "deterministic": plan.deterministic,
                    "on_frame": None if video is None else video.add,
                    "is_late": is_late,
                    "onlooker": onlooker,
                    "max_steps": step_limit(plan, env),
                }
                if isinstance(env, gymnasium.Env):
                    episode = play_episode(policy, env, seed, **how)
                else:
                    episode = play_world(policy, env, seed, **how)
        except OutOfTime:
            return
        finally:
            env.close()
        yield episode


def step_limit(plan: EvaluationPlan, env: Playable) -> int:
    """Steps after which an episode is stopped, so that a policy that walks in circles for ever is evaluated too."""
    own = time_limit_of(env.spec) if isinstance(env, gymnasium.Env) else plan.max_episode_steps
    return plan.max_steps or own or DEFAULT_MAX_STEPS


def play_episode(
    policy: Agent,
    env: AnyEnv,
    seed: int,
    *,
    deterministic: bool,
    on_frame: Callable[[Frame], None] | None = None,
    is_late: Callable[[], bool] = lambda: False,
    onlooker: Onlooker | None = None,
    max_steps: int = DEFAULT_MAX_STEPS,
) -> EpisodeResult:
    """One episode of at most `max_steps`; `on_frame` gets the frame after the reset and after every step."""
    actor = _Actor(policy, seed, deterministic=deterministic)
    observation, info = env.reset(seed=seed)
    total_reward, last_reward, length = 0.0, 0.0, 0
    terminated = truncated = False
    with torch.inference_mode():
        while not (terminated or truncated) and length < max_steps:
            if is_late():
                raise OutOfTime
            _show(env, on_frame)
            if onlooker is not None:
                onlooker.glance(env, last_reward, total_reward, length)
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
    _show(env, on_frame)
    if onlooker is not None:
        onlooker.glance(env, last_reward, total_reward, length)
    capped = not (terminated or truncated)
    return EpisodeResult(seed, total_reward, length, bool(terminated), extras=scalars(info), capped=capped)


class _Actor:
    """A policy with the memory and the dice of one episode."""

    def __init__(self, policy: Agent, seed: int, *, deterministic: bool) -> None:
        self._policy = policy
        self._space = policy.interface.observation_space
        self._to_env_action = action_converter(policy.interface.action_space)
        self._device = next(policy.parameters()).device
        self._memory = policy.initial_memory(1)
        self._dice = None if deterministic else torch.Generator(self._device).manual_seed(seed)

    def act(self, observation: Any) -> Any:
        arrays = observation_arrays(self._space, observation)
        batch = self._on_device(to_tensor(self._space, arrays))
        output = self._policy(batch, self._memory)
        self._memory = output.memory
        action = output.distribution.mode() if self._dice is None else output.distribution.sample(self._dice)
        return self._to_env_action(action[0, 0].cpu().numpy())

    def _on_device(self, observation: Observation) -> Observation:
        if isinstance(observation, torch.Tensor):
            return observation.to(self._device)
        return {name: part.to(self._device) for name, part in observation.items()}


def _show(env: AnyEnv, on_frame: Callable[[Frame], None] | None) -> None:
    if on_frame is not None:
        show(env.render(), on_frame, env)
