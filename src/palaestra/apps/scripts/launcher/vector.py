"""Vector environments: each member keeps its number, also in a process of its own, and a stop is seen between steps."""

from __future__ import annotations

import sys
from time import monotonic
from typing import TYPE_CHECKING, Any

import gymnasium

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
