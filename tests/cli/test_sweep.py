from __future__ import annotations

import json

import pytest

from palaestra.cli.candidates import complete
from palaestra.cli.output import to_json_data
from palaestra.cli.sweep import as_data, print_trials
from palaestra.config.sweep import SweepConfig
from palaestra.runs.store import runs_root
from palaestra.sweeps.plan import plan_sweep
from palaestra.sweeps.store import SweepStore, Trial, TrialState

LR = ("ppo.learning_rate=1e-4..1e-2:log", "trials=3")


@pytest.fixture
def lr(workplace):
    plan = plan_sweep(SweepConfig(name="lr", recipe="cartpole", parameters={"ppo.gamma": "0.1,0.2,0.3"}))
    states = TrialState.FINISHED, TrialState.FINISHED, TrialState.RUNNING
    trials = [
        Trial(number, plan.listed[number - 1], state, float(number) if state.is_over else None)
        for number, state in enumerate(states, start=1)
    ]
    SweepStore(runs_root()).enter(plan.config).write_trials(trials)


def test_a_dry_run_shows_the_trials_and_makes_nothing(call, workplace):
    code, out, err = call("sweep", "cartpole", *LR, "--dry-run")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["trial", "1", "2", "3"]
    assert "random, 3 trials" in err
    data = json.loads(call("sweep", "cartpole", *LR, "--dry-run", "--json")[1])
    assert [len(one) for one in data["trials"]] == [1, 1, 1]
    assert list(workplace.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["cartpole"], 2, "No key of the sweep has several values"),
        ([], 2, "No key of the sweep has several values"),
        (["cartpol", *LR], 3, "Did you mean 'cartpole'?"),
        (["cartpole", "ppo.gama=0.9,0.99"], 2, "Did you mean 'ppo.gamma'?"),
        (["cartpole", "ppo.gamma=0.9..1.5"], 2, "Invalid value for ppo.gamma: 1.5 "),
        (["cartpole", "ppo.gamma=0.9..0.8"], 2, "0.9 is above 0.8"),
        (["cartpole", "ppo.gamma=0.9..0.9"], 2, "one value, not a range"),
        (["cartpole", "ppo.learning_rate=0..1:log"], 2, "above 0"),
        (["cartpole", "ppo.gamma=0.9..0.99", "method=grid"], 2, "needs a number of points"),
        (["cartpole", "ppo.gamma=0.9..0.99", "trials=0"], 2, "trials: 0"),
        (["cartpole", "ppo.gamma=0.9,0.9"], 2, "twice"),
        (["cartpole", *LR, "executor=elsewhere"], 3, "elsewhere"),
        (["--resume", "nobody"], 3, "No sweep named 'nobody'"),
        (["show", "nobody"], 3, "No sweep named 'nobody'"),
    ],
)
def test_bad_words_are_refused_before_anything_starts(call, workplace, words, code, said):
    refused, out, err = call("sweep", *words)
    assert (refused, out) == (code, "")
    assert said in err
    assert list(workplace.iterdir()) == []


def test_sweeps_are_listed_and_shown(call, lr):
    (listed,) = json.loads(call("sweep", "list", "--json")[1])
    assert (listed["name"], listed["over"], listed["trials"], listed["best"]) == ("lr", 2, 3, 2.0)
    assert "2/3" in call("sweep", "list")[1]
    shown = json.loads(call("sweep", "show", "lr", "--json")[1])
    assert (shown["best"], [one["number"] for one in shown["trials"]]) == (2, [2, 1, 3])
    assert call("sweep", "show")[1].splitlines()[1].startswith("*")


def test_no_sweeps_is_reported_on_stderr(call):
    code, out, err = call("sweep", "list")
    assert (code, out) == (0, "")
    assert "No sweeps here yet" in err


def test_resuming_takes_no_other_settings(call, lr):
    code, _, err = call("sweep", "--resume", "lr", "ppo.gamma=0.5")
    assert code == 2
    assert "remove 'ppo.gamma=0.5'" in err
    assert "grid, 3 trials" in call("sweep", "--resume", "lr", "--dry-run")[2]


def test_a_sweep_requested_otherwise_is_refused_with_the_difference(call, lr):
    code, _, err = call("sweep", "cartpole", "sweep=lr", "ppo.gamma=0.1,0.2")
    assert code == 2
    assert "ppo.gamma" in err


def test_help_reports_the_grammar_and_every_word(call):
    code, out, _ = call("sweep", "-h")
    assert code == 0
    assert "lo..hi:log" in out
    assert all(f"    {key}=" in out for key in ("method", "trials", "metric", "seeds", "prune", "sampler_seed"))
    assert "sweep list" in out


def test_completion_knows_recipes_words_and_sweeps(lr):
    assert "cartpole" in complete(["sweep", "run", "cartp"])
    assert "method=" in complete(["sweep", "run", "cartpole", "meth"])
    assert complete(["sweep", "show", ""]) == ["lr"]


PLAN = plan_sweep(SweepConfig(name="lr", parameters={"ppo.gamma": "0.1,0.2,0.3,0.4"}, seeds="1..3"))
TRIALS = [
    Trial(1, {"ppo.gamma": 0.1}, TrialState.FINISHED, 5.0),
    Trial(2, {"ppo.gamma": 0.2}, TrialState.FINISHED, 9.0),
    Trial(3, {"ppo.gamma": 0.3}, TrialState.PRUNED, 99.0),
    Trial(4, {"ppo.gamma": 0.4}, TrialState.FAILED, reason="it broke"),
]


def test_the_best_is_marked_and_stands_first(capsys, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    print_trials(PLAN, TRIALS, {"ppo.gamma": 1.0})
    printed = capsys.readouterr()
    rows = [line.split() for line in printed.out.splitlines()]
    assert rows[0] == ["trial", "state", "score", "ppo.gamma", "run"]
    assert rows[1] == ["*", "2", "finished", "9", "0.2", "lr-t2-s1", "and", "2", "more"]
    assert [row[0] for row in rows[2:]] == ["1", "3", "4"]
    assert "99 when stopped" in printed.out
    assert "trial 4: it broke" in printed.err
    assert "importance: ppo.gamma 100%" in printed.err
    assert "palaestra train --from-trial lr:2" in printed.err


def test_a_sweep_without_trials_says_so(capsys):
    print_trials(PLAN, [], {})
    assert "has no trials yet" in capsys.readouterr().err


def test_the_same_as_json():
    data = json.loads(json.dumps(to_json_data(as_data(PLAN, TRIALS, {}))))
    assert (data["name"], data["best"]) == ("lr", 2)
    assert [one["number"] for one in data["trials"]] == [2, 1, 3, 4]
    assert data["trials"][0]["runs"] == ["lr-t2-s1", "lr-t2-s2", "lr-t2-s3"]
    assert as_data(PLAN, [], {})["best"] is None
