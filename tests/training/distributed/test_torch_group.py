"""Collectives among real processes, against what arithmetic says."""

from __future__ import annotations

import os
import re
import select
import socket
import threading
import time

import pytest
import torch
import torch.distributed as dist

from palaestra.training.distributed.torch_group import GLOO_HERE, ProcessGroupConnections, open_sockets


def test_sums_means_and_stacks_are_over_all_ranks(together):
    def work(group):
        own = torch.tensor([1.0 + group.rank, 10.0 * group.rank])
        return [
            group.sum_(own.clone()).tolist(),
            group.average_(own.clone()).tolist(),
            group.stack(own).tolist(),
            group.broadcast_(own.clone()).tolist(),
        ]

    expected = [[6.0, 30.0], [2.0, 10.0], [[1.0, 0.0], [2.0, 10.0], [3.0, 20.0]], [1.0, 0.0]]
    assert together(work, count=3) == [expected] * 3


def test_what_one_wishes_all_agree_on(together):
    answers = together(lambda group: group.max_over_ranks(15 if group.rank == 1 else 0, 0))
    assert answers == [[15, 0], [15, 0]]


def test_bytes_of_different_lengths_reach_the_leader_in_order(together):
    def work(group):
        return [data.decode() for data in group.gather_bytes(b"" if group.rank == 1 else b"x" * (group.rank + 1))]

    assert together(work, count=3) == [["x", "", "xxx"], [], []]


def test_what_the_leader_tells_all_hear_also_when_it_is_nothing(together):
    def work(group):
        return [
            group.broadcast_bytes(b"from 0" if group.is_leader else b"ignored").decode(),
            group.broadcast_bytes(b"").decode(),
        ]

    assert together(work) == [["from 0", ""]] * 2


def test_a_barrier_is_passed_when_the_last_has_come(together):
    def work(group):
        if group.rank == 1:
            time.sleep(0.3)  # the lateness itself, not a wait for a condition
        came = time.monotonic()
        group.barrier()
        return [came, time.monotonic()]

    answers = together(work)
    assert min(left for _, left in answers) >= max(came for came, _ in answers)


def test_waiting_for_the_last_is_counted_and_the_last_has_not_waited(together):
    def work(group):
        group.barrier()
        before = group.waited_seconds
        if group.rank == 1:
            time.sleep(0.5)  # the lateness itself
        group.barrier()
        return group.waited_seconds - before

    early, late = together(work)
    assert late < 0.4 <= early


def test_whoever_fails_first_is_named_by_the_others(together):
    def work(group):
        group.barrier()  # all have joined; before that there is nobody to tell
        if group.rank == 1:
            raise ValueError("the disk is on fire")
        group.barrier()

    answers = together(work, count=3)
    assert answers[1] == {"error": "ValueError: the disk is on fire"}
    assert {answer["error"] for rank, answer in enumerate(answers) if rank != 1} == {
        "PeerLost: Rank 1 failed first: the disk is on fire"
    }


@pytest.mark.fault("D1")
def test_a_rank_that_is_gone_without_a_word_is_noticed_at_once(together):
    def work(group):
        if group.rank == 1:
            os._exit(9)
        group.barrier()

    answers = together(work, timeout_seconds=60)
    assert re.search("PeerLost: Rank 1 ended (with exit code 9 and )?without a word", answers[0]["error"])


@pytest.mark.fault("D3")
def test_a_rank_that_does_not_answer_is_given_up_after_the_time_out(together):
    def work(group):
        leader = os.pidfd_open(int(group.broadcast_bytes(str(os.getpid()).encode())))
        if group.rank == 1:
            select.select([leader], [], [])  # silent for as long as the other one waits
            os._exit(9)
        group.barrier()

    answers = together(work, timeout_seconds=3)  # which is also the time to join, on a busy machine
    assert answers[0]["error"] == "PeerLost: Another rank did not answer within 3 s (distributed.timeout_seconds)."


def test_gloo_listens_at_the_chosen_address_only(together):
    def work(group):
        group.barrier()
        ends = []
        for descriptor in group._connections._sockets:
            with socket.socket(fileno=os.dup(descriptor)) as connection:
                ends.append(connection.getsockname()[0])
        return [dist.get_backend(), sorted(set(ends) - {"::ffff:127.0.0.1"})]

    assert together(work) == [[GLOO_HERE, ["127.0.0.1"]]] * 2


def test_a_collective_that_waits_ends_when_the_connections_are_broken(together):
    def work(group):
        if group.rank == 1:
            group._heartbeat.cause(20)  # never comes to the sum
            return "gave up"
        timer = threading.Timer(0.3, group._connections.break_all)
        timer.start()
        began = time.monotonic()
        try:
            dist.all_reduce(torch.ones(3))
        except RuntimeError:
            seconds = time.monotonic() - began
            group.post_failure("over")
            return seconds
        return "no error"

    waited, other = together(work, timeout_seconds=60)
    assert 0.2 < waited < 10
    assert other == "gave up"


def test_a_socket_that_took_an_old_descriptor_is_left_alone():
    one, other = socket.socketpair()
    with one, other:
        connections = ProcessGroupConnections({}, {one.fileno(): "socket:[of another]"})
        connections.break_all()
        one.sendall(b"alive")
        assert other.recv(5) == b"alive"


def test_sockets_that_were_open_before_are_not_the_groups():
    one, other = socket.socketpair()
    with one, other:
        before = open_sockets()
        assert one.fileno() in before
        ProcessGroupConnections(before, open_sockets()).break_all()
        one.sendall(b"alive")
        assert other.recv(5) == b"alive"
