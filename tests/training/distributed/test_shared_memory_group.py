"""Collectives through shared memory among real processes, against what arithmetic says."""

import os
import select
import signal
import time

import numpy as np
import pytest
import torch

from palaestra.training.distributed.shared_memory_group import SharedMemoryGroup
from palaestra.training.engines import native_engine

pytestmark = pytest.mark.skipif(native_engine.native_learner is None, reason="built without a C++ compiler")

CHUNK_FLOATS = (1 << 20) // 4  # native/engine/collectives.cpp


def test_ranks_with_common_memory_are_joined_through_it(on_one_machine):
    def work(group):
        return [isinstance(group, SharedMemoryGroup), group.rank, group.local_rank, group.world_size, group.is_leader]

    assert on_one_machine(work) == [[True, 0, 0, 2, True], [True, 1, 1, 2, False]]


def test_sums_means_and_stacks_are_over_all_ranks(on_one_machine):
    def work(group):
        own = torch.tensor([1.0 + group.rank, 10.0 * group.rank])
        turned = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).mul(group.rank + 1).t()  # not contiguous
        return [
            group.sum_(own.clone()).tolist(),
            group.average_(own.double()).tolist(),
            group.sum_(torch.tensor([1 + group.rank])).tolist(),
            group.sum_(turned).tolist(),
            group.stack(own).tolist(),
            group.broadcast_(own.clone()).tolist(),
            group.sum_(torch.tensor(2.0)).item(),
        ]

    stacked = [[1.0, 0.0], [2.0, 10.0], [3.0, 20.0]]
    expected = [[6.0, 30.0], [2.0, 10.0], [6], [[6.0, 18.0], [12.0, 24.0]], stacked, [1.0, 0.0], 6.0]
    assert on_one_machine(work, count=3) == [expected] * 3


@pytest.mark.parametrize("count", [1, 7, 33, CHUNK_FLOATS, 2 * CHUNK_FLOATS + 5])
def test_a_sum_has_the_bits_of_an_addition_in_the_order_of_ranks(on_one_machine, count):
    def numbers(rank):
        return np.random.default_rng(rank).standard_normal(count).astype(np.float32)

    def work(group):
        total = torch.from_numpy(numbers(group.rank))
        for _ in range(3):  # the memory is used again
            total = group.sum_(torch.from_numpy(numbers(group.rank)))
        return total.numpy().tobytes().hex()[:100_000], float(total.double().sum())

    expected = (numbers(0) + numbers(1)) + numbers(2)
    answers = on_one_machine(work, count=3)
    assert answers == [[expected.tobytes().hex()[:100_000], float(expected.astype(np.float64).sum())]] * 3


def test_bytes_of_different_lengths_reach_the_leader_in_order(on_one_machine):
    def work(group):
        sizes = [3_000_000, 0, 5]  # the first in several pieces
        given = [data.decode() for data in group.gather_bytes(b"x" * sizes[group.rank])]
        return [len(data) for data in given], "".join(given) == "x" * 3_000_005

    assert on_one_machine(work, count=3) == [[[3_000_000, 0, 5], True], [[], False], [[], False]]


def test_what_the_leader_tells_all_hear_and_what_one_wishes_all_agree_on(on_one_machine):
    def work(group):
        told = group.broadcast_bytes(b"from 0" if group.is_leader else b"ignored").decode()
        return [
            told,
            group.broadcast_bytes(b"").decode(),
            group.max_over_ranks(15 if group.rank == 1 else 0, -3 - group.rank),
        ]

    assert on_one_machine(work) == [["from 0", "", [15, -3]]] * 2


def test_whoever_comes_last_has_not_waited(on_one_machine):
    def work(group):
        group.barrier()
        before = group.waited_seconds
        if group.rank == 1:
            time.sleep(0.5)  # the lateness itself
        came = time.monotonic()
        group.barrier()
        return [came, time.monotonic(), group.waited_seconds - before]

    early, late = on_one_machine(work)
    assert early[1] >= late[0]
    assert late[2] < 0.4 <= early[2]


def test_whoever_fails_first_is_named_by_the_others(on_one_machine):
    def work(group):
        if group.rank == 1:
            raise ValueError("the disk is on fire")
        group.sum_(torch.zeros(10))

    answers = on_one_machine(work, count=3)
    assert answers[1] == {"error": "ValueError: the disk is on fire"}
    assert answers[0] == answers[2] == {"error": "PeerLost: Rank 1 failed first: the disk is on fire"}


@pytest.mark.fault("D1")
def test_a_rank_that_is_gone_without_a_word_is_named_at_once(on_one_machine):
    def work(group):
        group.barrier()  # all have joined
        if group.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        group.sum_(torch.zeros(10))

    answers = on_one_machine(work, count=3, timeout_seconds=60)
    assert answers[1] is None
    assert answers[0] == answers[2] == {"error": "PeerLost: Rank 1 exited without reporting an error."}


@pytest.mark.fault("D3")
def test_a_rank_that_does_not_answer_is_given_up_after_the_time_out(on_one_machine):
    def work(group):
        leader = os.pidfd_open(int(group.broadcast_bytes(str(os.getpid()).encode())))
        if group.rank == 1:
            select.select([leader], [], [])  # silent for as long as the other one waits
            os._exit(9)
        group.barrier()

    answers = on_one_machine(work, timeout_seconds=3)  # which is also the time to join, on a busy machine
    assert answers[0]["error"] == "PeerLost: Rank 1 did not answer within 3 s (distributed.timeout_seconds)."


def test_a_rank_that_left_after_the_last_barrier_is_not_lost(on_one_machine):
    def work(group):
        for _ in range(200):
            group.barrier()
        return "in order"

    assert on_one_machine(work, count=3) == ["in order"] * 3


def test_a_signal_reaches_a_rank_that_waits(on_one_machine):
    """Whoever presses Ctrl-C twice does not want to wait for a rank that hangs."""

    def stop(number, _frame):
        raise KeyboardInterrupt(number)

    def work(group):
        pid = int(group.broadcast_bytes(str(os.getpid()).encode()))
        signal.signal(signal.SIGUSR2, stop)
        group.barrier()
        if group.rank == 1:
            os.kill(pid, signal.SIGUSR2)
        else:
            group.barrier()

    leader, _ = on_one_machine(work)
    assert leader == {"error": f"KeyboardInterrupt: {signal.SIGUSR2.value}"}


def test_ranks_that_met_over_a_network_use_the_memory_of_their_machine(together):
    def work(group):
        assert native_engine.native_learner is not None
        numbers = np.array([1.0, 2.0], np.float32) * (group.rank + 1)
        group.reducer.sum(numbers)
        return [isinstance(group.reducer, native_engine.native_learner.SharedMemoryCollectives), numbers.tolist()]

    assert together(work) == [[True, [3.0, 6.0]]] * 2


def test_another_machines_memory_is_not_mistaken_for_ours(together, monkeypatch):
    """Nothing of that name on the second rank: then sums go over gloo, from inside the update."""

    def work(group):
        if group.rank == 1:
            monkeypatch.setattr(os, "open", refuse)
        return [type(group.reducer).__name__, group.reducer.__class__.__mro__[1].__name__]

    def refuse(*_):
        raise FileNotFoundError

    assert together(work) == [["CallbackReducer", "Reducer"]] * 2
