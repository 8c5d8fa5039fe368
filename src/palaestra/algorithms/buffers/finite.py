"""Refuses observations and rewards that are not finite, and says which environment gave them."""

from __future__ import annotations

from math import isfinite, isnan
from typing import TYPE_CHECKING

import numpy as np

from palaestra.core.errors import NonFinite

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

LARGEST = float(np.finfo(np.float32).max)
ENV_HINT = (
    "It comes from the environment, not from training: check its step and reset, or run palaestra.testing.check_env on "
    "it."
)


def refuse_non_finite(observations: Mapping[str, NDArray[np.generic]], rewards: NDArray[np.float32], span: str) -> None:
    """`observations`: parts by name, [T, B, …] each; `rewards` [T, B]; `span`: what the steps are counted from.

    Observations come first, because actions and rewards follow from them.
    """
    for name, block in observations.items():
        if block.dtype == np.float32 and not is_finite(block):
            label = f"observation '{name}'" if name else "observation"
            raise NonFinite(f"An environment gave an {label} that is not finite ({_where(block, span)}).", ENV_HINT)
    if not is_finite(rewards):
        raise NonFinite(f"An environment gave a reward that is not finite ({_where(rewards, span)}).", ENV_HINT)


def refuse_non_finite_ends(stacked: NDArray[np.generic], env_indices: Sequence[int]) -> None:
    """Last observations [K, …] of episodes that a time limit cut: they are stored separately and valued."""
    if is_finite(stacked):
        return
    row, *component = np.argwhere(~np.isfinite(stacked))[0].tolist()
    what = _what(stacked[row, *component])
    raise NonFinite(
        f"Environment {env_indices[row]} ended an episode with an observation that is not finite ({what}).", ENV_HINT
    )


def is_finite(block: NDArray[np.generic]) -> bool:
    """A sum is finite only if everything is, and faster than checking each; if it overflows, each is checked."""
    with np.errstate(over="ignore", invalid="ignore"):
        sum_is_finite = isfinite(np.add.reduce(block, axis=None))
    return sum_is_finite or bool(np.isfinite(block).all())


def _where(array: NDArray[np.generic], span: str) -> str:
    """Where the first number in [T, B, …] is that is not finite, and what it is."""
    step, env_index, *component = np.argwhere(~np.isfinite(array))[0].tolist()
    part = f", component {component if len(component) > 1 else component[0]}" if component else ""
    what = _what(array[step, env_index, *component])
    return f"environment {env_index}, step {step} of this {span}{part}: {what}"


def _what(number: float) -> str:
    return "NaN" if isnan(number) else f"infinite, or beyond float32's {LARGEST:.1e}"
