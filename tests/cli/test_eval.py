import json
from statistics import fmean

import pytest

from palaestra.cli.eval import summarize
from palaestra.contracts.episodes import EpisodeResult
from palaestra.contracts.evaluation import EvaluationPlan, EvaluationReport


def test_an_evaluation_gives_json_with_every_return(call, runs):
    code, out, _ = call("eval", "first", "--episodes", "3", "--seed", "5", "--json")
    result = json.loads(out)
    assert code == 0
    assert result["seeds"] == [5, 6, 7]
    assert result["mean"] == pytest.approx(fmean(result["returns"]))
    assert (result["min"], result["max"]) == (min(result["returns"]), max(result["returns"]))


def test_the_same_seeds_give_the_same_returns(call, runs):
    words = ("eval", "first", "--episodes", "2", "--json")
    assert json.loads(call(*words)[1])["returns"] == json.loads(call(*words)[1])["returns"]


def test_below_the_score_that_was_demanded_is_exit_code_5_and_the_result_is_still_given(call, runs):
    code, out, err = call("eval", "first", "--episodes", "1", "--json", "--min-score", "501")
    assert code == 5
    assert json.loads(out)["episodes"] == 1
    assert "below --min-score 501" in err
    assert call("eval", "first", "--episodes", "1", "--min-score", "1")[0] == 0


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["eval"], 2),
        (["eval", "nobody"], 3),
        (["eval", "first:nobody"], 2),
        (["eval", "first:99"], 3),
        (["eval", "first", "--episodes", "0"], 2),
        (["eval", "first", "env.kwargs.nonsense=1"], 2),
    ],
)
def test_what_cannot_be_judged_is_refused(call, runs, words, code):
    got, out, err = call(*words)
    assert (got, out) == (code, "")
    assert err.startswith("palaestra: ")


def test_the_summary_holds_the_figures_of_the_report():
    episodes = tuple(EpisodeResult(seed, reward, 1, terminated=True) for seed, reward in enumerate([1.0, 3.0]))
    report = EvaluationReport(EvaluationPlan("r:1", "E-v0", {}, (0, 1)), episodes, seconds=2.0)
    summary = summarize(report)
    assert (summary["mean"], summary["std"], summary["min"], summary["max"], summary["episodes"]) == (2, 1, 1, 3, 2)
