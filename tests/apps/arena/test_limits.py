from dataclasses import replace

import numpy as np
import pytest

from palaestra.apps.arena.limits import MAX_AGENTS, check_shapes, check_size, refuse_impossible
from palaestra.core.errors import DamagedFile


def changed(table, row, column, value):
    table = table.copy()
    table[row, column] = value
    return table


def test_every_state_that_the_rules_bring_about_is_possible(episode):
    for state in episode.states:
        assert refuse_impossible(state, "x") is state


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
        refuse_impossible(replace(state, agents=changed(state.agents, 2, column, value)), "The source")


@pytest.mark.parametrize(("column", "value"), [(0, 11), (1, 13), (2, 5), (3, -1), (4, -2)])
def test_an_impossible_station_is_refused(episode, column, value):
    state = episode.states[3]
    with pytest.raises(DamagedFile, match=f"a station's .* is {value};"):
        refuse_impossible(replace(state, stations=changed(state.stations, 0, column, value)), "x")


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
            refuse_impossible(wrong, "x")


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
