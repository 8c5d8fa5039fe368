"""Ranks that meet in a real store, and those that are refused before they do."""

import json
import socket
import threading
import time

import pytest

from palaestra.algorithms.group import PeerLost
from palaestra.core.errors import RunFailed
from palaestra.training.distributed.rank_info import RankInfo
from palaestra.training.distributed.rendezvous import Member, Rendezvous, post_refusal


@pytest.fixture
def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def rank_info(rank, port, address="127.0.0.1"):
    return RankInfo(rank, 0, 2, address, port)


def member(rank):
    return Member(rank, f"host-{rank}", "10.0.0.1", "machine 1", settings={"backend": "gloo"})


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "localhost"])
def test_every_rank_learns_what_the_others_posted(port, address):
    leader = Rendezvous(rank_info(0, port, address), 20, {})
    follower = Rendezvous(rank_info(1, port, address), 20, {})
    leader.post(member(0))
    follower.post(member(1))
    assert (leader.member(1), follower.member(0)) == (member(1), member(0))


def test_a_rank_that_never_comes_is_named_after_the_limit(port):
    with pytest.raises(RunFailed, match=f"found no rank 1 at 127.0.0.1:{port} within 0.3 s"):
        Rendezvous(rank_info(0, port), 0.3, {}).member(1)


def test_a_master_that_is_not_there_is_named_with_the_reason(port):
    with pytest.raises(RunFailed, match=f"could not reach rank 0 at 127.0.0.1:{port} within 0.3 s.*Connection refused"):
        Rendezvous(rank_info(1, port), 0.3, {})


def test_a_port_of_another_program_is_named_on_rank_0_and_ends_rank_1_too(port):
    with socket.create_server(("127.0.0.1", port)):
        with pytest.raises(RunFailed, match=f"Rank 0 of 2 on .* could not join the others at 127.0.0.1:{port}"):
            Rendezvous(rank_info(0, port), 5, {})
        with pytest.raises(RunFailed, match="could not join the others"):
            Rendezvous(rank_info(1, port), 1, {})


def test_a_refusal_before_joining_ends_the_others_at_once(port):
    leader = Rendezvous(rank_info(0, port), 60, {})
    refused = threading.Thread(target=post_refusal, args=(rank_info(1, port), "There is no interface eth7.", 20))
    refused.start()
    began = time.monotonic()
    with pytest.raises(PeerLost, match="Rank 1 failed first: There is no interface eth7."):
        leader.member(1)
    refused.join(10)
    assert not refused.is_alive(), "it waited on although the other knew"
    assert time.monotonic() - began < 15


def test_a_refusal_of_the_leader_waits_until_the_others_have_read_it(port):
    refused = threading.Thread(target=post_refusal, args=(rank_info(0, port), "No run.", 20))
    refused.start()
    follower = Rendezvous(rank_info(1, port), 60, {})
    with pytest.raises(PeerLost, match="Rank 0 failed first: No run."):
        follower.member(0)
    refused.join(10)
    assert not refused.is_alive()


def test_a_refusal_that_nobody_can_read_ends_after_its_time(port):
    began = time.monotonic()
    post_refusal(rank_info(1, port), "alone", 0.3)
    assert time.monotonic() - began < 10


def test_a_failure_that_is_known_from_elsewhere_ends_the_waiting(port):
    with pytest.raises(PeerLost, match="gone"):
        Rendezvous(rank_info(0, port), 60, {}).member(1, lambda: "Rank 1 is gone.")


def test_ranks_that_torchrun_restarted_do_not_meet_those_of_before(port):
    leader = Rendezvous(rank_info(0, port), 20, {})
    leader.post(member(0))
    again = Rendezvous(rank_info(1, port), 0.5, {"TORCHELASTIC_RESTART_COUNT": "1"})
    with pytest.raises(RunFailed, match="found no rank 0"):
        again.member(0)


def test_what_is_posted_is_plain_json(port):
    leader = Rendezvous(rank_info(0, port), 20, {})
    leader.post(member(0))
    assert json.loads(leader.store.get("member/0"))["host"] == "host-0"
