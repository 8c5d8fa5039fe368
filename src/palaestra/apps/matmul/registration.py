"""Makes the environments of this app known to Gymnasium when imported; the rest waits until used."""

from __future__ import annotations

import gymnasium

ENTRIES = {
    "palaestra/TensorGame-v0": "palaestra.apps.matmul.agent.tensor_game:TensorGameEnv",
    "palaestra/FlipGraph-v0": "palaestra.apps.matmul.search.flip_graph_env:FlipGraphEnv",
}


def register() -> None:
    """Once; importing this module twice under two names must not warn."""
    for name, entry in ENTRIES.items():
        if name not in gymnasium.registry:
            gymnasium.register(name, entry_point=entry)


register()
