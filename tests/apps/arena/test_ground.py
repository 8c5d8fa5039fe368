from collections import OrderedDict

import numpy as np
import pytest

from palaestra.apps.arena import ground, palette
from palaestra.apps.arena.ground import ground_picture


def walls_of(*rows):
    return np.array([[sign == "#" for sign in row] for row in rows], np.uint8)


ROOM = walls_of("#####", "#...#", "#.#.#", "#...#", "#####")


@pytest.mark.parametrize("cell", [4, 8, 16, 33])
def test_the_picture_has_so_many_pixels_for_each_cell(cell):
    assert ground_picture(ROOM, cell).shape == (5 * cell, 5 * cell, 3)


@pytest.mark.parametrize("cell", [8, 16, 32])
def test_walls_are_darker_than_the_floor_everywhere(cell):
    light = ground_picture(ROOM, cell).mean(-1)
    of_cells = light.reshape(5, cell, 5, cell).mean((1, 3))
    assert of_cells[ROOM == 1].max() + 40 < of_cells[ROOM == 0].min()


def test_a_wall_shows_its_front_only_where_the_cell_to_the_south_is_open():
    cell = 16
    picture = ground_picture(ROOM, cell).astype(int)
    foot_of_the_pillar = picture[3 * cell - 1, 2 * cell + 8]
    foot_of_the_last_row = picture[5 * cell - 1, 2 * cell + 8]
    np.testing.assert_array_equal(foot_of_the_pillar, palette.WALL_FOOT)
    np.testing.assert_array_equal(foot_of_the_last_row, palette.WALL_TOP)


def test_a_wall_casts_its_shadow_to_the_south_and_east():
    cell = 16
    light = ground_picture(ROOM, cell).mean(-1)
    below, right_of = light[3 * cell + 1, 2 * cell + 8], light[2 * cell + 8, 3 * cell + 1]
    open_sand = light[cell + 12 : 2 * cell - 1, 2 * cell + 2 : 3 * cell - 2].mean()
    assert below + 15 < open_sand
    assert right_of + 15 < open_sand


def test_the_same_map_is_drawn_once_and_cannot_be_painted_over():
    picture = ground_picture(ROOM, 16)
    assert ground_picture(ROOM.copy(), 16) is picture
    with pytest.raises(ValueError, match="read-only"):
        picture[0, 0, 0] = 1


def test_no_more_is_kept_than_fits_and_what_was_used_last_stays(monkeypatch):
    size = 5 * 5 * 16 * 16 * 3
    monkeypatch.setattr(ground, "_drawn", OrderedDict())
    monkeypatch.setattr(ground, "MAX_KEPT", 3 * size)
    maps = []
    for number in range(5):
        walls = ROOM.copy()
        walls[1, 1] = number % 2
        walls[3, 1:4] = [number // 2 % 2, number // 4, 0]
        maps.append(walls)
    pictures = [ground_picture(walls, 16) for walls in maps[:3]]
    assert ground_picture(maps[0], 16) is pictures[0]
    ground_picture(maps[3], 16)
    assert ground_picture(maps[0], 16) is pictures[0]
    assert ground_picture(maps[1], 16) is not pictures[1]
    assert sum(kept.nbytes for kept in ground._drawn.values()) <= 3 * size
