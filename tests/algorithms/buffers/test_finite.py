from __future__ import annotations

import numpy as np
import pytest

from palaestra.algorithms.buffers.finite import is_finite, refuse_non_finite, refuse_non_finite_ends
from palaestra.core.errors import NonFinite


def test_numbers_whose_sum_overflows_are_finite_themselves():
    assert is_finite(np.full(4, np.finfo(np.float32).max, np.float32))
    assert not is_finite(np.array([1.0, np.inf, -np.inf], np.float32))


@pytest.mark.parametrize(("value", "text"), [(np.nan, "NaN"), (np.inf, "infinite")])
def test_an_observation_is_named_by_environment_step_and_component(value, text):
    observations = np.zeros((3, 2, 4), np.float32)
    observations[1, 0, 3] = value
    with pytest.raises(NonFinite, match=rf"environment 0, step 1 of this rollout, component 3: {text}"):
        refuse_non_finite({"": observations}, np.zeros((3, 2), np.float32), "rollout")


def test_a_reward_is_named_when_all_observations_are_finite():
    rewards = np.zeros((3, 2), np.float32)
    rewards[2, 1] = np.nan
    with pytest.raises(NonFinite, match=r"a reward .*environment 1, step 2"):
        refuse_non_finite({"image": np.zeros((3, 2, 4), np.uint8)}, rewards, "rollout")


def test_a_last_observation_is_named_by_its_environment():
    refuse_non_finite_ends(np.ones((2, 3), np.float32), [5, 7])
    with pytest.raises(NonFinite, match="Environment 7 ended an episode with an observation that is not finite"):
        refuse_non_finite_ends(np.array([[1.0, 2.0], [np.nan, 0.0]], np.float32), [5, 7])
