"""Registers Arena with Gymnasium when imported (entry point group `palaestra.envs`); imports nothing else of Arena."""

from __future__ import annotations

import gymnasium

ID = "palaestra/Arena-v0"


def register() -> None:
    """Registers the environment unless it is registered already."""
    if ID not in gymnasium.registry:
        gymnasium.register(
            ID,
            entry_point="palaestra.apps.arena.env:ArenaEnv",
            vector_entry_point="palaestra.apps.arena.env:ArenaVectorEnv",
        )


register()
