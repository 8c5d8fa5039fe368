import json

import pytest

from palaestra.algorithms.group import ALONE, Group
from palaestra.core.errors import RunFailed, UsageError
from palaestra.runner.captures import (
    EQUAL_ON_ALL,
    OTHERS,
    demand_one_config,
    gather_captures,
    own_capture,
    share_config,
    share_trainer_state,
)
from palaestra.training.state import new_training_state


class Paper(Group):
    """A rank of two whose collectives are played by hand."""

    world_size = 2

    def __init__(self, rank: int = 0, others: tuple[bytes, ...] = (), told: bytes = b"") -> None:
        self.rank = rank
        self.others = others
        self.told = told
        self.given = b""

    def gather_bytes(self, data):
        self.given = data
        return [data, *self.others] if self.is_leader else []

    def broadcast_bytes(self, data):
        self.given = data
        return data if self.is_leader else self.told


@pytest.fixture
def follower(config):
    state = new_training_state(config)
    state.group = Paper(rank=1)
    assert gather_captures(state) == []
    return state


def test_alone_there_are_no_others(bench):
    assert gather_captures(bench.state) == []


def test_the_leader_gets_what_the_others_have_to_themselves(bench, follower):
    bench.state.group = Paper(others=(follower.group.given,))
    (capture,) = gather_captures(bench.state)
    assert capture.keys() == follower.capture().keys() - EQUAL_ON_ALL - follower.algorithm.replicated
    assert capture["shuffler"] == follower.capture()["shuffler"]


def test_ranks_with_other_weights_are_not_saved(bench, follower):
    next(bench.state.algorithm.policy().parameters()).data[0] += 1
    bench.state.group = Paper(others=(follower.group.given,))
    with pytest.raises(RunFailed, match="After update 0 rank 1 has other weights than rank 0"):
        gather_captures(bench.state)


def test_each_rank_goes_on_from_what_is_its_own():
    state = {"training": {"iteration": 4, "sampler": "leader"}, OTHERS: [{"sampler": "follower"}]}
    assert own_capture(state, Paper(rank=0)) == {"iteration": 4, "sampler": "leader"}
    assert own_capture(state, Paper(rank=1)) == {"iteration": 4, "sampler": "follower"}


@pytest.mark.fault("R5")
@pytest.mark.parametrize(
    ("others", "group", "message"),
    [
        ([{}, {}], Paper(), "trained by 3 processes; not to be continued by 2 processes.*--nproc 3"),
        ([{}], ALONE, "trained by 2 processes; not to be continued by 1 process.*--nproc 2"),
        ([], Paper(), "trained by 1 process; not to be continued by 2 processes.*one process"),
    ],
)
def test_another_number_of_ranks_is_refused_with_both_numbers(others, group, message):
    with pytest.raises(UsageError, match=message):
        own_capture({"training": {}, OTHERS: others}, group)


def test_the_trainer_state_is_told_to_everybody():
    leader = Paper()
    share_trainer_state({"training": {"iteration": 4}}, leader)
    assert share_trainer_state(None, Paper(rank=1, told=leader.given)) == {"training": {"iteration": 4}}
    assert share_trainer_state(None, Paper(rank=1, told=b"")) is None


def test_ranks_with_other_settings_are_refused_by_name(small_config):
    other = json.dumps([small_config(seed=9).model_dump(mode="json"), None]).encode()
    with pytest.raises(UsageError, match=r"Rank 1 was started with another configuration(.|\n)*seed"):
        demand_one_config(small_config(), Paper(others=(other,)))
    same = json.dumps([small_config().model_dump(mode="json"), None]).encode()
    demand_one_config(small_config(), Paper(others=(same,)))


def test_ranks_may_have_interfaces_of_their_own(small_config):
    other = small_config(distributed={"interface": "eth1"}).model_dump(mode="json")
    demand_one_config(small_config(), Paper(others=(json.dumps([other, None]).encode(),)))


def test_a_rank_that_takes_the_leaders_settings_is_compared_in_what_it_was_given(small_config):
    demand_one_config(small_config(), Paper(others=(json.dumps([{"seed": 1}, {"seed": 1}]).encode(),)))
    with pytest.raises(UsageError, match=r"seed: 1 -> 9"):
        demand_one_config(small_config(), Paper(others=(json.dumps([{"seed": 9}, {"seed": 9}]).encode(),)))


def test_all_ranks_train_with_the_leaders_settings_and_their_own_interface(small_config):
    leader = Paper()
    share_config(small_config(seed=9), leader)
    follower = Paper(rank=1, told=leader.given)
    taken = share_config(small_config(seed=1, distributed={"interface": "eth1"}), follower)
    assert (taken.seed, taken.distributed.interface) == (9, "eth1")
