"""Running statistics of observations: found in a script's environments, kept, filled in again, or made to stand still.

Wrappers keep them in `obs_rms`: around one environment, around all of them at once, or in processes of their own.
"""

from __future__ import annotations

import itertools
import sys
import types
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from .weights import Mismatch

if TYPE_CHECKING:
    from collections.abc import Iterator

NORMALISERS = "normalisers"  # before their names in a checkpoint, then the number of the environment or AROUND
AROUND = "vector"  # of a wrapper around all environments at once
FIRST = "0"
ATTRIBUTE = "obs_rms"
PARTS = ("mean", "var", "count")
USUAL_NAMES = ("envs", "env")  # of the global in which scripts keep their environments


def collect(script: dict[str, Any]) -> dict[str, Any]:
    """Normalisation statistics by name, of the environments that the script steps. Empty without normalisation."""
    world = world_of(script)
    found = {} if world is None else statistics_of(world)
    return {
        f"{NORMALISERS}.{name}.{part}": torch.as_tensor(getattr(one, part), dtype=torch.float64)
        for name, one in found.items()
        for part in PARTS
    }


def fill(world: Any, tensors: dict[str, Any]) -> None:
    """Environments beyond those that were saved get the statistics of the first."""
    found = statistics_of(world)
    for name, one in found.items():
        source = name if name == AROUND or f"{NORMALISERS}.{name}.mean" in tensors else FIRST
        if f"{NORMALISERS}.{source}.mean" in tensors:
            _put(one, tensors, source)
    copies = [one for name, one in found.items() if name != AROUND]
    if copies and "parent_pipes" in vars(base_of(world)):
        base_of(world).set_attr(ATTRIBUTE, copies)


def freeze(world: Any, tensors: dict[str, Any]) -> None:
    """As the first environment had them, and from here on they stand still.

    An evaluation without them shows a policy something else than it has learned from.
    """
    for name, one in statistics_of(world).items():
        source = AROUND if name == AROUND else FIRST
        if f"{NORMALISERS}.{source}.mean" not in tensors:
            raise Mismatch(
                "the environments normalise observations, but the checkpoint has no statistics of them: they were in "
                "processes of their own (AsyncVectorEnv), which Gymnasium before 1.0 cannot ask"
            )
        _put(one, tensors, source)
        one.update = lambda _batch: None


def world_of(script: dict[str, Any]) -> Any:
    """What the script steps: its environment, or all of them, with everything around."""
    named = [script[name] for name in USUAL_NAMES if hasattr(script.get(name), "__dict__")]
    others = (value for name, value in script.items() if not name.startswith("_") and _is_stepped(value))
    return next(itertools.chain(named, others), None)


def base_of(world: Any) -> Any:
    """Without what is around it."""
    return list(_layers(world))[-1]


def statistics_of(world: Any) -> dict[str, Any]:
    """By the number of the environment, or AROUND."""
    found: dict[str, Any] = {}
    members = _members(base_of(world))
    own = _down(world)
    if own is not None:
        found[FIRST if members is None else AROUND] = own
    return found if members is None else {**found, **members}


def _members(base: Any) -> dict[str, Any] | None:
    """None when it is a single environment."""
    if "envs" in vars(base):
        each = {str(index): _down(env) for index, env in enumerate(vars(base)["envs"])}
        return {name: one for name, one in each.items() if one is not None}
    if "parent_pipes" in vars(base):
        return {str(index): one for index, one in enumerate(_asked(base))}
    return None


def _asked(vector: Any) -> tuple[Any, ...]:
    """Copies from the processes of the environments; none while they work, or when they are gone."""
    gymnasium: Any = sys.modules["gymnasium"]
    if not hasattr(gymnasium.Env, "has_wrapper_attr"):  # a question that cannot be answered would end them
        return ()
    try:
        return tuple(vector.call(ATTRIBUTE)) if all(vector.call("has_wrapper_attr", ATTRIBUTE)) else ()
    except (gymnasium.error.AlreadyPendingCallError, gymnasium.error.ClosedEnvironmentError, OSError, EOFError):
        return ()


def _down(world: Any) -> Any:
    """Those of the innermost wrapper that has some."""
    found = [vars(layer)[ATTRIBUTE] for layer in _layers(world) if vars(layer).get(ATTRIBUTE) is not None]
    return found[-1] if found else None


def _layers(world: Any) -> Iterator[Any]:
    """From the outermost wrapper inwards."""
    while world is not None and hasattr(world, "__dict__"):
        yield world
        world = vars(world).get("env")


def _is_stepped(value: Any) -> bool:
    is_thing = hasattr(value, "__dict__") and not isinstance(value, (type, types.ModuleType))
    return is_thing and all(hasattr(value, name) for name in ("reset", "step", "action_space"))


def _put(statistics: Any, tensors: dict[str, Any], source: str) -> None:
    for part in PARTS:
        value = tensors[f"{NORMALISERS}.{source}.{part}"].numpy()
        kind = np.asarray(getattr(statistics, part)).dtype
        setattr(statistics, part, float(value) if part == "count" else value.astype(kind))
