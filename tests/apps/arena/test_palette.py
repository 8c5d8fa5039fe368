from itertools import combinations

from palaestra.apps.arena import palette
from palaestra.apps.arena.settings import MAX_TEAMS
from palaestra.apps.arena.tables import ITEMS, STATIONS


def test_every_item_station_and_team_has_a_colour():
    assert set(palette.ITEM_COLORS) == set(ITEMS)
    assert set(palette.STATION_COLORS) == set(STATIONS)
    assert len(palette.TEAM_COLORS) == MAX_TEAMS


def test_teams_and_stations_are_far_apart_in_colour():
    for colors in (palette.TEAM_COLORS, palette.STATION_COLORS.values()):
        for first, second in combinations(colors, 2):
            assert sum(abs(one - other) for one, other in zip(first, second, strict=True)) > 60


def test_a_mixture_lies_between_its_colours():
    assert palette.mix((0, 100, 200), (100, 0, 200), 0.25) == (25, 75, 200)
    assert palette.mix((1, 2, 3), (9, 9, 9), 0) == (1, 2, 3)
