"""A probe around every environment that the script makes: returns and lengths, whatever wrappers come on top."""

from __future__ import annotations

import inspect
import sys
from typing import Any

import gymnasium
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit


class Probe(gymnasium.Wrapper):
    """Hands everything through as it is. A step must cost next to nothing: scripts take ten thousand a second. So it
    only puts the reward aside, and whoever wants to know a sum adds up."""

    def __init__(self, env: Any, observer: Any, index: int) -> None:
        super().__init__(env)
        self._observer = observer
        self._is_counted_by_others = observer.is_gathering
        self.index = index
        self._rewards: list[float] = []  # since it was added up
        self._reward, self._total, self._length = 0.0, 0.0, 0  # the last one then, and of this episode until then
        self._steps_before = 0  # this episode
        self.is_open = False  # was reset and not closed: it can be drawn
        self._shortcut: Shortcut | None = None
        self._limit: Any = None
        self._inner: Any = None  # to be stepped instead of `env`; None: there is no way past any wrapper
        self._resets_inner = False
        observer.made(self, getattr(env.spec, "id", ""))

    @property
    def reward(self) -> float:
        """Of the last step."""
        return self._rewards[-1] if self._rewards else self._reward

    @property
    def total(self) -> float:
        """Of the episode so far."""
        self.add_up()
        return self._total

    @property
    def length(self) -> int:
        return self._length + len(self._rewards)

    @property
    def steps(self) -> int:
        """Since it was made."""
        return self._steps_before + self.length

    def add_up(self) -> None:
        """Often enough that an episode without end takes no room. In double precision: a sum of single-precision
        rewards would lose what is small."""
        if self._rewards:
            self._length += len(self._rewards)
            self._total = sum(self._rewards, self._total)
            self._reward = self._rewards[-1]
            self._rewards.clear()

    def reset(self, **options: Any) -> Any:
        if self._rewards or self._length:
            self._leave()
        self._reward, self.is_open = 0.0, True
        if self._observer.warm is not None:
            self._observer.begins()
        if self._resets_inner:
            return self._reset_inner(**options)
        result = self.env.reset(**options)
        self.look_for_shortcut()
        return result

    def _reset_inner(self, *, seed: Any = None, options: Any = None) -> Any:
        self._limit._elapsed_steps = 0
        return self._inner.reset(seed=seed, options=options)

    def look_for_shortcut(self) -> None:
        """Also whether the one that is there still holds."""
        if self._shortcut is None or not self._shortcut.still_holds():
            found = self._shortcut = shortcut(self.env)
            self._limit, self._inner = (None, None) if found is None else (found.limit, found.env)
            self._resets_inner = found is not None and found.is_for_resets

    def _leave(self) -> None:
        """An episode before its end."""
        self._observer.episode_left(self.total, self.length)
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
        self._rewards.append(float(result[1]))  # its value now: some environments give the same array again and again
        if result[2] or result[3]:
            self._end(terminated=bool(result[2]))
        elif not self._is_counted_by_others:
            self._observer.stepped()
        return result

    def _end(self, *, terminated: bool) -> None:
        """Few calls: after a network's turn nothing of ours is in the processor's caches any more."""
        rewards, observer = self._rewards, self._observer
        reward, length = rewards[-1], self._length + len(rewards)
        observer.episode_ended(self.index, sum(rewards, self._total), length, terminated=terminated)
        if not self._is_counted_by_others:
            observer.stepped()  # before it is forgotten: the last picture shows what came of it
        self._reward, self._total, self._length = reward, 0.0, 0
        self._steps_before += length
        rewards.clear()

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


KINDS = (OrderEnforcing, PassiveEnvChecker, TimeLimit)
STEPS = {kind: kind.step for kind in KINDS}
RESETS = {kind: kind.reset for kind in KINDS}
FORWARDS_SEEDS = "seed" in inspect.signature(TimeLimit.reset).parameters  # always, also None; not so in Gymnasium 0.29


class Shortcut:
    def __init__(self, links: list[tuple[Any, Any]]) -> None:
        """`links`: each wrapper that is passed, from the outermost on, and what it is around."""
        self.limit = links[0][0]  # the TimeLimit, whose count has to go on
        self.env = links[-1][1]  # what is to be stepped
        self._is_whole = type(self.env) not in KINDS  # else a check was not done yet
        self._links = links

    @property
    def is_for_resets(self) -> bool:
        return self._is_whole and FORWARDS_SEEDS

    def still_holds(self) -> bool:
        """Nothing of what a script may change of these objects was changed, and every check is done."""
        links = self._links
        return self._is_whole and all(wrapper.env is inner and _is_as_made(wrapper) for wrapper, inner in links)


def shortcut(env: Any) -> Shortcut | None:
    """Of an environment that was reset; None where every wrapper has something to do, or may have."""
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
        is_done = wrapper.checked_step and vars(wrapper).get("checked_data_reuse", True)  # unknown to Gymnasium 0.29
        return is_done and wrapper.checked_reset and _is_as_made(wrapper)
    return False


def _is_as_made(wrapper: Any) -> bool:
    """The script has put no `step` or `reset` of its own in the place of Gymnasium's."""
    kind = type(wrapper)
    return _function(wrapper.step) is STEPS[kind] and _function(wrapper.reset) is RESETS[kind]


def _function(method: Any) -> Any:
    """Found this way, an object's `__dict__` need not be made, which would slow down all its attributes."""
    return getattr(method, "__func__", None)
