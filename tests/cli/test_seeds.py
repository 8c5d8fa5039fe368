import json

import pytest

from palaestra.cli import seeds as module
from palaestra.cli.seeds import as_data
from palaestra.sweeps.seeds import SeedResult, SeedsReport

REPORT = SeedsReport(
    "one",
    (
        SeedResult(1, "one-s1", "ID1", "finished", 512, 20.0, 30.0),
        SeedResult(2, "one-s2", "ID2", "finished", 512, 40.0, None),
        SeedResult(3, "one-s3", "", "failed", 0, None, None, "it broke"),
    ),
    1,
)


@pytest.fixture
def reported(monkeypatch):
    """What was asked of `train_seeds`, which answers with REPORT."""
    requested = {}

    def reply(recipe, overrides, seeds, root, **others):
        requested.update(recipe=recipe, overrides=overrides, seeds=seeds, **others)
        return REPORT

    monkeypatch.setattr(module, "train_seeds", reply)
    return requested


def test_one_table_with_a_row_per_seed_and_their_mean(call, reported):
    code, out, err = call("train", "cartpole", "run=one", "--seeds", "1..3", "--slots", "2", "total_steps=512")
    rows = [line.split() for line in out.splitlines()]
    assert code == 1
    assert rows[0] == ["seed", "run", "state", "steps", "return", "score"]
    assert rows[1] == ["1", "one-s1", "finished", "512", "20", "30"]
    assert rows[3] == ["3", "one-s3", "failed", "0", "-", "-"]
    assert rows[4][:3] == ["mean", "one", "30"]
    assert "one-s3: it broke" in err
    assert "Run the same command again" in err
    assert (reported["recipe"], reported["seeds"], reported["slots"]) == ("cartpole", (1, 2, 3), 2)
    assert (reported["name"], reported["overrides"]) == ("one", {"total_steps": 512})


def test_the_same_as_json_and_nothing_else_on_stdout(call, reported):
    code, out, _ = call("train", "cartpole", "--seeds", "1,2,3", "--json")
    data = json.loads(out)
    assert (code, data["exit_code"]) == (1, 1)
    assert [one["seed"] for one in data["runs"]] == [1, 2, 3]
    assert data["mean"]["last_return"]["value"] == 30.0
    assert as_data(REPORT)["mean"]["score"] == {"value": 30.0, "low": None, "high": None}


def test_a_dry_run_names_the_runs_and_makes_nothing(call, workplace):
    code, out, err = call("train", "cartpole", "run=one", "--seeds", "1..2", "--dry-run")
    assert code == 0
    assert "one-s1, one-s2" in err
    assert "total_steps" in out
    data = json.loads(call("train", "cartpole", "run=one", "--seeds", "4,5", "--dry-run", "--json")[1])
    assert data["runs"] == ["one-s4", "one-s5"]
    assert data["config"]["seed"] == 4
    assert list(workplace.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["cartpole", "--seeds", "5..1"], 2, "5 is above 1"),
        (["cartpole", "--seeds", "1,1"], 2, "more than once"),
        (["cartpole", "--seeds", "x"], 2, "no list of seeds"),
        (["cartpole", "--seeds", "1..2", "seed=3"], 2, "--seeds and seed=3"),
        (["cartpole", "--seeds", "1..2", "--resume"], 2, "--seeds and --resume"),
        (["cartpole", "--seeds", "1..2", "--nproc", "2"], 2, "--seeds and --nproc"),
        (["cartpole", "--seeds", "1..2", "nproc=2"], 2, "--seeds and --nproc"),
        (["cartpole", "--seeds", "1..2", "--detach"], 2, "--seeds and --detach"),
        (["cartpole", "--seeds", "1..2", "executor=elsewhere"], 3, "elsewhere"),
        (["cartpole", "--seeds", "1..2", "--slots", "0"], 2, "--slots"),
        (["cartpol", "--seeds", "1..2"], 3, "Did you mean 'cartpole'?"),
        (["cartpole", "--seeds", "1..2", "totl_steps=5"], 2, "Did you mean 'total_steps'?"),
    ],
)
def test_bad_words_are_refused_before_anything_starts(call, workplace, words, code, said):
    refused, out, err = call("train", *words)
    assert (refused, out) == (code, "")
    assert said in err
    assert list(workplace.iterdir()) == []
