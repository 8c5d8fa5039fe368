"""PQN of the native engine beside the torch engine: the same steps, updates and captures."""

from __future__ import annotations

import pytest

from palaestra.core.errors import NonFinite
from palaestra.training.engines import native_engine
from palaestra.training.engines.native_pqn import NativePqn
from tests.training.engines.off_policy import advance, assert_alike, assert_equal, assert_same_figures, begin, hand_over

pytestmark = pytest.mark.skipif(native_engine.native_learner is None, reason="the native engine is not compiled")

SMALL = {"env_count": 3, "horizon": 20, "minibatch_size": 12, "update_epochs": 2, "learning_rate": 1e-3}
OPTIONS = {
    "plain": {},
    "one-step targets": {"q_lambda": 0.0},
    "Monte Carlo targets": {"q_lambda": 1.0, "gamma": 0.9},
    "a clipped gradient": {"max_grad_norm": 0.1},
    "adam": {"optimizer": {"kind": "adam", "weight_decay": 0.01}},
    "minibatches of several slices": {"env_count": 15, "minibatch_size": 150},
    "more environments than a block has rows": {"env_count": 70, "horizon": 6, "minibatch_size": 42},
    "greedy soon": {"exploration": {"start": 1.0, "end": 0.0, "fraction": 0.02}},
}
ENVS = {"inside": "CartPole-v1", "in Python": "palaestra/Corridor-v0"}


def network(**settings):
    return {"graph": "mlp", "settings": {"hidden": [16, 16], **settings}}


def pqn(engine, env="CartPole-v1", policy=None, torch_threads=1, **changes):
    settings = {"algorithm": "pqn", "env": env, "policy": policy or network(), "torch_threads": torch_threads}
    return begin(engine, **settings, pqn={**SMALL, **changes})


@pytest.mark.parametrize("stepping", ENVS)
@pytest.mark.parametrize("options", OPTIONS)
def test_steps_and_updates_are_those_of_the_torch_engine(options, stepping):
    native, reference = (pqn(engine, ENVS[stepping], **OPTIONS[options]) for engine in ("native", "torch"))
    assert isinstance(native.algorithm, NativePqn)
    assert f"stepped {stepping}" in native.algorithm.description
    assert_same_figures(advance(native, 3), advance(reference, 3))
    assert_alike(native, reference)


@pytest.mark.parametrize(
    "settings",
    [
        {"activation": "tanh"},
        {"activation": "gelu"},
        {"layer_norm": False},
        {"residual": True},
        {"hidden": [7, 3]},
        {"hidden": [120, 84]},
    ],
)
def test_networks_are_those_of_the_torch_engine(settings):
    native, reference = (pqn(engine, policy=network(**settings)) for engine in ("native", "torch"))
    advance(native, 3)
    advance(reference, 3)
    assert_alike(native, reference)


@pytest.mark.parametrize("env", ["CartPole-v1", "CartPole-v0"])
def test_observations_are_normalised_with_what_was_seen_until_the_iteration(env):
    policy = {**network(), "normalize_observations": True}
    native, reference = (pqn(engine, env, policy=policy) for engine in ("native", "torch"))
    advance(native, 3)
    advance(reference, 3)
    assert_alike(native, reference)


def test_a_truncated_episode_bootstraps_from_its_own_last_observation():
    native, reference = (
        pqn(engine, "MountainCar-v0", horizon=100, minibatch_size=60) for engine in ("native", "torch")
    )
    episodes = [episode for report in advance(native, 3) for episode in report.episodes]
    assert [episode.terminated for episode in episodes] == [False] * 3
    advance(reference, 3)
    assert_alike(native, reference)


@pytest.mark.parametrize("stepping", ENVS)
@pytest.mark.parametrize("engines", [("native", "torch"), ("torch", "native")])
def test_a_run_continues_with_the_other_engine(engines, stepping):
    first, second = engines
    whole, begun, continued = (pqn(engine, ENVS[stepping]) for engine in (first, first, second))
    advance(whole, 4)
    advance(begun, 2)
    hand_over(begun, continued)
    advance(continued, 2)
    assert_alike(whole, continued)


@pytest.mark.parametrize("stepping", ENVS)
def test_a_resumed_run_ends_with_the_same_bits(stepping):
    whole, begun, continued = (pqn("native", ENVS[stepping]) for _ in range(3))
    advance(whole, 4)
    advance(begun, 2)
    hand_over(begun, continued)
    advance(continued, 2)
    assert_equal(whole, continued)


def test_results_do_not_depend_on_the_number_of_threads():
    one, two = (pqn("native", torch_threads=threads, env_count=15, minibatch_size=150) for threads in (1, 2))
    advance(one, 3)
    advance(two, 3)
    assert_equal(one, two)


def test_a_gradient_that_is_not_finite_ends_the_run_before_its_step():
    state = pqn("native", learning_rate=1e30, max_grad_norm=1e30, policy=network(layer_norm=False))
    with pytest.raises(NonFinite, match="gradient's norm"):
        advance(state, 20)
