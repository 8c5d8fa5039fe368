"""The way past wrappers that only hand through.

`gymnasium.make` puts three wrappers around an environment. Two look at its first steps and from then on only hand
through; the third counts. Going past them, and counting for the third, saves a script more than our probe costs it.
"""

from __future__ import annotations

from typing import Any

from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

STEPS = {kind: kind.step for kind in (OrderEnforcing, PassiveEnvChecker, TimeLimit)}


class Shortcut:
    def __init__(self, links: list[tuple[Any, Any]]) -> None:
        """`links`: each wrapper that is passed, from the outermost on, and what it is around."""
        self.limit = links[0][0]  # the TimeLimit, whose count has to go on
        self.env = links[-1][1]  # what is to be stepped
        self._links = links
        self._is_whole = type(self.env) not in STEPS  # else a check was not done yet

    def still_holds(self) -> bool:
        """Asked with every reset, so it looks only at what a script may change of these objects."""
        return self._is_whole and all(
            wrapper.env is inner and "step" not in wrapper.__dict__ for wrapper, inner in self._links
        )


def shortcut(env: Any) -> Shortcut | None:
    """Of an environment that was reset; None where every wrapper has something to do, or may have."""
    if not (type(env) is TimeLimit and _is_as_made(env) and isinstance(vars(env).get("_elapsed_steps"), int)):
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
        return is_done and _is_as_made(wrapper)
    return False


def _is_as_made(wrapper: Any) -> bool:
    """The script has put no `step` of its own in the place of Gymnasium's."""
    return type(wrapper).step is STEPS[type(wrapper)] and "step" not in vars(wrapper)
