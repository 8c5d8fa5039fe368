from itertools import combinations

import numpy as np
import pytest

from palaestra.apps.arena.palette import SAND, TEAM_COLORS
from palaestra.apps.arena.sprites import CLOCK_MARKS, Canvas, agent_sprite, station_sprite
from palaestra.apps.arena.tables import COOLING, EXHAUSTED, READY, STATIONS


def area(canvas, mask):
    """As part of the cell"""
    return mask.sum() / mask.size


@pytest.fixture
def canvas():
    return Canvas(32)


def test_shapes_have_the_areas_that_geometry_gives_them(canvas):
    assert area(canvas, canvas.disc(0.5, 0.5, 0.3)) == pytest.approx(np.pi * 0.09, rel=0.01)
    assert area(canvas, canvas.ring(0.5, 0.5, 0.4, 0.1)) == pytest.approx(np.pi * (0.16 - 0.09), rel=0.01)
    assert area(canvas, canvas.arc(0.5, 0.5, 0.4, 0.1, 0.25)) == pytest.approx(np.pi * 0.07 / 4, rel=0.02)
    assert area(canvas, canvas.box(0.25, 0.25, 0.75, 0.5)) == pytest.approx(0.125, rel=0.02)
    rounded = 0.25 - (4 - np.pi) * 0.01
    assert area(canvas, canvas.box(0.25, 0.25, 0.75, 0.75, 0.1)) == pytest.approx(rounded, rel=0.02)
    assert area(canvas, canvas.polygon([(0.1, 0.1), (0.9, 0.1), (0.1, 0.9)])) == pytest.approx(0.32, rel=0.02)


def test_a_heart_is_as_wide_as_requested_and_the_same_on_both_sides(canvas):
    heart = canvas.heart(0.5, 0.5, 0.6)
    columns = np.flatnonzero(heart.any(0))
    assert (columns[-1] - columns[0] + 1) / heart.shape[1] == pytest.approx(0.6, abs=0.02)
    np.testing.assert_array_equal(heart, heart[:, ::-1])


def test_where_nothing_is_painted_the_ground_stays_as_it_is(canvas):
    sprite = canvas.sprite()
    ground = np.arange(256, dtype=np.float32)[:, None, None, None]
    np.testing.assert_array_equal(
        (ground * sprite.keep + sprite.color).astype(np.uint8), np.uint8(ground) + 0 * np.uint8(sprite.color)
    )


def test_a_full_colour_hides_the_ground_and_half_of_it_mixes():
    for opacity, expected in ((1.0, 200), (0.5, 150)):
        canvas = Canvas(4)
        canvas.paint(canvas.box(0, 0, 1, 1), (200, 200, 200), opacity)
        sprite = canvas.sprite()
        np.testing.assert_array_equal((100 * sprite.keep + sprite.color).astype(np.uint8), expected)


def test_an_edge_through_a_pixel_is_soft():
    canvas = Canvas(2)
    canvas.paint(canvas.box(0, 0, 0.75, 1), (200, 0, 0))
    keep = canvas.sprite().keep[0, :, 0]
    assert keep.tolist() == pytest.approx([0.0, 0.5], abs=0.01)


def test_a_shade_tints_only_what_is_there():
    canvas = Canvas(4)
    canvas.paint(canvas.box(0, 0, 0.5, 1), (100, 100, 100))
    canvas.shade(canvas.box(0, 0, 1, 1), (200, 200, 200), 0.5)
    sprite = canvas.sprite()
    assert sprite.keep[0, :, 0].tolist() == [0, 0, 1, 1]
    assert sprite.color[0, 0, 0] == pytest.approx(150.5)


SIZES = (8, 16, 32)


def on_sand(sprite):
    return (np.array(SAND) * sprite.keep + sprite.color).astype(int)


def distance(first, second):
    """Mean difference of a colour channel, over the whole cell"""
    return np.abs(on_sand(first) - on_sand(second)).mean()


def agent(size=16, team=0, facing=1, is_frozen=False, cargo="", has_armour=False, has_charge=False):
    return agent_sprite(size, team, facing, is_frozen, cargo, has_armour, has_charge)


@pytest.mark.parametrize("size", SIZES)
def test_every_kind_and_state_of_station_looks_different_at_every_size(size):
    looks = [
        station_sprite(size, kind, state, 4 if state == COOLING else 0)
        for kind in range(len(STATIONS))
        for state in (READY, COOLING)
    ]
    looks.append(station_sprite(size, 0, EXHAUSTED, 0))
    assert min(distance(first, second) for first, second in combinations(looks, 2)) > 8


@pytest.mark.parametrize("size", SIZES)
def test_team_facing_ice_and_a_heart_are_observed_at_every_size(size):
    plain = agent(size)
    for other in (
        agent(size, team=1),
        agent(size, facing=3),
        agent(size, is_frozen=True),
        agent(size, cargo="heart"),
    ):
        assert distance(plain, other) > 5


def test_what_an_agent_carries_is_observed():
    looks = [agent(cargo=cargo) for cargo in ("", "ore", "battery", "heart")]
    looks += [agent(has_armour=True), agent(has_charge=True)]
    assert min(distance(first, second) for first, second in combinations(looks, 2)) > 1


def test_an_agent_has_the_colour_of_its_team():
    for team, color in enumerate(TEAM_COLORS):
        image = on_sand(agent(32, team=team))
        assert (np.abs(image - np.array(color)).sum(-1) < 30).mean() > 0.1


def test_the_gauge_fills_as_a_station_cools():
    bright = [on_sand(station_sprite(32, 0, COOLING, clock))[27:31].sum() for clock in range(CLOCK_MARKS, 0, -1)]
    assert bright == sorted(bright)
    assert bright[0] < bright[-1]


def test_facing_turns_the_image():
    """The light from the north-west and the shadow stay; the tip, the eyes and the load turn."""
    tips = [on_sand(agent(32, facing=facing)) for facing in range(4)]
    edges = [tips[0][0], tips[1][:, -1], tips[2][-1], tips[3][:, 0]]
    for edge in edges:
        assert np.abs(edge[14:18] - np.array(SAND)).sum(-1).max() > 60


def test_a_sprite_is_drawn_once():
    assert agent() is agent()
    assert station_sprite(16, 0, READY, 0) is station_sprite(16, 0, READY, 0)
