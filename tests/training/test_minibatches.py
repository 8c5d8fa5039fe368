import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from palaestra.training.minibatches import flatten_rollout, shuffled_minibatches
from palaestra.training.rollout import Rollout


def numbered_rollout(steps: int, envs: int, *, named: bool = False) -> Rollout:
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
        memory={},
    )


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 8), st.integers(1, 5), st.integers(0, 1000))
def test_each_sample_is_seen_exactly_once_per_epoch_with_its_own_fields(minibatches, size, seed):
    rollout = numbered_rollout(size, minibatches)
    batch = flatten_rollout(rollout, advantages=rollout.rewards * 2)
    seen = []
    for minibatch in shuffled_minibatches(batch, size, np.random.default_rng(seed)):
        numbers = minibatch.actions[0]
        assert numbers.shape == (size,)
        assert torch.equal(minibatch.observations[0, :, 1], numbers.float())
        assert torch.equal(minibatch.advantages[0], numbers * 2.0)
        assert torch.equal(minibatch.returns[0], numbers * 3.0)
        seen += numbers.tolist()
    assert sorted(seen) == list(range(size * minibatches))


def test_two_epochs_are_in_different_orders_and_the_same_seed_in_the_same():
    batch = flatten_rollout(numbered_rollout(16, 4), torch.zeros(16, 4))
    orders = []
    for seed in (1, 1, 2):
        shuffler = np.random.default_rng(seed)
        orders.append(
            [minibatch.actions.tolist() for _ in range(2) for minibatch in shuffled_minibatches(batch, 8, shuffler)]
        )
    assert orders[0] == orders[1] != orders[2]
    assert orders[0][:8] != orders[0][8:]


def test_named_parts_of_an_observation_stay_together():
    batch = flatten_rollout(numbered_rollout(4, 4, named=True), torch.zeros(4, 4))
    for minibatch in shuffled_minibatches(batch, 4, np.random.default_rng(0)):
        assert torch.equal(minibatch.observations["left"], -minibatch.observations["right"])
        assert torch.equal(minibatch.observations["left"][0, :, 0], minibatch.actions[0].float())


def test_advantages_are_normalised_within_each_minibatch():
    advantages = torch.randn(8, 4, generator=torch.Generator().manual_seed(0)) * 5 + 3
    batch = flatten_rollout(numbered_rollout(8, 4), advantages)
    for minibatch in shuffled_minibatches(batch, 8, np.random.default_rng(0), normalize_advantages=True):
        raw = advantages.flatten()[minibatch.actions[0]]
        assert torch.allclose(minibatch.advantages[0], (raw - raw.mean()) / (raw.std() + 1e-8), atol=1e-6)
        assert torch.allclose(minibatch.returns[0], raw + minibatch.actions[0], atol=1e-5)
