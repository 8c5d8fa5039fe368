import pytest

from palaestra.core.errors import UsageError
from palaestra.core.run import RunState
from palaestra.runs.documents import read_config, read_request
from palaestra.runs.store import RunStore
from palaestra.sweeps import seeds as module
from palaestra.sweeps.seeds import NOT_BEGUN, train_seeds

FINISHED = RunState.FINISHED


@pytest.fixture
def trained(tmp_path, fake_slots, monkeypatch):
    def run(seeds, fate=lambda name, config: (FINISHED, float(config.seed), 0), **settings):
        runner = fake_slots(tmp_path / "runs", fate)
        monkeypatch.setattr(module, "find_slots", lambda executor: lambda wanted: runner)
        overrides = {"total_steps": 1000, **settings}
        return train_seeds("cartpole", overrides, seeds, tmp_path / "runs", name="one", submitted_by="cli"), runner

    return run


def test_each_seed_is_a_run_of_its_own(trained, tmp_path):
    report, _ = trained((1, 3))
    assert [one.name for one in report.results] == ["one-s1", "one-s3"]
    store = RunStore(tmp_path / "runs")
    assert [read_config(store.named(one.name))["seed"] for one in report.results] == [1, 3]
    assert "run=one-s3" in read_request(store.named("one-s3")).command
    assert report.exit_code == 0


def test_the_mean_is_over_what_finished_with_an_interval(trained):
    report, _ = trained((1, 3, 5))
    assert report.mean("score").value == pytest.approx(3.0)
    assert 1.0 <= report.mean("score").low < 3.0 < report.mean("score").high <= 5.0
    assert report.mean("last_return").value == pytest.approx(1.5)


def test_a_seed_that_fails_is_reported_and_does_not_stop_the_others(trained):
    report, _ = trained(
        (1, 2, 3), lambda name, config: (RunState.FAILED if config.seed == 2 else FINISHED, 1.0, config.seed == 2)
    )
    assert [one.state for one in report.results] == ["finished", "failed", "finished"]
    assert report.results[1].failure == "it broke"
    assert report.exit_code == 1
    assert report.mean("score").value == 1.0


def test_one_that_was_refused_before_it_had_a_run_is_instructed_too(trained):
    report, _ = trained((1,), lambda name, config: (None, 0.0, 2))
    assert (report.results[0].state, report.results[0].failure) == ("failed", "no luck")
    assert report.mean("score") is None


def test_again_only_those_that_are_not_finished(trained):
    trained((1, 2), lambda name, config: (FINISHED if config.seed == 1 else RunState.CANCELLED, 1.0, 0))
    report, runner = trained((1, 2, 3))
    assert runner.started == ["one-s2", "one-s3"]
    assert [one.state for one in report.results] == ["finished"] * 3
    assert trained((1, 2, 3))[1].started == []


def test_what_was_not_begun_says_so(trained):
    report, _ = trained((1,), lambda name, config: (None, 0.0, 0))
    assert report.results[0].state == NOT_BEGUN


def test_seeds_and_a_seed_contradict_each_other(trained):
    with pytest.raises(UsageError, match="--seeds and seed=4"):
        trained((1, 2), seed=4)


def test_other_settings_under_the_same_name_are_refused_before_anything_starts(trained, tmp_path):
    trained((2,))
    with pytest.raises(UsageError, match="total_steps: 1000 -> 500"):
        trained((1, 2), total_steps=500)
    assert len(RunStore(tmp_path / "runs").list()) == 1


def test_without_a_name_the_same_settings_mean_the_same_runs(tmp_path, fake_slots, monkeypatch):
    runner = fake_slots(tmp_path / "runs", lambda name, config: (FINISHED, 1.0, 0))
    monkeypatch.setattr(module, "find_slots", lambda executor: lambda wanted: runner)
    names = [
        train_seeds("cartpole", {"total_steps": steps}, (1,), tmp_path / "runs").name for steps in (1000, 1000, 2000)
    ]
    assert names[0] == names[1] != names[2]
    assert names[0].startswith("cartpole-")
    assert len(runner.started) == 2
