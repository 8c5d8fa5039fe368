"""Maps are judged by walking on them, and each rule of building by dice that show what the test wants."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from palaestra.apps.arena import maps
from palaestra.apps.arena.maps import WorldRng, generate_map
from palaestra.apps.arena.settings import ArenaSettings
from palaestra.apps.arena.tables import STATIONS

NO_STATIONS = {name: {"count": 0} for name in STATIONS}


class LoadedDice:
    """Shows the given numbers in turn, and remembers how many faces were asked for."""

    def __init__(self, *numbers):
        self.numbers, self.asked = list(numbers), []

    def below(self, count):
        self.asked.append(count)
        number = self.numbers.pop(0)
        assert number < count
        return number


def image(drawn):
    signs = np.where(drawn.walls, "#", ".")
    for y, x, kind in drawn.stations:
        signs[y, x] = "MGAUC"[kind]
    return ["".join(row) for row in signs]


def walk_everywhere(start, free):
    reached, border = {start}, {start}
    while border:
        border = {(y + dy, x + dx) for y, x in border for dy, dx in ((0, 1), (1, 0), (0, -1), (-1, 0))}
        border = (border & free) - reached
        reached |= border
    return reached


@st.composite
def any_settings(draw):
    width, height = draw(st.integers(5, 24)), draw(st.integers(5, 24))
    left = (width - 2) * (height - 2)
    agents = draw(st.integers(1, min(12, left)))
    left -= agents
    stations = {}
    for name in STATIONS:
        stations[name] = {"count": draw(st.integers(0, min(left // 4, 12)))}
        left -= 4 * stations[name]["count"]
    room, walls = draw(st.integers(0, 8)), draw(st.integers(0, 60))
    return ArenaSettings(width=width, height=height, agents=agents, room=room, walls=walls, **stations)


@examples(max_examples=60, deadline=None)
@given(any_settings(), st.integers(0, 2**64 - 1))
def test_all_floor_is_connected_and_every_station_can_be_reached(settings, seed):
    drawn = generate_map(settings, WorldRng(seed))
    free = set(drawn.floor)
    assert walk_everywhere(drawn.floor[0], free) == free
    for y, x, _ in drawn.stations:
        assert free & {(y, x + 1), (y + 1, x), (y, x - 1), (y - 1, x)}


@examples(max_examples=40, deadline=None)
@given(any_settings(), st.integers(0, 2**64 - 1))
def test_a_map_has_what_was_requested_and_every_cell_is_one_thing(settings, seed):
    drawn = generate_map(settings, WorldRng(seed))
    kinds = [kind for _, _, kind in drawn.stations]
    assert kinds == [kind for kind, station in enumerate(settings.stations) for _ in range(station.count)]
    walls = [(y, x) for y, x in np.argwhere(drawn.walls).tolist()]
    stations = [(y, x) for y, x, _ in drawn.stations]
    cells = sorted(walls + stations + list(drawn.floor))
    assert cells == [(y, x) for y in range(settings.height) for x in range(settings.width)]
    assert list(drawn.floor) == sorted(drawn.floor)
    assert len(drawn.floor) >= settings.agents
    assert drawn.walls[[0, -1]].all()
    assert drawn.walls[:, [0, -1]].all()


def test_the_same_seed_draws_the_same_map_and_another_seed_another():
    settings = ArenaSettings(room=5, walls=20)
    first, again, other = (generate_map(settings, WorldRng(seed)) for seed in (1, 1, 2))
    assert image(first) == image(again) != image(other)


def test_rooms_have_a_door_to_the_east_and_to_the_south_in_the_order_of_rooms():
    settings = ArenaSettings(width=9, height=8, room=3, **NO_STATIONS)
    rng = LoadedDice(2, 0, 1, 1)
    assert image(generate_map(settings, rng)) == [
        "#########",
        "#...#...#",
        "#...#...#",
        "#.......#",
        "#.####.##",
        "#...#...#",
        "#.......#",
        "#########",
    ]
    assert rng.asked == [3, 3, 3, 2]  # east and south of room 0, south of room 1, east of room 2, which is 2 high


def test_a_room_that_would_be_empty_does_not_exist():
    settings = ArenaSettings(width=6, height=5, room=3, **NO_STATIONS)
    rng = LoadedDice()
    assert image(generate_map(settings, rng)) == ["######", "#...##", "#...##", "#...##", "######"]


def test_a_piece_of_wall_goes_east_or_south_and_ends_at_the_outer_ring():
    settings = ArenaSettings(width=8, height=7, walls=2, **NO_STATIONS)
    rng = LoadedDice(1, 1, 0, 0, 2, 4, 1, 3)  # y, x, direction, length; of two cells, and of five
    assert image(generate_map(settings, rng)) == [
        "########",
        "#......#",
        "#.##...#",
        "#....#.#",
        "#....#.#",
        "#....#.#",
        "########",
    ]
    assert rng.asked == [5, 6, 2, 4] * 2


def test_only_the_largest_area_stays():
    settings = ArenaSettings(width=7, height=7, walls=2, **NO_STATIONS)
    across_and_one_more = LoadedDice(2, 0, 0, 3, 1, 0, 0, 0)
    drawn = image(generate_map(settings, across_and_one_more))
    assert drawn == ["#######", "#######", "#######", "#######", "#.....#", "#.....#", "#######"]


def test_of_equal_areas_the_first_stays():
    settings = ArenaSettings(width=7, height=7, walls=1, **NO_STATIONS)
    across = LoadedDice(2, 0, 0, 3)
    drawn = image(generate_map(settings, across))
    assert drawn == ["#######", "#.....#", "#.....#", "#######", "#######", "#######", "#######"]


def test_a_map_that_is_too_full_of_walls_is_drawn_again_with_half_of_them():
    """Two pieces cut off the bottom row of a 3 x 3 map on which 7 cells are wanted; then one, of three cells."""
    settings = ArenaSettings(width=5, height=5, walls=2, agents=7, **NO_STATIONS)
    rng = LoadedDice(1, 0, 0, 1, 1, 0, 0, 1, 0, 0, 0, 0)
    assert image(generate_map(settings, rng)) == ["#####", "###.#", "#...#", "#...#", "#####"]
    assert len(rng.asked) == 12


def test_rooms_are_tried_once():
    """Rooms of one cell on a 5 x 5 map leave 4 cells and 4 doors; 9 agents want them all."""
    settings = ArenaSettings(width=5, height=5, room=1, agents=9, **NO_STATIONS)
    assert image(generate_map(settings, LoadedDice(0, 0, 0, 0))) == ["#####", "#...#", "#...#", "#...#", "#####"]


def test_a_station_goes_to_the_first_cell_from_the_entry_on_that_closes_no_way():
    """A way of one cell's width: only its ends can be closed, and the search goes around the end of the list."""
    walls = np.array([[sign == "#" for sign in row] for row in ("#######", "#.....#", "#######")], np.uint8)
    floor = maps._largest_area(walls)
    settings = ArenaSettings(**NO_STATIONS | {"altar": {"count": 2}})
    stations = maps._spawn_stations(settings, floor, LoadedDice(1, 3))
    assert stations == [
        (1, 5, 2),
        (1, 1, 2),
    ]  # from (1, 2) on to the east end; from (1, 5), gone, around to the west end
    assert floor == [(1, 2), (1, 3), (1, 4)]


def test_no_station_is_buried_behind_another():
    floor = [(1, 1), (1, 2), (1, 3)]
    settings = ArenaSettings(**NO_STATIONS | {"mine": {"count": 1}, "charger": {"count": 1}})
    assert maps._spawn_stations(settings, floor, LoadedDice(0, 0)) == [(1, 1, 0), (1, 3, 4)]


def test_stations_that_find_no_place_are_placed_anew():
    """Around a station in the middle of a 3 x 3 map there is a ring, which every further one would cut."""
    settings = ArenaSettings(width=5, height=5, **NO_STATIONS | {"mine": {"count": 2}})
    rng = LoadedDice(4, 0, 0, 0)
    assert image(generate_map(settings, rng)) == ["#####", "#MM.#", "#...#", "#...#", "#####"]
    assert rng.asked == [9, 8, 9, 8]


@pytest.mark.parametrize(
    ("around", "can_be_closed"),
    [
        ("... .x. ...", True),  # open ground
        ("### #x# ###", False),  # nobody could reach it
        ("### #x. ###", True),  # a dead end
        ("### .x. ###", False),  # a way
        (".## .x. ###", False),
        ("... .x. ###", True),  # around it to the north
        ("#.# #x. ###", False),  # a bend
        ("#.. #x. ###", True),  # a bend with a corner to cut
        ("..# .x# ...", True),  # the run begins before the north and ends after it
        (".#. #x# .#.", False),  # diagonals are no ways
        (".#. .x. ...", True),
        ("#.# .x. #.#", False),
    ],
)
def test_a_cell_can_be_closed_when_its_neighbours_stay_connected_around_it(around, can_be_closed):
    rows = around.split()
    free = {(y, x) for y in range(3) for x in range(3) if rows[y][x] == "."}
    assert maps._keeps_paths_open((1, 1), free) == can_be_closed


def test_closing_a_cell_that_closes_no_way_never_parts_the_floor():
    """All 256 surroundings: what the rule allows, walking confirms."""
    ring = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1), (2, 2)]
    direct = {(0, 1), (1, 0), (1, 2), (2, 1)}
    for number in range(256):
        free = {cell for bit, cell in enumerate(ring) if number >> bit & 1}
        near = direct & free
        connected = bool(near) and near <= walk_everywhere(min(near), free)
        assert maps._keeps_paths_open((1, 1), free) == connected


def test_the_first_numbers_are_those_of_the_published_generator():
    rng = WorldRng(1234567)
    assert [rng.next() for _ in range(5)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def test_a_seed_is_its_lowest_64_bits():
    assert WorldRng(2**64 + 5).next() == WorldRng(5).next()
    assert WorldRng(-1).next() == WorldRng(2**64 - 1).next()


@pytest.mark.parametrize("count", [1, 2, 6, 1000, 2**31])
def test_below_is_the_upper_half_scaled(count):
    numbers, rng = WorldRng(7), WorldRng(7)
    for _ in range(50):
        expected = numbers.next() // 2**32 * count // 2**32
        assert rng.below(count) == expected < count


def test_the_six_faces_come_up_equally_often():
    rng = WorldRng(0)
    faces = Counter(rng.below(6) for _ in range(6000))
    assert sorted(faces) == [0, 1, 2, 3, 4, 5]
    # chi-square with 5 degrees of freedom: above 20.5 in one of a thousand
    assert sum((count - 1000) ** 2 / 1000 for count in faces.values()) < 20.5


def test_the_generator_continues_from_its_state():
    rng = WorldRng(3)
    rng.next()
    assert WorldRng(rng.state).next() == rng.next()
