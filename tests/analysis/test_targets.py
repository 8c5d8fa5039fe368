from __future__ import annotations

import pytest

from palaestra.analysis.targets import find_targets, group_policies, group_runs
from palaestra.core.errors import DamagedFile, NotFound, UsageError


def test_without_a_selector_the_best_is_meant_else_the_last_evaluated_else_the_last(make_run):
    run = make_run("first")
    assert find_targets(["first"])[0].epoch is None
    run.save(1)
    run.save(2)
    run.save(3)
    assert find_targets(["first"])[0].epoch == 3
    run.judge(2, [1.0])
    assert find_targets(["first"])[0].epoch == 2
    run.save(1, score=5.0)
    assert find_targets(["first"])[0].epoch == 1


@pytest.mark.parametrize(("selector", "epoch"), [("best", 2), ("latest", 3), ("1", 1)])
def test_a_selector_says_which(make_run, selector, epoch):
    run = make_run("first")
    for number, score in ((1, 0.0), (2, 9.0), (3, None)):
        run.save(number, score=score)
    (found,) = find_targets([f"first:{selector}"])
    assert (found.epoch, found.selector, found.label) == (epoch, selector, f"first:{epoch}")


def test_a_checkpoint_that_is_gone_is_still_known_by_its_evaluations(make_run):
    run = make_run("first")
    run.save(5)
    run.judge(2, [1.0])
    (found,) = find_targets(["first:2"])
    assert (found.epoch, found.checkpoint) == (2, None)


def test_the_same_checkpoint_by_two_words_is_one_subject(make_run):
    run = make_run("first")
    run.save(2, score=1.0)
    assert len(find_targets(["first", "first:best", "first:2", "latest:2"])) == 1


def test_a_path_means_its_file_and_its_run(make_run):
    run = make_run("first")
    run.save(1)
    run.save(2)
    (found,) = find_targets([str(run.directory.checkpoints / "model_0001.yaml")])
    assert (found.run_name, found.epoch, found.directory) == ("first", 1, run.directory)


def test_a_checkpoint_without_its_run_is_a_subject_too(make_run, tmp_path):
    run = make_run("first")
    run.save(4)
    away = tmp_path / "away"
    away.mkdir()
    for path in run.directory.checkpoints.glob("model_*"):
        (away / path.name).write_bytes(path.read_bytes())
    (found,) = find_targets([str(away / "model_0004.yaml")])
    assert (found.directory, found.epoch, found.run_name) == (None, 4, "first")


def test_two_runs_of_one_name_are_distinguished(make_run, tmp_path):
    make_run("first").save(1)
    elsewhere = make_run("first", tmp_path / "elsewhere")
    elsewhere.save(1)
    one, other = find_targets(["first", str(tmp_path / "elsewhere" / "first")])
    assert one.label != other.label
    assert one.label.startswith("first:1")
    assert other.label == f"first:1 {elsewhere.directory.id[-6:]}"


@pytest.mark.parametrize(
    ("target", "error", "said"),
    [
        ("frist", NotFound, "Did you mean 'first'"),
        ("first:9", NotFound, "Epochs there: 1"),
        ("first:best", NotFound, "has a score yet"),
        ("first:bset", UsageError, "Did you mean 'best'"),
        ("nowhere/model_0001.yaml", NotFound, "does not exist"),
        ("empty:latest", NotFound, "no checkpoint"),
    ],
)
def test_what_is_not_there_is_reported_with_what_is(make_run, target, error, said):
    make_run("first").save(1)
    make_run("empty")
    with pytest.raises(error) as caught:
        find_targets([target])
    assert said in str(caught.value)


def test_a_damaged_checkpoint_is_named(make_run):
    run = make_run("first")
    run.save(1)
    run.save(2)
    (run.directory.checkpoints / "model_0002.yaml").write_text("damaged")
    (found,) = find_targets(["first"])
    assert found.epoch == 1
    assert "model_0002" in found.notes[0]
    with pytest.raises(DamagedFile, match="model_0002"):
        find_targets(["first:2"])


def test_a_config_that_cannot_be_read_is_reported(make_run):
    run = make_run("first", total_steps=5)
    assert find_targets(["first"])[0].config == {"total_steps": 5}
    run.directory.config_file.write_text("{")
    (found,) = find_targets(["first"])
    assert found.config is None
    assert "group of its own" in found.notes[0]


def test_runs_that_differ_in_their_seed_alone_are_one_group(make_run):
    for seed in (1, 2, 3):
        make_run(f"ppo-{seed}", seed=seed, ppo={"gamma": 0.9})
    make_run("other", seed=1, ppo={"gamma": 0.5})
    groups = group_runs(find_targets(["ppo-1", "other", "ppo-2", "ppo-3"]))
    assert [(group.label, group.run_names) for group in groups] == [
        ("ppo x3", ("ppo-1", "ppo-2", "ppo-3")),
        ("other", ("other",)),
    ]


def test_a_seed_inside_a_section_is_a_difference(make_run):
    make_run("one", seed=1, evaluation={"seed": 1})
    make_run("two", seed=1, evaluation={"seed": 2})
    assert len(group_runs(find_targets(["one", "two"]))) == 2


def test_two_epochs_of_one_run_are_two_policies_and_one_run(make_run):
    run = make_run("first", seed=1)
    run.save(1)
    run.save(2)
    targets = find_targets(["first:1", "first:2"])
    assert [group.label for group in group_policies(targets)] == ["first:1", "first:2"]
    assert [(group.label, group.run_names) for group in group_runs(targets)] == [("first", ("first",))]


def test_names_without_a_common_start_are_called_by_their_recipe(make_run):
    for seed, name in enumerate(["ash", "elm"]):
        make_run(name, seed=seed)
    (group,) = group_policies(find_targets(["ash", "elm"]))
    assert group.label == "cartpole x2"


def test_groups_that_would_be_called_alike_are_distinguished_by_what_differs(make_run):
    for index in range(4):
        make_run(f"run-{index}", seed=index, ppo={"gamma": 0.9 if index < 2 else 0.5})
    labels = [group.label for group in group_policies(find_targets([f"run-{index}" for index in range(4)]))]
    assert labels == ["run x2", "run x2 (ppo.gamma=0.5)"]


def test_a_run_without_a_readable_config_is_alone(make_run):
    for name in ("one", "two"):
        make_run(name).directory.config_file.unlink()
    assert len(group_runs(find_targets(["one", "two"]))) == 2
