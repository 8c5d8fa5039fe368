import numpy as np
import pytest
import torch

from palaestra.algorithms.base import Algorithm
from palaestra.config.train import TrainConfig
from palaestra.core.seeds import draw_seed
from palaestra.training.state import new_training_state

PPO = {"env_count": 3, "horizon": 16, "minibatch_size": 16}


def ppo_of(engine="torch", **settings):
    return new_training_state(TrainConfig(engine=engine, ppo=PPO, **settings)).algorithm


def test_generators_are_seeded_from_the_runs_seed():
    ppo: Algorithm = ppo_of(seed=4)
    expected = np.random.default_rng(draw_seed(4, "minibatches"))
    assert ppo.shuffler.bit_generator.state == expected.bit_generator.state
    assert ppo.action_seed == draw_seed(4, "dice")


@pytest.mark.parametrize("engine", ["torch", "native"])
def test_captures_of_both_engines_have_the_same_entries(engine):
    ppo = ppo_of(engine)
    captured = ppo.capture()
    assert captured.keys() == {
        "engine",
        "optimizer",
        "memory",
        "reward_sums",
        "sampler",
        "teacher",
        "rollout_buffer",
        "action_seed",
        "shuffler",
    }
    assert captured["engine"] == engine
    assert ppo.replicated <= captured.keys()


def test_entries_are_read_under_their_old_names_too():
    ppo = ppo_of()
    captured = ppo.capture()
    captured["tape"] = captured.pop("rollout_buffer")
    captured["tape"]["observation"][""] += 1
    captured["dice"] = captured.pop("action_seed") + 1
    before = ppo.buffer.rows[0].copy(), ppo.action_seed
    ppo.restore(captured)
    assert np.array_equal(ppo.buffer.rows[0], before[0] + 1)
    assert ppo.action_seed == before[1] + 1


def test_new_episodes_start_with_the_given_seeds_and_without_memory():
    ppo = ppo_of(policy="memory")
    first = ppo.buffer.rows[0].copy()
    ppo.buffer.starts[0] = False
    for part in ppo.tensors.memory.values():
        part.add_(1)
    ppo.reset_envs([7, 8, 9])
    assert not np.array_equal(ppo.buffer.rows[0], first)
    assert ppo.buffer.starts[0].all()
    assert all(torch.equal(part, torch.zeros_like(part)) for part in ppo.tensors.memory.values())
