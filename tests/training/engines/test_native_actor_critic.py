"""SAC and TD3 of the native engine beside the torch engine: the same steps, updates and captures."""

from __future__ import annotations

from functools import partial

import pytest

from palaestra.core.errors import NonFinite
from palaestra.training.engines import native_engine, off_policy_builders
from palaestra.training.engines.native_sac import NativeSac
from palaestra.training.engines.native_td3 import NativeTd3
from tests.training.engines.off_policy import advance, assert_alike, assert_equal, assert_same_figures, begin, hand_over

pytestmark = pytest.mark.skipif(native_engine.native_learner is None, reason="the native engine is not compiled")
KERNELS = [] if native_engine.native_learner is None else native_engine.native_learner.kernel_names()

SMALL = {"env_count": 2, "steps_per_iteration": 20, "learning_starts": 10, "buffer_size": 60, "batch_size": 12}
ENVS = {"inside": "Pendulum-v1", "in Python": "palaestra/IdentityContinuous-v0"}
COMMON = {
    "plain": {},
    "n-step": {"n_step": 3},
    "a batch of several slices": {"batch_size": 140, "buffer_size": 300},
    "several updates at once": {"gradient_steps": 3, "train_interval": 2},
    "schedules": {"learning_rate": {"kind": "linear", "start": 1e-3, "end": 0.0}, "optimizer": {"weight_decay": 0.01}},
    "large soft updates": {"tau": 0.5},
    "the actor every third time": {"policy_interval": 3},
}
SAC = COMMON | {
    "a fixed temperature": {"temperature": 0.2},
    "two learning rates": {"learning_rate": 1e-3, "critic_learning_rate": 3e-3},
    "a low entropy": {"target_entropy": -3.0, "initial_temperature": 0.1},
}
TD3 = COMMON | {
    "the actor every time": {"policy_interval": 1},
    "noise beyond its limits": {"target_noise": 2.0, "target_noise_clip": 0.3, "exploration_noise": 1.0},
    "ddpg": {"policy_interval": 1, "target_noise": 0.0, "twin_critics": False},
}
CASES = [("sac", name) for name in SAC] + [("td3", name) for name in TD3]
ALGORITHMS = {"sac": NativeSac, "td3": NativeTd3}
RUNS = pytest.mark.parametrize(
    ("algorithm", "env"),
    [("sac", "Pendulum-v1"), ("sac", "CartPole-v1"), ("sac", "palaestra/Corridor-v0"), ("td3", "Pendulum-v1")],
)


def network(**settings):
    return {"graph": "mlp", "settings": {"hidden": [16, 8], "activation": "tanh", **settings}}


def start(algorithm, engine, env="Pendulum-v1", policy=None, torch_threads=1, **changes):
    settings = {"algorithm": algorithm, "env": env, "policy": policy or network(), "torch_threads": torch_threads}
    return begin(engine, **settings, **{algorithm: {**SMALL, **changes}})


@pytest.mark.parametrize("stepping", ENVS)
@pytest.mark.parametrize(("algorithm", "options"), CASES)
def test_steps_and_updates_are_those_of_the_torch_engine(algorithm, options, stepping):
    settings = {"sac": SAC, "td3": TD3}[algorithm][options]
    native, reference = (start(algorithm, engine, ENVS[stepping], **settings) for engine in ("native", "torch"))
    assert isinstance(native.algorithm, ALGORITHMS[algorithm])
    assert f"stepped {stepping}" in native.algorithm.description
    assert_same_figures(advance(native, 2), advance(reference, 2))
    assert native.algorithm.update_count == reference.algorithm.update_count >= 10
    assert_alike(native, reference)


@pytest.mark.parametrize("stepping", ["CartPole-v1", "palaestra/Corridor-v0"])
@pytest.mark.parametrize("options", SAC)
def test_discrete_sac_takes_the_steps_and_updates_of_the_torch_engine(options, stepping):
    native, reference = (start("sac", engine, stepping, **SAC[options]) for engine in ("native", "torch"))
    assert_same_figures(advance(native, 2), advance(reference, 2))
    assert_alike(native, reference)


@pytest.mark.parametrize("algorithm", ["sac", "td3"])
@pytest.mark.parametrize(
    "settings",
    [
        {"activation": "relu"},
        {"activation": "gelu"},
        {"layer_norm": True, "activation": "relu"},
        {"residual": True, "hidden": [16, 16]},
        {"hidden": [7, 3]},
        {"hidden": [120, 84], "activation": "relu"},
    ],
)
def test_networks_are_those_of_the_torch_engine(settings, algorithm):
    native, reference = (start(algorithm, engine, policy=network(**settings)) for engine in ("native", "torch"))
    advance(native, 2)
    advance(reference, 2)
    assert_alike(native, reference)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("algorithm", ["sac", "td3"])
def test_all_kernels_compute_the_updates_of_the_torch_engine(algorithm, name, monkeypatch):
    learner = f"Native{algorithm.capitalize()}"
    monkeypatch.setattr(off_policy_builders, learner, partial(getattr(off_policy_builders, learner), kernels=name))
    native, reference = (start(algorithm, engine) for engine in ("native", "torch"))
    assert f"native, {name};" in native.algorithm.description
    advance(native, 2)
    advance(reference, 2)
    assert_alike(native, reference)


@RUNS
def test_observations_are_normalised_with_what_was_seen_until_the_iteration(algorithm, env):
    if "Corridor" in env:
        pytest.skip("its observations are not numbers")
    policy = {**network(), "normalize_observations": True}
    native, reference = (start(algorithm, engine, env, policy=policy) for engine in ("native", "torch"))
    advance(native, 3)
    advance(reference, 3)
    assert_alike(native, reference)


@RUNS
@pytest.mark.parametrize("engines", [("native", "torch"), ("torch", "native")])
def test_a_run_continues_with_the_other_engine(engines, algorithm, env):
    first, second = engines
    whole, begun, continued = (start(algorithm, engine, env) for engine in (first, first, second))
    advance(whole, 3)
    advance(begun, 2)
    hand_over(begun, continued)
    advance(continued, 1)
    assert_alike(whole, continued)


@RUNS
def test_a_resumed_run_ends_with_the_same_bits(algorithm, env):
    whole, begun, continued = (start(algorithm, "native", env, n_step=2) for _ in range(3))
    advance(whole, 4)
    advance(begun, 2)
    hand_over(begun, continued)
    advance(continued, 2)
    assert_equal(whole, continued)


@RUNS
def test_results_do_not_depend_on_the_number_of_threads(algorithm, env):
    settings = {"batch_size": 140, "buffer_size": 300}
    one, two = (start(algorithm, "native", env, torch_threads=threads, **settings) for threads in (1, 2))
    advance(one, 3)
    advance(two, 3)
    assert_equal(one, two)


@pytest.mark.parametrize("algorithm", ["sac", "td3"])
def test_a_gradient_that_is_not_finite_ends_the_run_before_its_step(algorithm):
    state = start(algorithm, "native", learning_rate=1e30)
    with pytest.raises(NonFinite, match="gradient's norm"):
        advance(state, 20)
