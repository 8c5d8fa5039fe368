from __future__ import annotations

from copy import deepcopy
from itertools import islice

import numpy as np
import pytest
import torch

from palaestra.algorithms.group import ALONE
from palaestra.apps.matmul.agent.census import views_of
from palaestra.apps.matmul.agent.config import AgentConfig
from palaestra.apps.matmul.agent.demonstrations import sample_synthetic
from palaestra.apps.matmul.agent.learner import AgentLearner, ReplayBuffer
from palaestra.apps.matmul.schemes.bit_masks import from_masks, to_masks
from palaestra.apps.matmul.schemes.factorization import Format
from palaestra.apps.matmul.schemes.verification import verify
from palaestra.checkpoints.weights import trainer_state_from_bytes, trainer_state_to_bytes
from palaestra.core.errors import DamagedFile, UsageError

SMALL = Format(2, 2, 2)
TINY = AgentConfig(width=16, batch=32, warmup=3, updates=2, simulations=2, children=4, device="cpu")

pytestmark = pytest.mark.usefixtures("one_thread")


def learner(seed=1, config=TINY):
    return AgentLearner(SMALL, config, seed, ALONE)


def weights(agent):
    return {name: part.clone() for name, part in agent.network.state_dict().items()}


def same(first, second):
    return all(torch.equal(first[name], second[name]) for name in first)


def test_every_round_updates_and_plays_an_episode_with_a_valid_scheme():
    agent = learner()
    before = weights(agent)
    reports = list(islice(agent.learn(), 2))
    assert [report.round for report in reports] == [1, 2]
    assert [report.updates for report in reports] == [3, 5]
    assert not same(before, weights(agent))
    assert len(agent.replay_buffer.examples) == reports[-1].moves
    for report in reports:
        (episode,) = report.episodes
        assert verify(from_masks(episode.scheme, SMALL)).rank == len(episode.scheme)


def test_training_is_deterministic_for_a_seed():
    first, again, other = (learner(seed) for seed in (1, 1, 2))
    reports = [list(islice(agent.learn(), 2)) for agent in (first, again, other)]
    assert reports[0] == reports[1]
    assert reports[0] != reports[2]
    assert same(weights(first), weights(again))


def test_a_restored_agent_continues_bit_for_bit(strassen_bits):
    whole = learner()
    whole.schemes = [to_masks(strassen_bits)]
    expected = list(islice(whole.learn(), 4))
    first = learner()
    first.schemes = [to_masks(strassen_bits)]
    begun = list(islice(first.learn(), 2))
    second = learner(seed=99)
    second.restore(weights(first), first.capture())
    assert begun + list(islice(second.learn(), 2)) == expected
    assert same(weights(whole), weights(second))


def test_a_state_with_the_keys_of_version_0_1_is_read():
    first = learner()
    list(islice(first.learn(), 2))
    state = deepcopy(first.capture())  # the optimizer shares its tensors
    own = trainer_state_from_bytes(state["ranks"][0])
    buffer = own.pop("replay_buffer")
    buffer["are_good"] = buffer.pop("has_policy_target")
    own = {"dice": own.pop("rng"), "memory": buffer, **own}
    old = {**state, "plateau": state["naive_rank_schemes"], "ranks": [trainer_state_to_bytes(own)]}
    del old["naive_rank_schemes"]
    second = learner(seed=99)
    second.restore(weights(first), old)
    assert list(islice(first.learn(), 1)) == list(islice(second.learn(), 1))


def test_a_state_of_another_world_size_or_a_damaged_state_is_refused():
    agent = learner()
    list(islice(agent.learn(), 1))
    state = agent.capture()
    with pytest.raises(UsageError, match="started with 2 processes"):
        agent.restore(weights(agent), {**state, "ranks": state["ranks"] * 2})
    with pytest.raises(DamagedFile):
        agent.restore(weights(agent), {key: value for key, value in state.items() if key != "counters"})


def test_too_large_formats_are_refused():
    with pytest.raises(UsageError, match="4x4x4"):
        AgentLearner(Format(4, 4, 4), TINY, 1, ALONE)


def test_cuda_without_a_device_is_refused():
    if torch.cuda.is_available():
        pytest.skip("there is CUDA here")
    with pytest.raises(UsageError, match="CUDA"):
        learner(config=TINY.model_copy(update={"device": "cuda"}))


def examples(count, seed):
    return sample_synthetic(SMALL, count, 5, np.random.default_rng(seed))


def test_the_replay_buffer_stores_the_newest_examples():
    replay_buffer = ReplayBuffer(views_of(SMALL), 6)
    first, second = examples(5, 1), examples(4, 2)
    replay_buffer.add(first)
    replay_buffer.add(second)
    assert len(replay_buffer.examples) == 6
    assert (replay_buffer.examples.tensors[-len(second) :] == second.tensors).all()
    assert (replay_buffer.examples.tensors[:2] == first.tensors[-2:]).all()


def test_an_empty_replay_buffer_returns_no_examples():
    assert len(ReplayBuffer(views_of(SMALL), 6).draw(10, np.random.default_rng(1))) == 0


def test_samples_come_from_the_replay_buffer():
    replay_buffer = ReplayBuffer(views_of(SMALL), 50)
    replay_buffer.add(examples(8, 3))
    drawn = replay_buffer.draw(5, np.random.default_rng(1))
    known = {tensor.tobytes() for tensor in replay_buffer.examples.tensors}
    assert len(drawn) == 5
    assert all(tensor.tobytes() in known for tensor in drawn.tensors)


def test_a_restored_replay_buffer_gives_the_same_samples():
    replay_buffer, twin = ReplayBuffer(views_of(SMALL), 50), ReplayBuffer(views_of(SMALL), 50)
    replay_buffer.add(examples(8, 3))
    twin.restore(replay_buffer.capture())
    first, second = (each.draw(6, np.random.default_rng(9)) for each in (replay_buffer, twin))
    assert (first.tensors == second.tensors).all()
    assert (first.remaining == second.remaining).all()
