import os
import select
import socket

import pytest

from palaestra.frames import bell as bells
from palaestra.frames.bell import MOST_AT_ONCE, Bell, Ringer


@pytest.fixture
def bell():
    hung = Bell()
    yield hung
    hung.close()


@pytest.fixture
def ringer():
    made = Ringer()
    yield made
    made.close()


def test_a_ring_wakes_who_waits_and_says_what_for(bell, ringer):
    assert select.select([bell], [], [], 0)[0] == []
    assert ringer.ring(bell.number, 2**63, 5)
    assert ringer.ring(bell.number, 2**63, 6)
    assert ringer.ring(bell.number, 2**63, 5)
    assert select.select([bell], [], [], 5)[0] == [bell]
    assert bell.heard() == {(2**63, 5), (2**63, 6)}
    assert bell.heard() == set()


def test_a_missing_bell_is_no_error(ringer):
    assert not ringer.ring(12345, 1, 1)


def test_a_full_bell_loses_rings_and_never_waits(bell, ringer):
    sent = sum(ringer.ring(bell.number, 1, slot) for slot in range(5000))
    assert 0 < sent < 5000
    assert len(bell.heard()) == min(sent, MOST_AT_ONCE)
    assert ringer.ring(bell.number, 1, 1)


def test_noise_is_counted_and_ignored(bell):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as noise:
        for data in (b"", b"x", b"x" * 100):
            noise.sendto(data, bells._address(bell.number))
    assert bell.heard() == set()
    assert bell.ignored == {"size": 3}


def test_who_rings_is_told_by_the_kernel_and_strangers_are_not_heard(bell, ringer, monkeypatch):
    ringer.ring(bell.number, 1, 1)
    monkeypatch.setattr(bells.os, "geteuid", lambda: os.getuid() + 1)
    assert bell.heard() == set()
    assert bell.ignored == {"stranger": 1}


def test_two_bells_are_two(bell, ringer):
    other = Bell()
    ringer.ring(other.number, 1, 1)
    assert bell.heard() == set()
    assert other.heard() == {(1, 1)}
    other.close()
