from __future__ import annotations

import json
import subprocess
import sys
from statistics import fmean

import pytest

from palaestra.analysis.curves import Chart, Curve
from palaestra.analysis.report import Analysis
from palaestra.analysis.scores import Cell, Improvement, Row, Scores, Simulation
from palaestra.analysis.statistics import Estimate
from palaestra.analysis.weights import Layer, PolicyWeights
from palaestra.cli.analyze import BARS_SHOWN, PAIRS_SHOWN, print_analysis, print_heat_table, sparkline


def test_what_was_evaluated_is_shown_with_its_mean(call, runs):
    rows = json.loads(call("eval", "first:latest", "--episodes", "3", "--seed", "5", "--json")[1])
    code, out, _ = call("analyze", "first:latest", "--json")
    found = json.loads(out)
    assert code == 0
    (policy,) = found["scores"]["policies"]
    (cell,) = policy["cells"].values()
    assert cell["simulation"] == "CartPole-v1"
    assert cell["episodes"] >= 3
    assert cell["least"] <= fmean(rows["returns"]) <= cell["most"]
    assert {chart["metric"] for chart in found["charts"]} >= {"charts/episodic_return"}
    assert found["weights"][0]["layers"]
    assert found["policies"][0]["run_name"] == "first"


def test_tables_go_to_stdout_and_what_is_missing_is_reported_on_stderr(call, runs):
    code, out, err = call("analyze", "first", "second", "--no-weights")
    assert code == 0
    assert "first:" in out
    assert "CartPole-v1" in out
    assert "charts/episodic_return" in out
    assert "second" in err
    assert "It was never evaluated; its curves are shown." in err


def test_a_page_is_written_once_and_again_by_force(call, runs, workplace):
    words = ("analyze", "first", "--no-weights", "--html", "report.html")
    code, out, err = call(*words, "--json")
    assert code == 0
    assert "html" not in json.loads(out)
    assert "Wrote report.html" in err
    assert (workplace / "report.html").read_text().startswith("<!doctype html>")
    code, out, err = call(*words)
    assert (code, out) == (2, "")
    assert "--force" in err
    assert call(*words, "--force")[0] == 0


def test_the_metric_that_is_requested_is_drawn(call, runs):
    found = json.loads(call("analyze", "first", "--metric", "losses/entropy", "--no-weights", "--json")[1])
    assert [chart["metric"] for chart in found["charts"]] == ["losses/entropy"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "needs a run"),
        (["frist"], 3, "Did you mean 'first'?"),
        (["first:99"], 3, "Epochs there:"),
        (["first", "--metric", "losses/entropi"], 3, "Did you mean 'losses/entropy'?"),
        (["first", "--html", "report.txt"], 2, ".html"),
        (["first", "--html", "nowhere/report.html"], 2, "not a directory"),
        (["first", "--jsn"], 2, "--json"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(call, runs, workplace, words, code, said):
    got, out, err = call("analyze", *words)
    assert (got, out) == (code, "")
    assert said in err
    assert not list(workplace.glob("*.html"))


def test_torch_is_not_loaded_without_weights(runs, workplace):
    code = (
        "import sys; from palaestra.cli.main import main; "
        "assert main(['analyze', 'first', '--no-weights', '--html', 'a.html']) == 0; "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


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
    weighed = PolicyWeights("ppo:1", (Layer("actor.0", 64, 4, 3.5, 3.9, 4, 0.125),))
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


ROWS = [[("[bold]one", None), ("1.5", 0.0)], [("two\x1b[2J", None), (None, None)]]


def test_without_a_terminal_it_is_a_plain_table(monkeypatch, capsys):
    monkeypatch.setenv("NO_COLOR", "1")
    print_heat_table(("name", "score"), ROWS)
    assert capsys.readouterr().out.splitlines() == ["name        score", "[bold]one   1.5", r"two\x1b[2J  -"]


def test_on_a_terminal_numbers_stand_on_colours_and_names_are_never_markup(monkeypatch, capsys):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    print_heat_table(("name", "score"), ROWS)
    out = capsys.readouterr().out
    assert "48;2;44;52;110m" in out  # the lowest shade as ground
    assert "[bold]one" in out
    assert "\x1b[2J" not in out
