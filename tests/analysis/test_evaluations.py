import json

import pytest

from palaestra.analysis.evaluations import evaluated_epochs, read_evaluations


def test_rows_come_back_by_seed(make_run):
    run = make_run("first")
    run.judge(3, [1.0, 2.0], first_seed=10, simulation="easy", category="maze")
    (found,) = read_evaluations(run.directory, 3).results
    assert (found.simulation, found.category, found.returns) == ("easy", "maze", {10: 1.0, 11: 2.0})
    assert evaluated_epochs(run.directory) == [3]


def test_batches_in_the_same_setting_are_one_and_a_seed_counts_once(make_run):
    run = make_run("first")
    run.judge(3, [1.0, 2.0])
    run.judge(3, [2.0, 3.0], first_seed=1, simulation="easy")
    (found,) = read_evaluations(run.directory, 3).results
    assert found.returns == {0: 1.0, 1: 2.0, 2: 3.0}
    assert found.simulation == "easy"


@pytest.mark.parametrize(
    "other", [{"env": "Acrobot-v1"}, {"env_kwargs": {"size": 3}}, {"max_episode_steps": 9}, {"deterministic": False}]
)
def test_another_setting_is_another_evaluation_whatever_it_is_called(make_run, other):
    run = make_run("first")
    run.judge(3, [1.0])
    run.judge(3, [5.0], **other)
    assert [one.returns for one in read_evaluations(run.directory, 3).results] == [{0: 1.0}, {0: 5.0}]


def test_the_order_of_keyword_arguments_makes_no_difference(make_run):
    run = make_run("first")
    run.judge(3, [1.0], env_kwargs={"a": 1, "b": 2})
    run.judge(3, [2.0], first_seed=1, env_kwargs={"b": 2, "a": 1})
    (found,) = read_evaluations(run.directory, 3).results
    assert found.setting.settings == {"a": 1, "b": 2}


def test_other_epochs_are_left_alone(make_run):
    run = make_run("first")
    run.judge(3, [1.0])
    run.judge(12, [5.0])
    assert [one.returns for one in read_evaluations(run.directory, 12).results] == [{0: 5.0}]
    assert evaluated_epochs(run.directory) == [3, 12]
    assert read_evaluations(run.directory, 4).results == ()


def test_what_is_not_finite_is_counted_and_not_calculated_with(make_run):
    run = make_run("first")
    run.judge(3, [1.0, float("nan"), float("inf")])
    (found,) = read_evaluations(run.directory, 3).results
    assert (found.returns, found.not_finite) == ({0: 1.0}, 2)


@pytest.mark.parametrize("content", ["{", "[]", json.dumps({"schema_version": 1, "rows": []}), None])
def test_rows_that_cannot_be_read_are_named_and_left_out(make_run, content):
    run = make_run("first")
    run.judge(3, [1.0])
    path = run.judge(3, [9.0], env="Acrobot-v1")
    path.unlink() if content is None else path.write_text(content)
    found = read_evaluations(run.directory, 3)
    assert [one.returns for one in found.results] == [{0: 1.0}]
    assert path.name in found.notes[0]


def test_a_summary_cannot_lead_out_of_its_run(make_run, tmp_path):
    run, other = make_run("first"), make_run("second")
    location = other.judge(3, [9.0])
    run.judge(3, [1.0])
    text = run.directory.eval_summary_file.read_text()
    run.directory.eval_summary_file.write_text(text.replace("evaluations/3-", f"{location.parent}/3-"))
    assert 9.0 not in [value for one in read_evaluations(run.directory, 3).results for value in one.returns.values()]
