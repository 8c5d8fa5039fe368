import json
import subprocess
import sys
from statistics import fmean

import pytest


def test_what_was_judged_is_shown_with_its_mean(call, runs):
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


def test_tables_go_to_stdout_and_what_is_missing_is_said_on_stderr(call, runs):
    code, out, err = call("analyze", "first", "second", "--no-weights")
    assert code == 0
    assert "first:" in out
    assert "CartPole-v1" in out
    assert "charts/episodic_return" in out
    assert "second" in err
    assert "It was never judged; its curves are shown." in err


def test_a_page_is_written_once_and_again_by_force(call, runs, workplace):
    words = ("analyze", "first", "--no-weights", "--html", "report.html")
    code, out, err = call(*words, "--json")
    assert code == 0
    assert "html" not in json.loads(out)
    assert "report.html is written" in err
    assert (workplace / "report.html").read_text().startswith("<!doctype html>")
    code, out, err = call(*words)
    assert (code, out) == (2, "")
    assert "--force" in err
    assert call(*words, "--force")[0] == 0


def test_the_metric_that_is_asked_for_is_drawn(call, runs):
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
