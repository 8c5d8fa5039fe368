"""Makes Arena known to Gymnasium when imported, as the entry point `palaestra.envs` does; the rest waits until used."""

from __future__ import annotations

import gymnasium

ID = "palaestra/Arena-v0"


def register() -> None:
    """Once; importing this module twice under two names must not warn."""
    if ID not in gymnasium.registry:
        gymnasium.register(
            ID,
            entry_point="palaestra.apps.arena.env:ArenaEnv",
            vector_entry_point="palaestra.apps.arena.vector:ArenaVectorEnv",
        )


register()
