import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from time import monotonic, sleep

import gymnasium
import numpy as np
import pytest

from palaestra.rendering import mujoco_state, render_process
from palaestra.rendering.env_state import LARGEST_VALUE, StateEncoder, recipe_of
from palaestra.rendering.frame_buffer import FrameBufferOwner
from palaestra.rendering.frame_format import Demand
from palaestra.rendering.frame_reader import FrameReader
from palaestra.rendering.frame_writer import FrameWriter
from palaestra.rendering.messages import PeerClosed, pack, socket_pair, unpack
from palaestra.rendering.offscreen import OffscreenRenderer, prepare_rendering
from palaestra.rendering.render_process import (
    CopyDiffers,
    CopyPool,
    ParentGone,
    States,
    largest_side_of,
    main,
    render_all,
    rendering_share,
    rest_seconds,
)

pytestmark = pytest.mark.filterwarnings("ignore:builtin type:DeprecationWarning")  # of Box2D, when it is imported
RENDERED = [
    *("CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCar-v0"),
    *("FrozenLake-v1", "Taxi-v4", "CliffWalking-v1", "Blackjack-v1"),
    *("LunarLander-v3", "BipedalWalker-v3"),
]


def sent(encoder):
    """As it arrives on the other side."""
    return unpack(*pack(encoder.encode()))


def make(env_id, seed):
    prepare_rendering("rgb_array")
    env = gymnasium.make(env_id)
    mujoco_state.reduce_quality(env)  # as the copies do
    env.reset(seed=seed)
    env.action_space.seed(seed)
    return env


def play(env, steps):
    for _ in range(steps):
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            env.reset()


@pytest.mark.parametrize("env_id", RENDERED)
def test_the_frames_of_a_copy_are_those_of_the_environment(env_id):
    envs = [make(env_id, seed) for seed in (1, 2)]
    encoders = [StateEncoder(env, recipe_of(env)) for env in envs]
    renderers = [OffscreenRenderer(env) for env in envs]
    pool = CopyPool()
    for steps in (0, 3, 60):  # the last goes through an end of most of them
        for slot, env in enumerate(envs):
            play(env, steps)
            pool.update(slot, sent(encoders[slot]))
            assert np.array_equal(pool.render(slot), renderers[slot].render()), f"{env_id} after {steps} steps"
    for env in envs:
        env.close()


@pytest.mark.slow
@pytest.mark.parametrize("env_id", ["Walker2d-v5", "Reacher-v5"])
def test_simulations_share_one_copy_and_keep_their_own_camera(env_id):
    """Reacher's camera stays where the first frame has put it, which differs from copy to copy."""
    pytest.importorskip("mujoco")
    envs = [make(env_id, seed) for seed in (1, 2, 3)]
    encoders = [StateEncoder(env, recipe_of(env)) for env in envs]
    renderers = [OffscreenRenderer(env) for env in envs]
    pool = CopyPool()
    for number in range(3):
        for slot, env in enumerate(envs):
            play(env, 5)
            pool.update(slot, sent(encoders[slot]))
            frames = pool.render(slot), renderers[slot].render()
            mujoco_state.disable_shadows(env)
            assert number == 0 or np.array_equal(*frames)  # one renderer has its first frame, with shadows, once
    assert len({id(copy) for _, copy in pool._copies.values()}) == 1
    for env in envs:
        env.close()


@pytest.mark.slow
def test_the_render_quality_is_set_once_and_stays_while_states_come_and_go(monkeypatch):
    mujoco = pytest.importorskip("mujoco")
    disabled = []
    disable_shadows = mujoco_state.disable_shadows
    monkeypatch.setattr(mujoco_state, "disable_shadows", lambda env: disabled.append(disable_shadows(env)))
    env = make("InvertedPendulum-v5", 1)
    encoder, pool = StateEncoder(env, recipe_of(env)), CopyPool()
    for steps in (0, 3, 60):  # the last goes through an end, after which all attributes are set anew
        play(env, steps)
        pool.update(0, sent(encoder))
        pool.render(0)
    copy = pool._copies[0][1].env.unwrapped
    scene, flags = copy.mujoco_renderer.viewer.scn, mujoco.mjtRndFlag
    assert (scene.flags[flags.mjRND_SHADOW], scene.flags[flags.mjRND_REFLECTION]) == (0, 0)
    quality = copy.model.vis.quality
    assert (quality.offsamples, quality.shadowsize) == (0, mujoco_state.SHADOW_SIZE)
    assert len(disabled) == 1
    env.close()


def test_a_model_that_was_changed_after_it_was_made_is_noticed():
    pytest.importorskip("mujoco")
    env = make("InvertedPendulum-v5", 1)
    env.unwrapped.model.geom_size[:] *= 2
    with pytest.raises(CopyDiffers, match="MuJoCo model was changed"):
        CopyPool().update(0, sent(StateEncoder(env, recipe_of(env))))
    env.close()


def test_a_large_constant_must_be_the_same_in_a_copy():
    env = make("CartPole-v1", 1)
    env.unwrapped.table = list(range(LARGEST_VALUE))
    with pytest.raises(CopyDiffers, match="table is too large to be sent"):
        CopyPool().update(0, sent(StateEncoder(env, recipe_of(env))))
    env.close()


def test_a_change_of_an_environment_that_was_never_described_is_ignored():
    pool = CopyPool()
    pool.update(0, {"set": {"x": 1}})
    assert not pool.knows(0)


def test_another_environment_in_the_same_slot_takes_its_place():
    first, second = make("CartPole-v1", 1), make("Pendulum-v1", 1)
    pool = CopyPool()
    for env in (first, second):
        pool.update(0, sent(StateEncoder(env, recipe_of(env))))
        assert np.array_equal(pool.render(0), OffscreenRenderer(env).render())
        env.close()


def test_a_copy_can_also_be_made_by_a_function_of_ours():
    env = make("CartPole-v1", 1)
    recipe = {"factory": "palaestra.envs.make:make_copy", "arguments": {"config": {"id": "CartPole-v1"}}}
    pool = CopyPool()
    pool.update(0, sent(StateEncoder(env, recipe)))
    assert np.array_equal(pool.render(0), OffscreenRenderer(env).render())
    env.close()


SIDE = 640


@pytest.fixture
def frame_buffer(tmp_path):
    with FrameBufferOwner(tmp_path / "a.frames", 3, 3 * SIDE**2, 0.0) as owner:
        yield owner


@pytest.fixture
def reader(frame_buffer):
    with closing(FrameReader(frame_buffer.path)) as made:
        yield made


@pytest.fixture
def ends():
    ours, theirs = socket_pair()
    with closing(ours), closing(theirs):
        yield ours, theirs


@pytest.fixture
def cartpole():
    prepare_rendering("rgb_array")
    env = gymnasium.make("CartPole-v1")
    env.reset(seed=1)
    yield env
    env.close()


def message(encoder, slot=0, session=1, step=5):
    return {"of": session, "slot": slot, "at": 7.5, "numbers": (step, 1.0, 2.0, 3), "state": encoder.encode()}


def until(condition, what):
    deadline = monotonic() + 60
    while not (found := condition()):
        assert monotonic() < deadline, f"waited for {what} in vain"
        sleep(0.005)
    return found


def test_of_each_slot_the_newest_state_is_next_and_changes_are_put_together(ends, cartpole):
    ours, theirs = ends
    states, encoder = States(theirs, 0), StateEncoder(cartpole, recipe_of(cartpole))
    ours.send({"session": 1})
    ours.send(message(encoder, slot=2))
    for action in (0, 1, 1):
        cartpole.step(action)
        ours.send(message(encoder, slot=2, step=action))
    slot, newest = states.next()
    assert (slot, newest["numbers"][0]) == (2, 1)
    assert states.render(2).tobytes() == OffscreenRenderer(cartpole).render().tobytes()


def test_what_was_meant_for_a_process_before_this_one_is_passed_over(ends, cartpole):
    ours, theirs = ends
    states, encoder = States(theirs, 0), StateEncoder(cartpole, recipe_of(cartpole))
    ours.send(message(encoder, slot=0, session=1))
    ours.send({"session": 2})
    encoder.start_over()
    ours.send(message(encoder, slot=1, session=2))
    assert states.next()[0] == 1


def test_who_has_no_parent_any_more_stops_waiting(ends, monkeypatch):
    monkeypatch.setattr(render_process, "PARENT_CHECK_SECONDS", 0.01)
    with pytest.raises(ParentGone):
        States(ends[1], parent=1).next()


def test_frames_are_written_for_those_who_want_them_and_nobody_else(ends, cartpole, frame_buffer, reader):
    ours, theirs = ends
    encoder = StateEncoder(cartpole, recipe_of(cartpole))
    ours.send({"session": 1})
    ours.send(message(encoder, slot=0))
    with closing(FrameWriter(frame_buffer.descriptor, frame_buffer.about)) as writer:
        states = States(theirs, 0)
        serving = threading.Thread(target=_until_closed, args=(states, writer))
        serving.start()
        until(lambda: not ours_waiting(theirs), "it to be received")
        assert reader.read(0) is None, "nobody wants it"
        reader.request(Demand(60.0, 0, frozenset({0}), 1, 1), monotonic() + 9)
        cartpole.step(1)
        ours.send(message(encoder, slot=0))
        frame = until(lambda: reader.read(0), "a frame")
        ours.close()
        serving.join(60)
    assert frame.payload == OffscreenRenderer(cartpole).render().tobytes()
    assert (frame.numbers.env_step, frame.header.captured_at) == (5, 7.5)


def ours_waiting(theirs):
    """Whether something was not received yet."""
    try:
        return bool(theirs._connection.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False


def _until_closed(states, writer):
    with pytest.raises(PeerClosed):
        render_all(states, writer, largest_side_of(writer))


class FakeMachine:
    """A clock, a viewer that watches all the time, and frames of which each takes as long as it should."""

    def __init__(self, reader, seconds_per_frame, frames):
        self.reader, self.seconds_per_frame, self.frames_left = reader, seconds_per_frame, frames
        self.busy = self.asleep = 0.0

    def process_time(self):
        return self.busy

    def monotonic(self):
        return self.busy + self.asleep

    def sleep(self, seconds):
        self.asleep += seconds

    def next(self):
        if not self.frames_left:
            raise PeerClosed
        self.frames_left -= 1
        self.reader.request(Demand(60.0, 0, frozenset({0}), 1, 1), self.monotonic() + 2)
        return 0, {"numbers": (0, 0.0, 0.0, 0), "at": 0.0}

    def render(self, _slot):
        self.busy += self.seconds_per_frame
        return np.zeros((4, 4, 3), np.uint8)


def used_share(monkeypatch, frame_buffer, reader, cores, seconds_per_frame):
    machine = FakeMachine(reader, seconds_per_frame, frames=100)
    monkeypatch.setattr(render_process, "time", machine)
    monkeypatch.setattr(render_process, "usable_cores", lambda: cores)
    with closing(FrameWriter(frame_buffer.descriptor, frame_buffer.about)) as writer, pytest.raises(PeerClosed):
        render_all(machine, writer, largest_side_of(writer))
    assert machine.busy == pytest.approx(100 * seconds_per_frame)
    return machine.busy / machine.monotonic()


@pytest.mark.parametrize(("cores", "share"), [(1, 0.06), (2, 0.06), (3, 0.5), (64, 0.5)])
def test_rendering_uses_its_share_of_a_core_and_no_more(monkeypatch, frame_buffer, reader, cores, share):
    assert used_share(monkeypatch, frame_buffer, reader, cores, 0.01) == pytest.approx(share)
    assert rendering_share(cores) == share


def test_after_a_slow_frame_it_rests_for_a_quarter_of_a_second_at_most(monkeypatch, frame_buffer, reader):
    """Else a tile whose frames take a second each would stand still for a quarter of a minute."""
    assert rest_seconds(1.0, 0.06) == 0.25
    assert used_share(monkeypatch, frame_buffer, reader, 2, 1.0) == pytest.approx(1 / 1.25)


def test_the_largest_image_fits_into_a_slot(frame_buffer):
    with closing(FrameWriter(frame_buffer.descriptor, frame_buffer.about)) as writer:
        assert largest_side_of(writer) == SIDE


def test_a_frame_buffer_that_is_gone_is_no_failure(ends, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "nice", lambda _more: 0)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        assert main([str(os.dup(ends[1].fileno())), "0", str(tmp_path / "gone")]) == 0
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, {start!r}, {descriptor!r}, str(__import__("os").getpid()), {path!r}],
                         pass_fds=({descriptor},))
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.slow
def test_it_ends_when_its_parent_is_killed(ends, frame_buffer):
    ours, theirs = ends
    start = Path(render_process.__file__).with_name("start.py")
    code = PARENT.format(start=str(start), descriptor=str(theirs.fileno()), path=str(frame_buffer.path))
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, pass_fds=(theirs.fileno(),)
    )
    with parent:
        child = int(parent.stdout.readline())
        assert until(ours.receive, "the render process") == {"ready": True}
        parent.kill()
    until(lambda: not Path(f"/proc/{child}").exists() or "Z (zombie)" in status_of(child), "its end")


def status_of(pid):
    try:
        return Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return "Z (zombie)"
