import numpy as np
import pytest
import torch

from palaestra.algorithms.advantages import estimate_advantages
from palaestra.algorithms.group import ALONE
from palaestra.algorithms.ppo.epochs import columns_for_epoch, epoch_minibatches
from palaestra.algorithms.ppo.minibatches import cut, cut_rollout
from palaestra.algorithms.rollout import collect_rollout
from palaestra.algorithms.vtrace import vtrace
from palaestra.config.ppo import PpoConfig
from palaestra.config.train import TrainConfig
from palaestra.training.state import new_training_state

CONFIG = TrainConfig(ppo={"env_count": 3, "horizon": 20, "minibatch_size": 30, "vtrace": {"enabled": True}})


@pytest.fixture
def played():
    state = new_training_state(CONFIG)
    rollout, _, _ = collect_rollout(
        state.algorithm.policy(),
        state.envs,
        state.algorithm.buffer,
        state.algorithm.tensors.memory,
        state.algorithm.tensors.sampler,
    )
    advantages = estimate_advantages(rollout, CONFIG.ppo.gamma, CONFIG.ppo.gae_lambda)
    return state, rollout, cut_rollout(rollout, advantages, 1)


def test_the_first_epoch_and_every_epoch_without_vtrace_use_the_columns_as_cut(played):
    state, rollout, columns = played
    assert columns_for_epoch(0, columns, state.algorithm.policy(), rollout, CONFIG.ppo) is columns
    assert columns_for_epoch(3, columns, state.algorithm.policy(), rollout, PpoConfig()) is columns


@pytest.mark.parametrize("stretch", [1, 5])
def test_later_epochs_are_corrected_with_the_present_policys_ratios(played, stretch):
    state, rollout, _ = played
    advantages = estimate_advantages(rollout, CONFIG.ppo.gamma, CONFIG.ppo.gae_lambda)
    columns = cut_rollout(rollout, advantages, stretch)
    same = columns_for_epoch(1, columns, state.algorithm.policy(), rollout, CONFIG.ppo)
    assert torch.allclose(same.advantages, columns.advantages, atol=1e-4)  # the policy has not moved yet
    assert torch.allclose(same.returns, columns.returns, atol=1e-4)
    with torch.no_grad():
        state.algorithm.tensors.optimizer.flat.add_(
            torch.randn(state.algorithm.tensors.optimizer.flat.shape, generator=torch.Generator().manual_seed(0)) * 0.3
        )
        present = state.algorithm.policy()(rollout.observations, {}, None).distribution.log_prob(rollout.actions)
    moved = columns_for_epoch(1, columns, state.algorithm.policy(), rollout, CONFIG.ppo)
    expected = vtrace(rollout, present, CONFIG.ppo.gamma, CONFIG.ppo.gae_lambda, CONFIG.ppo.vtrace)
    assert torch.allclose(moved.advantages, cut(expected.advantages, stretch), atol=1e-5)
    assert torch.allclose(moved.returns, cut(expected.returns, stretch), atol=1e-5)
    assert not torch.allclose(moved.returns, columns.returns, atol=1e-2)
    assert torch.equal(moved.values, columns.values)


def test_without_priorities_each_sample_comes_exactly_once_and_with_them_it_need_not(played):
    _, _, columns = played

    def drawn(config: PpoConfig) -> list[float]:
        minibatches = epoch_minibatches(columns, config, 0.5, np.random.default_rng(0), ALONE)
        return [value for minibatch in minibatches for value in minibatch.returns.flatten().tolist()]

    everything = sorted(columns.returns.flatten().tolist())
    assert sorted(drawn(CONFIG.ppo)) == everything
    prioritized = CONFIG.ppo.model_copy(
        update={"prioritized": CONFIG.ppo.prioritized.model_copy(update={"enabled": True})}
    )
    some = drawn(prioritized)
    assert len(some) == len(everything)
    assert len(set(some)) < len(set(everything))


def test_beta_follows_its_schedule(played):
    """At progress 1 the default beta is 1: weights are 1 / (C p)."""
    _, _, columns = played
    config = PpoConfig(**{**CONFIG.ppo.model_dump(), "prioritized": {"enabled": True}})
    early, late = (
        next(epoch_minibatches(columns, config, progress, np.random.default_rng(0), ALONE)).weights
        for progress in (0.0, 1.0)
    )
    assert torch.allclose(early.log(), late.log() * 0.4, atol=1e-4)
