import time
from dataclasses import replace

import numpy as np
import pytest

from palaestra.apps.arena.draw import CELL, LARGEST_CELL, SMALLEST_CELL, draw_world, station_state
from palaestra.apps.arena.ground import ground_picture
from palaestra.apps.arena.reference import World
from palaestra.apps.arena.settings import ArenaSettings
from palaestra.apps.arena.tables import COOLING, EXHAUSTED, READY


def test_only_cells_with_a_station_or_an_agent_differ_from_the_ground(episode):
    state = episode.states[40]
    changed = (draw_world(state) != ground_picture(state.walls, CELL)).any(-1)
    of_cells = changed.reshape(state.height, CELL, state.width, CELL).any((1, 3))
    expected = np.zeros_like(of_cells)
    expected[state.stations[:, 0], state.stations[:, 1]] = True
    expected[state.agents[:, 0], state.agents[:, 1]] = True
    np.testing.assert_array_equal(of_cells, expected)


@pytest.mark.parametrize(
    ("size", "cell"), [(None, CELL), (200, 15), (13 * 8, 8), (1, SMALLEST_CELL), (9999, LARGEST_CELL)]
)
def test_the_longer_side_has_at_most_so_many_pixels(episode, size, cell):
    assert draw_world(episode.states[0], size).shape == (11 * cell, 13 * cell, 3)


def test_every_state_of_an_episode_is_a_picture_of_its_own(episode):
    pictures = {draw_world(state, 104).tobytes() for state in episode.states[:20]}
    assert len(pictures) == 20


def test_drawing_changes_nothing_and_gives_the_same_bytes_again(episode, same_state):
    state = episode.states[7]
    before = replace(state, agents=state.agents.copy(), stations=state.stations.copy())
    np.testing.assert_array_equal(draw_world(state), draw_world(state))
    assert same_state(state, before)


def test_a_station_without_stock_is_exhausted_whatever_its_cooldown_says():
    assert station_state(0, -1) == READY
    assert station_state(3, 1) == COOLING
    assert station_state(3, 0) == station_state(0, 0) == EXHAUSTED


def test_a_world_with_no_stations_can_be_drawn(world_of):
    state = world_of("#### #^.# ####").state()
    assert draw_world(state).shape == (3 * CELL, 4 * CELL, 3)


def test_a_frame_takes_a_few_milliseconds_at_most():
    """Measured: 1 ms for 24 agents on a map of 25 x 25 at 16 pixels. The limit leaves room for a busy machine."""
    state = World(ArenaSettings(agents=24, walls=10), 1).state()
    draw_world(state)

    def seconds():
        started = time.perf_counter()
        draw_world(state)
        return time.perf_counter() - started

    assert min(seconds() for _ in range(30)) < 0.01
