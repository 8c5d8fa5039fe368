from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from palaestra.apps.matmul.agent.config import GameSettings
from palaestra.apps.matmul.agent.tensor_game import (
    TensorGame,
    TensorGameBatch,
    TensorGameEnv,
    action_space,
    observation_space,
    slice_rank,
)
from palaestra.apps.matmul.schemes.factorization import Format, naive_factorization
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.verification import NotAnAlgorithm, product_tensor, verify
from palaestra.config.env import EnvConfig
from palaestra.core.errors import UsageError
from palaestra.envs.build import make_native_batch, offers_batch
from palaestra.envs.vector.batch import BatchEnvs
from palaestra.testing.check_env import check_env


def actions_of(claim):
    return np.concatenate(claim.factors, axis=1)


def play(game, rows):
    for row in rows:
        result = game.step(np.repeat(row[None], game.count, axis=0))
    return result


def begun(count=1, **settings):
    game = TensorGame(GameSettings(**settings), count)
    game.reset(range(count), range(count))
    return game


@pytest.mark.parametrize("field", ["gf2", "zt"])
def test_strassens_products_solve_the_game_in_seven_moves(field, strassen, strassen_bits):
    rows = actions_of(strassen_bits if field == "gf2" else strassen)
    game = begun(field=field)
    before_last = play(game, rows[:6])
    assert not before_last.are_solved.any()
    assert not before_last.have_ended.any()
    last = play(game, rows[6:])
    assert last.are_solved.all()
    assert last.ranks_used.tolist() == [7]
    assert last.rewards.tolist() == [-1.0]
    assert verify(game.factorization(0)).rank == 7


def test_the_initial_tensor_is_not_solved():
    game = begun()
    nothing = np.zeros((1, 12), np.int64)
    result = game.step(nothing)
    assert result.residual_norms[0] == pytest.approx(8**0.5)
    assert not result.are_solved.any()
    assert not result.are_valid.any()
    assert result.ranks_used.tolist() == [0]


def test_signs_matter_over_the_integers(strassen):
    rows = actions_of(strassen)
    rows[0, 0] = -rows[0, 0]
    result = play(begun(field="zt"), rows)
    assert not result.are_solved.any()
    assert result.residual_norms[0] > 0


def test_an_unsolved_game_pays_the_slice_rank_of_the_residual():
    game = begun(max_rank=3)
    rows = actions_of(naive_factorization(Format(2, 2, 2), Field.GF2))
    result = play(game, rows[:3])
    assert result.have_ended.all()
    assert result.rewards.tolist() == [-1.0 - 5.0]  # five naive products are left
    with pytest.raises(NotAnAlgorithm, match="nonzero entries"):
        verify(game.factorization(0))


def test_in_a_random_basis_the_moves_are_transformed_back(strassen_bits):
    game = begun(count=5, change_of_basis=True)
    shown = game.residuals.copy()
    assert any((each != product_tensor(Format(2, 2, 2))).any() for each in shown)
    bases = game.capture()["bases"]
    for place in range(7):
        rows = [
            np.concatenate(
                [basis[0] @ factor[place] % 2 for basis, factor in zip(three, strassen_bits.factors, strict=True)]
            )
            for three in bases
        ]
        result = game.step(np.array(rows))
    assert result.are_solved.all()
    for each in range(5):
        assert sorted(actions_of(game.factorization(each)).tolist()) == sorted(actions_of(strassen_bits).tolist())


def test_the_basis_is_determined_by_the_seed():
    game = begun(count=2, change_of_basis=True)
    game.reset([0, 1], [7, 7])
    assert (game.residuals[0] == game.residuals[1]).all()
    game.reset([1], [8])
    assert (game.residuals[0] != game.residuals[1]).any()


def test_a_restored_game_continues_exactly(strassen_bits):
    rows = actions_of(strassen_bits)
    game = begun(change_of_basis=True)
    play(game, rows[:3])
    twin = TensorGame(game.settings, 1)
    twin.restore(game.capture())
    first, second = play(game, rows[3:]), play(twin, rows[3:])
    assert (game.residuals == twin.residuals).all()
    assert first.residual_norms == second.residual_norms
    assert (game.factorization(0).u == twin.factorization(0).u).all()


def test_the_slice_rank_of_the_tensor_is_the_naive_rank():
    assert slice_rank(product_tensor(Format(2, 3, 4)), Field.GF2) == 24
    one = np.zeros((4, 4, 4), np.int64)
    one[1:3, 0, :2] = 1
    assert slice_rank(one, Field.ZT) == 1


def test_spaces_follow_the_field():
    bits, ternary = GameSettings(), GameSettings(field="zt")
    assert action_space(bits).nvec.tolist() == [2] * 12
    assert action_space(ternary).nvec.tolist() == [3] * 12
    assert action_space(ternary).start.tolist() == [-1] * 12
    assert observation_space(bits).high.max() == 1


def test_a_solved_game_ends_with_its_info_and_resets(strassen_bits):
    batch = TensorGameBatch([GameSettings()], 3)
    envs = BatchEnvs(batch)
    observation = np.zeros((3, 4, 4, 4), np.int32)
    envs.reset([1, 2, 3], observation)
    start = observation.copy()
    for row in np.concatenate(strassen_bits.factors, axis=1):
        actions = np.zeros((3, 12), np.int64)
        actions[1] = row
        step = envs.step(actions, observation)
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
    assert (observation == start).all()


def test_a_restored_batch_continues_exactly():
    batch, twin = (TensorGameBatch([GameSettings(change_of_basis=True)], 2) for _ in range(2))
    observation, other = (np.zeros((2, 4, 4, 4), np.int32) for _ in range(2))
    rewards = np.zeros(2, np.float32)
    batch.reset([0, 1], [4, 5], [0, 0], observation)
    actions = np.ones((2, 12), np.int64)
    batch.step(actions, observation, rewards)
    twin.restore(batch.capture())
    batch.step(actions * [[1], [0]], observation, rewards)
    twin.step(actions * [[1], [0]], other, rewards)
    assert (observation == other).all()


def test_a_game_is_rendered_as_its_factors():
    batch = TensorGameBatch([GameSettings()], 1)
    empty = batch.render(0)
    batch.move(np.ones((1, 12), np.int64))
    assert (batch.render(0) != empty).any()


def test_different_tasks_are_refused():
    with pytest.raises(UsageError, match="differ"):
        TensorGameBatch([GameSettings(), GameSettings(format="2x2x3")], 2)


ID = "palaestra/TensorGame-v0"


def test_the_env_passes_the_checks_and_resumes_exactly():
    for field in ("gf2", "zt"):
        checked = check_env(EnvConfig(id=ID, kwargs={"field": field, "change_of_basis": True}))
        assert checked.why_inexact == ""


def test_the_native_batch_applies_the_time_limit():
    config = EnvConfig(id=ID, kwargs={"format": "2x2x3"}, max_episode_steps=11)
    assert offers_batch(config)
    assert make_native_batch(config, 4).game.settings.moves == 11


def test_a_solved_episode_terminates_and_one_out_of_moves_is_truncated(strassen_bits):
    env = gymnasium.make(ID, disable_env_checker=True)
    env.reset(seed=1)
    for row in np.concatenate(strassen_bits.factors, axis=1):
        observation, reward, terminated, truncated, info = env.step(row)
    assert (terminated, truncated, observation.any()) == (True, False, False)
    assert set(info) >= {"reward", "residual_norm", "rank_used", "action_valid"}
    assert info["reward"] == reward
    assert verify(env.unwrapped.factorization()).rank == 7
    env.reset(seed=1)
    for _ in range(8):
        _, _, terminated, truncated, info = env.step(np.zeros(12, np.int64))
    assert (terminated, truncated, info["action_valid"]) == (False, True, 0.0)


def test_render_needs_a_render_mode():
    assert TensorGameEnv().render() is None
    env = TensorGameEnv(render_mode="rgb_array")
    env.reset(seed=1)
    assert env.render().dtype == np.uint8
