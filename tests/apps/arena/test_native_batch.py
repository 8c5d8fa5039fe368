"""The compiled worlds against the slow ones in Python: two writings of one text, which must agree in every bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palaestra.apps.arena.observe import observation_specs
from palaestra.apps.arena.reference_batch import ReferenceBatch
from palaestra.apps.arena.settings import ArenaSettings
from palaestra.apps.arena.tables import ACTIONS, ITEMS

pytest.importorskip("palaestra.apps.arena.core", reason="no compiler has been here")
from palaestra.apps.arena.native_batch import NativeBatch

WORLDS = 2


def room_for(arena, world_count):
    specs, rows = observation_specs(arena), world_count * arena.agents
    if isinstance(specs, dict):
        return {name: np.full((rows, *spec.shape), 77, spec.dtype) for name, spec in specs.items()}
    return np.full((rows, *specs.shape), 77, specs.dtype)


def are_equal(ours, theirs):
    """In type, shape and every bit."""
    if isinstance(ours, dict):
        return ours.keys() == theirs.keys() and all(are_equal(ours[name], theirs[name]) for name in ours)
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(map(are_equal, ours, theirs))
    if isinstance(ours, np.ndarray):
        return (ours.dtype, ours.shape, ours.tobytes()) == (theirs.dtype, theirs.shape, theirs.tobytes())
    return ours == theirs


stations = st.builds(
    dict,
    count=st.integers(0, 3),
    cost=st.integers(0, 2),
    cooldown=st.sampled_from([0, 1, 3, 255]),
    stock=st.sampled_from([None, 1, 2, 65_535]),
)
views = st.sampled_from([(view, sight) for view in range(3, 16, 2) for sight in (None, 1, view // 2)])


@st.composite
def arenas(draw):
    """Small and crowded, so that everything happens to everybody."""
    view, sight = draw(views)
    limit = draw(st.sampled_from([1, 4, 255]))
    items = st.dictionaries(st.sampled_from(ITEMS), st.integers(0, min(limit, 5)))
    return ArenaSettings(
        agents=draw(st.integers(1, 9)),
        teams=draw(st.integers(1, 4)),
        team_share=draw(st.sampled_from([0.0, 0.3, 1.0])),
        width=draw(st.integers(11, 20)),
        height=draw(st.integers(11, 20)),
        room=draw(st.sampled_from([0, 1, 2, 3, 5])),
        walls=draw(st.sampled_from([0, 3, 20, 200])),
        **{name: draw(stations) for name in ("mine", "generator", "altar", "armoury", "charger")},
        inventory=draw(items),
        limit=limit,
        rewards=draw(st.dictionaries(st.sampled_from(ITEMS), st.floats(-3, 3))),
        reward_caps=draw(st.dictionaries(st.sampled_from(ITEMS), st.integers(0, 3))),
        combat=draw(st.booleans()),
        reach=draw(st.integers(1, 15)),
        freeze=draw(st.sampled_from([1, 2, 8, 255])),
        steal=draw(st.sampled_from([0, 1, 2, 9])),
        observation=draw(st.sampled_from(["bytes", "tokens", "box"])),
        view=view,
        sight=sight,
        show_state=draw(st.booleans()),
        tokens=draw(st.sampled_from([16, 40, 96, 255])),
        max_steps=draw(st.sampled_from([1, 7, 30])),
    )


class Pair:
    """The same worlds twice, with the same seeds and actions."""

    def __init__(self, arena, seed, threads=1):
        self.batches = [NativeBatch([arena], WORLDS, threads), ReferenceBatch([arena], WORLDS)]
        self.seen = [room_for(arena, WORLDS) for _ in self.batches]
        self.rewards = [np.full(WORLDS * arena.agents, np.nan, np.float32) for _ in self.batches]
        self.generator = np.random.default_rng(seed)
        self.begin(list(range(WORLDS)))

    def begin(self, worlds):
        seeds = self.generator.integers(0, 2**64, len(worlds), dtype=np.uint64).tolist()
        for batch, seen in zip(self.batches, self.seen, strict=True):
            batch.reset(worlds, seeds, [0] * len(worlds), seen)

    def step(self):
        actions = self.generator.integers(0, len(ACTIONS), self.rewards[0].size)
        cut, also_cut = (
            batch.step(actions, seen, rewards)
            for batch, seen, rewards in zip(self.batches, self.seen, self.rewards, strict=True)
        )
        assert cut == also_cut
        return cut

    def compare(self):
        ours, theirs = self.batches
        assert are_equal(*self.seen)
        assert are_equal(*self.rewards)
        assert are_equal(ours.capture(), theirs.capture())  # states, counters, returns, accounts and dice


def play_and_compare(arena, seed, steps):
    pair = Pair(arena, seed)
    pair.compare()
    for _ in range(steps):
        cut = pair.step()
        pair.compare()
        pair.batches[0].check()
        if cut:
            pair.begin(cut)
            pair.compare()


@settings(max_examples=20, deadline=None)
@given(arenas(), st.integers(0, 2**32))
def test_every_step_is_that_of_the_reference(arena, seed):
    play_and_compare(arena, seed, steps=20)
