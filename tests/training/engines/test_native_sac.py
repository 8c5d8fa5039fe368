"""SAC of the native engine: what it keeps. Its updates are compared in test_native_actor_critic."""

from __future__ import annotations

import numpy as np
import pytest

from palaestra.algorithms import serialization
from palaestra.training.engines import native_engine
from tests.training.engines.off_policy import advance, begin, tensors_in

pytestmark = pytest.mark.skipif(native_engine.native_learner is None, reason="the native engine is not compiled")
SMALL = {"steps_per_iteration": 20, "learning_starts": 10, "buffer_size": 60, "batch_size": 8}


def sac(env="Pendulum-v1", **settings):
    return begin("native", algorithm="sac", env=env, sac={**SMALL, **settings})


@pytest.mark.parametrize("env", ["Pendulum-v1", "CartPole-v1"])
def test_captures_do_not_tell_whether_torch_was_imported(env, monkeypatch):
    state = sac(env)
    advance(state, 2)
    with_torch = tensors_in(state.algorithm.capture_learning())
    monkeypatch.setattr(serialization, "has_torch", lambda: False)
    without = tensors_in(state.algorithm.capture_learning())
    assert with_torch.keys() == without.keys()
    for name, part in with_torch.items():
        np.testing.assert_array_equal(part, without[name], err_msg=name)


def test_a_fixed_temperature_stays_and_has_no_loss():
    state = sac(temperature=0.3)
    figures = advance(state, 2)[-1].update.metrics()
    assert figures["losses/alpha"] == pytest.approx(0.3)
    assert "losses/alpha_loss" not in figures
    assert float(state.algorithm.tensors.temperature.log_alpha) == pytest.approx(np.log(0.3))


def test_actions_are_stored_scaled_and_stepped_in_the_environments_units():
    state = sac(learning_starts=0)
    advance(state, 1)
    buffer = state.algorithm.buffer
    assert np.abs(buffer.actions[:20]).max() <= 1
    theta, speed = np.arctan2(buffer.blocks[""][:20, 0, 1], buffer.blocks[""][:20, 0, 0]), buffer.blocks[""][:20, 0, 2]
    torque = 2 * buffer.actions[:20, 0, 0]  # Pendulum's bounds
    expected = -(theta**2 + 0.1 * speed**2 + 0.001 * torque**2)
    np.testing.assert_allclose(buffer.rewards[:20, 0], expected, rtol=1e-4, atol=1e-4)
