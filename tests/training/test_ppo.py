import math

import numpy as np
import pytest
import torch

from palaestra.config.ppo import PpoConfig
from palaestra.config.train import TrainConfig
from palaestra.training import ppo
from palaestra.training.advantages import estimate_advantages
from palaestra.training.rollout import collect_rollout
from palaestra.training.state import new_training_state


def rollout_of(config: TrainConfig):
    state = new_training_state(config)
    rollout, _, _ = collect_rollout(state.agent, state.envs, state.tape, state.memory, state.sampler)
    return state, rollout, estimate_advantages(rollout, 0.99, 0.95)


def update(state, rollout, advantages, config: PpoConfig, progress: float = 0.0):
    return ppo.update(state.agent, state.optimizer, rollout, advantages, config, progress, np.random.default_rng(0))


SMALL = TrainConfig(ppo={"env_count": 4, "horizon": 40, "minibatch_size": 160, "update_epochs": 1})


def test_before_any_update_the_first_minibatchs_ratio_is_one():
    """With episodes that end inside the segment, and normalised observations."""
    state, rollout, advantages = rollout_of(SMALL)
    assert rollout.ended.any()
    stats = update(state, rollout, advantages, SMALL.ppo)
    assert stats.minibatches == 1
    assert abs(stats.approx_kl) < 1e-6
    assert abs(stats.old_approx_kl) < 1e-5
    assert stats.clipfrac == 0.0


def test_one_full_batch_step_equals_ppo_written_out_with_autograd():
    state, rollout, advantages = rollout_of(SMALL)
    other, *_ = rollout_of(SMALL)
    update(state, rollout, advantages, SMALL.ppo)

    optimizer = torch.optim.Adam(other.agent.parameters(), lr=2.5e-4, eps=1e-5)
    distribution, value, _ = other.agent(rollout.observations, {}, None)
    normal = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    ratio = (distribution.log_prob(rollout.actions) - rollout.log_probs).exp()
    policy_loss = torch.max(-normal * ratio, -normal * ratio.clamp(0.8, 1.2)).mean()
    value_loss = 0.5 * (value - advantages - rollout.values).square().mean()
    for parameter in other.agent.parameters():
        parameter.grad = None
    (policy_loss + 0.5 * value_loss - 0.01 * distribution.entropy().mean()).backward()
    torch.nn.utils.clip_grad_norm_(other.agent.parameters(), 0.5)
    optimizer.step()
    for mine, expected in zip(state.agent.parameters(), other.agent.parameters(), strict=True):
        assert torch.allclose(mine, expected, atol=1e-6)


def test_the_schedules_set_what_the_update_uses():
    state, rollout, advantages = rollout_of(SMALL)
    stats = update(state, rollout, advantages, SMALL.ppo, progress=0.5)
    assert math.isclose(stats.learning_rate, 1.25e-4)
    assert math.isclose(state.optimizer.learning_rate, 1.25e-4)


def test_epochs_stop_early_when_the_policy_has_moved_too_far():
    eager = PpoConfig(env_count=4, horizon=40, minibatch_size=40, update_epochs=10, learning_rate=0.05, target_kl=0.02)
    state, rollout, advantages = rollout_of(SMALL)
    assert 4 <= update(state, rollout, advantages, eager).minibatches < 40
    patient = eager.model_copy(update={"target_kl": None})
    state, rollout, advantages = rollout_of(SMALL)
    assert update(state, rollout, advantages, patient).minibatches == 40


@pytest.mark.parametrize(
    ("values", "expected"),
    [([1.0, 2.0, 3.0], 1.0), ([2.0, 2.0, 2.0], 0.0), ([3.0, 2.0, 1.0], -3.0)],
)
def test_explained_variance_of_known_critics(values, expected):
    assert math.isclose(
        ppo.explained_variance(torch.tensor(values), torch.tensor([1.0, 2.0, 3.0])), expected, abs_tol=1e-6
    )


def test_returns_that_do_not_vary_have_no_explained_variance():
    assert math.isnan(ppo.explained_variance(torch.zeros(3), torch.ones(3)))
