import copy
from collections import Counter

import numpy as np
import pytest
import torch

from palaestra.algorithms.group import ALONE, Group
from palaestra.config.env import CurriculumConfig
from palaestra.config.train import TrainConfig
from palaestra.core.errors import DamagedFile, UsageError
from palaestra.training.curriculum import Curriculum, updated_mean
from palaestra.training.state import new_training_state
from palaestra.training.trainer import train

WEIGHTED = CurriculumConfig(tasks={"easy": {"weight": 1.0}, "hard": {"weight": 3.0}})
LEARNING = CurriculumConfig(
    tasks={"solved": {}, "moving": {}, "hopeless": {}},
    kind="learning_progress",
    fast_rate=0.5,
    slow_rate=0.05,
    floor=0.3,
)
CARTPOLES = TrainConfig(
    total_steps=64 * 12,
    env={"id": "CartPole-v1"},
    curriculum={
        "tasks": {"still": {"weight": 2.0}, "sutton": {"kwargs": {"sutton_barto_reward": True}}},
        "kind": "learning_progress",
    },
    ppo={"env_count": 4, "horizon": 16, "minibatch_size": 32, "update_epochs": 1},
)


def test_tasks_are_drawn_in_proportion_to_their_weights():
    curriculum = Curriculum(WEIGHTED, env_count=1, seed=0)
    drawn = Counter(curriculum.next_options(0)["task"] for _ in range(4000))
    assert drawn["hard"] / 4000 == pytest.approx(0.75, abs=0.03)


def test_environments_share_one_generator_so_that_they_do_not_all_play_the_same():
    curriculum = Curriculum(WEIGHTED, env_count=8, seed=0)
    columns = [curriculum.next_options(env)["task"] for _ in range(40) for env in range(8)]
    by_env = [tuple(columns[env::8]) for env in range(8)]
    assert len(set(by_env)) == 8
    assert len({Counter(column)["easy"] for column in by_env}) > 1


def test_the_same_seed_gives_the_same_draws_and_another_seed_others():
    draws = [
        [curriculum.next_options(0)["task"] for _ in range(50)]
        for curriculum in (Curriculum(WEIGHTED, 1, 5), Curriculum(WEIGHTED, 1, 5), Curriculum(WEIGHTED, 1, 6))
    ]
    assert draws[0] == draws[1] != draws[2]


def test_learning_progress_prefers_the_task_whose_return_moves():
    curriculum = Curriculum(LEARNING, env_count=1, seed=0)
    returns = {"solved": 500.0, "hopeless": -7.0}
    drawn: Counter[str] = Counter()
    for iteration in range(60):
        for _ in range(10):
            task = curriculum.next_options(0)["task"]
            curriculum.ended(0, returns.get(task, float(iteration)))
            drawn[task] += iteration >= 20
        curriculum.count_results(ALONE)
    shares = dict(zip(curriculum.names, curriculum.shares(), strict=True))
    assert shares == pytest.approx({"solved": 0.1, "moving": 0.8, "hopeless": 0.1}, abs=1e-9)  # floor 0.3 over three
    assert drawn["moving"] > 4 * drawn["solved"]
    assert min(drawn.values()) > 0  # nobody is forgotten


def test_until_every_task_was_played_and_while_none_moves_weights_alone_decide():
    curriculum = Curriculum(LEARNING, env_count=3, seed=0)
    curriculum.ended(0, 5.0)
    curriculum.count_results(ALONE)
    assert curriculum.shares().tolist() == pytest.approx([1 / 3] * 3)
    curriculum._playing = [0, 1, 2]
    for env in range(3):
        curriculum.ended(env, 5.0)
    curriculum.count_results(ALONE)
    assert curriculum.shares().tolist() == pytest.approx([1 / 3] * 3)


def test_a_running_mean_after_several_equal_results_is_that_of_taking_them_one_by_one():
    mean = 2.0
    for _ in range(5):
        mean += 0.1 * (7.0 - mean)
    assert updated_mean(2.0, 7.0, 0.1, 5) == pytest.approx(mean)
    assert updated_mean(float("nan"), 7.0, 0.1, 5) == 7.0


def test_metrics_tell_returns_shares_and_how_many_were_completed():
    curriculum = Curriculum(WEIGHTED, env_count=2, seed=0)
    curriculum._playing = [0, 0]
    curriculum.ended(0, 4.0)
    curriculum.ended(1, 6.0)
    first = curriculum.count_results(ALONE)
    assert first == {
        "tasks/easy/return": 5.0,
        "tasks/easy/share": 0.25,
        "tasks/hard/share": 0.75,
        "tasks/completed": 2.0,
    }
    assert "tasks/easy/return" not in curriculum.count_results(ALONE)  # not played: absent, not zero
    assert curriculum.completed == 2


def test_results_of_all_processes_count_for_everyone():
    class Twins(Group):
        world_size = 2

        def sum_(self, tensor):
            return tensor.mul_(2)  # the other has the same results

    curriculum = Curriculum(WEIGHTED, env_count=1, seed=0)
    curriculum.ended(0, 4.0)
    metrics = curriculum.count_results(Twins())
    assert (metrics["tasks/easy/return"], metrics["tasks/completed"]) == (4.0, 2.0)


def test_options_carry_the_tasks_settings_when_the_environment_is_to_read_them():
    config = CurriculumConfig(tasks={"walls": {"kwargs": {"size": 3}}}, given_by="options")
    assert Curriculum(config, 1, 0).next_options(0) == {"task": "walls", "size": 3}


def weights(state) -> torch.Tensor:
    return state.algorithm.tensors.optimizer.flat.clone()


@pytest.mark.fault("R2")
def test_a_curriculum_resumes_bit_for_bit_and_a_part_that_is_left_out_is_seen():
    state = new_training_state(CARTPOLES)
    reports = train(state)
    for _ in range(5):
        next(reports)
    model, saved = copy.deepcopy(state.algorithm.policy().state_dict()), copy.deepcopy(state.capture())
    assert saved["envs"] is not None
    rest = list(reports)

    def resumed(trainer_state):
        other = new_training_state(CARTPOLES.model_copy(update={"seed": 50}))
        other.algorithm.policy().load_state_dict(model)
        other.restore(trainer_state)
        return other, list(train(other))

    other, reports_again = resumed(saved)
    assert torch.equal(weights(other), weights(state))
    assert [report.metrics for report in reports_again] == [report.metrics for report in rest]
    assert rest[-1].metrics["tasks/completed"] > 10
    forgetful, _ = resumed({**saved, "curriculum": new_training_state(CARTPOLES).capture()["curriculum"]})
    assert not torch.equal(weights(forgetful), weights(state))


def test_a_state_with_other_tasks_does_not_fit():
    state = new_training_state(CARTPOLES)
    saved = state.capture()
    saved["curriculum"]["names"] = ["still", "walls"]
    with pytest.raises(DamagedFile, match=r"tasks are \['still', 'walls'\], this curriculum's are"):
        state.restore(saved)


def test_tasks_of_other_spaces_are_refused_before_training_begins():
    config = TrainConfig(
        env="palaestra/Identity-v0",
        curriculum={"tasks": {"few": {"kwargs": {"count": 2}}, "many": {"kwargs": {"count": 9}}}},
    )
    with pytest.raises(
        UsageError, match=r"'few' and 'many' differ in their observation space: 2 choices and 9 choices"
    ):
        new_training_state(config)


def test_every_environment_plays_tasks_of_its_own():
    state = new_training_state(CARTPOLES)
    played = [[] for _ in range(4)]
    original = state.curriculum.next_options

    def spy(env_index):
        options = original(env_index)
        played[env_index].append(options["task"])
        return options

    state.curriculum.next_options = spy
    list(train(state))
    assert all(len(tasks) > 3 for tasks in played)
    assert len({tuple(tasks[:4]) for tasks in played}) > 1
    assert isinstance(state.curriculum.shares(), np.ndarray)
