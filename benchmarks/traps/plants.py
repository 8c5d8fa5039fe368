"""All defects of tests/test_traps.py. tests/benchmarks/test_plants.py sees to it that each still fits the source."""

from __future__ import annotations

from traps import actor_critic, files, learning, q_learning, sights, together, words

PLANTS = sorted(
    (
        *learning.PLANTS,
        *together.PLANTS,
        *files.PLANTS,
        *words.PLANTS,
        *sights.PLANTS,
        *q_learning.PLANTS,
        *actor_critic.PLANTS,
    ),
    key=lambda each: each.trap,
)
