"""The way past wrappers that only hand through.

`gymnasium.make` puts three wrappers around an environment. Two look at its first steps and from then on only hand
through; the third counts. Going past them, and counting for the third, saves a script more than our probe costs it.
"""

from __future__ import annotations

import inspect
from typing import Any

from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

KINDS = (OrderEnforcing, PassiveEnvChecker, TimeLimit)
STEPS = {kind: kind.step for kind in KINDS}
RESETS = {kind: kind.reset for kind in KINDS}
HANDS_ON_SEEDS = "seed" in inspect.signature(TimeLimit.reset).parameters  # always, also None; not so in Gymnasium 0.29


class Shortcut:
    def __init__(self, links: list[tuple[Any, Any]]) -> None:
        """`links`: each wrapper that is passed, from the outermost on, and what it is around."""
        self.limit = links[0][0]  # the TimeLimit, whose count has to go on
        self.env = links[-1][1]  # what is to be stepped
        self._is_whole = type(self.env) not in KINDS  # else a check was not done yet
        self._links = links

    @property
    def is_for_resets(self) -> bool:
        return self._is_whole and HANDS_ON_SEEDS

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
    while _only_hands_through(inner):
        links.append((inner, inner.env))
        inner = inner.env
    return Shortcut(links) if len(links) > 1 else None


def _only_hands_through(wrapper: Any) -> bool:
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
