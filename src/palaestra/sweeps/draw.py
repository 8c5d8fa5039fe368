"""Settings that are known before the first trial: every point of a grid, or drawn by a seed."""

from __future__ import annotations

import itertools
import math
import random
from typing import TYPE_CHECKING, Any

from palaestra.config.sweep import DEFAULT_TRIALS, MAX_TRIALS
from palaestra.core.errors import UsageError
from palaestra.sweeps.space import Choices

if TYPE_CHECKING:
    from palaestra.sweeps.space import Parameter

Settings = dict[str, Any]
REDRAWS = 200  # for one that was not drawn before; a space this full is as good as exhausted


def grid_settings(parameters: tuple[Parameter, ...]) -> tuple[Settings, ...]:
    """The last parameter changes fastest."""
    columns = [parameter.points() for parameter in parameters]
    size = math.prod(map(len, columns))
    if size > MAX_TRIALS:
        raise UsageError(f"The grid has {size:,} points; at most {MAX_TRIALS:,} are tried.", "Try method=random.")
    keys = [parameter.key for parameter in parameters]
    return tuple(dict(zip(keys, values, strict=True)) for values in itertools.product(*columns))


def random_settings(parameters: tuple[Parameter, ...], seed: int, count: int | None) -> tuple[Settings, ...]:
    """All different; a longer list begins with the shorter one. Fewer than `count` when there are no more."""
    generator = random.Random(f"palaestra sweep {seed}")  # noqa: S311  reproducible, not secret
    drawn: list[Settings] = []
    seen: set[str] = set()
    wanted = min(DEFAULT_TRIALS if count is None else count, size_of(parameters))
    while len(drawn) < wanted:
        fresh = next(
            (one for one in (_draw(parameters, generator) for _ in range(REDRAWS)) if repr(one) not in seen), None
        )
        if fresh is None:
            break
        seen.add(repr(fresh))
        drawn.append(fresh)
    return tuple(drawn)


def size_of(parameters: tuple[Parameter, ...]) -> float:
    """How many different settings there are; infinite where a number is not whole."""
    return math.prod(
        len(one.values) if isinstance(one, Choices) else one.high - one.low + 1 if one.is_whole else math.inf
        for one in parameters
    )


def _draw(parameters: tuple[Parameter, ...], generator: random.Random) -> Settings:
    return {parameter.key: parameter.at(generator.random()) for parameter in parameters}
