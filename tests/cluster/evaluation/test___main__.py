import json
import os
from contextlib import contextmanager

import pytest

from palaestra.cluster.evaluation import __main__
from palaestra.core.errors import RunFailed


@pytest.fixture
def pipes():
    asked_read, requested = os.pipe()
    answered_read, replied = os.pipe()
    yield asked_read, requested, answered_read, replied
    for descriptor in (asked_read, answered_read, replied):
        os.close(descriptor)


def start_line():
    return json.dumps({"cluster": {"address": "head:1", "cpus": 3}, "parent": os.getppid()}).encode() + b"\n"


def test_ray_that_cannot_be_opened_is_reported_in_its_own_words(pipes, monkeypatch):
    asked_read, requested, answered_read, replied = pipes
    opened = []

    @contextmanager
    def refuse(address, *, cpus, is_checked):
        assert not is_checked, "every share is"
        opened.append((address, cpus))
        raise RunFailed("Nobody is there.", "Try tomorrow.")
        yield

    monkeypatch.setattr(__main__, "open_ray", refuse)
    monkeypatch.setattr(__main__, "die_with_parent", lambda parent: None)
    os.write(requested, start_line())
    os.close(requested)
    assert __main__.main(asked_read, replied) == 1
    assert opened == [("head:1", 3)]
    arguments = json.loads(os.read(answered_read, 1000))
    assert arguments == {"error": "Nobody is there.", "hint": "Try tomorrow.", "exit_code": 1}


def test_the_first_line_is_read_and_nothing_behind_it(pipes):
    asked_read, requested, _, _ = pipes
    os.write(requested, b"one\ntwo\n")
    os.close(requested)
    assert __main__.first_line(asked_read) == b"one\n"
    assert os.read(asked_read, 100) == b"two\n"
    assert __main__.first_line(asked_read) == b""
