"""Environments with several tasks, one of which is chosen at every reset.

The task's name is passed as `reset(options={"task": name})`. An environment that understands it is used as it is; for
all others, `TaskSwitch` holds one environment per task.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import gymnasium
import numpy as np

from palaestra.core.errors import UsageError
from palaestra.envs import snapshot
from palaestra.envs.make import AnyEnv, make_env
from palaestra.envs.spaces import describe_space, interface_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from palaestra.config.env import CurriculumConfig, EnvConfig
    from palaestra.core.spaces import EnvInterface

TASK = "task"


class TaskSource(Protocol):
    """Chooses the next task of every environment; there is one, in the training process."""

    def next_options(self, env_index: int) -> dict[str, Any]:
        """Options for `reset` when environment `env_index` begins an episode."""
        ...

    def ended(self, env_index: int, total_reward: float) -> None:
        """The episode of environment `env_index` has ended."""
        ...


def make_task_env(env: EnvConfig, curriculum: CurriculumConfig) -> AnyEnv:
    """One environment for all tasks of a curriculum; without tasks, a plain environment."""
    if not curriculum.tasks or curriculum.given_by == "options":
        return make_env(env)
    return TaskSwitch(
        {
            name: partial(make_env, env.model_copy(update={"kwargs": {**env.kwargs, **task.kwargs}}))
            for name, task in curriculum.tasks.items()
        }
    )


def capture(env: AnyEnv) -> dict[str, Any] | None:
    """Like `snapshot.capture`, also for environments with several tasks."""
    return env.capture() if isinstance(env, TaskSwitch) else snapshot.capture(env)


def restore(env: AnyEnv, state: dict[str, Any]) -> None:
    if isinstance(env, TaskSwitch):
        env.restore(state)
    else:
        snapshot.restore(env, state)


def why_not(env: AnyEnv) -> str:
    return env.why_not() if isinstance(env, TaskSwitch) else snapshot.why_not(env)


class TaskSwitch(gymnasium.Env[Any, Any]):
    """One environment per task, created when first played; all must have the spaces of the first."""

    def __init__(self, makers: Mapping[str, Callable[[], AnyEnv]]) -> None:
        self._makers = dict(makers)
        self._envs: dict[str, AnyEnv] = {}
        self._seed: int | None = None
        self._seeded: set[str] = set()  # tasks whose environment was seeded
        self._first = next(iter(self._makers))
        self._playing = self._first
        first = self._env(self._first)
        self._interface: EnvInterface = interface_of(first)
        self.observation_space = first.observation_space
        self.action_space = first.action_space
        self.metadata = first.metadata
        self.render_mode = first.render_mode

    def make_all(self) -> None:
        """Creates all environments now, so that tasks that do not fit are refused before training starts."""
        for name in self._makers:
            self._env(name)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        further = dict(options or {})
        self._playing = further.pop(TASK, self._playing)
        if seed is not None:
            self._seed = seed
            self._seeded.clear()
        env = self._env(self._playing)
        return env.reset(seed=self._fresh_seed(self._playing), options=further or None)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        return self.playing.step(action)

    @property
    def playing(self) -> AnyEnv:
        """The environment of the current task."""
        return self._envs[self._playing]

    def render(self) -> Any:
        return self.playing.render()

    def close(self) -> None:
        for env in self._envs.values():
            env.close()

    def capture(self) -> dict[str, Any] | None:
        """The state of every task's environment and of the switch; None if one of them cannot be captured."""
        states = {name: snapshot.capture(env) for name, env in self._envs.items()}
        if None in states.values():
            return None
        return {"playing": self._playing, "seed": self._seed, "seeded": sorted(self._seeded), "envs": states}

    def why_not(self) -> str:
        reasons = {name: snapshot.why_not(env) for name, env in self._envs.items()}
        return " ".join(f"Task '{name}': {reason}" for name, reason in reasons.items() if reason)

    def restore(self, state: dict[str, Any]) -> None:
        for name, saved in state["envs"].items():
            snapshot.restore(self._env(name), saved)
        self._playing = state["playing"]
        self._seed = state["seed"]
        self._seeded = set(state["seeded"])

    def _fresh_seed(self, name: str) -> int | None:
        """A task's environment is seeded once, when first played; then its own generator continues."""
        if self._seed is None or name in self._seeded:
            return None
        self._seeded.add(name)
        return int(np.random.SeedSequence([self._seed, *name.encode()]).generate_state(1)[0])

    def _env(self, name: str) -> AnyEnv:
        if name not in self._envs:
            env = self._makers[name]()
            if self._envs:
                self._refuse_other_spaces(name, interface_of(env))
            self._envs[name] = env
        return self._envs[name]

    def _refuse_other_spaces(self, name: str, interface: EnvInterface) -> None:
        for what in ("observation_space", "action_space"):
            ours, theirs = getattr(self._interface, what), getattr(interface, what)
            if ours != theirs:
                raise UsageError(
                    f"The tasks '{self._first}' and '{name}' differ in their {what.replace('_', ' ')}: "
                    f"{describe_space(ours)} and {describe_space(theirs)}.",
                    "All tasks of a curriculum must have the same spaces.",
                )
