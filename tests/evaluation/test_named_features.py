"""A checkpoint judged in an environment that calls the same things by other ids."""

from __future__ import annotations

from dataclasses import replace

import gymnasium
import numpy as np
import pytest

from palaestra.checkpoints.loading import load_policy
from palaestra.config.env import EnvConfig
from palaestra.core.spaces import FeatureSpec
from palaestra.envs.spaces import interface_of
from palaestra.evaluation.session import evaluate_target

NAMES = ("near", "far", "left", "right")


class Signposts(gymnasium.Env):
    """Four named numbers; which action is rewarded depends on two of them. `order` says which entry is which."""

    action_space = gymnasium.spaces.Discrete(3)
    observation_space = gymnasium.spaces.Box(-1, 1, (4,), np.float32)

    def __init__(self, order=NAMES) -> None:
        self.order = tuple(order)
        self.feature_specs = [FeatureSpec(name, index) for index, name in enumerate(self.order)]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._look(), {}

    def step(self, action):
        reward = self.signs["near"] * action - self.signs["left"] * action**2
        return self._look(), float(reward), bool(self.np_random.random() < 0.1), False, {}

    def _look(self):
        self.signs = dict(zip(NAMES, self.np_random.uniform(-1, 1, 4), strict=True))
        return np.array([self.signs[name] for name in self.order], np.float32)


gymnasium.register("tests/Signposts-v0", Signposts)
SHUFFLED = ["right", "near", "far", "left"]


@pytest.fixture
def run(trained_run):
    named = replace(trained_run, env=EnvConfig(id="tests/Signposts-v0"))
    named.save(epoch=4, seed=1)
    return named


def judge(run, **kwargs):
    settings = {"episodes": 4, "seed": 5, "deterministic": True}
    return evaluate_target("judged:4", run.root, overrides={"env": {"kwargs": kwargs}}, **settings)


def test_other_ids_give_the_same_episodes(run):
    assert judge(run, order=SHUFFLED).returns == judge(run).returns


def test_the_test_can_see_a_policy_that_reads_the_wrong_entries(run, monkeypatch):
    expected = judge(run).returns
    monkeypatch.setattr("palaestra.policies.agent.feature_map", lambda policy, env: None)
    assert judge(run, order=SHUFFLED).returns != expected


def test_the_names_are_in_the_checkpoint(run):
    loaded = load_policy("judged:4", run.root)
    assert [feature.name for feature in loaded.policy.interface.features] == list(NAMES)


def test_a_loaded_policy_can_be_handed_to_another_environment(run):
    loaded = load_policy("judged:4", run.root)
    away = loaded.playing_in(interface_of(Signposts(SHUFFLED)))
    signs = dict(zip(NAMES, [0.9, -0.2, -0.7, 0.4], strict=True))
    observed, shuffled = (np.array([signs[name] for name in order], np.float32) for order in (NAMES, SHUFFLED))
    assert away.act(shuffled) == loaded.act(observed)
