import re
from dataclasses import replace

import numpy as np
import pytest

from palaestra.apps.arena.ansi import LEGEND_LINES, world_text

CODES = re.compile(r"\x1b\[[0-9;]*m")

DRAWN = """
#######
#>.M..#
#.#G#A#
#..v.C#
#######
"""


@pytest.fixture
def state(world_of):
    world = world_of(DRAWN, items=({"heart": 2}, {}), teams=2, generator={"stock": 1})
    state = world.state()
    stations = state.stations.copy()
    stations[0, 3] = 4  # the mine cools
    stations[1, 4] = 0  # the generator is used up
    return replace(state, stations=stations)


def test_the_map_is_drawn_sign_by_sign_two_columns_a_cell(state):
    assert world_text(state, color=False).splitlines()[:5] == [
        "##############",
        "##1▶  M-    ##",
        "##  ##Gx##A+##",
        "##    2v  C+##",
        "##############",
    ]


def test_colour_adds_codes_and_changes_no_sign(state):
    plain, colored = world_text(state, color=False), world_text(state, color=True)
    assert [line.rstrip() for line in CODES.sub("", colored).splitlines()] == plain.splitlines()
    assert "\x1b" not in plain
    assert all(line.endswith("\x1b[0m") for line in colored.splitlines()[:5])


def test_a_frozen_agent_and_ones_own_have_signs_of_their_own(state):
    agents = state.agents.copy()
    agents[1, 3] = 5
    text = world_text(replace(state, agents=agents), color=False, own=0)
    assert "2*" in text
    assert "@▶" in text
    assert "@ you" in text


def test_the_legend_names_what_there_is_and_nothing_else(world_of):
    first, second = world_text(world_of("##### #^.A# #####").state(), color=False).splitlines()[-LEGEND_LINES:]
    assert first == "A+ altar"
    assert "1> agent" in second
    assert "2>" not in second


@pytest.mark.parametrize(("columns", "lines"), [(8, 5), (1, 1), (9, 4), (14, 7)])
def test_on_a_small_screen_the_part_around_ones_own_agent_is_observed(state, columns, lines):
    for own in (0, 1):
        shown = world_text(state, color=False, own=own, columns=columns, lines=lines).splitlines()[:-LEGEND_LINES]
        assert any("@" in line for line in shown)
        assert len(shown) <= max(lines - LEGEND_LINES, 1)
        assert all(len(line) <= max(columns, 2) for line in shown)


def test_a_frame_is_small_enough_for_a_slow_line(episode):
    cells = episode.states[0].walls.size
    assert len(world_text(episode.states[30], color=True)) < 25 * cells


def test_a_world_without_stations_has_a_legend(world_of):
    state = world_of("#### #^.# ####").state()
    assert state.stations.shape == (0, 5)
    assert np.array_equal(state.walls[0], [1, 1, 1, 1])
    assert "agent" in world_text(state, color=True)


def test_ones_own_agent_stands_out_in_the_colours_of_its_team_turned_round(state):
    others, own = world_text(state, color=True), world_text(state, color=True, own=0)
    team, white = "47;116;208", "255;253;247"
    assert f"38;2;{white};48;2;{team}m1▶" in others
    assert f"38;2;{team};48;2;{white}m@▶" in own
