"""The same seed gives the same run, under whatever name."""

import json

import pytest

pytestmark = pytest.mark.slow


def test_the_same_command_twice_under_two_names_gives_the_same_metrics(palaestra, differences):
    reports = {}
    for name in ("first", "second"):
        done = palaestra("train", "cartpole", f"run={name}", "total_steps=1e4", "seed=1", "--json")
        assert done.code == 0, done.err
        reports[name] = json.loads(done.out)
    assert reports["first"]["metrics"] == reports["second"]["metrics"]
    assert reports["first"]["metrics"]["charts/episodic_return"] > 0
    assert not [name for name in reports["first"]["metrics"] if name.startswith("time/")]
    assert differences(palaestra.run("first"), palaestra.run("second")) == []


@pytest.mark.full
def test_another_seed_gives_another_run(palaestra, differences):
    for seed in (1, 2):
        done = palaestra("train", "cartpole", f"run=seed-{seed}", "total_steps=512", f"seed={seed}", "--quiet")
        assert done.code == 0, done.err
    found = differences(palaestra.run("seed-1"), palaestra.run("seed-2"))
    assert {"weights", "metrics"} <= set(found)
