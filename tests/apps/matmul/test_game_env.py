import gymnasium
import numpy as np

from palaestra.apps.matmul.game_env import TensorGameEnv
from palaestra.apps.matmul.verification import verify
from palaestra.config.env import EnvConfig
from palaestra.envs.build import make_native_batch, offers_batch
from palaestra.testing.check_env import check_env

ID = "palaestra/TensorGame-v0"


def test_it_keeps_gymnasiums_rules_and_can_be_resumed_exactly():
    for field in ("gf2", "zt"):
        checked = check_env(EnvConfig(id=ID, kwargs={"field": field, "change_of_basis": True}))
        assert checked.why_inexact == ""


def test_the_trainer_takes_it_as_a_batch_with_its_time_limit():
    config = EnvConfig(id=ID, kwargs={"format": "2x2x3"}, max_episode_steps=11)
    assert offers_batch(config)
    assert make_native_batch(config, 4).game.settings.moves == 11


def test_a_solved_episode_terminates_and_one_out_of_moves_is_cut(strassen_bits):
    env = gymnasium.make(ID, disable_env_checker=True)
    env.reset(seed=1)
    for row in np.concatenate(strassen_bits.factors, axis=1):
        seen, reward, terminated, truncated, info = env.step(row)
    assert (terminated, truncated, seen.any()) == (True, False, False)
    assert set(info) >= {"reward", "residual_norm", "rank_used", "action_valid"}
    assert info["reward"] == reward
    assert verify(env.unwrapped.factorization()).rank == 7
    env.reset(seed=1)
    for _ in range(8):
        _, _, terminated, truncated, info = env.step(np.zeros(12, np.int64))
    assert (terminated, truncated, info["action_valid"]) == (False, True, 0.0)


def test_it_draws_only_when_asked():
    assert TensorGameEnv().render() is None
    env = TensorGameEnv(render_mode="rgb_array")
    env.reset(seed=1)
    assert env.render().dtype == np.uint8
