import numpy as np
import pytest

from palaestra.apps.matmul.game_batch import TensorGameBatch, action_space, observation_space
from palaestra.apps.matmul.game_settings import GameSettings
from palaestra.core.errors import UsageError
from palaestra.envs.batch import BatchEnvs


def test_spaces_follow_the_field():
    bits, ternary = GameSettings(), GameSettings(field="zt")
    assert action_space(bits).nvec.tolist() == [2] * 12
    assert action_space(ternary).nvec.tolist() == [3] * 12
    assert action_space(ternary).start.tolist() == [-1] * 12
    assert observation_space(bits).high.max() == 1


def test_a_solved_world_ends_with_its_figures_and_begins_anew(strassen_bits):
    batch = TensorGameBatch([GameSettings()], 3)
    envs = BatchEnvs(batch)
    seen = np.zeros((3, 4, 4, 4), np.int32)
    envs.reset([1, 2, 3], seen)
    start = seen.copy()
    for row in np.concatenate(strassen_bits.factors, axis=1):
        actions = np.zeros((3, 12), np.int64)
        actions[1] = row
        step = envs.step(actions, seen)
    (ending,) = step.endings
    assert (ending.env_index, ending.episode.length, ending.episode.terminated) == (1, 7, True)
    assert ending.episode.total_reward == -7
    assert ending.episode.extras == {
        "reward": -1.0,
        "residual_norm": 0.0,
        "rank_used": 7.0,
        "action_valid": 1.0,
        "solved": 1.0,
    }
    assert not ending.final_observation.any()
    assert (seen == start).all()


def test_worlds_go_on_from_a_capture():
    batch, twin = (TensorGameBatch([GameSettings(change_of_basis=True)], 2) for _ in range(2))
    seen, other = (np.zeros((2, 4, 4, 4), np.int32) for _ in range(2))
    rewards = np.zeros(2, np.float32)
    batch.reset([0, 1], [4, 5], [0, 0], seen)
    actions = np.ones((2, 12), np.int64)
    batch.step(actions, seen, rewards)
    twin.restore(batch.capture())
    batch.step(actions * [[1], [0]], seen, rewards)
    twin.step(actions * [[1], [0]], other, rewards)
    assert (seen == other).all()


def test_a_world_is_drawn_as_its_factors():
    batch = TensorGameBatch([GameSettings()], 1)
    empty = batch.render(0)
    batch.move(np.ones((1, 12), np.int64))
    assert (batch.render(0) != empty).any()


def test_tasks_that_differ_are_refused():
    with pytest.raises(UsageError, match="differ"):
        TensorGameBatch([GameSettings(), GameSettings(format="2x2x3")], 2)
