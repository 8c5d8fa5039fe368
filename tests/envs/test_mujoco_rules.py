"""Rules for whole batches, asked about states that no episode would reach; Gymnasium says what is right."""

import importlib

import gymnasium
import numpy as np
import pytest

from palaestra.envs.mujoco_rules import RULES, rule_for

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
def test_who_is_healthy_is_asked_at_and_around_every_limit(env_id):
    env = gymnasium.make(env_id).unwrapped
    nq, nv = env.model.nq, env.model.nv
    limits = {*env._healthy_z_range, *env._healthy_angle_range, *getattr(env, "_healthy_state_range", ())} - {np.inf}
    values = [around for limit in limits for around in (np.nextafter(limit, -1e9), limit, np.nextafter(limit, 1e9))]
    chance = np.random.default_rng(0)
    qpos, qvel = np.zeros((600, nq)), np.zeros((600, nv))
    qpos[:, 1] = 1.25
    for row in range(600):
        place = chance.integers(1, nq + nv)
        (qpos if place < nq else qvel)[row, place if place < nq else place - nq] = chance.choice(values)
    rule = rule_for(env)(env, Still(qpos, qvel))
    rule.remember()
    judged = rule.judge(np.zeros((600, env.model.nu), np.float32))
    expected = []
    for row in range(600):
        env.data.qpos[:], env.data.qvel[:] = qpos[row], qvel[row]
        expected.append(not env.is_healthy)
    assert judged.terminated.tolist() == expected
    assert 0 < sum(expected) < 600


def test_a_pendulum_that_is_no_number_has_fallen():
    env = gymnasium.make("InvertedPendulum-v5").unwrapped
    qpos, qvel = np.zeros((4, 2)), np.zeros((4, 2))
    qpos[1, 1], qpos[2, 1], qvel[3, 0] = 0.2, -0.2000001, np.nan
    judged = rule_for(env)(env, Still(qpos, qvel)).judge(np.zeros((4, 1), np.float32))
    assert judged.terminated.tolist() == [False, False, True, True]
    assert judged.rewards.tolist() == [1, 1, 0, 0]
