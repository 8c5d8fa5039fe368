"""Vector environments whose members keep their index, also in worker processes, and which can stop between steps."""

from __future__ import annotations

import sys
from time import monotonic
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from .observer import Observer

NAMES = ("SyncVectorEnv", "AsyncVectorEnv")


def install(observer: Observer) -> None:
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
