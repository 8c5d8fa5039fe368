"""The way past wrappers that only hand through.

`gymnasium.make` puts three wrappers around an environment. Two look at its first steps and from then on only hand
through; the third counts. Going past them, and counting for the third, saves a script more than our probe costs it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

STEPS = {kind: kind.step for kind in (OrderEnforcing, PassiveEnvChecker, TimeLimit)}


class Shortcut(NamedTuple):
    limit: Any  # the TimeLimit, whose count has to go on
    env: Any  # what is to be stepped


def shortcut(env: Any) -> Shortcut | None:
    """Of an environment that was reset; None where every wrapper has something to do, or may have."""
    if not (type(env) is TimeLimit and _is_as_made(env) and isinstance(vars(env).get("_elapsed_steps"), int)):
        return None
    inner: Any = env.env
    while _only_hands_through(inner):
        inner = inner.env
    return None if inner is env.env else Shortcut(env, inner)


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
