import json
import os
import re
import signal
from importlib.metadata import PackageNotFoundError
from statistics import fmean

import pytest

from palaestra.cli.eval import parse_eval_arguments, show_batch, summarize
from palaestra.core.episodes import EpisodeResult
from palaestra.core.evaluation import EvaluationPlan, EvaluationReport, SuiteReport


def test_an_evaluation_gives_json_with_every_return(call, runs):
    code, out, _ = call("eval", "first", "--episodes", "3", "--seed", "5", "--json")
    result = json.loads(out)
    assert code == 0
    assert result["seeds"] == [5, 6, 7]
    assert result["mean"] == pytest.approx(fmean(result["returns"]))
    assert (result["min"], result["max"]) == (min(result["returns"]), max(result["returns"]))


def test_episodes_stopped_at_max_steps_are_named_and_their_returns_count(call, runs):
    code, out, err = call("eval", "first", "--episodes", "2", "--max-steps", "3")
    assert code == 0
    assert "2 of 2 episodes" in err
    assert "3 steps" in err
    assert "evaluation.max_steps" in err
    assert "stopped" not in out
    assert "stopped" not in call("eval", "first", "--episodes", "2")[2]


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
        (["eval", "first", "nobody"], 3),
        (["eval", "first", "suite=cartpool"], 3),
        (["eval", "first", "suite=nowhere.yaml"], 3),
        (["eval", "first", "suite="], 2),
        (["eval", "first", "suite=a", "suite=b"], 2),
        (["eval", "first", "suite=acrobot"], 2),
        (["eval", "first", "--workers", "0"], 2),
        (["eval", "first", "--repeat", "--min-score", "3"], 2),
    ],
)
def test_what_cannot_be_evaluated_is_refused(call, runs, words, code):
    got, out, err = call(*words)
    assert (got, out) == (code, "")
    assert err.startswith("palaestra: ")


def test_the_summary_holds_the_figures_of_the_report():
    episodes = tuple(EpisodeResult(seed, reward, 1, terminated=True) for seed, reward in enumerate([1.0, 3.0]))
    report = EvaluationReport(EvaluationPlan("r:1", "E-v0", {}, (0, 1)), episodes, seconds=2.0)
    summary = summarize(SuiteReport((report,), 2.0))
    assert (summary["mean"], summary["std"], summary["min"], summary["max"], summary["episodes"]) == (2, 1, 1, 3, 2)


def test_the_nearest_names_are_reported(call, runs):
    assert "Did you mean 'cartpole'?" in call("eval", "first", "suite=cartpool")[2]
    assert "first" in call("eval", "frist")[2]


def test_several_targets_are_evaluated_one_after_another(call, runs):
    code, out, _ = call("eval", "first", "second:latest", "--episodes", "2", "--json")
    assert code == 0
    both = json.loads(out)["evaluations"]
    alone = [json.loads(call("eval", name, "--episodes", "2", "--json")[1]) for name in ("first", "second:latest")]
    assert [one["returns"] for one in both] == [one["returns"] for one in alone]
    assert both[0]["checkpoint"] != both[1]["checkpoint"]


def test_a_suite_is_shown_simulation_by_simulation(call, runs, workplace):
    (workplace / "mine.yaml").write_text(
        "episodes: 2\nsimulations: {short: {category: speed, env: {max_episode_steps: 5}}, plain: {seed: 3}}"
    )
    code, out, _ = call("sim", "first", "suite=mine.yaml", "--json")
    result = json.loads(out)
    assert code == 0
    assert [(one["simulation"], one["category"], one["seeds"]) for one in result["simulations"]] == [
        ("short", "speed", [1_000_000, 1_000_001]),
        ("plain", "default", [3, 4]),
    ]
    assert result["mean"] == pytest.approx(fmean(one["mean"] for one in result["simulations"]))
    table = call("eval", "first", "suite=mine.yaml")[1]
    assert re.search(r"speed +short +2 ", table)


@pytest.mark.parametrize("text", ["simulations: {}", "simulations: {a: {}, b: {}}", "simulations: {a: {episodes: 0}}"])
def test_a_suite_in_which_nothing_or_the_same_is_played_is_refused(call, runs, workplace, text):
    (workplace / "mine.yaml").write_text(text)
    code, out, err = call("eval", "first", "suite=mine.yaml")
    assert (code, out) == (2, "")
    assert "mine.yaml" in err or "simulations" in err


def test_one_of_several_below_the_score_is_enough_for_exit_code_5(call, runs):
    code, out, _ = call("eval", "first", "second", "--episodes", "1", "--min-score", "501")
    assert code == 5
    assert "checkpoint" in out


def test_repeated_batches_are_lines_and_a_signal_ends_them_with_its_exit_code(call, runs, monkeypatch):
    shown = []

    def show_three(batch, report, *, as_json):
        shown.append((batch, report))
        if batch == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("palaestra.cli.eval.show_batch", show_three)
    code, out, err = call("eval", "first", "--episodes", "2", "--seed", "10", "--repeat")
    assert (code, out) == (143, "")
    assert "only complete batches" in err
    assert [episode.seed for _, report in shown for episode in report.episodes] == [10, 11, 12, 13, 14, 15]
    assert [batch for batch, _ in shown] == [1, 2, 3]


def test_a_batch_is_a_line_for_people_and_a_line_for_programs(capsys):
    episodes = tuple(EpisodeResult(seed, reward, 1, terminated=True) for seed, reward in enumerate([1.0, 3.0]))
    report = EvaluationReport(EvaluationPlan("r:1", "E-v0", {}, (0, 1)), episodes, seconds=2.0)
    show_batch(3, SuiteReport((report,), 2.0), as_json=False)
    assert capsys.readouterr().out == "r:1 | eval batch 3 | episodes=2 avg=2.0 min=1.0 max=3.0\n"
    show_batch(3, SuiteReport((report,), 2.0), as_json=True)
    (line,) = capsys.readouterr().out.splitlines()
    assert (json.loads(line)["batch"], json.loads(line)["returns"]) == (3, [1.0, 3.0])


def test_words_are_targets_a_suite_and_settings_in_any_order():
    words = parse_eval_arguments(["env.max_episode_steps=5", "first", "suite=arena.basic", "second:best"])
    assert words.targets == ["first", "second:best"]
    assert words.suite == "arena.basic"
    assert words.overrides == {"env": {"max_episode_steps": 5}}
    assert not words.is_remote


def test_who_plays_is_a_word_and_not_a_setting_of_the_environment():
    words = parse_eval_arguments(["first", "remote=true", "cluster.address=head:6379", "env.max_episode_steps=5"])
    assert (words.is_remote, words.cluster) == (True, {"address": "head:6379"})
    assert words.overrides == {"env": {"max_episode_steps": 5}}
    assert not parse_eval_arguments(["first", "remote=false"]).is_remote


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["remote=maybe"], "Invalid value for remote"),
        (["remote=true", "remote=false"], "set twice"),
        (["remote="], "no value"),
        (["cluster.address=head:1"], "remote=true"),
        (["remote=true", "--video"], "--video"),
        (["remote=true", "--replays"], "--replays"),
        (["remote=true", "--workers", "2"], "--workers 2"),
        (["remote=true", "cluster.address=nonsense"], "not an address of the form HOST:PORT"),
        (["remote=true", "cluster.cpus=0"], "cluster.cpus"),
        (["remote=true", "cluster.wings=2"], "cluster.wings"),
        (["cluster.cpus=2"], "remote=true"),
    ],
)
def test_what_cannot_be_played_elsewhere_is_refused(call, runs, words, said):
    code, out, err = call("eval", "first", "--episodes", "1", *words)
    assert (code, out) == (2, "")
    assert said in err


def test_without_ray_the_extra_is_named(call, runs, monkeypatch):
    def absent(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr("palaestra.cluster.ray_runtime.version", absent)
    code, _, err = call("eval", "first", "--episodes", "1", "remote=true")
    assert code == 4
    assert "palaestra[cluster]" in err
