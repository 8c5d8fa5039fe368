from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from palaestra.analysis.curves import Chart, Curve
from palaestra.analysis.plots import (
    LINES_ON_DARK,
    LINES_ON_LIGHT,
    SHADES,
    Axis,
    chart_svg,
    contrast,
    format_number,
    heatmap_svg,
    hexadecimal,
    interval_svg,
    line_class,
    make_axis,
    round_step,
    shade_colour,
    text_colour,
)
from palaestra.analysis.scores import Cell, Row, Scores, Simulation
from palaestra.analysis.statistics import Estimate

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<script>\"'&"


def parsed(frame):
    """Every picture must be XML, and everything in it must lie on the paper."""
    tree = ET.fromstring(frame)
    _, _, width, height = map(float, tree.get("viewBox").split())
    for text in tree.iter(f"{SVG}text"):
        assert 0 <= float(text.get("x")) <= width
        assert 0 <= float(text.get("y")) <= height
    return tree


def texts(tree):
    return [text.text for text in tree.iter(f"{SVG}text")]


def curve(label="one", mean=(1.0, 2.0, 3.0), low=None, most=None):
    low = low or (None,) * len(mean)
    high = tuple(None if one is None else one + 2 for one in low)
    return Curve(label, ("a",), tuple(range(len(mean))), mean, low, high, mean, most or mean, (1,) * len(mean))


def cell(value, shade=0.5, low=None):
    estimate = Estimate(value, low, None if low is None else value + 1)
    return Cell("easy", estimate, estimate, value, value, 1, "episodes", 1, shade)


def scores(*rows):
    return Scores((Simulation("easy", "maze", "E-v0", {}, deterministic=True),), ("easy",), rows, rows, ())


def test_a_chart_has_a_line_for_every_curve_and_says_who_is_who():
    tree = parsed(chart_svg(Chart("charts/return", (curve("one"), curve("two")))))
    lines = [path for path in tree.iter(f"{SVG}path") if path.get("class").startswith("line")]
    assert len(lines) == 4  # two curves, two samples in the legend
    assert "one (1 run), last 3" in texts(tree)


def points_of(path):
    return [tuple(map(float, pair.split())) for pair in path.get("d").strip("MZ").split("L")]


def test_higher_values_are_drawn_higher_and_a_spike_reaches_its_height():
    tree = parsed(chart_svg(Chart("m", (curve(mean=(0.0, 0.0, 0.0), most=(0.0, 100.0, 0.0)),))))
    (envelope,) = [path for path in tree.iter(f"{SVG}path") if path.get("class").startswith("envelope")]
    heights = [y for _, y in points_of(envelope)]
    assert min(heights) == heights[1] < 50 < 200 < heights[0]


def test_a_band_is_drawn_only_where_it_is_known():
    drawn = chart_svg(Chart("m", (curve(mean=(1.0, 2.0, 3.0, 4.0, 5.0), low=(0.0, 1.0, None, 3.0, 4.0)),)))
    bands = [path for path in parsed(drawn).iter(f"{SVG}path") if path.get("class").startswith("band")]
    assert [len(points_of(band)) for band in bands] == [4, 4]


def test_a_single_point_is_a_dot():
    tree = parsed(chart_svg(Chart("m", (curve(mean=(2.0,)),))))
    assert len(list(tree.iter(f"{SVG}circle"))) == 1


def test_the_heat_map_has_a_cell_for_every_row_and_column_and_none_where_nothing_was_played():
    played = Row("one", ("one",), {"easy": cell(5.0, shade=1.0)}, None, None)
    absent = Row("two", ("two",), {}, None, None)
    tree = parsed(heatmap_svg(scores(played, absent), [played, absent]))
    assert len(list(tree.iter(f"{SVG}rect"))) == 2
    assert texts(tree) == ["easy", "one", "5", "two", "-"]
    assert any(title.text == "one in easy: 5 over 1 episode" for title in tree.iter(f"{SVG}title"))


@pytest.mark.parametrize("figure", ["mean", "iqm"])
def test_intervals_have_their_point_inside(figure):
    row = Row("one", ("one",), {}, Estimate(5.0, 3.0, 9.0), Estimate(6.0, 2.0, 7.0))
    alone = Row("two", ("two",), {}, Estimate(1.0), Estimate(1.0))
    tree = parsed(interval_svg([row, alone], figure))
    (bar,) = [path for path in tree.iter(f"{SVG}path") if path.get("class").startswith("bar")]
    start, end = (float(part.split()[0]) for part in bar.get("d").strip("M").split("H"))
    dot = float(next(iter(tree.iter(f"{SVG}circle"))).get("cx"))
    assert start < dot < end


def test_names_are_escaped_and_long_ones_cut():
    row = Row(HOSTILE * 20, ("x",), {"easy": cell(1.0)}, Estimate(1.0), Estimate(1.0))
    for frame in (
        heatmap_svg(scores(row), [row]),
        interval_svg([row], "mean"),
        chart_svg(Chart(HOSTILE, (curve(HOSTILE),))),
    ):
        parsed(frame)
        assert "<script>" not in frame


def test_colours_begin_again_when_there_are_no_more():
    assert line_class(0) == line_class(8) != line_class(1)


def test_places_lie_between_start_and_end_also_upside_down():
    assert Axis(0, 10, 100, 200).position(2.5) == 125
    assert Axis(0, 10, 200, 100).position(2.5) == 175


@pytest.mark.parametrize(
    ("rough", "step"), [(1, 1), (1.1, 2), (3, 5), (7, 10), (0.03, 0.05), (100, 100), (1234, 2000), (1e-9, 1e-9)]
)
def test_steps_are_round(rough, step):
    assert round_step(rough) == pytest.approx(step)


@pytest.mark.parametrize(("low", "high"), [(0, 10), (-3.7, 512.4), (1e6, 1.00001e6), (-2e-7, 3e-7), (0, 1)])
def test_ticks_lie_within_and_are_a_handful(low, high):
    ticks = Axis(low, high, 0, 1).ticks()
    assert 2 <= len(ticks) <= 7
    assert all(low - 1e-9 * abs(high) <= tick <= high + 1e-9 * abs(high) for tick in ticks)


@pytest.mark.parametrize("values", [[5.0], [0.0, 0.0], [-3.0, -3.0], [1e12], [1.0, 2.0]])
def test_all_values_have_a_place_also_when_they_are_all_alike(values):
    axis = make_axis(values, 0, 100)
    assert all(0 < axis.position(value) < 100 for value in values)
    assert axis.ticks()


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.25, "0.25"), (-1500, "-1500"), (20_000, "20k"), (1_500_000, "1.5M"), (3e9, "3G"), (123.456, "123.5")],
)
def test_numbers_are_written_short(value, text):
    assert format_number(value) == text


def from_text(colour):
    return tuple(bytes.fromhex(colour[1:]))


def test_shades_go_from_the_first_to_the_last_and_stay_within():
    assert (shade_colour(0), shade_colour(1)) == (SHADES[0], SHADES[-1])
    assert (shade_colour(-3), shade_colour(7)) == (SHADES[0], SHADES[-1])
    assert shade_colour(1 / 3) == SHADES[1]


def test_higher_is_always_lighter_so_that_a_grey_print_shows_the_order():
    grey = [contrast(shade_colour(step / 20), (0, 0, 0)) for step in range(21)]
    assert grey == sorted(grey)
    assert len(set(grey)) == 21


@pytest.mark.parametrize("step", range(0, 101, 5))
def test_numbers_can_be_read_on_every_shade(step):
    ground = shade_colour(step / 100)
    assert contrast(ground, text_colour(ground)) >= 4.5


def test_contrast_is_that_of_the_guidelines():
    assert contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21)
    assert contrast((119, 119, 119), (255, 255, 255)) == pytest.approx(4.48, abs=0.01)  # their own well-known example


@pytest.mark.parametrize(
    ("colour", "ground"),
    [*((one, (255, 255, 255)) for one in LINES_ON_LIGHT), *((one, (28, 32, 36)) for one in LINES_ON_DARK)],
)
def test_lines_stand_out_from_their_ground(colour, ground):
    assert contrast(from_text(colour), ground) >= 3


def test_colours_are_written_for_the_web():
    assert hexadecimal((0, 171, 255)) == "#00abff"
    assert len(set(LINES_ON_LIGHT)) == len(LINES_ON_LIGHT) == len(LINES_ON_DARK)
