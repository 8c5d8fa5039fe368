import os
import signal
import subprocess
import sys
import time

import pytest

from palaestra.apps.cleanrl.launcher import painter as painter_module
from palaestra.apps.cleanrl.launcher.generation import generation
from palaestra.apps.cleanrl.launcher.painter import COMING_SECONDS, REST_SECONDS, START_SECONDS, STUCK_SECONDS, Painter
from palaestra.frames.demand import Demand

PATIENCE_SECONDS = 60


@pytest.fixture
def said():
    return []


@pytest.fixture
def painter(lane_file, said):
    painter = Painter(lane_file[0], lambda *message: said.append(message))
    yield painter
    painter.close()


@pytest.fixture
def stand_in(monkeypatch):
    """In the place of the program that draws: one that does what the text says with `line`."""

    def put(text):
        begin = f"import socket, sys, time; line = socket.socket(fileno=int(sys.argv[2])); line.recv(9999); {text}"
        start = subprocess.Popen
        monkeypatch.setattr(
            painter_module.subprocess,
            "Popen",
            lambda command, **options: start([sys.executable, "-S", "-E", "-c", begin, *command[2:]], **options),
        )

    return put


def until(condition):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.01)


def attended(painter, cartpole):
    painter.attend(cartpole, time.monotonic())
    return painter


@pytest.mark.slow
def test_a_painter_draws_what_it_is_told_and_says_so(lane_file, painter, cartpole):
    _, reader = lane_file
    reader.want(Demand(15.0, 64, frozenset({1}), 0, 0), time.monotonic() + 9)
    until(lambda: attended(painter, cartpole).is_ready)
    painter.tell({1: (cartpole, (7, 1.0, 3.0, 4))}, time.monotonic())
    assert painter.is_busy
    drawn = []
    until(lambda: drawn.append(painter.attend(cartpole, time.monotonic()).pictures) or not painter.is_busy)
    assert sum(drawn) == 1
    assert reader.read(1).numbers.env_step == 7
    pid = painter.pid
    painter.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_painter_that_is_lost_is_told_of_once_and_not_asked_again(stand_in, painter, cartpole, said):
    stand_in("line.send(b'{}'); line.recv(9999)")
    until(lambda: attended(painter, cartpole).is_ready)
    os.kill(painter.pid, signal.SIGKILL)
    until(lambda: attended(painter, cartpole).reason)
    assert not painter.is_ready
    assert painter.pid is None
    assert said == [("unpainted", "it was lost")]
    attended(painter, cartpole)
    assert painter.pid is None


def test_one_that_cannot_draw_says_why(stand_in, painter, cartpole, said):
    stand_in("""line.send(b'{"failed": "no screen"}')""")
    until(lambda: attended(painter, cartpole).reason)
    assert said == [("unpainted", "no screen")]


def test_one_that_does_not_come_or_is_stuck_is_given_up(stand_in, painter, cartpole):
    stand_in("time.sleep(600)")
    now = time.monotonic()
    painter.attend(cartpole, now)
    assert painter.is_coming(now + COMING_SECONDS / 2)
    assert not painter.is_coming(now + COMING_SECONDS), "pictures are not put off for ever"
    painter.attend(cartpole, now + START_SECONDS + 1)
    assert "said nothing for 60 s" in painter.reason


def test_one_that_does_not_finish_what_it_was_told_is_given_up(stand_in, painter, cartpole):
    stand_in("line.send(b'{}'); time.sleep(600)")
    until(lambda: attended(painter, cartpole).is_ready)
    now = time.monotonic()
    painter.tell({0: (cartpole, (0, 0.0, 0.0, 0))}, now)
    painter.attend(cartpole, now + STUCK_SECONDS - 1)
    assert painter.is_busy
    painter.attend(cartpole, now + STUCK_SECONDS + 1)
    assert "said nothing for 10 s" in painter.reason


def test_when_nobody_watches_it_is_sent_away_and_comes_again_for_the_next_one(stand_in, painter, cartpole):
    stand_in("line.send(b'{}'); line.recv(9999)")
    until(lambda: attended(painter, cartpole).is_ready)
    now = time.monotonic()
    painter.rest(now + REST_SECONDS - 1)
    assert painter.pid is not None
    painter.rest(now + REST_SECONDS + 1)
    assert painter.pid is None
    assert not painter.reason
    until(lambda: attended(painter, cartpole).is_ready)


def test_what_it_cannot_draw_is_not_given_to_it(painter, cartpole, said):
    cartpole.unwrapped.render_mode = "rgb_array"
    attended(painter, cartpole)
    assert painter.pid is None
    assert painter.reason
    assert said == [], "which is no failure"


def test_an_environment_in_a_process_of_its_own_has_no_painter(painter, cartpole):
    painter._generation = generation() - 1
    attended(painter, cartpole)
    assert painter.pid is None
    assert painter.reason
