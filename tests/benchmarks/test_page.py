import json

import pytest

from learn.off_policy_tasks import OFF_POLICY_TASKS
from learn.page import brief, page, write_pages
from learn.result import Job, Result


def result(side, task, seed, mean, training=0.0):
    settings = {"ppo": {"gamma": 0.5, "target_kl": None}}
    return Result(Job(side, task, seed, 100, settings), 128, (mean - 1, mean + 1), training, 1.0, {})


BOTH = [
    *(result("ours", "cartpole", seed, 490 + seed) for seed in (1, 2, 3, 4, 5)),
    *(result("sb3", "cartpole", seed, 90 + seed) for seed in (5, 4, 3, 2, 1)),
]


def rows_of(text, env_id):
    return [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in text.splitlines()
        if line.startswith(f"| {env_id} ")
    ]


def test_the_first_table_says_who_is_better_and_by_how_much():
    first = rows_of(page(BOTH), "CartPole-v1")[0]
    # five samples 1 apart: 2.776 * sqrt(2.5 / 5) = 2.0; the difference: 2.306 * sqrt(2 * 2.5 / 5) = 2.3
    assert first[2:] == ["5", "493.0 ± 2.0", "93.0 ± 2.0", "+400.0 ± 2.3", "better"]


def test_a_side_that_is_still_to_come_is_shown_as_such():
    first = rows_of(page(BOTH[:5]), "CartPole-v1")[0]
    assert first[3:] == ["493.0 ± 2.0", "…", "…", "…"]


def test_nothing_is_concluded_before_every_seed_is_there():
    first = rows_of(page(BOTH[:7]), "CartPole-v1")[0]
    assert first[3:] == ["493.0 ± 2.0", "94.5 ± 6.4 (2 of 5)", "…", "…"]


def test_tasks_without_any_result_are_left_out():
    assert "Pendulum-v1" not in page(BOTH)


def test_every_seed_is_listed_in_order():
    listed = [cells for cells in rows_of(page(BOTH), "CartPole-v1") if cells[1] == "Stable-Baselines3"]
    assert listed == [["CartPole-v1", "Stable-Baselines3", "1, 2, 3, 4, 5", "91.0, 92.0, 93.0, 94.0, 95.0", "128"]]


def test_returns_between_zero_and_one_have_two_digits():
    found = [result("ours", "recall", seed, 1.0) for seed in range(5)]
    first = rows_of(page(found), "palaestra/Recall-v0")[0]
    assert first[3] == "1.00 ± 0.00"


def test_the_page_says_which_seeds_are_whose_and_who_the_peer_of_the_memory_task_is():
    reports = " ".join(page(BOTH).split())
    assert "ours are trained with seeds from 11 on, the peer's from 1 on" in reports
    assert (
        "None of the seeds reported for us (11 and on) was used in choosing them; the peer's seeds are 1 and on"
        in reports
    )
    assert "On the memory task (palaestra/Recall-v0) the peer is RecurrentPPO of sb3-contrib" in reports


@pytest.mark.parametrize(
    ("settings", "short"),
    [
        ({"gamma": 0.9, "settings": {"hidden": [64]}}, {"gamma": 0.9, "settings": {"hidden": [64]}}),
        ({"rate": {"start": 0.1}}, {"rate": 0.1}),
        ({"rate": {"start": 0.1, "kind": "linear"}}, {"rate": {"linear": [0.1, 0.0]}}),
    ],
)
def test_schedules_are_shown_in_a_word(settings, short):
    assert brief(settings) == short


def test_the_page_and_its_json_hold_the_same_results(tmp_path):
    write_pages(tmp_path / "deep", BOTH)
    data = json.loads((tmp_path / "deep" / "learning.json").read_text())
    assert data["schema_version"] == 1
    assert [(row["job"]["side"], row["job"]["seed"], row["mean"]) for row in data["results"]] == [
        (each.job.side, each.job.seed, each.mean) for each in BOTH
    ]


def test_off_policy_tasks_have_a_page_of_their_own_that_names_the_algorithm(tmp_path):
    write_pages(tmp_path, [*BOTH, result("sb3", "pendulum-sac", 1, -150)])
    assert "Pendulum-v1" not in (tmp_path / "learning.md").read_text()
    found = rows_of((tmp_path / "learning-off-policy.md").read_text(), "Pendulum-v1, SAC")
    assert found[0][4] == "-150.0 ± ? (1 of 5)"
    assert page([result("ours", "pendulum-sac", 11, -1)], OFF_POLICY_TASKS).startswith("# DQN, SAC and TD3")
