"""DQN, PQN, SAC and TD3 of the native engine on two ranks, beside torch on two ranks."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from palaestra.config.train import TrainConfig
from palaestra.training.distributed.reports import weights_digest
from palaestra.training.engines import native_engine
from palaestra.training.state import new_training_state
from tests.training.engines.off_policy import TOLERANCES, advance, hand_over, state_of

pytestmark = pytest.mark.skipif(native_engine.native_learner is None, reason="the native engine is not compiled")

OFF_POLICY = {"env_count": 2, "steps_per_iteration": 20, "learning_starts": 20, "buffer_size": 60, "batch_size": 12}
CASES = {
    "dqn": ("CartPole-v1", {**OFF_POLICY, "train_interval": 4, "target_interval": 10, "max_grad_norm": 0.5}),
    "pqn": ("CartPole-v1", {"env_count": 2, "horizon": 20, "minibatch_size": 10, "update_epochs": 2}),
    "sac": ("Pendulum-v1", OFF_POLICY),
    "td3": ("Pendulum-v1", OFF_POLICY),
}
ALL = pytest.mark.parametrize("algorithm", CASES)


def begun(algorithm, engine, group):
    env, settings = CASES[algorithm]
    policy = {"graph": "mlp", "settings": {"hidden": [16, 16]}, "normalize_observations": True}
    words = {"algorithm": algorithm, "engine": engine, "env": env, "policy": policy, "total_steps": 2_000, "seed": 5}
    state = new_training_state(TrainConfig.model_validate({**words, algorithm: settings}), group)
    assert state.algorithm.engine == engine
    return state


@ALL
def test_two_native_ranks_learn_what_two_ranks_of_torch_learn(on_one_machine, algorithm):
    def work(group):
        states = [begun(algorithm, engine, group) for engine in ("native", "torch")]
        for state in states:
            advance(state, 3)
        found = [{name: part.tolist() for name, part in state_of(state).items()} for state in states]
        return [weights_digest(states[0].algorithm.policy()), found]

    (digest, (native, reference)), (other_digest, _) = on_one_machine(work)
    assert digest == other_digest
    for name, part in native.items():
        relative, absolute = TOLERANCES.get(name.rpartition("/")[2], (1e-6, 1e-6))
        np.testing.assert_allclose(part, reference[name], rtol=relative, atol=absolute, err_msg=name)


@ALL
def test_ranks_stay_equal_and_go_on_bit_for_bit_after_a_restore(on_one_machine, algorithm):
    def work(group):
        state, other = (begun(algorithm, "native", group) for _ in range(2))
        advance(state, 2)
        half = copy.deepcopy(state)
        advance(state, 2)
        advance(other, 1)
        hand_over(half, other)
        advance(other, 2)
        return [weights_digest(other.algorithm.policy()), weights_digest(state.algorithm.policy())]

    leader, follower = on_one_machine(work)
    assert len({*leader, *follower}) == 1
