import pytest

from palaestra.algorithms.group import ALONE
from palaestra.core.errors import RunFailed, UsageError
from palaestra.runner.trainer_state import (
    EQUAL_ON_ALL,
    OTHERS,
    gather_captures,
    own_capture,
    share_trainer_state,
)
from palaestra.training.state import new_training_state


@pytest.fixture
def follower(config, two_ranks):
    state = new_training_state(config)
    state.group = two_ranks(rank=1)
    assert gather_captures(state) == []
    return state


def test_a_single_process_gathers_nothing(bench):
    assert gather_captures(bench.state) == []


def test_the_leader_gathers_what_differs_between_ranks(bench, follower, two_ranks):
    bench.state.group = two_ranks(others=(follower.group.given,))
    (capture,) = gather_captures(bench.state)
    assert capture.keys() == follower.capture().keys() - EQUAL_ON_ALL - follower.algorithm.replicated
    assert capture["shuffler"] == follower.capture()["shuffler"]


def test_ranks_with_other_weights_are_not_saved(bench, follower, two_ranks):
    next(bench.state.algorithm.policy().parameters()).data[0] += 1
    bench.state.group = two_ranks(others=(follower.group.given,))
    with pytest.raises(RunFailed, match="After update 0 rank 1 has different weights than rank 0"):
        gather_captures(bench.state)


def test_each_rank_continues_from_its_own_capture(two_ranks):
    state = {"training": {"iteration": 4, "sampler": "leader"}, OTHERS: [{"sampler": "follower"}]}
    assert own_capture(state, two_ranks(rank=0)) == {"iteration": 4, "sampler": "leader"}
    assert own_capture(state, two_ranks(rank=1)) == {"iteration": 4, "sampler": "follower"}


@pytest.mark.fault("R5")
@pytest.mark.parametrize(
    ("others", "rank_count", "message"),
    [
        ([{}, {}], 2, "trained by 3 processes; 2 processes cannot continue it.*--nproc 3"),
        ([{}], 1, "trained by 2 processes; 1 process cannot continue it.*--nproc 2"),
        ([], 2, "trained by 1 process; 2 processes cannot continue it.*one process"),
    ],
)
def test_another_number_of_ranks_is_refused_with_both_numbers(two_ranks, others, rank_count, message):
    group = ALONE if rank_count == 1 else two_ranks()
    with pytest.raises(UsageError, match=message):
        own_capture({"training": {}, OTHERS: others}, group)


def test_the_trainer_state_is_broadcast_to_all_ranks(two_ranks):
    leader = two_ranks()
    share_trainer_state({"training": {"iteration": 4}}, leader)
    assert share_trainer_state(None, two_ranks(rank=1, told=leader.given)) == {"training": {"iteration": 4}}
    assert share_trainer_state(None, two_ranks(rank=1, told=b"")) is None
