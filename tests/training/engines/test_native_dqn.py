"""DQN of the native engine beside the torch engine: the same steps, updates and captures."""

from __future__ import annotations

import numpy as np
import pytest

from palaestra.core.errors import NonFinite
from palaestra.training.engines import native_engine
from palaestra.training.engines.native_dqn import NativeDqn
from tests.training.engines.off_policy import advance, assert_alike, assert_equal, assert_same_figures, begin, hand_over

pytestmark = pytest.mark.skipif(native_engine.native_learner is None, reason="the native engine is not compiled")

SMALL = {
    "env_count": 3,
    "steps_per_iteration": 60,
    "buffer_size": 150,
    "learning_starts": 30,
    "train_interval": 6,
    "batch_size": 16,
    "target_interval": 25,
    "learning_rate": 1e-3,
}
OPTIONS = {
    "plain": {},
    "double": {"double": True},
    "dueling": {"dueling": True},
    "huber and a clipped gradient": {"loss": "huber", "max_grad_norm": 0.1},
    "no clipping": {"max_grad_norm": None},
    "n-step": {"n_step": 3},
    "prioritized": {"prioritized": {"enabled": True}},
    "a batch of several slices": {"batch_size": 140, "buffer_size": 300},
    "several updates at once": {"gradient_steps": 3, "train_interval": 2},
    "schedules": {"learning_rate": {"kind": "linear", "start": 1e-3, "end": 0.0}, "optimizer": {"weight_decay": 0.01}},
    "radam": {"optimizer": {"kind": "radam"}},
    "everything": {
        "double": True,
        "dueling": True,
        "loss": "huber",
        "n_step": 3,
        "prioritized": {"enabled": True},
        "tau": 0.1,
        "target_interval": 3,
    },
}
ENVS = {"inside": "CartPole-v1", "in Python": "palaestra/Corridor-v0"}


def network(**settings):
    return {"graph": "mlp", "settings": {"hidden": [16, 16], "activation": "tanh", **settings}}


def dqn(engine, env="CartPole-v1", policy=None, **changes):
    changed = {name: changes.pop(name) for name in ("seed", "torch_threads", "total_steps") if name in changes}
    settings = {"algorithm": "dqn", "env": env, "policy": policy or network(), **changed}
    return begin(engine, **settings, dqn={**SMALL, **changes})


@pytest.mark.parametrize("stepping", ENVS)
@pytest.mark.parametrize("options", OPTIONS)
def test_steps_and_updates_are_those_of_the_torch_engine(options, stepping):
    native, reference = (dqn(engine, ENVS[stepping], **OPTIONS[options]) for engine in ("native", "torch"))
    assert isinstance(native.algorithm, NativeDqn)
    assert f"stepped {stepping}" in native.algorithm.description
    assert_same_figures(advance(native, 3), advance(reference, 3))
    assert native.algorithm.update_count == reference.algorithm.update_count >= 10
    assert_alike(native, reference)


@pytest.mark.parametrize(
    "settings",
    [
        {"activation": "relu"},
        {"activation": "gelu"},
        {"layer_norm": True, "activation": "relu"},
        {"residual": True},
        {"hidden": [7, 3]},
        {"hidden": [120, 84], "activation": "relu"},
    ],
)
def test_networks_are_those_of_the_torch_engine(settings):
    native, reference = (dqn(engine, policy=network(**settings), dueling=True) for engine in ("native", "torch"))
    advance(native, 3)
    advance(reference, 3)
    assert_alike(native, reference)


@pytest.mark.parametrize("stepping", ENVS)
def test_observations_are_normalised_with_what_was_seen_until_the_iteration(stepping):
    env = {"inside": "CartPole-v1", "in Python": "CartPole-v0"}[stepping]
    policy = {**network(), "normalize_observations": True}
    native, reference = (dqn(engine, env, policy=policy) for engine in ("native", "torch"))
    advance(native, 3)
    advance(reference, 3)
    assert_alike(native, reference)


@pytest.mark.parametrize("stepping", ENVS)
@pytest.mark.parametrize("engines", [("native", "torch"), ("torch", "native")])
def test_a_run_continues_with_the_other_engine(engines, stepping):
    first, second = engines
    whole = dqn(first, ENVS[stepping], prioritized={"enabled": True})
    begun, continued = (dqn(engine, ENVS[stepping], prioritized={"enabled": True}) for engine in (first, second))
    advance(whole, 4)
    advance(begun, 2)
    hand_over(begun, continued)
    advance(continued, 2)
    assert_alike(whole, continued)


@pytest.mark.parametrize("stepping", ENVS)
def test_a_resumed_run_ends_with_the_same_bits(stepping):
    whole, begun, continued = (dqn("native", ENVS[stepping], n_step=3, prioritized={"enabled": True}) for _ in range(3))
    advance(whole, 4)
    advance(begun, 2)
    hand_over(begun, continued)
    advance(continued, 2)
    assert_equal(whole, continued)


def test_a_run_that_lost_its_replay_buffer_learns_again_when_enough_is_in_it():
    begun = dqn("native")
    advance(begun, 2)
    continued = [dqn(engine) for engine in ("native", "torch")]
    for state in continued:
        hand_over(begun, state, with_rows=False)
        advance(state, 2)
    assert_alike(*continued)


def test_results_do_not_depend_on_the_number_of_threads():
    one, two = (dqn("native", torch_threads=threads, batch_size=140, buffer_size=300) for threads in (1, 2))
    advance(one, 3)
    advance(two, 3)
    assert_equal(one, two)


def test_a_gradient_that_is_not_finite_ends_the_run_before_its_step():
    state = dqn("native", learning_rate=1e30, max_grad_norm=None)
    with pytest.raises(NonFinite, match="gradient's norm"):
        advance(state, 20)


def test_rows_written_by_the_engine_keep_the_last_observations_of_truncated_episodes():
    native, reference = (dqn(engine, "MountainCar-v0", total_steps=4000) for engine in ("native", "torch"))
    advance(native, 11)
    advance(reference, 11)
    buffers = [state.algorithm.buffer for state in (native, reference)]
    indices = np.arange(150)
    first, second = (buffer.gather(indices, 1, 0.9) for buffer in buffers)
    np.testing.assert_array_equal(first.next_observations, second.next_observations)
    assert (buffers[0].ends == 2).any()
