import dataclasses
from dataclasses import replace

import numpy as np
import pytest

from palaestra.apps.arena.reference import World
from palaestra.apps.arena.settings import ArenaSettings
from palaestra.apps.arena.state import ENDLESS, MAX_AGENTS, check_shapes, check_size, validate_state
from palaestra.core.errors import DamagedFile


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


def changed(table, row, column, value):
    table = table.copy()
    table[row, column] = value
    return table


def test_every_state_that_the_rules_bring_about_is_possible(episode):
    for state in episode.states:
        assert validate_state(state, "x") is state


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (0, 11, "an agent's y is 11; it must be from 0 to 10"),
        (1, -1, "an agent's x is -1; it must be from 0 to 12"),
        (2, 4, "facing is 4"),
        (3, 256, "frozen is 256"),
        (4, 4, "team is 4"),
        (5, 6, "last action is 6"),
    ],
)
def test_an_impossible_agent_is_refused_with_its_number(episode, column, value, message):
    state = episode.states[3]
    with pytest.raises(DamagedFile, match=f"^The source: .*{message}"):
        validate_state(replace(state, agents=changed(state.agents, 2, column, value)), "The source")


@pytest.mark.parametrize(("column", "value"), [(0, 11), (1, 13), (2, 5), (3, -1), (4, -2)])
def test_an_impossible_station_is_refused(episode, column, value):
    state = episode.states[3]
    with pytest.raises(DamagedFile, match=f"a station's .* is {value};"):
        validate_state(replace(state, stations=changed(state.stations, 0, column, value)), "x")


def test_impossible_times_and_items_are_refused(episode):
    state = episode.states[3]
    for wrong in (
        replace(state, step=151),
        replace(state, step=-1),
        replace(state, max_steps=0),
        replace(state, walls=state.walls * 2),
        replace(state, inventories=changed(state.inventories, 0, 0, 256)),
    ):
        with pytest.raises(DamagedFile):
            validate_state(wrong, "x")


@pytest.mark.parametrize("size", [(0, 5, 1, 1), (5, 129, 1, 1), (5, 5, MAX_AGENTS + 1, 1), (5, 5, 1, 1281)])
def test_sizes_beyond_the_limits_are_refused_before_anything_is_made(size):
    with pytest.raises(DamagedFile, match="it must be from"):
        check_size(*size, "x")


def test_tables_of_another_shape_are_refused():
    good = (np.zeros((2, 5), int), np.zeros((3, 6), int), np.zeros((3, 5), int))
    check_shapes(*good, "x")
    for wrong in (
        (np.zeros((2, 4), int), *good[1:]),
        (good[0], np.zeros(6, int), good[2]),
        (*good[:2], np.zeros((2, 5), int)),
    ):
        with pytest.raises(DamagedFile):
            check_shapes(*wrong, "x")
