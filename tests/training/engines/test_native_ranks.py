"""The native engine on two ranks: against one rank with both halves, and against torch on two ranks."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

import palaestra.apps.arena  # noqa: F401  registers it, as the entry point does
from palaestra.config.train import TrainConfig
from palaestra.testing.two_engines import RECORDED, distance, facts, learn_by_both, run_on
from palaestra.training.distributed.reports import weights_digest
from palaestra.training.engines import native_engine
from palaestra.training.engines.native_engine import NativeEngine
from palaestra.training.state import new_training_state

pytestmark = pytest.mark.skipif(native_engine.native_learner is None, reason="built without a C++ compiler")

CELL = """
schema_version: 1
summary: one memory for both heads
nodes:
  input:  {{type: vector, source: observation}}
  memory: {{type: {kind}, source: input, size: 13}}
  action: {{type: action_head, source: memory, gain: 1.0}}
  value:  {{type: value_head, source: memory}}
"""
NORMALISED = {"normalize_observations": True, "normalize_returns": True}
CUT_SHORT = {"id": "CartPole-v1", "max_episode_steps": 16}
ARENA = {
    "id": "palaestra/Arena-v0",
    "kwargs": {"observation": "bytes", "view": 5, "agents": 6, "width": 9, "height": 9, "walls": 2, "max_steps": 20},
}
KINDS = {
    "mlp": {"policy": {"graph": "mlp", **NORMALISED}},
    "continuous": {"policy": {"graph": "mlp", **NORMALISED}, "env": "Pendulum-v1"},
    "lstm": {"policy": {"graph": CELL.format(kind="lstm")}},
    "gru": {"policy": {"graph": CELL.format(kind="gru"), **NORMALISED}},
    "mingru": {"policy": "memory"},
    "arena": {"policy": {"graph": "grid", "settings": {"size": 24}, "normalize_returns": True}, "env": ARENA},
}
LEARNING = {"horizon": 32, "update_epochs": 3, "learning_rate": 1e-3}


def config_of(kind, env_count, **ppo):
    batch = env_count * 32
    settings = {"env": CUT_SHORT, "total_steps": 10**6, "engine": "native", **KINDS[kind]}
    ppo = {"env_count": env_count, "minibatch_size": batch, "segment_length": 16, **LEARNING, **ppo}
    return TrainConfig.model_validate({**settings, "ppo": ppo})


def recorded(state):
    """What the native engine played, all [T, B, …]; observations and starts are [T + 1, B, …]."""
    engine = state.algorithm.compute
    assert isinstance(engine, NativeEngine)
    engine._collect(state.algorithm, state.progress)
    return {
        **{name: engine.arrays[name].copy() for name in (*RECORDED, "terminated", "starts")},
        "blocks": {name: block.copy() for name, block in state.algorithm.buffer.blocks.items()},
    }


def half(field, rank):
    return np.ascontiguousarray(np.split(field, 2, axis=1)[rank])


def play_again(state, rollout, rank):
    """What was seen goes through this engine's network once more; then everything is as it was recorded."""
    engine = state.algorithm.compute
    for name, block in state.algorithm.buffer.blocks.items():
        block[:] = half(rollout["blocks"][name], rank)
    state.algorithm.buffer.starts[:] = half(rollout["starts"], rank)
    engine._learner.begin_rollout(state.algorithm.action_seed, state.iteration)
    engine._load_memory(state.algorithm)
    for step in range(state.algorithm.buffer.horizon):
        engine._learner.act(step)
    for name in (*RECORDED, "terminated"):
        engine.arrays[name][:] = half(rollout[name], rank)


def begun(kind, env_count, group=None, **ppo):
    state = new_training_state(config_of(kind, env_count, **ppo), *([] if group is None else [group]))
    assert state.algorithm.engine == "native"
    return state


def learned_by(state):
    """Weights and statistics of observations; those of returns move while playing."""
    parts = state.algorithm.policy().state_dict().items()
    return torch.cat([part.double().flatten() for name, part in parts if "return_scaler" not in name])


def rows_of(kind):
    return 6 if kind == "arena" else 4


@pytest.mark.parametrize("kind", KINDS)
def test_two_ranks_of_n_learn_what_one_of_2n_learns(on_one_machine, kind):
    """Advantages are normalised, gradients clipped and statistics taken over all ranks."""
    whole = begun(kind, 2 * rows_of(kind))
    rollout = recorded(whole)
    stats = whole.algorithm.compute._update(whole.algorithm, whole.progress)

    def work(group):
        state = begun(kind, rows_of(kind), group)
        play_again(state, rollout, group.rank)
        own = state.algorithm.compute._update(state.algorithm, state.progress)
        return [
            weights_digest(state.algorithm.policy()),
            learned_by(state).tolist(),
            own.minibatches,
            own.grad_norm,
        ]

    first, second = on_one_machine(work)
    assert first[0] == second[0]
    assert distance(torch.tensor(first[1], dtype=torch.float64), learned_by(whole)) < 1e-6
    assert first[2] == second[2] == stats.minibatches == 3
    assert first[3] == second[3] == pytest.approx(stats.grad_norm, rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_gradient_and_ten_steps_on_two_ranks_are_those_of_torch_on_two_ranks(on_one_machine, kind):
    rows = rows_of(kind)

    def work(group):
        first = learn_by_both(config_of(kind, rows, update_epochs=1, max_grad_norm=1e9), group=group)
        ten = config_of(kind, rows, minibatch_size=rows * 16, update_epochs=5, target_kl=1.0)
        learned = learn_by_both(ten, group=group)
        return [first.gradient, learned.movement, learned.ours.minibatches, learned.ours.grad_norm]

    leader, follower = on_one_machine(work)
    assert max(leader[0], follower[0]) < 1e-6
    assert max(leader[1], follower[1]) < 5e-5  # as of one process, see test_native_engine.py
    assert leader[2] == follower[2] == 10
    assert leader[3] == follower[3]


def test_the_kl_stop_is_decided_for_all_ranks_together(on_one_machine):
    """The target lies between what the two ranks see of themselves: each alone would decide otherwise."""

    def minibatches(group, target_kl, epochs):
        state = begun("mlp", 4, group, target_kl=target_kl, update_epochs=epochs, learning_rate=1e-2)
        return state.algorithm.iterate(state.progress).update

    def work(group):
        own = 2 * minibatches(group, None, 2).approx_kl  # the first epoch's is 0, before any step
        low, high = sorted(group.stack(torch.tensor([own])).flatten().tolist())
        return [low < high, minibatches(group, low + 0.25 * (high - low), 4).minibatches]

    assert on_one_machine(work, timeout_seconds=5) == [[True, 2], [True, 2]]


@pytest.mark.parametrize("kind", ["mlp", "lstm", "arena"])
def test_ranks_stay_equal_and_go_on_bit_for_bit_after_a_restore(on_one_machine, kind):
    rows = rows_of(kind)

    def work(group):
        state = begun(kind, rows, group, minibatch_size=rows * 16)
        run_on(state, 2)
        model, trainer = copy.deepcopy(state.algorithm.policy().state_dict()), copy.deepcopy(state.capture())
        expected = facts(run_on(state, 2))
        other = begun(kind, rows, group, minibatch_size=rows * 16)
        run_on(other, 1)
        other.algorithm.policy().load_state_dict(model)
        other.restore(trainer)
        return [
            facts(run_on(other, 2)) == expected,
            weights_digest(other.algorithm.policy()),
            weights_digest(state.algorithm.policy()),
        ]

    leader, follower = on_one_machine(work)
    assert leader[0] is follower[0] is True
    assert len({*leader[1:], *follower[1:]}) == 1


def test_sums_over_gloo_give_the_same_weights_as_sums_in_memory(on_one_machine, together):
    """As ranks on several machines do it: the reducer is then a function of Python's."""

    def over_gloo(group):
        assert native_engine.native_learner is not None
        group.__dict__["reducer"] = native_engine.native_learner.CallbackReducer(group._sum_array, group.world_size)
        return work(group)

    def work(group):
        state = begun("mlp", 4, group, minibatch_size=64, target_kl=1.0)
        run_on(state, 2)
        return weights_digest(state.algorithm.policy())

    assert len({*together(over_gloo), *on_one_machine(work)}) == 1


def test_no_rank_uses_native_if_one_cannot(on_one_machine, monkeypatch):
    def work(group):
        if group.rank == 1:
            monkeypatch.setattr(native_engine, "native_learner", None)
        settings = config_of("mlp", 4).model_copy(update={"engine": "auto"})
        return new_training_state(settings, group).algorithm.description

    assert on_one_machine(work) == [
        "torch; native cannot take it: another rank's machine",
        "torch; native cannot take it: it was not compiled where palaestra was installed",
    ]
