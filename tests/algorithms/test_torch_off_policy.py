from __future__ import annotations

import numpy as np
import pytest
import torch

from palaestra.algorithms.torch_off_policy import as_tensor, as_tensors
from palaestra.core.errors import UsageError
from tests.algorithms.actors import build

CPU = torch.device("cpu")


def test_observations_share_memory_with_their_arrays_and_get_a_time_axis_only_when_asked():
    array = np.zeros((3, 2), np.float32)
    plain, timed = as_tensors(array, CPU), as_tensors({"a": array}, CPU, adds_time=True)
    assert plain.shape == (3, 2)
    assert timed["a"].shape == (1, 3, 2)
    array[1, 1] = 7
    assert plain[1, 1] == timed["a"][0, 1, 1] == 7
    assert as_tensor(array, CPU).shape == (1, 3, 2)


def test_a_batch_is_normalised_when_it_is_sampled_and_the_buffer_keeps_what_was_seen():
    algorithm = build("sac", policy={"normalize_observations": True})
    algorithm.agent.observation_normalizer.update(torch.randn(50, 1, 3) * 4 + 2)
    raw = algorithm.buffer.blocks[""][:1].copy()
    batch = algorithm.buffer.gather(np.array([0]), 1, 0.9)
    prepared = algorithm.tensors_of(batch).observations
    expected = algorithm.agent.observation_normalizer(torch.from_numpy(batch.observations)[None])
    torch.testing.assert_close(prepared, expected)
    assert np.array_equal(algorithm.buffer.blocks[""][:1], raw)


def test_a_network_with_memory_is_refused_with_what_to_choose():
    with pytest.raises(UsageError, match="mingru has memory, .*algorithm=ppo"):
        build("dqn", env="CartPole-v1", policy={"graph": "memory", "settings": {}})


def test_scaled_returns_are_refused():
    with pytest.raises(UsageError, match="normalize_returns=true does not fit algorithm=td3"):
        build("td3", policy={"normalize_returns": True})
