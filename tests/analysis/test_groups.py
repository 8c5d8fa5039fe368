from palaestra.analysis.groups import group_policies, group_runs
from palaestra.analysis.subjects import find_subjects


def test_runs_that_differ_in_their_seed_alone_are_one_group(make_run):
    for seed in (1, 2, 3):
        make_run(f"ppo-{seed}", seed=seed, ppo={"gamma": 0.9})
    make_run("other", seed=1, ppo={"gamma": 0.5})
    groups = group_runs(find_subjects(["ppo-1", "other", "ppo-2", "ppo-3"]))
    assert [(group.label, group.run_names) for group in groups] == [
        ("ppo x3", ("ppo-1", "ppo-2", "ppo-3")),
        ("other", ("other",)),
    ]


def test_a_seed_inside_a_section_is_a_difference(make_run):
    make_run("one", seed=1, evaluation={"seed": 1})
    make_run("two", seed=1, evaluation={"seed": 2})
    assert len(group_runs(find_subjects(["one", "two"]))) == 2


def test_two_epochs_of_one_run_are_two_policies_and_one_run(make_run):
    run = make_run("first", seed=1)
    run.save(1)
    run.save(2)
    subjects = find_subjects(["first:1", "first:2"])
    assert [group.label for group in group_policies(subjects)] == ["first:1", "first:2"]
    assert [(group.label, group.run_names) for group in group_runs(subjects)] == [("first", ("first",))]


def test_names_without_a_common_beginning_are_called_by_their_recipe(make_run):
    for seed, name in enumerate(["ash", "elm"]):
        make_run(name, seed=seed)
    (group,) = group_policies(find_subjects(["ash", "elm"]))
    assert group.label == "cartpole x2"


def test_groups_that_would_be_called_alike_are_told_apart_by_what_differs(make_run):
    for index in range(4):
        make_run(f"run-{index}", seed=index, ppo={"gamma": 0.9 if index < 2 else 0.5})
    labels = [group.label for group in group_policies(find_subjects([f"run-{index}" for index in range(4)]))]
    assert labels == ["run x2", "run x2 (ppo.gamma=0.5)"]


def test_a_run_without_a_readable_config_is_alone(make_run):
    for name in ("one", "two"):
        make_run(name).directory.config_file.unlink()
    assert len(group_runs(find_subjects(["one", "two"]))) == 2
