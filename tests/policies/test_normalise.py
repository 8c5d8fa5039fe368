"""Running statistics against numpy on everything at once, however the data came in."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some

from palaestra.core.errors import UsageError
from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec
from palaestra.policies.normalise import BoxNormalizer, ObservationNormalizer, ReturnScaler, RunningMoments

PARTS = DictSpec((("camera", BoxSpec((2,), "uint8")), ("door", DiscreteSpec(3)), ("speed", BoxSpec((2,)))))


@given(
    sizes=some.lists(some.integers(1, 40), min_size=1, max_size=8),
    offset=some.floats(-1e4, 1e4),
    seed=some.integers(0, 2**32 - 1),
)
def test_moments_are_those_of_all_the_data_however_it_is_split(sizes, offset, seed):
    data = np.random.default_rng(seed).normal(offset, 3.0, size=(sum(sizes), 2))
    moments = RunningMoments((2,))
    for batch in np.split(data, np.cumsum(sizes)[:-1]):
        moments.update(torch.from_numpy(batch))
    np.testing.assert_allclose(moments.mean, data.mean(axis=0), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(moments.variance, data.var(axis=0), rtol=1e-6, atol=1e-8)
    assert float(moments.count) == sum(sizes)


def test_until_something_was_seen_observations_pass_as_they_are():
    observation = torch.randn(2, 3, 4)
    assert torch.equal(BoxNormalizer((4,))(observation), observation)


def test_what_was_seen_comes_out_with_mean_0_and_deviation_1():
    seen = torch.randn(50, 20, 3) * torch.tensor([1.0, 10.0, 0.1]) + torch.tensor([5.0, -3.0, 0.0])
    normalizer = BoxNormalizer((3,))
    normalizer.update(seen)
    flat = normalizer(seen).flatten(0, 1)
    torch.testing.assert_close(flat.mean(0), torch.zeros(3), atol=1e-4, rtol=0)
    torch.testing.assert_close(flat.std(0, correction=0), torch.ones(3), atol=1e-3, rtol=0)


def test_outliers_are_clipped():
    normalizer = BoxNormalizer((1,))
    normalizer.update(torch.randn(100, 1, 1))
    assert normalizer(torch.full((1, 1, 1), 1e6)).item() == 10.0
    assert normalizer(torch.full((1, 1, 1), -1e6)).item() == -10.0


def test_statistics_travel_in_the_state_and_what_derives_from_them_is_derived_again():
    normalizer, other = BoxNormalizer((2,)), BoxNormalizer((2,))
    normalizer.update(torch.randn(30, 2, 2) * 7 + 1)
    assert set(normalizer.state_dict()) == {"moments.mean", "moments.variance", "moments.count"}
    other.load_state_dict(normalizer.state_dict())
    observation = torch.randn(1, 5, 2)
    assert torch.equal(other(observation), normalizer(observation))


def test_of_named_parts_only_real_numbers_are_normalised():
    normalizer = ObservationNormalizer(PARTS)
    observation = {
        "camera": torch.randint(0, 255, (20, 2, 2), dtype=torch.uint8),
        "door": torch.randint(0, 3, (20, 2)),
        "speed": torch.randn(20, 2, 2) * 9,
    }
    normalizer.update(observation)
    normal = normalizer(observation)
    assert torch.equal(normal["camera"], observation["camera"])
    assert torch.equal(normal["door"], observation["door"])
    assert float(normal["speed"].std()) == pytest.approx(1.0, abs=0.05)


def test_an_environment_without_real_numbers_cannot_be_normalised():
    with pytest.raises(UsageError, match="normalize_observations=true needs observations of real numbers"):
        ObservationNormalizer(DiscreteSpec(3))


def test_rewards_are_divided_by_the_deviation_of_the_discounted_sums_written_out():
    chance, gamma = np.random.default_rng(3), 0.9
    rewards, ended = chance.normal(size=(40, 3)) * 5, chance.random((40, 3)) < 0.2
    sums, running = [], np.zeros(3)
    for reward, end in zip(rewards, ended, strict=True):
        running = running * gamma + reward
        sums.append(running)
        running = np.where(end, 0.0, running)
    scaler, carried = ReturnScaler(), torch.zeros(3, dtype=torch.float64)
    scaled = []
    for half in (slice(0, 15), slice(15, 40)):  # two rollouts: the sums must go on from one to the next
        values, carried = scaler.scale(torch.from_numpy(rewards[half]), torch.from_numpy(ended[half]), carried, gamma)
        scaled.append(values)
    np.testing.assert_allclose(carried, running)
    np.testing.assert_allclose(scaled[0], rewards[:15] / np.sqrt(np.var(sums[:15]) + 1e-8), rtol=1e-6)
    np.testing.assert_allclose(scaled[1], rewards[15:] / np.sqrt(np.var(sums) + 1e-8), rtol=1e-6)


def test_a_scaled_reward_is_clipped():
    rewards = torch.zeros(1000, 1)
    rewards[500] = 1e6
    scaled, _ = ReturnScaler().scale(rewards, torch.ones(1000, 1, dtype=torch.bool), torch.zeros(1), 0.99)
    assert float(scaled.max()) == 10.0
