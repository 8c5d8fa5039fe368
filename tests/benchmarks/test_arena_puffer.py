"""PufferLib itself is not installed for tests; our side and the network's equality are what can be seen."""

import arena_puffer
import pytest

from palaestra.config.policy import PolicyConfig
from palaestra.config.recipes.registry import find_recipe
from palaestra.envs.build import make_native_batch
from palaestra.policies.build import build_policy


@pytest.mark.parametrize("memory", [False, True])
def test_our_network_has_as_many_weights_as_theirs(memory):
    cell = "  memory: {type: lstm, source: hidden, size: 128}\n" if memory else ""
    graph = arena_puffer.GRAPH.format(size=128, memory=cell, last="memory" if memory else "hidden")
    batch = make_native_batch(find_recipe(arena_puffer.RECIPE).config.env, 1)
    agent = build_policy(PolicyConfig(graph=graph), batch.interface)
    encoder, heads, lstm = 130 * 128 + 128, 128 * 6 + 6 + 128 + 1, 4 * (128 * 128 * 2 + 2 * 128)
    assert sum(weights.numel() for weights in agent.parameters()) == encoder + heads + (lstm if memory else 0)


def test_a_rate_is_steps_over_time(monkeypatch):
    monkeypatch.setattr(arena_puffer.time, "perf_counter", lambda: 12.0)
    monkeypatch.setattr(arena_puffer.time, "process_time", lambda: 7.0)
    assert arena_puffer.rates(100, wall=2.0, cpu=5.0) == {"wall": 10.0, "cpu": 50.0}
