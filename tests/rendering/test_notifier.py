import os
import select
import socket

import pytest

from palaestra.rendering import notifier as bells
from palaestra.rendering.notifier import MAX_BATCH, NotificationReceiver, NotificationSender


@pytest.fixture
def notifier():
    hung = NotificationReceiver()
    yield hung
    hung.close()


@pytest.fixture
def sender():
    made = NotificationSender()
    yield made
    made.close()


def test_a_notification_wakes_who_waits_and_says_what_for(notifier, sender):
    assert select.select([notifier], [], [], 0)[0] == []
    assert sender.notify(notifier.number, 2**63, 5)
    assert sender.notify(notifier.number, 2**63, 6)
    assert sender.notify(notifier.number, 2**63, 5)
    assert select.select([notifier], [], [], 5)[0] == [notifier]
    assert notifier.receive() == {(2**63, 5), (2**63, 6)}
    assert notifier.receive() == set()


def test_a_missing_notifier_is_no_error(sender):
    assert not sender.notify(12345, 1, 1)


def test_a_full_notifier_loses_notifications_and_never_waits(notifier, sender):
    sent = sum(sender.notify(notifier.number, 1, slot) for slot in range(5000))
    assert 0 < sent < 5000
    assert len(notifier.receive()) == min(sent, MAX_BATCH)
    assert sender.notify(notifier.number, 1, 1)


def test_noise_is_counted_and_ignored(notifier):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as noise:
        for data in (b"", b"x", b"x" * 100):
            noise.sendto(data, bells._address(notifier.number))
    assert notifier.receive() == set()
    assert notifier.ignored == {"size": 3}


def test_notifications_of_other_users_are_ignored(notifier, sender, monkeypatch):
    sender.notify(notifier.number, 1, 1)
    monkeypatch.setattr(bells.os, "geteuid", lambda: os.getuid() + 1)
    assert notifier.receive() == set()
    assert notifier.ignored == {"other user": 1}


def test_two_notifiers_are_independent(notifier, sender):
    other = NotificationReceiver()
    sender.notify(other.number, 1, 1)
    assert notifier.receive() == set()
    assert other.receive() == {(1, 1)}
    other.close()
