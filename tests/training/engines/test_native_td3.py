"""TD3 of the native engine: what it keeps. Its updates are compared in test_native_actor_critic."""

from __future__ import annotations

import numpy as np
import pytest

from palaestra.algorithms import serialization
from palaestra.training.engines import native_engine
from palaestra.training.engines.native_actor_critic import ending_with_tanh
from palaestra.training.engines.network_plan import Activation
from tests.training.engines.off_policy import advance, begin, tensors_in

pytestmark = pytest.mark.skipif(native_engine.native_learner is None, reason="the native engine is not compiled")
SMALL = {"steps_per_iteration": 20, "learning_starts": 10, "buffer_size": 60, "batch_size": 8}


def td3(**settings):
    return begin("native", algorithm="td3", env="Pendulum-v1", td3={**SMALL, **settings})


def test_captures_do_not_tell_whether_torch_was_imported(monkeypatch):
    state = td3()
    advance(state, 2)
    with_torch = tensors_in(state.algorithm.capture_learning())
    monkeypatch.setattr(serialization, "has_torch", lambda: False)
    without = tensors_in(state.algorithm.capture_learning())
    assert with_torch.keys() == without.keys()
    for name, part in with_torch.items():
        np.testing.assert_array_equal(part, without[name], err_msg=name)


def test_only_the_layers_that_give_actions_end_with_tanh():
    plan = td3().algorithm.network.plan
    ended = ending_with_tanh(plan)
    for before, after in zip(plan.layers, ended.layers, strict=True):
        is_last = before.target == plan.action_slot
        assert after.activation == (Activation.TANH if is_last else before.activation)


def test_targets_follow_only_when_the_actor_learns():
    state = td3(policy_interval=1000, steps_per_iteration=20)
    advance(state, 2)
    algorithm = state.algorithm
    assert algorithm.update_count == 30
    np.testing.assert_array_equal(algorithm.actor_memory["target"], algorithm.actor_memory["values"])
    assert not np.array_equal(algorithm.critic_memory["target"], algorithm.critic_memory["values"])


def test_ddpg_has_one_critic():
    algorithm = td3(twin_critics=False, policy_interval=1, target_noise=0.0).algorithm
    assert len(algorithm.critic_memory["values"]) * 2 == len(td3().algorithm.critic_memory["values"])
