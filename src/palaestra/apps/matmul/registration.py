"""Registers the environments of this app with Gymnasium on import; their modules load on first use."""

from __future__ import annotations

import gymnasium

ENTRIES = {
    "palaestra/TensorGame-v0": "palaestra.apps.matmul.agent.tensor_game:TensorGameEnv",
    "palaestra/FlipGraph-v0": "palaestra.apps.matmul.search.flip_graph_env:FlipGraphEnv",
}


def register() -> None:
    """Registers each environment once, so that importing this module twice does not warn."""
    for name, entry in ENTRIES.items():
        if name not in gymnasium.registry:
            gymnasium.register(name, entry_point=entry)


register()
