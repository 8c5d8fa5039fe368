import math

import pytest
import torch

from palaestra.config.train import TrainConfig
from palaestra.core.errors import RunFailed
from palaestra.testing.two_engines import distance, facts, learn_by_both, play, run_on, weights
from palaestra.training.engines import native_engine
from palaestra.training.state import new_training_state

needs_compiler = pytest.mark.skipif(native_engine.native_learner is None, reason="built without a C++ compiler")


def config(engine="native", **other):
    ppo = {"env_count": 2, "horizon": 16, "minibatch_size": 16}
    return TrainConfig(engine=engine, total_steps=1_000, ppo=ppo, **other)


def test_a_distance_is_relative_to_theirs():
    theirs = torch.tensor([3.0, 4.0])
    assert distance(theirs, theirs) == 0
    assert distance(torch.tensor([3.0, 4.5]), theirs) == pytest.approx(0.1)


@needs_compiler
def test_both_learn_from_what_was_played():
    learned = learn_by_both(config(), updates=2)
    assert 0 < learned.gradient < 1e-5
    assert 0 < learned.movement < 1e-4
    assert learned.rollout.actions.shape == (16, 2)


@needs_compiler
def test_a_rollout_is_a_copy_and_has_what_was_remembered_before_each_segment():
    state = new_training_state(config(policy="memory"))
    rollout = play(state)
    before = rollout.observations.clone()
    play(state)
    assert torch.equal(rollout.observations, before)
    assert {part.shape[0] for part in rollout.memory.values()} == {16 // state.algorithm.tensors.segment_length}


@needs_compiler
def test_a_memory_that_is_no_number_is_not_taken_for_the_same():
    state = new_training_state(config(policy="memory"))
    for part in state.algorithm.tensors.memory.values():
        part.fill_(math.nan)
    state.algorithm.buffer.starts[0] = False  # else it would be forgotten at once
    with pytest.raises(RunFailed, match="remember different things"):
        play(state)


def test_torch_has_no_rollout_of_the_native_engines():
    with pytest.raises(RunFailed, match="This is the engine 'torch'"):
        play(new_training_state(config("torch")))


def test_two_runs_of_one_seed_have_the_same_facts_and_weights_and_not_the_same_times():
    runs = [new_training_state(config("torch", seed=3)) for _ in range(2)]
    reports = [run_on(state, 2) for state in runs]
    assert facts(reports[0]) == facts(reports[1])
    assert weights(runs[0]) == weights(runs[1])
    assert [one.times for one in reports[0]] != [one.times for one in reports[1]]
