"""The fixed words, held against docs/arena.md: ids stand in checkpoints and may only grow."""

import re
from pathlib import Path

from palaestra.apps.arena import tables

PAGE = (Path(__file__).parents[3] / "docs" / "arena.md").read_text()


def test_the_page_lists_every_feature_with_its_id_and_divisor():
    rows = re.findall(r"^\| (\d+) \| `([\w.]+)` \| (\d+) \|$", PAGE, re.MULTILINE)
    assert [(int(number), name, float(divisor)) for number, name, divisor in rows] == [
        (feature.id, feature.name, feature.normalization) for feature in tables.FEATURES
    ]


def test_ids_are_places_in_the_table():
    assert [feature.id for feature in tables.FEATURES] == list(range(23))
    assert all(tables.FEATURES[number].name == name for name, number in tables.FEATURE_ID.items())


def test_the_page_names_the_actions_in_order():
    named = ", ".join(f"`{action}`" for action in tables.ACTIONS)
    assert named in " ".join(PAGE.split())


def test_the_page_names_the_stations_in_order_with_what_they_take_and_give():
    rows = re.findall(r"^\| (\w+) \| (?:nothing|`cost` (\w+) \(\d\)) \| 1 (\w+) \|$", PAGE, re.MULTILINE)
    singular = {"": None, "ore": "ore", "batteries": "battery"}
    assert [(name, singular[taken], given) for name, taken, given in rows] == [
        (name, tables.INGREDIENT.get(name), tables.PRODUCT[name]) for name in tables.STATIONS
    ]


def test_every_code_of_a_cell_is_different():
    stations = [
        tables.FIRST_STATION + 3 * kind + state
        for kind in range(len(tables.STATIONS))
        for state in (tables.READY, tables.COOLING, tables.EXHAUSTED)
    ]
    others = [tables.FLOOR, tables.WALL, tables.UNSEEN]
    agents = [tables.FRIEND, tables.FROZEN_FRIEND, tables.FOE, tables.FROZEN_FOE]
    assert sorted(others + stations + agents) == list(range(tables.CODE_COUNT))


def test_a_direction_is_a_facing_after_rest():
    assert [tables.STEPS[action - 1] for action in (tables.NORTH, tables.EAST, tables.SOUTH, tables.WEST)] == [
        (-1, 0),
        (0, 1),
        (1, 0),
        (0, -1),
    ]


def test_no_word_is_used_twice():
    for arguments in (tables.ITEMS, tables.STATIONS, tables.ACTIONS, tables.COUNTERS, tables.CELL + tables.SELF):
        assert len(set(arguments)) == len(arguments)
