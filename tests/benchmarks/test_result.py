from dataclasses import replace

import pytest

from learn.result import Job, Result, find_result, read_result, write_result

JOB = Job(side="ours", task="cartpole", seed=1, total_steps=100, settings={"ppo": {"gamma": 0.9}})
RESULT = Result(JOB, steps=128, returns=(1.0, 2.5), training_return=3.0, seconds=0.5, versions={"torch": "2"})


def test_a_result_comes_back_as_it_was_written(tmp_path):
    write_result(tmp_path / "a.json", RESULT)
    assert read_result(tmp_path / "a.json") == RESULT
    assert read_result(tmp_path / "a.json").mean == 1.75


@pytest.mark.parametrize(
    "other",
    [
        replace(JOB, side="sb3"),
        replace(JOB, task="acrobot"),
        replace(JOB, seed=2),
        replace(JOB, total_steps=101),
        replace(JOB, settings={"ppo": {"gamma": 0.91}}),
    ],
)
def test_whatever_changes_the_outcome_changes_the_name(other, tmp_path):
    write_result(tmp_path / f"{JOB.name}.json", RESULT)
    assert find_result(tmp_path, JOB) == RESULT
    assert find_result(tmp_path, other) is None


def test_how_the_settings_were_reached_does_not_matter():
    assert replace(JOB, overrides={"ppo": {"gamma": 0.9}}).name == JOB.name


def test_nothing_half_written_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr("pathlib.Path.replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        write_result(tmp_path / f"{JOB.name}.json", RESULT)
    assert find_result(tmp_path, JOB) is None
