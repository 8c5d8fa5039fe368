"""A probe around every environment that the script makes: returns and lengths, whatever wrappers come on top."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium

if TYPE_CHECKING:
    from .observer import Observer


class Probe(gymnasium.Wrapper):
    """Hands everything through as it is."""

    def __init__(self, env: Any, observer: Observer, index: int) -> None:
        super().__init__(env)
        self._observer = observer
        self._index = index
        self._total = 0.0
        self._length = 0

    def reset(self, **options: Any) -> Any:
        self._total, self._length = 0.0, 0
        return self.env.reset(**options)

    def step(self, action: Any) -> Any:
        result = self.env.step(action)
        self._total += float(result[1])
        self._length += 1
        if result[2] or result[3]:
            self._observer.episode_ended(self._index, self._total, self._length, terminated=bool(result[2]))
            self._total, self._length = 0.0, 0
        self._observer.stepped()
        return result


def install(observer: Observer) -> None:
    """From here on `gymnasium.make` gives probed environments."""
    make = gymnasium.make

    def make_probed(*arguments: Any, **options: Any) -> Any:
        return Probe(make(*arguments, **options), observer, observer.take_index())

    gymnasium.make = make_probed
    gymnasium.envs.registration.make = make_probed
