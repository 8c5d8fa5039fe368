"""Builds PQN, DQN, SAC and TD3 with the configured engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from palaestra.algorithms.base import Algorithm

BUILDERS: dict[str, Callable[..., Algorithm]] = {}  # by `algorithm`
