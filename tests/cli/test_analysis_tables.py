import pytest

from palaestra.analysis.curves import Chart, Curve
from palaestra.analysis.report import Analysis
from palaestra.analysis.scores import Cell, Improvement, Row, Scores, Simulation
from palaestra.analysis.statistics import Estimate
from palaestra.analysis.weights import Layer, WeighedPolicy
from palaestra.cli.analysis_tables import BARS_SHOWN, PAIRS_SHOWN, print_analysis, sparkline


def cell(value, over="episodes", count=4):
    return Cell("easy", Estimate(value, value - 1, value + 1), Estimate(value), 0.0, 9.0, 4, over, count)


def row(label, value, members=None, over="episodes"):
    return Row(label, members or (label,), {"easy": cell(value, over)}, Estimate(value), Estimate(value))


def scores(policies, groups, improvements=(), categories=("maze",)):
    columns = tuple(Simulation("easy", category, "E-v0", {}, deterministic=True) for category in categories)
    return Scores(columns, ("easy",), tuple(policies), tuple(groups), tuple(improvements))


def printed(capsys, **parts):
    print_analysis(Analysis(policies=(), **{"scores": scores((), ()), "charts": (), **parts}))
    return capsys.readouterr().out


def test_a_group_is_followed_by_its_members(capsys):
    policies = [row("ppo-1", 1.0), row("ppo-2", 3.0)]
    out = printed(capsys, scores=scores(policies, [row("ppo x2", 2.0, ("ppo-1", "ppo-2"), over="runs")]))
    assert [line.split("  ")[0] or line.strip().split()[0] for line in out.splitlines()] == [
        "policy",
        "ppo x2",
        "ppo-1",
        "ppo-2",
    ]
    assert "2 [1, 3]" in out
    assert "4 runs" in out


def test_categories_are_named_where_there_are_several(capsys):
    one = row("a", 1.0)
    assert "maze/easy" not in printed(capsys, scores=scores([one], [one]))
    assert "maze/easy" in printed(capsys, scores=scores([one], [one], categories=("maze", "speed")))


def test_only_so_many_pairs_are_listed_and_the_rest_is_counted(capsys):
    pair = Improvement("a", "b", Estimate(0.75, 0.5, 1.0), "runs", ("easy",))
    one = row("a", 1.0)
    out = printed(capsys, scores=scores([one], [one], [pair] * (PAIRS_SHOWN + 2)))
    assert out.count("a > b") == PAIRS_SHOWN
    assert "and 2 more" in out


def test_curves_and_weights_have_a_line_each(capsys):
    curve = Curve("ppo", ("a", "b"), (1.0, 2e6), (0.0, 7.0), (None, 6.0), (None, 8.0), (-1.0, 5.0), (2.0, 99.0), (1, 2))
    weighed = WeighedPolicy("ppo:1", (Layer("actor.0", 64, 4, 3.5, 3.9, 4, 0.125),))
    out = printed(capsys, charts=(Chart("charts/return", (curve,)),), weights=(weighed,))
    assert "7 [6, 8]" in out
    assert "2M" in out
    assert "3.9 of 4" in out
    assert "12%" in out
    assert "\n\npolicy" in out


@pytest.mark.parametrize(
    ("values", "line"), [([0, 7], "▁█"), ([1, 1, 1], "▅▅▅"), ([3], "▅"), (range(8), "▁▂▃▄▅▆▇█"), ([5, 0], "█▁")]
)
def test_a_sparkline_goes_up_where_the_values_do(values, line):
    assert sparkline(list(values)) == line


def test_a_sparkline_is_never_too_long():
    assert len(sparkline(list(range(1000)))) == BARS_SHOWN
