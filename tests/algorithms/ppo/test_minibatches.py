import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from palaestra.algorithms.ppo.minibatches import cut_rollout, shuffled_minibatches
from palaestra.algorithms.rollout import Rollout


def numbered_rollout(steps: int, envs: int, *, named: bool = False, stretch: int | None = None) -> Rollout:
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
        memory={} if stretch is None else {"cell": numbers[::stretch].clone()},
    )


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 3), st.integers(1, 4), st.integers(0, 1000))
def test_each_sample_is_seen_exactly_once_per_epoch_with_its_own_fields(stretches, length, envs, factor, seed):
    rollout = numbered_rollout(stretches * length, envs * factor)
    columns = cut_rollout(rollout, advantages=rollout.rewards * 2, length=length)
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
    rollout = numbered_rollout(6, 4, stretch=3)
    columns = cut_rollout(rollout, torch.zeros(6, 4), length=3)
    assert columns.actions[:, 1].tolist() == [1, 5, 9]  # environment 1, steps 0 to 2
    assert columns.actions[:, 4 + 2].tolist() == [14, 18, 22]  # environment 2, steps 3 to 5
    for minibatch in shuffled_minibatches(columns, 2, np.random.default_rng(3)):
        assert torch.equal(minibatch.memory["cell"], minibatch.actions[0].float())


def test_two_epochs_are_in_different_orders_and_the_same_seed_in_the_same():
    columns = cut_rollout(numbered_rollout(16, 4), torch.zeros(16, 4), length=1)
    orders = []
    for seed in (1, 1, 2):
        shuffler = np.random.default_rng(seed)
        orders.append([m.actions.tolist() for _ in range(2) for m in shuffled_minibatches(columns, 8, shuffler)])
    assert orders[0] == orders[1] != orders[2]
    assert orders[0][:8] != orders[0][8:]


def test_named_parts_of_an_observation_stay_together():
    columns = cut_rollout(numbered_rollout(4, 4, named=True), torch.zeros(4, 4), length=2)
    for minibatch in shuffled_minibatches(columns, 4, np.random.default_rng(0)):
        assert torch.equal(minibatch.observations["left"], -minibatch.observations["right"])
        assert torch.equal(minibatch.observations["left"][..., 0], minibatch.actions.float())


def test_advantages_are_normalised_within_each_minibatch():
    advantages = torch.randn(8, 4, generator=torch.Generator().manual_seed(0)) * 5 + 3
    columns = cut_rollout(numbered_rollout(8, 4), advantages, length=2)
    for minibatch in shuffled_minibatches(columns, 4, np.random.default_rng(0), normalize_advantages=True):
        raw = advantages.flatten()[minibatch.actions]
        assert torch.allclose(minibatch.advantages, (raw - raw.mean()) / (raw.std() + 1e-8), atol=1e-6)
        assert torch.allclose(minibatch.returns, raw + minibatch.actions, atol=1e-5)


def test_a_single_sample_has_no_deviation_and_stays_as_it_is():
    columns = cut_rollout(numbered_rollout(2, 1), torch.full((2, 1), 7.0), length=1)
    values = [
        m.advantages.item()
        for m in shuffled_minibatches(columns, 1, np.random.default_rng(0), normalize_advantages=True)
    ]
    assert values == [7.0, 7.0]
