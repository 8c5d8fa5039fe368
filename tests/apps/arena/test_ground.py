import numpy as np
import pytest

from palaestra.apps.arena import palette
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
