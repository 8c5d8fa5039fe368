import json
import os
import socket
import threading
import time
from contextlib import closing

import pytest

from palaestra.apps.cleanrl.launcher.painting import LARGEST_MESSAGE, Atelier, serve
from palaestra.apps.cleanrl.launcher.pose import kind_of, take_pose
from palaestra.frames.demand import Demand


@pytest.fixture
def served(monkeypatch):
    """What is said to a painter of this process, and what it answers."""
    monkeypatch.setattr(os, "nice", lambda _by: 0)
    monkeypatch.setattr("palaestra.apps.cleanrl.launcher.painting.die_with_parent", lambda _parent: None)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(30)
    with ours, theirs:
        thread = threading.Thread(target=serve, args=(theirs,))
        thread.start()
        yield ours
        ours.shutdown(socket.SHUT_RDWR)
        thread.join(timeout=30)
        assert not thread.is_alive(), "it ends with the line"


def order(env, slot):
    return {"slot": slot, "kind": kind_of(env), "pose": take_pose(env), "numbers": (7, 1.0, 3.0, 4), "at": 5.0}


def want(reader, *slots):
    reader.want(Demand(15.0, 64, frozenset(slots), 0, 0), time.monotonic() + 9)


def test_what_it_is_told_is_in_the_lane_with_its_numbers_and_its_time(lane_file, cartpole):
    path, reader = lane_file
    want(reader, 0, 2)
    with closing(Atelier({"lane": str(path), "kind": kind_of(cartpole)})) as atelier:
        assert atelier.draw([order(cartpole, 0), order(cartpole, 2)]) == 2
    assert [reader.read(slot) is None for slot in range(3)] == [False, True, False]
    frame = reader.read(2)
    assert (frame.numbers.env_step, frame.numbers.total_reward, frame.numbers.length) == (7, 3.0, 4)
    assert frame.note.captured_at == 5.0
    assert len(set(frame.payload)) > 1, "there is something to be seen"


def test_when_nobody_looks_any_more_nothing_is_drawn(lane_file, cartpole):
    path, reader = lane_file
    with closing(Atelier({"lane": str(path), "kind": kind_of(cartpole)})) as atelier:
        assert atelier.draw([order(cartpole, 0)]) == 0
    assert reader.read(0) is None


def test_it_answers_what_drawing_took_but_not_for_the_first_which_loads_what_draws(lane_file, cartpole, served):
    path, reader = lane_file
    want(reader, 0)
    served.send(json.dumps({"parent": os.getpid(), "lane": str(path), "kind": kind_of(cartpole)}).encode())
    assert json.loads(served.recv(LARGEST_MESSAGE)) == {}
    answers = []
    for _ in range(2):
        served.send(json.dumps([order(cartpole, 0)]).encode())
        answers.append(json.loads(served.recv(LARGEST_MESSAGE)))
    assert answers[0] == {"drawn": 1, "seconds": 0.0}
    assert answers[1]["drawn"] == 1
    assert answers[1]["seconds"] > 0
