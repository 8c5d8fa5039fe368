import dataclasses

import pytest

from palaestra.apps.arena.reference import World
from palaestra.apps.arena.settings import ArenaSettings
from palaestra.apps.arena.state import ENDLESS


def test_height_is_rows_and_width_is_columns():
    state = World(ArenaSettings(width=30, height=20), 1).state()
    assert (state.height, state.width) == (20, 30)
    assert state.walls.shape == (20, 30)


def test_a_stock_that_never_ends_is_none_that_can_be_reached():
    assert ENDLESS < 0


def test_an_instant_is_not_changed_by_the_world_going_on():
    world = World(ArenaSettings(agents=4), 1)
    state = world.state()
    before = {field.name: str(getattr(state, field.name)) for field in dataclasses.fields(state)}
    for _ in range(20):
        world.step([1, 2, 3, 4])
    assert {name: str(getattr(state, name)) for name in before} == before


def test_an_instant_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        World(ArenaSettings(), 1).state().step = 3
