from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
import torch

from palaestra.apps.scripts.launcher import normalisers
from palaestra.apps.scripts.launcher.probe import SingleEnv
from palaestra.apps.scripts.launcher.weights import Mismatch

TOLD = {"mean": [1.0, 2.0, 3.0, 4.0], "var": [4.0] * 4, "count": 50.0}


def make():
    return gymnasium.wrappers.NormalizeObservation(gymnasium.make("CartPole-v1"))


def tensors(*names):
    return {
        f"normalisers.{name}.{part}": torch.tensor(value, dtype=torch.float64)
        for name in names
        for part, value in TOLD.items()
    }


@pytest.fixture
def stepped():
    """A vector environment of two that has taken a step; closed at the end."""
    made = []

    def build(kind, makers, around=lambda envs: envs):
        envs = around(kind(makers))
        made.append(envs)
        envs.reset(seed=3)
        envs.step(np.array([0, 1]))
        return envs

    yield build
    for envs in made:
        envs.close()


def test_every_member_has_its_own(stepped):
    envs = stepped(gymnasium.vector.SyncVectorEnv, [make, make])
    found = normalisers.collect({"envs": envs})
    assert set(found) == {f"normalisers.{index}.{part}" for index in "01" for part in TOLD}
    for index in (0, 1):
        assert found[f"normalisers.{index}.mean"].numpy() == pytest.approx(envs.envs[index].obs_rms.mean)


def test_members_in_processes_of_their_own_are_requested_and_have_what_the_others_have(stepped):
    alone = normalisers.collect({"envs": stepped(gymnasium.vector.SyncVectorEnv, [make, make])})
    envs = stepped(gymnasium.vector.AsyncVectorEnv, [make, make])
    found = normalisers.collect({"envs": envs})
    assert found.keys() == alone.keys()
    assert all(torch.equal(found[name], alone[name]) for name in found)
    normalisers.fill(envs, tensors("0"))
    assert [one.mean.tolist() for one in envs.get_attr("obs_rms")] == [TOLD["mean"]] * 2
    envs.step_async(np.array([0, 1]))
    assert normalisers.collect({"envs": envs}) == {}, "nobody is asked while a step is under way"
    envs.step_wait()
    envs.close()
    assert normalisers.collect({"envs": envs}) == {}


def test_members_in_processes_that_normalise_nothing_are_not_harmed_by_the_question(stepped):
    envs = stepped(gymnasium.vector.AsyncVectorEnv, [lambda: gymnasium.make("CartPole-v1")] * 2)
    assert normalisers.collect({"envs": envs}) == {}
    assert envs.step(np.array([0, 1]))[0].shape == (2, 4)


def test_one_around_all_of_them_has_a_name_of_its_own(stepped):
    members = [lambda: gymnasium.make("CartPole-v1")] * 2
    envs = stepped(gymnasium.vector.SyncVectorEnv, members, gymnasium.wrappers.vector.NormalizeObservation)
    found = normalisers.collect({"envs": envs})
    assert set(found) == {f"normalisers.vector.{part}" for part in TOLD}
    assert found["normalisers.vector.mean"].numpy() == pytest.approx(envs.obs_rms.mean)
    normalisers.fill(envs, tensors("0"))
    assert envs.obs_rms.mean.tolist() != TOLD["mean"], "those of a member are others"
    normalisers.fill(envs, tensors("vector"))
    assert envs.obs_rms.mean.tolist() == TOLD["mean"]


def test_a_single_environment_is_found_whatever_it_is_called():
    env = make()
    assert "normalisers.0.mean" in normalisers.collect(
        {"env": "CartPole-v1", "world": env, "np": np, "kind": type(env)}
    )
    assert normalisers.collect({"np": np}) == {}
    env.close()


@pytest.mark.parametrize("is_vector", [False, True])
def test_statistics_come_back_and_stand_still(is_vector):
    env, name = make(), "0"
    if is_vector:
        inner = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")])
        env, name = SingleEnv(gymnasium.wrappers.vector.NormalizeObservation(inner)), "vector"
    normalisers.freeze(env, tensors(name))
    observation, _ = env.reset(seed=1)
    raw, _ = gymnasium.make("CartPole-v1").reset(seed=1)
    assert np.allclose(observation, (raw - TOLD["mean"]) / 2, atol=1e-5)
    env.step(0)
    assert normalisers.find_statistics(env)[name].mean.tolist() == TOLD["mean"]
    env.close()


def test_statistics_that_were_never_saved_are_missed_aloud():
    env = make()
    with pytest.raises(Mismatch, match="no statistics:"):
        normalisers.freeze(env, {})
    env.close()


def test_a_gymnasium_that_cannot_be_requested_is_not_requested(monkeypatch):
    class Old:
        """Of 0.29; a question would end the process of an environment."""

        Env = object

    monkeypatch.setitem(normalisers.sys.modules, "gymnasium", Old)
    envs = SimpleNamespace(parent_pipes=[1])
    assert normalisers.collect({"envs": envs}) == {}
