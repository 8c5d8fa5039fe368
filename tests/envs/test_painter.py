"""The painter seen from who trains. Mostly its part is played by the test; one story is told with the real process."""

import logging
import os
import signal
import socket
import subprocess
from contextlib import closing
from pathlib import Path
from time import monotonic, sleep

import numpy as np
import pytest

from palaestra.config.env import EnvConfig
from palaestra.envs import painter as module
from palaestra.envs.make import make_env
from palaestra.envs.painter import REST_SECONDS, START_SECONDS, STUCK_SECONDS, Painter, Way, painter_for
from palaestra.envs.painter_line import PainterLine, Word
from palaestra.envs.scene import scene_of
from palaestra.envs.vector import InProcessEnvs
from palaestra.frames.demand import Demand
from palaestra.frames.lane import LaneOwner
from palaestra.frames.place import VARIABLE, lane_path
from palaestra.frames.reader import FrameReader
from palaestra.runs.processes import process_started_at

CARTPOLE = EnvConfig(id="CartPole-v1")


@pytest.fixture
def scene():
    envs = InProcessEnvs(lambda: make_env(CARTPOLE), 3)
    scene, out = scene_of(envs), np.zeros((3, 4), np.float32)
    envs.reset([1, 2, 3], out)
    scene.last = envs.step(np.array([0, 1, 1]), out)
    scene.step = lambda: setattr(scene, "last", envs.step(np.array([1, 0, 1]), out))
    return scene


class Actor:
    """Stands in for the painter's process: `sleep` is what is killed, and the line's other end is ours."""

    def __init__(self):
        self.lines, self.processes = [], []

    def start(self, name, descriptors):
        assert name == "palaestra.envs.painter_process"
        self.processes.append(subprocess.Popen(["sleep", "600"]))
        self.lines.append(PainterLine(socket.socket(fileno=os.dup(descriptors[0]))))
        return self.processes[-1]

    @property
    def line(self):
        return self.lines[-1]

    def heard(self):
        return list(iter(self.line.hear, None))


@pytest.fixture
def actor(monkeypatch):
    actor = Actor()
    monkeypatch.setattr(module, "start_child", actor.start)
    yield actor
    for line in actor.lines:
        line.close()
    for process in actor.processes:
        assert process.poll() is not None, "a painter was left behind"


@pytest.fixture
def painter(scene, tmp_path, actor):  # which looks afterwards whether something was left
    made = Painter(scene, CARTPOLE, tmp_path / "lane", 640)
    yield made
    made.close()


def ready(painter, actor, now=0.0):
    assert painter.attend(now) is Way.DRAW
    actor.heard()
    actor.line.say(Word.READY, {"alike": []})
    assert painter.attend(now) is Way.TELL


def test_nothing_is_started_before_somebody_watches(painter, actor):
    assert actor.processes == []
    painter.rest(monotonic())
    assert painter.pid is None


def test_it_is_told_what_to_make_and_until_it_is_ready_pictures_are_drawn_here(painter, actor, tmp_path):
    assert painter.attend(0.0) is Way.DRAW
    (start,) = actor.heard()
    assert (start.word, start.content["env"]["id"]) == (Word.START, "CartPole-v1")
    assert (start.content["lane"], start.content["largest_side"]) == (str(tmp_path / "lane"), 640)
    assert "state" in start.content["digests"]
    assert painter.attend(1.0) is Way.DRAW
    actor.line.say(Word.READY, {"alike": ["gravity"]})
    assert painter.attend(1.0) is Way.TELL
    assert len(actor.processes) == 1


def test_a_simulation_is_not_drawn_here_while_the_painter_comes(painter, actor, monkeypatch):
    monkeypatch.setattr(module.Poser, "has_simulation", True)
    assert painter.attend(0.0) is Way.WAIT
    assert painter.attend(START_SECONDS + 1) is Way.DRAW, "it never came"


def test_a_pose_comes_with_the_numbers_of_its_step(painter, actor, scene):
    ready(painter, actor)
    assert painter.tell(1, 17, 0.0)
    (said,) = actor.heard()
    content = said.content
    assert (said.word, content["slot"], content["env_step"]) == (Word.POSE, 1, 17)
    assert (content["reward"], content["total_reward"], content["length"]) == (1.0, 1.0, 1)
    state = content["pose"]["state"]
    assert state["data"] == scene.sitter(1).env.unwrapped.state.tobytes()


def test_who_does_not_listen_is_not_waited_for_and_after_a_while_replaced(painter, actor):
    ready(painter, actor)
    for _ in range(2000):
        assert painter.tell(0, 1, 0.0)
    waiting = len(actor.heard())
    assert 20 < waiting < 1000, "the rest was not said"
    while painter.tell(0, 1, 0.0) and painter._full_since is None:
        pass
    assert painter.tell(0, 1, STUCK_SECONDS - 1)
    assert not painter.tell(0, 1, STUCK_SECONDS + 1)
    assert painter.attend(20.0) is Way.DRAW
    assert len(actor.processes) == 2


def test_one_that_is_lost_is_replaced_once_and_then_that_is_said(painter, actor, caplog):
    for _ in range(2):
        ready(painter, actor)
        actor.processes[-1].kill()
        actor.processes[-1].wait()
        actor.line.close()
        painter.attend(0.0)
    with caplog.at_level(logging.WARNING):
        assert painter.attend(0.0) is Way.DRAW
    assert len(actor.processes) == 2
    assert painter.reason == "it was lost 2 times, at last by SIGKILL"
    assert [record.getMessage() for record in caplog.records] == [
        "Pictures are drawn by the training itself, not beside it: it was lost 2 times, at last by SIGKILL."
    ]


def test_one_that_is_lost_between_two_tiles_takes_no_more(painter, actor):
    ready(painter, actor)
    assert painter.tell(0, 1, 0.0)
    actor.line.close()
    assert not painter.tell(1, 1, 0.0)
    assert painter.attend(0.0) is Way.DRAW


def test_what_it_cannot_draw_is_drawn_here_and_said_once(painter, actor, caplog):
    ready(painter, actor)
    actor.line.say(Word.FAILED, {"reason": "RuntimeError: no brush"})
    with caplog.at_level(logging.WARNING):
        assert [painter.attend(0.0), painter.attend(1.0)] == [Way.DRAW, Way.DRAW]
    assert len(caplog.records) == 1
    assert "RuntimeError: no brush" in caplog.text
    assert len(actor.processes) == 1


def test_one_that_cannot_be_started_is_done_without(painter, monkeypatch, caplog):
    def full(*_given):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(module, "start_child", full)
    with caplog.at_level(logging.WARNING):
        assert painter.attend(0.0) is Way.DRAW
    assert "it cannot be started: [Errno 11] Resource temporarily unavailable" in caplog.text
    assert painter.attend(0.0) is Way.DRAW


def test_an_environment_that_becomes_untellable_is_drawn_here_from_then_on(painter, actor, scene):
    ready(painter, actor)
    scene.sitter(0).env.unwrapped.friend = object()
    assert not painter.tell(0, 1, 0.0)
    assert painter.attend(0.0) is Way.DRAW
    assert "friend" in painter.reason


def test_a_pose_that_never_finds_room_is_drawn_here_from_then_on(painter, actor, scene):
    ready(painter, actor)
    scene.sitter(0).env.unwrapped.tapestry = np.zeros(10_000)
    assert not painter.tell(0, 1, 0.0)
    assert painter.reason.startswith("a pose has 8")


def test_an_environment_without_a_pose_starts_nothing_and_nobody_is_bothered(tmp_path, actor, caplog):
    scene = scene_of(InProcessEnvs(lambda: make_env(CARTPOLE), 1))
    scene.sitter(0).env.unwrapped.friend = object()
    painter = Painter(scene, CARTPOLE, tmp_path / "lane", 640)
    with caplog.at_level(logging.INFO):
        assert painter.attend(0.0) is Way.DRAW
    assert (actor.processes, caplog.records) == ([], [])


def test_it_is_sent_away_when_nobody_has_watched_for_a_while_and_comes_back(painter, actor):
    ready(painter, actor)
    painter.rest(REST_SECONDS - 1)
    assert painter.attend(REST_SECONDS - 1) is Way.TELL
    painter.rest(2 * REST_SECONDS)
    assert actor.processes[0].poll() == -signal.SIGKILL
    ready(painter, actor, 3 * REST_SECONDS)
    assert painter.reason == ""


def test_only_environments_of_this_process_have_a_painter(tmp_path, scene):
    assert painter_for(object(), CARTPOLE, tmp_path, 640) is None
    assert isinstance(painter_for(scene, CARTPOLE, tmp_path, 640), Painter)


def until(condition, what):
    deadline = monotonic() + 60
    while not (found := condition()):
        assert monotonic() < deadline, f"waited for {what} in vain"
        sleep(0.005)
    return found


@pytest.mark.slow
def test_a_real_painter_draws_what_would_be_drawn_here_and_a_killed_one_leaves_its_last_frame(
    scene, tmp_path, monkeypatch
):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    lane = lane_path("RUN")
    with LaneOwner(lane, 3, 640 * 640 * 3, 1.0), closing(FrameReader(lane)) as reader:
        with closing(Painter(scene, CARTPOLE, lane, 640)) as painter:
            until(lambda: painter.attend(monotonic()) is Way.TELL, "the painter")
            pid = painter.pid
            assert os.getpriority(os.PRIO_PROCESS, pid) == 19
            assert "libtorch" not in Path(f"/proc/{pid}/maps").read_text()
            for round_number in range(3):
                reader.want(Demand(60.0, 0, frozenset(range(3)), 1, 1), monotonic() + 9)
                for tile in range(3):
                    painter.tell(tile, round_number, monotonic())
                    frame = until(lambda tile=tile, seen=round_number: reader.read(tile, seen), "a frame")
                    view = scene.view(tile)
                    assert frame.payload == view.content.tobytes()
                    assert frame.numbers == type(frame.numbers)(
                        round_number, view.reward, view.total_reward, view.length
                    )
                scene.step()
            os.kill(pid, signal.SIGKILL)
            until(lambda: painter.attend(monotonic()) is Way.DRAW, "its end to be noticed")
            assert [reader.read(tile).sequence for tile in range(3)] == [3, 3, 3]
            assert painter.reason == ""
            assert painter.attend(monotonic()) is Way.DRAW
            second = painter.pid
            assert second not in {None, pid}
        assert process_started_at(second) is None
