from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from palaestra.algorithms.advantages import estimate_advantages, vtrace
from palaestra.algorithms.group import ALONE
from palaestra.algorithms.ppo.minibatches import (
    Segments,
    draw_probabilities,
    epoch_minibatches,
    prioritized_minibatches,
    segments_for_epoch,
    shuffled_minibatches,
    split_rollout,
    to_segments,
)
from palaestra.algorithms.rollout import Rollout, collect_rollout
from palaestra.config.ppo import PpoConfig
from palaestra.config.train import TrainConfig
from palaestra.training.state import new_training_state


def numbered_rollout(steps: int, envs: int, *, named: bool = False, segment_length: int | None = None) -> Rollout:
    """Sample (t, b) carries the number t * envs + b in every field."""
    numbers = torch.arange(steps * envs, dtype=torch.float32).view(steps, envs)
    observations = numbers.unsqueeze(-1).repeat(1, 1, 3)
    return Rollout(
        observations={"left": observations, "right": -observations} if named else observations,
        actions=numbers.long(),
        log_probs=numbers,
        values=numbers,
        next_values=numbers,
        rewards=numbers,
        ended=numbers > -1,
        starts=numbers > -1,
        memory={} if segment_length is None else {"cell": numbers[::segment_length].clone()},
    )


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 3), st.integers(1, 4), st.integers(0, 1000))
def test_each_sample_is_seen_exactly_once_per_epoch_with_its_own_fields(stretches, length, envs, factor, seed):
    rollout = numbered_rollout(stretches * length, envs * factor)
    columns = split_rollout(rollout, advantages=rollout.rewards * 2, length=length)
    seen = []
    for minibatch in shuffled_minibatches(columns, envs * factor, np.random.default_rng(seed)):
        numbers = minibatch.actions
        assert numbers.shape == (length, envs * factor)
        assert torch.equal(minibatch.observations[..., 1], numbers.float())
        assert torch.equal(minibatch.advantages, numbers * 2.0)
        assert torch.equal(minibatch.returns, numbers * 3.0)
        seen += numbers.flatten().tolist()
    assert sorted(seen) == list(range(stretches * length * envs * factor))


def test_a_column_is_one_environments_steps_in_order_with_the_memory_it_had_before_them():
    rollout = numbered_rollout(6, 4, segment_length=3)
    columns = split_rollout(rollout, torch.zeros(6, 4), length=3)
    assert columns.actions[:, 1].tolist() == [1, 5, 9]  # environment 1, steps 0 to 2
    assert columns.actions[:, 4 + 2].tolist() == [14, 18, 22]  # environment 2, steps 3 to 5
    for minibatch in shuffled_minibatches(columns, 2, np.random.default_rng(3)):
        assert torch.equal(minibatch.memory["cell"], minibatch.actions[0].float())


def test_two_epochs_are_in_different_orders_and_the_same_seed_in_the_same():
    columns = split_rollout(numbered_rollout(16, 4), torch.zeros(16, 4), length=1)
    orders = []
    for seed in (1, 1, 2):
        shuffler = np.random.default_rng(seed)
        orders.append([m.actions.tolist() for _ in range(2) for m in shuffled_minibatches(columns, 8, shuffler)])
    assert orders[0] == orders[1] != orders[2]
    assert orders[0][:8] != orders[0][8:]


def test_named_parts_of_an_observation_stay_together():
    columns = split_rollout(numbered_rollout(4, 4, named=True), torch.zeros(4, 4), length=2)
    for minibatch in shuffled_minibatches(columns, 4, np.random.default_rng(0)):
        assert torch.equal(minibatch.observations["left"], -minibatch.observations["right"])
        assert torch.equal(minibatch.observations["left"][..., 0], minibatch.actions.float())


def test_advantages_are_normalised_within_each_minibatch():
    advantages = torch.randn(8, 4, generator=torch.Generator().manual_seed(0)) * 5 + 3
    columns = split_rollout(numbered_rollout(8, 4), advantages, length=2)
    for minibatch in shuffled_minibatches(columns, 4, np.random.default_rng(0), normalize_advantages=True):
        raw = advantages.flatten()[minibatch.actions]
        assert torch.allclose(minibatch.advantages, (raw - raw.mean()) / (raw.std() + 1e-8), atol=1e-6)
        assert torch.allclose(minibatch.returns, raw + minibatch.actions, atol=1e-5)


def test_a_single_sample_has_no_deviation_and_stays_as_it_is():
    columns = split_rollout(numbered_rollout(2, 1), torch.full((2, 1), 7.0), length=1)
    values = [
        m.advantages.item()
        for m in shuffled_minibatches(columns, 1, np.random.default_rng(0), normalize_advantages=True)
    ]
    assert values == [7.0, 7.0]


def columns_with(advantages: torch.Tensor) -> Segments:
    """Column i carries the number i as its action."""
    length, count = advantages.shape
    numbers = torch.arange(count).expand(length, count)
    blank = torch.zeros(length, count)
    return Segments(blank, numbers, blank, blank, advantages, blank, blank > 0, {"cell": torch.arange(count)})


def draws(columns: Segments, epochs: int, seed: int, **options) -> tuple[torch.Tensor, torch.Tensor]:
    """Which columns were drawn, and with which weights."""
    shuffler = np.random.default_rng(seed)
    drawn, weights = [], []
    for _ in range(epochs):
        for minibatch in prioritized_minibatches(columns, 1, shuffler, **options):
            assert torch.equal(minibatch.memory["cell"], minibatch.actions[0])
            drawn.append(minibatch.actions[0])
            weights.append(minibatch.weights[0])
    return torch.cat(drawn), torch.cat(weights)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5), st.integers(1, 12), st.floats(0, 2), st.integers(0, 10**6))
def test_chances_are_the_mean_size_of_advantages_to_the_power_alpha(length, count, alpha, seed):
    advantages = torch.randn(length, count, generator=torch.Generator().manual_seed(seed))
    sizes = [sum(abs(float(a)) for a in advantages[:, i]) / length + 1e-6 for i in range(count)]
    total = sum(size**alpha for size in sizes)
    expected = torch.tensor([size**alpha / total for size in sizes], dtype=torch.float64)
    assert torch.allclose(draw_probabilities(advantages, alpha), expected, rtol=1e-6)


def test_columns_are_drawn_as_often_as_their_chances_say():
    advantages = torch.tensor([[0.1, -2.0, 1.0, 0.0, -0.5], [0.3, 0.0, 1.0, 0.0, 0.5]])
    drawn, _ = draws(columns_with(advantages), 1500, 1, alpha=0.8, beta=0.5)
    counted = torch.bincount(drawn, minlength=5) / len(drawn)
    assert torch.allclose(
        counted.double(), draw_probabilities(advantages, 0.8), atol=0.02
    )  # 7 500 draws: deviation at most 0.006


def test_at_beta_one_the_expected_gradient_is_the_uniform_one_and_below_it_is_not():
    """Any numbers g_i stand for gradients: their weighted mean over draws against their plain mean."""
    generator = torch.Generator().manual_seed(0)
    advantages = torch.randn(2, 6, generator=generator)
    gradients = advantages.abs().mean(dim=0) * 3 + torch.randn(6, generator=generator)
    means, draw_count = {}, 800 * 6
    for beta in (0.0, 1.0):
        drawn, weights = draws(columns_with(advantages), 800, 2, alpha=1.0, beta=beta)
        means[beta] = float((gradients[drawn] * weights).mean())
    uniform = float(gradients.mean())
    probabilities = draw_probabilities(advantages, 1.0)
    spread = float(((gradients / (6 * probabilities)).square() * probabilities).sum() - uniform**2) ** 0.5
    tolerance = 4 * spread / draw_count**0.5
    assert abs(means[1.0] - uniform) < tolerance
    assert abs(means[0.0] - uniform) > 2 * tolerance


def test_without_alpha_all_weights_are_one():
    drawn, weights = draws(columns_with(torch.randn(1, 8)), 50, 3, alpha=0.0, beta=1.0)
    assert torch.allclose(weights, torch.ones(len(weights)))
    assert len(set(drawn.tolist())) == 8


def test_advantages_of_zero_everywhere_are_drawn_uniformly():
    assert torch.allclose(draw_probabilities(torch.zeros(3, 4), 0.8), torch.full((4,), 0.25, dtype=torch.float64))


def test_normalised_advantages_have_the_mean_and_deviation_of_the_whole_rollout_not_of_what_was_drawn():
    advantages = torch.tensor([[0.0, 0.0, 0.0, 8.0]])
    expected = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    shuffler = np.random.default_rng(0)
    options = {"alpha": 1.0, "beta": 1.0, "normalize_advantages": True}
    for minibatch in prioritized_minibatches(columns_with(advantages), 2, shuffler, **options):
        assert torch.allclose(minibatch.advantages, expected[:, minibatch.actions[0]], atol=1e-6)


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
    return state, rollout, split_rollout(rollout, advantages, 1)


def test_the_first_epoch_and_every_epoch_without_vtrace_use_the_columns_as_cut(played):
    state, rollout, columns = played
    assert segments_for_epoch(0, columns, state.algorithm.policy(), rollout, CONFIG.ppo) is columns
    assert segments_for_epoch(3, columns, state.algorithm.policy(), rollout, PpoConfig()) is columns


@pytest.mark.parametrize("segment_length", [1, 5])
def test_later_epochs_are_corrected_with_the_present_policys_ratios(played, segment_length):
    state, rollout, _ = played
    advantages = estimate_advantages(rollout, CONFIG.ppo.gamma, CONFIG.ppo.gae_lambda)
    columns = split_rollout(rollout, advantages, segment_length)
    same = segments_for_epoch(1, columns, state.algorithm.policy(), rollout, CONFIG.ppo)
    assert torch.allclose(same.advantages, columns.advantages, atol=1e-4)  # the policy has not moved yet
    assert torch.allclose(same.returns, columns.returns, atol=1e-4)
    with torch.no_grad():
        state.algorithm.tensors.optimizer.flat.add_(
            torch.randn(state.algorithm.tensors.optimizer.flat.shape, generator=torch.Generator().manual_seed(0)) * 0.3
        )
        present = state.algorithm.policy()(rollout.observations, {}, None).distribution.log_prob(rollout.actions)
    moved = segments_for_epoch(1, columns, state.algorithm.policy(), rollout, CONFIG.ppo)
    expected = vtrace(rollout, present, CONFIG.ppo.gamma, CONFIG.ppo.gae_lambda, CONFIG.ppo.vtrace)
    assert torch.allclose(moved.advantages, to_segments(expected.advantages, segment_length), atol=1e-5)
    assert torch.allclose(moved.returns, to_segments(expected.returns, segment_length), atol=1e-5)
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
