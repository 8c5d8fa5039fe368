import json

from palaestra.cli.output import plain
from palaestra.cli.sweep_tables import as_data, print_trials
from palaestra.config.sweep import SweepConfig
from palaestra.sweeps.plan import plan_sweep
from palaestra.sweeps.trial import Trial, TrialState

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
    data = json.loads(json.dumps(plain(as_data(PLAN, TRIALS, {}))))
    assert (data["name"], data["best"]) == ("lr", 2)
    assert [one["number"] for one in data["trials"]] == [2, 1, 3, 4]
    assert data["trials"][0]["runs"] == ["lr-t2-s1", "lr-t2-s2", "lr-t2-s3"]
    assert as_data(PLAN, [], {})["best"] is None
