"""The eager loop is a fair opponent only while it is PPO."""

from dataclasses import replace

import gymnasium
import pytest
import torch
from peers import eager
from peers.protocol import Job, Meter
from peers.settings import CLEANRL

TINY = replace(CLEANRL, env_count=2, horizon=5, minibatch_size=5, total_steps=40, warm_up_updates=1)


@pytest.fixture
def rollout():
    envs = eager.GymnasiumEnvs(TINY)
    rng = torch.Generator().manual_seed(1)
    made_up = eager.Rollout(TINY, envs)
    made_up.rewards = torch.randn(5, 2, generator=rng)
    made_up.values = torch.randn(5, 2, generator=rng)
    made_up.ended[2, 0] = 1.0  # what was seen at step 2 begins an episode
    return made_up


def test_advantages_are_the_discounted_sum_of_surprises_until_the_episode_ends(rollout):
    agent = eager.Agent(4, gymnasium.spaces.Discrete(2))
    observed = torch.randn(2, 4)
    found, targets = eager.judge(agent, rollout, observed, torch.zeros(2), TINY)
    last = agent(observed)[3].detach()
    for env in range(2):
        for start in range(5):
            expected, weight = 0.0, 1.0
            for step in range(start, 5):
                ends = step < 4 and bool(rollout.ended[step + 1, env])
                after = 0.0 if ends else float(rollout.values[step + 1, env] if step < 4 else last[env])
                surprise = float(rollout.rewards[step, env]) + 0.99 * after - float(rollout.values[step, env])
                expected += weight * surprise
                weight *= 0.99 * 0.95
                if ends:
                    break
            assert float(found[start, env]) == pytest.approx(expected, abs=1e-5)
    assert torch.equal(targets, found + rollout.values)


def test_before_any_step_nothing_is_clipped_and_the_policy_loss_is_the_mean_advantage():
    torch.manual_seed(1)
    agent = eager.Agent(4, gymnasium.spaces.Discrete(2))
    observed, targets, advantages = torch.randn(50, 4), torch.randn(50), torch.randn(50)
    action, log_probs, entropy, values = (one.detach() for one in agent(observed))
    loss, share = eager.losses(agent, observed, action, log_probs, values, advantages, targets, CLEANRL, clip=0.2)
    expected = -0.01 * entropy.mean() + 0.5 * 0.5 * ((values - targets) ** 2).mean()  # advantages have mean 0
    assert share == 0.0
    assert float(loss.detach()) == pytest.approx(float(expected), abs=1e-5)


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
def test_a_few_updates_change_the_weights_and_are_reported(env_id):
    lines = []
    setting = replace(TINY, env_id=env_id)
    job = Job(setting, seconds=60.0, seed=1, began=0.0)
    meter = Meter(job, lambda event, **fields: lines.append((event, fields)))
    eager.train(job, eager.GymnasiumEnvs(setting), meter)
    reports = dict(lines)
    assert reports["started"]["steps"] == 10
    assert reports["measured"]["steps"] == 30


def test_returns_of_ended_episodes_are_their_lengths_in_cartpole():
    envs = eager.GymnasiumEnvs(replace(TINY, env_count=1))
    envs.reset(seed=1)
    steps, finished = 0, []
    while not finished:
        _, _, ended, finished = envs.step([1])
        steps += 1
    assert ended.all()
    assert finished == [steps]
