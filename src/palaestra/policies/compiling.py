"""torch.compile on request (`policy.compile=true`).

The network is compiled in place, after its weights were loaded: it stays the same module with the same parameter names,
so that what is saved never knows of it. Statistics around the network stay plain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from palaestra.policies.agent import Agent


def compile_network(agent: Agent, backend: str = "inductor") -> None:
    """Both doors of the network: `forward` for updates, `act` for playing. Once; a second call changes nothing."""
    network = agent.network
    if getattr(network, "_compiled_call_impl", None) is not None:
        return
    network.compile(backend=backend)
    setattr(network, "act", torch.compile(network.act, backend=backend))  # noqa: B010  a method, for this one object
