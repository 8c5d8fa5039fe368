"""A wrapper directly around every environment that the script makes: returns and lengths before other wrappers."""

from __future__ import annotations

import inspect
import sys
from time import monotonic
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

if TYPE_CHECKING:
    from collections.abc import Callable

    from .observer import Observer


class Probe(gymnasium.Wrapper):
    """Changes nothing. `step` only appends the reward to a list, because scripts take ten thousand steps a second;
    sums are computed when they are read."""

    def __init__(self, env: Any, observer: Any, index: int) -> None:
        super().__init__(env)
        self._observer = observer
        self._in_vector_env = observer.in_vector_env
        self.index = index
        self._rewards: list[float] = []  # of this episode, not yet in `_total`
        self._reward, self._total, self._length = 0.0, 0.0, 0  # last reward, return and length without `_rewards`
        self._steps_before = 0  # steps before this episode
        self.is_open = False  # reset and not closed: it can be rendered
        self._shortcut: Shortcut | None = None
        self._limit: Any = None
        self._inner: Any = None  # stepped instead of `env`; None: no wrapper can be skipped
        self._resets_inner = False
        observer.add_env(self, getattr(env.spec, "id", ""))

    @property
    def reward(self) -> float:
        """Reward of the last step."""
        return self._rewards[-1] if self._rewards else self._reward

    @property
    def total(self) -> float:
        """Return of the episode so far."""
        self.sum_rewards()
        return self._total

    @property
    def length(self) -> int:
        return self._length + len(self._rewards)

    @property
    def steps(self) -> int:
        """Steps since the environment was made."""
        return self._steps_before + self.length

    def sum_rewards(self) -> None:
        """Adds `_rewards` to the return in double precision. Called regularly, so that the list stays short."""
        if self._rewards:
            self._length += len(self._rewards)
            self._total = sum(self._rewards, self._total)
            self._reward = self._rewards[-1]
            self._rewards.clear()

    def reset(self, **options: Any) -> Any:
        if self._rewards or self._length:
            self._abandon_episode()
        self._reward, self.is_open = 0.0, True
        if self._observer.warm_start is not None:
            self._observer.apply_warm_start()
        if self._resets_inner:
            return self._reset_inner(**options)
        result = self.env.reset(**options)
        self.find_shortcut()
        return result

    def _reset_inner(self, *, seed: Any = None, options: Any = None) -> Any:
        self._limit._elapsed_steps = 0
        return self._inner.reset(seed=seed, options=options)

    def find_shortcut(self) -> None:
        """Finds the wrappers that can be skipped, and gives up a shortcut that is no longer valid."""
        if self._shortcut is None or not self._shortcut.still_holds():
            found = self._shortcut = shortcut(self.env)
            self._limit, self._inner = (None, None) if found is None else (found.limit, found.env)
            self._resets_inner = found is not None and found.is_for_resets

    def _abandon_episode(self) -> None:
        """The episode is reset before its end."""
        self._observer.episode_abandoned(self.total, self.length)
        self._steps_before += self._length
        self._total, self._length = 0.0, 0

    def step(self, action: Any) -> Any:
        inner = self._inner
        if inner is None:
            result = self.env.step(action)
        else:
            observation, reward, terminated, truncated, info = inner.step(action)
            limit = self._limit
            limit._elapsed_steps += 1
            if limit._elapsed_steps >= limit._max_episode_steps:
                truncated = True
            result = observation, reward, terminated, truncated, info
        self._rewards.append(float(result[1]))  # a copy: some environments reuse their reward array
        if result[2] or result[3]:
            self._end(terminated=bool(result[2]))
        elif not self._in_vector_env:
            self._observer.count_steps()
        return result

    def _end(self, *, terminated: bool) -> None:
        """On the hot path of environments with short episodes: few calls."""
        rewards, observer = self._rewards, self._observer
        reward, length = rewards[-1], self._length + len(rewards)
        observer.episode_ended(self.index, sum(rewards, self._total), length, terminated=terminated)
        if not self._in_vector_env:
            observer.count_steps()  # before the episode is cleared: the last frame shows its return
        self._reward, self._total, self._length = reward, 0.0, 0
        self._steps_before += length
        rewards.clear()

    def close(self) -> None:
        self.is_open = False
        self.env.close()


def install(observer: Any, *, is_all: bool = True) -> None:
    """Makes `gymnasium.make` return environments in a Probe that reports to `observer` (or an EpisodeCounter).

    Without `is_all`, environments that the script makes for its own evaluations are left out.
    """
    make = gymnasium.make

    def make_probed(*arguments: Any, **options: Any) -> Any:
        env = make(*arguments, **options)
        return Probe(env, observer, observer.take_index()) if is_all or not is_called_by_evaluation() else env

    _put(make_probed)


def is_called_by_evaluation() -> bool:
    """Whether a function on the stack is named `eval…`, as in the evaluations at the end of CleanRL's scripts."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code.co_name.startswith("eval"):
            return True
    return False


def install_options(**added: Any) -> None:
    """Makes `gymnasium.make` use these options where the script does not set them."""
    make = gymnasium.make

    def make_with(*arguments: Any, **options: Any) -> Any:
        return make(*arguments, **{**added, **options})

    _put(make_with)


def _put(make: Any) -> None:
    gymnasium.make = make
    gymnasium.envs.registration.make = make


KINDS = (OrderEnforcing, PassiveEnvChecker, TimeLimit)
STEPS = {kind: kind.step for kind in KINDS}
RESETS = {kind: kind.reset for kind in KINDS}
FORWARDS_SEEDS = "seed" in inspect.signature(TimeLimit.reset).parameters  # False in Gymnasium 0.29


class Shortcut:
    """Wrappers of Gymnasium that only forward calls, and the environment to step instead."""

    def __init__(self, links: list[tuple[Any, Any]]) -> None:
        """`links`: every skipped wrapper, from the outermost on, and the environment inside it."""
        self.limit = links[0][0]  # the TimeLimit, whose step count is maintained
        self.env = links[-1][1]  # the environment to step
        self._is_whole = type(self.env) not in KINDS  # False while a checking wrapper still has checks to do
        self._links = links

    @property
    def is_for_resets(self) -> bool:
        return self._is_whole and FORWARDS_SEEDS

    def still_holds(self) -> bool:
        """Whether the script has changed none of these wrappers since, and no check is outstanding."""
        links = self._links
        return self._is_whole and all(wrapper.env is inner and _is_as_made(wrapper) for wrapper, inner in links)


def shortcut(env: Any) -> Shortcut | None:
    """The shortcut through an environment that was reset; None if no wrapper can be skipped."""
    if not (type(env) is TimeLimit and _is_as_made(env) and isinstance(getattr(env, "_elapsed_steps", None), int)):
        return None
    inner: Any = env.env
    links = [(env, inner)]
    while _only_forwards(inner):
        links.append((inner, inner.env))
        inner = inner.env
    return Shortcut(links) if len(links) > 1 else None


def _only_forwards(wrapper: Any) -> bool:
    if type(wrapper) is OrderEnforcing:
        return wrapper.has_reset and _is_as_made(wrapper)
    if type(wrapper) is PassiveEnvChecker:
        is_done = wrapper.checked_step and vars(wrapper).get("checked_data_reuse", True)  # absent in Gymnasium 0.29
        return is_done and wrapper.checked_reset and _is_as_made(wrapper)
    return False


def _is_as_made(wrapper: Any) -> bool:
    """Whether `step` and `reset` are those of Gymnasium, not replaced by the script."""
    kind = type(wrapper)
    return _unbound(wrapper.step) is STEPS[kind] and _unbound(wrapper.reset) is RESETS[kind]


def _unbound(method: Any) -> Any:
    """Without `vars(wrapper)`: creating an object's `__dict__` would slow down all its attributes."""
    return getattr(method, "__func__", None)


NAMES = ("SyncVectorEnv", "AsyncVectorEnv")


def install_vector_probes(observer: Observer) -> None:
    for name in NAMES:
        setattr(gymnasium.vector, name, observed(getattr(gymnasium.vector, name), observer))


def observed(base: Any, observer: Observer) -> Any:
    step_all = base.step

    class Observed(base):  # type: ignore[misc]  # the class is only known now
        def __init__(self, env_fns: Any, *arguments: Any, **options: Any) -> None:
            if base.__name__ == "AsyncVectorEnv" and not arguments and sys.platform.startswith("linux"):
                options.setdefault("context", "fork")  # other start methods would have to pickle the probes
            first = observer.next_index
            indexed = [_with_index(make, first + offset, observer) for offset, make in enumerate(env_fns)]
            observer.in_vector_env = base.__name__ == "SyncVectorEnv"
            try:
                super().__init__(indexed, *arguments, **options)
            finally:
                observer.in_vector_env = False
            observer.next_index = first + len(indexed)

        def reset(self, *arguments: Any, **options: Any) -> Any:
            observer.apply_warm_start()
            return super().reset(*arguments, **options)

        def step(self, actions: Any) -> Any:
            if observer.warm_start is not None:
                observer.apply_warm_start(is_step=True)
            result = step_all(self, actions)
            observer.steps += self.num_envs
            if monotonic() >= observer.next_check:  # `observer.count_steps` inlined: this is a hot path
                observer.check()
            return result

        def close(self, **options: Any) -> None:
            if observer.collect_statistics is not None and observer.is_main_process and not self.closed:
                observer.collect_statistics(self)
            super().close(**options)

    Observed.__name__ = base.__name__
    Observed.__qualname__ = base.__qualname__
    return Observed


def _with_index(make: Callable[[], Any], index: int, observer: Observer) -> Callable[[], Any]:
    def make_with_index() -> Any:
        observer.next_index = index
        return make()

    return make_with_index


class SingleEnv:
    """A vector environment of one as a single environment."""

    def __init__(self, envs: Any) -> None:
        self.env = envs  # named like the attribute of a wrapper: `unwrapped` follows it
        self.action_space = envs.single_action_space
        self.metadata: dict[str, Any] = dict(envs.metadata or {})

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        observations, infos = self.env.reset(seed=seed)
        return first(observations), infos

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observations, rewards, terminated, truncated, infos = self.env.step(np.asarray(action)[None])
        return first(observations), float(rewards[0]), bool(terminated[0]), bool(truncated[0]), infos

    def render(self) -> Any:
        frames = self.env.render()
        return frames[0] if frames else None

    def close(self) -> None:
        self.env.close()


def first(observations: Any) -> Any:
    """The first row of an array, or of each array of a dictionary."""
    if isinstance(observations, dict):
        return {name: first(part) for name, part in observations.items()}
    return observations[0]
