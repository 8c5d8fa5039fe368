import pytest

from palaestra.analysis.evaluations import read_evaluations
from palaestra.analysis.scores import make_scores
from palaestra.analysis.targets import find_targets, group_policies


def scores_of(*targets):
    targets = find_targets(targets)
    evaluated = {one.label: read_evaluations(one.directory, one.epoch).results for one in targets}
    return make_scores(
        group_policies(targets), {name: {one.setting: one for one in found} for name, found in evaluated.items()}
    )


def judged_run(make_run, name, seed=1, gamma=0.9, **returns):
    """One simulation for each keyword."""
    run = make_run(name, seed=seed, ppo={"gamma": gamma})
    run.save(1)
    for index, (simulation, values) in enumerate(returns.items()):
        run.judge(1, values, simulation=simulation, max_episode_steps=index + 1)
    return run


def test_a_policy_alone_is_evaluated_over_its_episodes(make_run):
    judged_run(make_run, "first", easy=[1, 2, 3, 6], hard=[0, 0, 0, 8])
    found = scores_of("first")
    (row,) = found.policies
    easy, hard = row.cells["easy"], row.cells["hard"]
    assert (easy.mean.value, easy.iqm.value, easy.least, easy.most) == (3, 2.5, 1, 6)
    assert (easy.over, easy.count, easy.episodes) == ("episodes", 4, 4)
    assert 1 <= easy.mean.low < 3 < easy.mean.high <= 6
    assert row.mean.value == (3 + 2) / 2
    assert hard.iqm.value == 0
    assert row.iqm.value == pytest.approx((0 + 1 + 2 + 3) / 4)  # of 0 0 0 1 2 3 6 8
    assert (found.shared, found.improvements, found.has_groups) == (("easy", "hard"), (), False)


def test_a_group_is_evaluated_over_its_runs_and_each_run_weighs_the_same(make_run):
    judged_run(make_run, "ppo-1", seed=1, easy=[0.0] * 10)
    judged_run(make_run, "ppo-2", seed=2, easy=[6.0])
    found = scores_of("ppo-1", "ppo-2")
    (group,) = found.groups
    cell = group.cells["easy"]
    assert (group.label, group.members) == ("ppo x2", ("ppo-1:1", "ppo-2:1"))
    assert (cell.mean.value, cell.over, cell.count, cell.episodes) == (3, "runs", 2, 11)
    assert (cell.mean.low, cell.mean.high) == (0, 6)
    assert [row.label for row in found.policies] == ["ppo-1:1", "ppo-2:1"]
    assert found.has_groups


def test_overall_figures_are_over_what_all_have_played(make_run):
    judged_run(make_run, "one", gamma=0.9, easy=[1, 1], hard=[100, 100])
    judged_run(make_run, "two", gamma=0.5, easy=[3, 3])
    found = scores_of("one", "two")
    assert found.shared == ("easy",)
    assert [row.mean.value for row in found.groups] == [1, 3]
    assert "hard" not in found.groups[1].cells


def test_without_anything_in_common_there_is_no_overall_figure(make_run):
    make_run("one", a=1).judge(1, [1.0, 2.0], env="A-v0")
    make_run("two", a=2).judge(1, [1.0, 2.0], env="B-v0")
    found = scores_of("one", "two")
    assert [row.mean for row in found.groups] == [None, None]
    assert [one.name for one in found.simulations] == ["A-v0", "B-v0"]
    assert found.improvements == ()


def test_shades_go_from_the_lowest_to_the_highest_of_a_column(make_run):
    for index, value in enumerate([1.0, 4.0, 2.0]):
        judged_run(make_run, f"r{index}", gamma=index, easy=[value, value], same=[7.0])
    found = scores_of("r0", "r1", "r2")
    assert [row.cells["easy"].shade for row in found.policies] == pytest.approx([0, 1, 1 / 3])
    assert [row.cells["same"].shade for row in found.policies] == [0.5] * 3


def test_improvement_is_between_runs_where_both_have_several_else_between_episodes(make_run):
    for seed in (1, 2):
        judged_run(make_run, f"good-{seed}", seed=seed, gamma=0.9, easy=[10.0, 30.0])
        judged_run(make_run, f"poor-{seed}", seed=seed, gamma=0.5, easy=[0.0, 25.0])
    several = scores_of("good-1", "good-2", "poor-1", "poor-2").improvements[0]
    assert (several.better, several.worse, several.over) == ("good x2", "poor x2", "runs")
    assert several.probability.value == 1  # 20 against 12.5
    single = scores_of("good-1", "poor-1", "poor-2").improvements[0]
    assert single.over == "episodes"
    assert single.probability.value == 3 / 4  # 10 > 0, 10 < 25, 30 > 0, 30 > 25


def test_the_same_setting_under_two_names_is_one_column(make_run):
    one, two = make_run("one", a=1), make_run("two", a=2)
    one.judge(1, [1.0])
    two.judge(1, [2.0], simulation="pole", category="classic")
    (column,) = scores_of("one", "two").simulations
    assert (column.name, column.category, column.env) == ("pole", "classic", "CartPole-v1")


def test_two_settings_of_one_name_are_two_columns_distinguished(make_run):
    run = make_run("one")
    run.judge(1, [1.0])
    run.judge(1, [2.0], max_episode_steps=9)
    run.judge(1, [3.0], deterministic=False)
    names = [one.name for one in scores_of("one").simulations]
    assert names == ["CartPole-v1", "CartPole-v1 max_episode_steps=9", "CartPole-v1 sampled"]


def test_columns_are_in_the_order_of_their_categories(make_run):
    run = make_run("one")
    run.judge(1, [1.0], simulation="b", category="speed", max_episode_steps=1)
    run.judge(1, [1.0], simulation="a", category="maze", max_episode_steps=2)
    run.judge(1, [1.0], simulation="c", category="speed", max_episode_steps=3)
    assert [(one.category, one.name) for one in scores_of("one").simulations] == [
        ("maze", "a"),
        ("speed", "b"),
        ("speed", "c"),
    ]


def test_whoever_was_never_evaluated_has_no_row(make_run):
    make_run("one", a=1).judge(1, [1.0])
    make_run("two", a=2).save(1)
    assert [row.label for row in scores_of("one", "two").policies] == ["one:1"]


def test_a_group_of_which_one_run_was_evaluated_is_that_run(make_run):
    make_run("ppo-1", seed=1).judge(1, [1.0])
    make_run("ppo-2", seed=2).save(1)
    (row,) = scores_of("ppo-1", "ppo-2").groups
    assert (row.label, row.members, row.cells["CartPole-v1"].basis) == ("ppo-1:1", ("ppo-1:1",), "1 episode")
