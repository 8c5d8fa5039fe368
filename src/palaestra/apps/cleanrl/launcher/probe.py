"""A probe around every environment that the script makes: returns and lengths, whatever wrappers come on top."""

from __future__ import annotations

import sys
from typing import Any

import gymnasium


class Probe(gymnasium.Wrapper):
    """Hands everything through as it is."""

    def __init__(self, env: Any, observer: Any, index: int) -> None:
        super().__init__(env)
        self._observer = observer
        self.index = index
        self.reward = 0.0  # of the last step
        self.total = 0.0  # of the episode so far
        self.length = 0
        self.steps = 0  # since it was made
        self.is_open = False  # was reset and not closed: it can be drawn
        observer.made(self, getattr(env.spec, "id", ""))

    def reset(self, **options: Any) -> Any:
        if self.length:
            self._observer.episode_left(self.total, self.length)
        self.reward, self.total, self.length, self.is_open = 0.0, 0.0, 0, True
        self._observer.begins()
        return self.env.reset(**options)

    def step(self, action: Any) -> Any:
        result = self.env.step(action)
        self.reward = float(result[1])
        self.total += self.reward
        self.length += 1
        self.steps += 1
        if result[2] or result[3]:
            self._observer.episode_ended(self.index, self.total, self.length, terminated=bool(result[2]))
            self._observer.stepped()
            self.total, self.length = 0.0, 0
        else:
            self._observer.stepped()
        return result

    def close(self) -> None:
        self.is_open = False
        self.env.close()


def install(observer: Any, *, is_all: bool = True) -> None:
    """From here on `gymnasium.make` gives probed environments, and `observer` (or a referee) hears of them.

    Unless it `is_all`, what the script makes to judge itself is left out: those are no episodes of its training.
    """
    make = gymnasium.make

    def make_probed(*arguments: Any, **options: Any) -> Any:
        env = make(*arguments, **options)
        return Probe(env, observer, observer.take_index()) if is_all or not is_judging() else env

    _put(make_probed)


def is_judging() -> bool:
    """Whether somebody who calls us is a function that evaluates, by its name, as CleanRL's scripts do at their end."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code.co_name.startswith("eval"):
            return True
    return False


def install_options(**added: Any) -> None:
    """From here on environments are made with these, unless the script says otherwise."""
    make = gymnasium.make

    def make_with(*arguments: Any, **options: Any) -> Any:
        return make(*arguments, **{**added, **options})

    _put(make_with)


def _put(make: Any) -> None:
    gymnasium.make = make
    gymnasium.envs.registration.make = make
