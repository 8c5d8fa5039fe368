"""Heartbeats over real connections, and between real processes that are killed, stopped or stuck."""

import json
import os
import signal
import socket
import time
from contextlib import contextmanager, suppress

import pytest

from palaestra.training.distributed.heartbeat import Heartbeat

LIMIT = 2.0  # the shortest that the configuration allows
TOKEN = "of this run"


@contextmanager
def heartbeats(count, limit=LIMIT):
    """Rank 0 and those connected to it, all in this process; closed at the end, the leader last."""
    leader = Heartbeat(0, TOKEN, limit)
    port = leader.listen("127.0.0.1")
    ranks = [leader]
    for rank in range(1, count):
        ranks.append(Heartbeat(rank, TOKEN, limit))
        ranks[-1].connect("127.0.0.1", port, 5)
    try:
        yield ranks
    finally:
        for rank in reversed(ranks):
            rank.close()


def introduce(port, rank, token=TOKEN):
    """A rank that says who it is, and nothing more."""
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(json.dumps({"rank": rank, "token": token}).encode() + b"\n")
    return connection


def test_a_failure_of_one_rank_is_the_cause_of_all():
    with heartbeats(3) as ranks:
        ranks[2].report_failure("the disk is on fire")
        assert {rank.cause(5) for rank in ranks} == {"Rank 2 failed first: the disk is on fire"}


def test_the_failure_of_the_leader_reaches_the_others_before_it_ends():
    with heartbeats(3) as ranks:
        ranks[0].report_failure("no memory")
        ranks[0].close()
        ranks[0].close = lambda: None
        assert {rank.cause(5) for rank in ranks[1:]} == {"Rank 0 failed first: no memory"}


def test_the_first_failure_stays_and_hosts_are_named_where_there_are_several():
    with heartbeats(3) as ranks:
        ranks[0].hosts = {0: "alpha", 1: "beta", 2: "gamma"}
        ranks[1].report_failure("early")
        ranks[2].cause(5)
        ranks[2].report_failure("late")
        assert {rank.cause(5) for rank in ranks} == {"Rank 1 on beta failed first: early"}


def test_a_rank_that_leaves_with_a_goodbye_has_not_failed():
    with heartbeats(3) as ranks:
        ranks[1].close()
        ranks[1].close = lambda: None
        assert ranks[0].cause(1.5) == ""


def test_a_connection_that_ends_without_a_goodbye_is_a_failure_for_all():
    with heartbeats(2) as ranks:
        port = int(ranks[1]._leader_address.rpartition(":")[2])
        introduce(port, 7).close()
        assert {rank.cause(5) for rank in ranks} == {"Rank 7 ended without a word."}


def test_how_a_process_of_this_machine_ended_is_told_to_all():
    with heartbeats(3) as ranks:
        ranks[1].report_end(2, "was ended by SIGKILL")
        assert {rank.cause(5) for rank in ranks} == {"Rank 2 was ended by SIGKILL."}


def test_what_a_rank_itself_said_counts_more_than_how_its_process_ended():
    with heartbeats(3) as ranks:
        ranks[1].report_end(2, "ended with exit code 1 and without a word")
        ranks[2].report_failure("a reason")
        assert ranks[0].cause(5) == "Rank 2 failed first: a reason"


def test_a_silent_rank_is_given_up_before_the_limit_and_named():
    woken = []
    with heartbeats(2) as ranks:
        ranks[0].on_failure = lambda: woken.append(time.monotonic())
        began = time.monotonic()
        with introduce(int(ranks[1]._leader_address.rpartition(":")[2]), 5):
            cause = ranks[0].cause(10)
        assert "Rank 5 has not answered for" in cause
        assert "distributed.peer_timeout_seconds=2" in cause
        assert ranks[1].cause(5) == cause
    assert 0.5 * LIMIT < woken[0] - began < 5 * LIMIT  # wide: the machine may be busy


def test_a_silent_leader_is_given_up_too_and_its_address_named():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        rank = Heartbeat(1, TOKEN, LIMIT)
        rank.hosts = {0: "alpha", 1: "beta"}
        rank.connect("127.0.0.1", port, 5)
        assert f"Lost the connection to Rank 0 on alpha at 127.0.0.1:{port} for" in rank.cause(10)
        rank.close()


def test_whoever_does_not_end_in_time_is_ended():
    ended = []
    with heartbeats(2) as ranks:
        ranks[1].on_deadline = ended.append
        ranks[0].report_failure("gone")
        deadline = time.monotonic() + 20
        while not ended and time.monotonic() < deadline:
            time.sleep(0.01)
    assert ended == ["Rank 0 failed first: gone"]


@pytest.mark.parametrize("text", [b'{"rank": 1, "token": "another"}\n', b"GET / HTTP/1.1\n", b"[]\n", b"x" * 100_000])
def test_strangers_are_dropped_and_change_nothing(text):
    with heartbeats(2) as ranks:
        port = int(ranks[1]._leader_address.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.sendall(text)
            stranger.settimeout(10)
            with suppress(ConnectionResetError):
                assert stranger.recv(100) == b""
        assert ranks[0].cause(1.2) == ""


@pytest.mark.fault("D3")
@pytest.mark.parametrize("victim", [0, 1])
def test_a_stopped_rank_ends_the_others_in_the_middle_of_a_collective(together, victim):
    def work(group):
        group.barrier()
        if group.rank == victim:
            waker = os.fork()  # whoever stopped it lets it go on later
            if not waker:
                time.sleep(3 * LIMIT)
                os.kill(os.getppid(), signal.SIGCONT)
                os._exit(0)
            os.kill(os.getpid(), signal.SIGSTOP)
        group.barrier()

    began = time.monotonic()
    answers = together(work, count=3, timeout_seconds=60, peer_timeout_seconds=LIMIT)
    others = [answer["error"] for rank, answer in enumerate(answers) if rank != victim]
    assert time.monotonic() - began < 30
    if victim:
        assert all("PeerLost: Rank 1 has not answered for" in each for each in others), others
    else:
        assert all("PeerLost: Lost the connection to Rank 0 at 127.0.0.1:" in each for each in others), others
    assert "PeerLost" in answers[victim]["error"]
