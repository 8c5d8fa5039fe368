"""Vector environments: each member keeps its number, also in a process of its own, and a stop is seen between steps."""

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
                options.setdefault("context", "fork")  # Python's later ways would have to pickle what we watch with
            first = observer.next_index
            numbered = [_numbered(make, first + place, observer) for place, make in enumerate(env_fns)]
            observer.is_gathering = base.__name__ == "SyncVectorEnv"
            try:
                super().__init__(numbered, *arguments, **options)
            finally:
                observer.is_gathering = False
            observer.next_index = first + len(numbered)

        def reset(self, *arguments: Any, **options: Any) -> Any:
            observer.begins()
            return super().reset(*arguments, **options)

        def step(self, actions: Any) -> Any:
            if observer.warm is not None:
                observer.begins(is_step=True)
            result = step_all(self, actions)
            observer.steps += self.num_envs
            if monotonic() >= observer.due:  # `observer.stepped`, written out
                observer.look()
            return result

        def close(self, **options: Any) -> None:
            if observer.remember is not None and observer.is_owner and not self.closed:
                observer.remember(self)
            super().close(**options)

    Observed.__name__ = base.__name__
    Observed.__qualname__ = base.__qualname__
    return Observed


def _numbered(make: Callable[[], Any], index: int, observer: Observer) -> Callable[[], Any]:
    def make_numbered() -> Any:
        observer.next_index = index
        return make()

    return make_numbered


class SingleEnv:
    def __init__(self, envs: Any) -> None:
        self.env = envs  # under the name by which wrappers are followed inwards
        self.action_space = envs.single_action_space
        self.metadata: dict[str, Any] = dict(envs.metadata or {})

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        observations, infos = self.env.reset(seed=seed)
        return first(observations), infos

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observations, rewards, terminated, truncated, infos = self.env.step(np.asarray(action)[None])
        return first(observations), float(rewards[0]), bool(terminated[0]), bool(truncated[0]), infos

    def render(self) -> Any:
        pictures = self.env.render()
        return pictures[0] if pictures else None

    def close(self) -> None:
        self.env.close()


def first(observations: Any) -> Any:
    """Of [1, …], or of a dictionary of such."""
    if isinstance(observations, dict):
        return {name: first(part) for name, part in observations.items()}
    return observations[0]
