from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import replace

import numpy as np
import pytest

from palaestra.apps.arena import draw, palette
from palaestra.apps.arena.draw import CELL, LARGEST_CELL, SMALLEST_CELL, draw_world, ground_image, station_state
from palaestra.apps.arena.reference import World
from palaestra.apps.arena.settings import ArenaSettings
from palaestra.apps.arena.tables import COOLING, EXHAUSTED, READY


def test_only_cells_with_a_station_or_an_agent_differ_from_the_ground(episode):
    state = episode.states[40]
    changed = (draw_world(state) != ground_image(state.walls, CELL)).any(-1)
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


def test_every_state_of_an_episode_is_an_image_of_its_own(episode):
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


def walls_of(*rows):
    return np.array([[sign == "#" for sign in row] for row in rows], np.uint8)


ROOM = walls_of("#####", "#...#", "#.#.#", "#...#", "#####")


@pytest.mark.parametrize("cell", [4, 8, 16, 33])
def test_the_image_has_so_many_pixels_for_each_cell(cell):
    assert ground_image(ROOM, cell).shape == (5 * cell, 5 * cell, 3)


@pytest.mark.parametrize("cell", [8, 16, 32])
def test_walls_are_darker_than_the_floor_everywhere(cell):
    light = ground_image(ROOM, cell).mean(-1)
    of_cells = light.reshape(5, cell, 5, cell).mean((1, 3))
    assert of_cells[ROOM == 1].max() + 40 < of_cells[ROOM == 0].min()


def test_a_wall_shows_its_front_only_where_the_cell_to_the_south_is_open():
    cell = 16
    image = ground_image(ROOM, cell).astype(int)
    foot_of_the_pillar = image[3 * cell - 1, 2 * cell + 8]
    foot_of_the_last_row = image[5 * cell - 1, 2 * cell + 8]
    np.testing.assert_array_equal(foot_of_the_pillar, palette.WALL_FOOT)
    np.testing.assert_array_equal(foot_of_the_last_row, palette.WALL_TOP)


def test_a_wall_casts_its_shadow_to_the_south_and_east():
    cell = 16
    light = ground_image(ROOM, cell).mean(-1)
    below, right_of = light[3 * cell + 1, 2 * cell + 8], light[2 * cell + 8, 3 * cell + 1]
    open_sand = light[cell + 12 : 2 * cell - 1, 2 * cell + 2 : 3 * cell - 2].mean()
    assert below + 15 < open_sand
    assert right_of + 15 < open_sand


def test_the_same_map_is_drawn_once_and_cannot_be_painted_over():
    image = ground_image(ROOM, 16)
    assert ground_image(ROOM.copy(), 16) is image
    with pytest.raises(ValueError, match="read-only"):
        image[0, 0, 0] = 1


def test_no_more_is_stored_than_fits_and_what_was_used_last_stays(monkeypatch):
    size = 5 * 5 * 16 * 16 * 3
    monkeypatch.setattr(draw, "_ground_cache", OrderedDict())
    monkeypatch.setattr(draw, "MAX_CACHE_BYTES", 3 * size)
    maps = []
    for number in range(5):
        walls = ROOM.copy()
        walls[1, 1] = number % 2
        walls[3, 1:4] = [number // 2 % 2, number // 4, 0]
        maps.append(walls)
    pictures = [ground_image(walls, 16) for walls in maps[:3]]
    assert ground_image(maps[0], 16) is pictures[0]
    ground_image(maps[3], 16)
    assert ground_image(maps[0], 16) is pictures[0]
    assert ground_image(maps[1], 16) is not pictures[1]
    assert sum(stored.nbytes for stored in draw._ground_cache.values()) <= 3 * size
