from xml.etree import ElementTree as ET

import pytest

from palaestra.analysis.curves import Chart, Curve
from palaestra.analysis.pictures import chart_picture, heat_picture, interval_picture, line_class
from palaestra.analysis.scores import Cell, Row, Scores, Simulation
from palaestra.analysis.statistics import Estimate

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<script>\"'&"


def parsed(picture):
    """Every picture must be XML, and everything in it must lie on the paper."""
    tree = ET.fromstring(picture)
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
    tree = parsed(chart_picture(Chart("charts/return", (curve("one"), curve("two")))))
    lines = [path for path in tree.iter(f"{SVG}path") if path.get("class").startswith("line")]
    assert len(lines) == 4  # two curves, two samples in the legend
    assert "one (1 run), last 3" in texts(tree)


def points_of(path):
    return [tuple(map(float, pair.split())) for pair in path.get("d").strip("MZ").split("L")]


def test_higher_values_are_drawn_higher_and_a_spike_reaches_its_height():
    tree = parsed(chart_picture(Chart("m", (curve(mean=(0.0, 0.0, 0.0), most=(0.0, 100.0, 0.0)),))))
    (envelope,) = [path for path in tree.iter(f"{SVG}path") if path.get("class").startswith("envelope")]
    heights = [y for _, y in points_of(envelope)]
    assert min(heights) == heights[1] < 50 < 200 < heights[0]


def test_a_band_is_drawn_only_where_it_is_known():
    drawn = chart_picture(Chart("m", (curve(mean=(1.0, 2.0, 3.0, 4.0, 5.0), low=(0.0, 1.0, None, 3.0, 4.0)),)))
    bands = [path for path in parsed(drawn).iter(f"{SVG}path") if path.get("class").startswith("band")]
    assert [len(points_of(band)) for band in bands] == [4, 4]


def test_a_single_point_is_a_dot():
    tree = parsed(chart_picture(Chart("m", (curve(mean=(2.0,)),))))
    assert len(list(tree.iter(f"{SVG}circle"))) == 1


def test_the_heat_map_has_a_cell_for_every_row_and_column_and_none_where_nothing_was_played():
    played = Row("one", ("one",), {"easy": cell(5.0, shade=1.0)}, None, None)
    absent = Row("two", ("two",), {}, None, None)
    tree = parsed(heat_picture(scores(played, absent), [played, absent]))
    assert len(list(tree.iter(f"{SVG}rect"))) == 2
    assert texts(tree) == ["easy", "one", "5", "two", "-"]
    assert any(title.text == "one in easy: 5 over 1 episode" for title in tree.iter(f"{SVG}title"))


@pytest.mark.parametrize("figure", ["mean", "iqm"])
def test_intervals_have_their_point_inside(figure):
    row = Row("one", ("one",), {}, Estimate(5.0, 3.0, 9.0), Estimate(6.0, 2.0, 7.0))
    alone = Row("two", ("two",), {}, Estimate(1.0), Estimate(1.0))
    tree = parsed(interval_picture([row, alone], figure))
    (bar,) = [path for path in tree.iter(f"{SVG}path") if path.get("class").startswith("bar")]
    start, end = (float(part.split()[0]) for part in bar.get("d").strip("M").split("H"))
    dot = float(next(iter(tree.iter(f"{SVG}circle"))).get("cx"))
    assert start < dot < end


def test_names_are_escaped_and_long_ones_cut():
    row = Row(HOSTILE * 20, ("x",), {"easy": cell(1.0)}, Estimate(1.0), Estimate(1.0))
    for picture in (
        heat_picture(scores(row), [row]),
        interval_picture([row], "mean"),
        chart_picture(Chart(HOSTILE, (curve(HOSTILE),))),
    ):
        parsed(picture)
        assert "<script>" not in picture


def test_colours_begin_again_when_there_are_no_more():
    assert line_class(0) == line_class(8) != line_class(1)
