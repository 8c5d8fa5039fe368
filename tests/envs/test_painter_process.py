"""What the painter does with what it is told, without a process; test_painter.py has a story with one."""

import signal
from contextlib import closing
from time import monotonic

import numpy as np
import pytest

from palaestra.config.env import EnvConfig
from palaestra.envs import painter_process
from palaestra.envs.easel import Easel
from palaestra.envs.make import make_env
from palaestra.envs.painter_line import PainterLine, Word, connected
from palaestra.envs.painter_process import Atelier, Orders, draw_all, main, serve
from palaestra.envs.pose import Poser
from palaestra.envs.wire import LineClosed, packed, unpacked
from palaestra.frames.demand import Demand
from palaestra.frames.lane import LaneOwner
from palaestra.frames.place import VARIABLE, lane_path
from palaestra.frames.reader import FrameReader
from palaestra.frames.writer import FrameWriter

CARTPOLE = {"id": "CartPole-v1"}


@pytest.fixture
def lines():
    ends = [PainterLine(end) for end in connected()]
    yield ends
    for end in ends:
        end.close()


def begun(seed, env_id="CartPole-v1"):
    env = make_env(EnvConfig(id=env_id))
    env.reset(seed=seed)
    return env


def test_copies_strike_the_poses_of_all():
    envs = [begun(seed) for seed in (5, 6)]
    poser, atelier = Poser(envs[0]), Atelier(CARTPOLE)
    alike = atelier.alike(poser.digests())
    assert {"gravity", "length", "screen"} <= set(alike)
    assert "state" not in alike
    poser.agree(alike)
    for env in (*envs, *envs):
        env.step(1)
        tile = envs.index(env)
        assert np.array_equal(atelier.draw(tile, unpacked(*packed(poser.take(tile, env)))), Easel(env).draw())


@pytest.mark.full
@pytest.mark.slow
def test_simulations_are_seen_through_the_camera_that_each_would_have_where_it_lives():
    pytest.importorskip("mujoco")
    envs = [begun(seed, "HalfCheetah-v5") for seed in (5, 6)]
    easels = [Easel(env) for env in envs]
    poser, atelier = Poser(envs[0]), Atelier({"id": "HalfCheetah-v5"})
    poser.agree(atelier.alike(poser.digests()))
    envs[1].unwrapped.data.qpos[0] = 3.0  # far from the other
    for _ in range(2):
        for tile, env in enumerate(envs):
            env.step(np.full(6, 0.5, np.float32))
            here = easels[tile].draw()
            assert np.array_equal(atelier.draw(tile, unpacked(*packed(poser.take(tile, env)))), here)
            assert len(np.unique(here.reshape(-1, 3), axis=0)) > 20, "there is something to see"
    for env in envs:
        env.close()


def test_of_each_slot_the_newest_is_drawn_in_the_order_in_which_they_asked(lines):
    orders = Orders(lines[1])
    for slot, step in [(2, 1), (0, 1), (2, 2), (1, 1), (2, 3)]:
        lines[0].say(Word.POSE, {"slot": slot, "env_step": step})
    assert orders.next() == {"slot": 2, "env_step": 3}
    lines[0].say(Word.POSE, {"slot": 2, "env_step": 4})
    assert [orders.next()["slot"] for _ in range(3)] == [0, 1, 2]
    lines[0].close()
    with pytest.raises(LineClosed):
        orders.next()


@pytest.fixture
def lane(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with LaneOwner(lane_path("RUN"), 2, 64 * 64 * 3, 1.0) as owner:
        yield owner


def order_of(env, slot):
    numbers = {"env_step": 7, "reward": 1.0, "total_reward": 2.0, "length": 3}
    return {"slot": slot, "at": 1234.5, "pose": Poser(env).take(slot, env), **numbers}


class Told:
    """Orders of which something happens before each."""

    def __init__(self, *orders):
        self._orders = iter(orders)

    def next(self):
        before, order = next(self._orders, (None, None))
        if before is None:
            raise LineClosed
        before()
        return order


def test_it_draws_for_those_who_watch_in_the_size_they_want_and_for_nobody_else(lane):
    env = begun(3)
    with closing(FrameReader(lane.path)) as reader, closing(FrameWriter(lane.descriptor, lane.about)) as writer:

        def want(seconds):
            return lambda: reader.want(Demand(60.0, 30, frozenset({0, 1}), 1, 1), monotonic() + seconds)

        orders = Told((want(-1), order_of(env, 0)), (want(9), order_of(env, 1)))
        with pytest.raises(LineClosed):
            draw_all(orders, Atelier(CARTPOLE), writer, 64)
        assert reader.read(0) is None
        frame = reader.read(1)
    assert (frame.numbers.env_step, frame.numbers.length, frame.note.captured_at) == (7, 3, 1234.5)
    assert 20 <= max(frame.note.width, frame.note.height) <= 45


def test_it_says_when_it_is_ready_and_gives_way_and_ends_with_the_line(lines, lane, monkeypatch):
    given_way = []
    monkeypatch.setattr(painter_process.os, "nice", given_way.append)
    here, there = lines
    words = {"env": CARTPOLE, "lane": str(lane.path), "largest_side": 64}
    here.say(Word.START, {**words, "digests": Poser(begun(3)).digests()})
    monkeypatch.setattr(painter_process, "Orders", lambda _line: Told())
    with pytest.raises(LineClosed):
        serve(there)
    said = here.hear()
    assert said.word is Word.READY
    assert "gravity" in said.content["alike"]
    assert given_way == [9]


@pytest.fixture
def as_a_process(monkeypatch):
    """`main` does to its process what this one must not suffer."""
    monkeypatch.setattr(painter_process.os, "nice", lambda _more: None)
    monkeypatch.setattr(painter_process, "die_with_parent", lambda _parent: None)
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    yield
    for one, handler in before.items():
        signal.signal(one, handler)


def test_what_goes_wrong_is_told_in_a_sentence_and_ends_it(as_a_process, lane):
    ours, theirs = connected()
    line = PainterLine(ours)
    line.say(Word.START, {"env": {"id": "NoSuchThing-v0"}, "lane": str(lane.path), "largest_side": 64, "digests": {}})
    with pytest.raises(SystemExit):
        main([str(theirs.detach()), "0"])
    said = line.hear()
    assert said.word is Word.FAILED
    assert "No environment is called 'NoSuchThing-v0'" in said.content["reason"]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    line.close()


@pytest.mark.fault("F5")
@pytest.mark.parametrize("damage", ["cut", "scribbled", "removed"])
def test_a_lane_that_is_none_of_ours_is_not_written_to(as_a_process, lane, damage):
    match damage:
        case "cut":
            lane.path.write_bytes(lane.path.read_bytes()[:5000])
        case "scribbled":
            lane.path.write_bytes(b"\xff" * 5000)
        case "removed":
            lane.path.unlink()
    ours, theirs = connected()
    line = PainterLine(ours)
    line.say(Word.START, {"env": CARTPOLE, "lane": str(lane.path), "largest_side": 64, "digests": {}})
    with pytest.raises(SystemExit):
        main([str(theirs.detach()), "0"])
    assert line.hear().content["reason"].startswith(("DamagedFile", "NotFound"))
    line.close()


def test_the_end_of_who_trains_is_a_good_end(as_a_process):
    ours, theirs = connected()
    ours.close()
    assert main([str(theirs.detach()), "0"]) == 0
