"""Rules for whole batches, asked about states that no episode would reach; Gymnasium says what is right."""

import importlib

import gymnasium
import numpy as np
import pytest

from palaestra.envs.vector.mujoco_rules import RULES, rule_for

pytest.importorskip("mujoco")


class Still:
    """A batch that stands where it is put"""

    def __init__(self, qpos, qvel):
        self.fields = {"qpos": qpos, "qvel": qvel}

    def bind(self, name):
        return self.fields[name]


def test_every_rule_is_of_a_class_that_gymnasium_has():
    for name in RULES:
        module, _, kind = name.rpartition(".")
        assert hasattr(importlib.import_module(module), kind)


def test_a_class_derived_from_one_with_a_rule_has_none():
    from gymnasium.envs.mujoco.hopper_v5 import HopperEnv

    class Wilder(HopperEnv):
        pass

    assert rule_for(Wilder()) is None
    assert rule_for(HopperEnv()) is RULES["gymnasium.envs.mujoco.hopper_v5.HopperEnv"]


@pytest.mark.parametrize("env_id", ["Hopper-v5", "Walker2d-v5"])
def test_health_is_checked_at_and_around_every_limit(env_id):
    env = gymnasium.make(env_id).unwrapped
    nq, nv = env.model.nq, env.model.nv
    limits = {*env._healthy_z_range, *env._healthy_angle_range, *getattr(env, "_healthy_state_range", ())} - {np.inf}
    values = [around for limit in limits for around in (np.nextafter(limit, -1e9), limit, np.nextafter(limit, 1e9))]
    chance = np.random.default_rng(0)
    qpos, qvel = np.zeros((600, nq)), np.zeros((600, nv))
    qpos[:, 1] = 1.25
    for row in range(600):
        location = chance.integers(1, nq + nv)
        (qpos if location < nq else qvel)[row, location if location < nq else location - nq] = chance.choice(values)
    rule = rule_for(env)(env, Still(qpos, qvel))
    rule.record_state()
    result = rule.evaluate_step(np.zeros((600, env.model.nu), np.float32))
    expected = []
    for row in range(600):
        env.data.qpos[:], env.data.qvel[:] = qpos[row], qvel[row]
        expected.append(not env.is_healthy)
    assert result.terminated.tolist() == expected
    assert 0 < sum(expected) < 600


def test_a_pendulum_that_is_no_number_has_fallen():
    env = gymnasium.make("InvertedPendulum-v5").unwrapped
    qpos, qvel = np.zeros((4, 2)), np.zeros((4, 2))
    qpos[1, 1], qpos[2, 1], qvel[3, 0] = 0.2, -0.2000001, np.nan
    result = rule_for(env)(env, Still(qpos, qvel)).evaluate_step(np.zeros((4, 1), np.float32))
    assert result.terminated.tolist() == [False, False, True, True]
    assert result.rewards.tolist() == [1, 1, 0, 0]
