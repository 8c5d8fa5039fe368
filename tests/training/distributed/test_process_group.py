"""torch's process group at a chosen address, and collectives that another thread ends."""

import os
import socket
import threading
import time

import torch
import torch.distributed as dist

from palaestra.training.distributed.process_group import GLOO_HERE, ProcessGroupConnections, open_sockets


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
