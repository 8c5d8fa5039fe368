import os
import struct
from time import monotonic

import pytest

from palaestra.algorithms.buffers.rollout_buffer import RolloutBuffer
from palaestra.config.env import EnvConfig
from palaestra.envs.build import make_playable
from palaestra.envs.make import make_env
from palaestra.evaluation.live import LiveTile, open_tile, publish_frames, read_live
from palaestra.evaluation.local import LocalEvaluator
from palaestra.evaluation.plans import make_plan
from palaestra.evaluation.session import EvaluationCallbacks, EvaluationOptions, EvaluationSession
from palaestra.evaluation.targets import load_policy_target
from palaestra.rendering.frame_buffer import EVALUATE, VARIABLE, FrameBufferOwner, all_frame_buffers, frame_buffer_path
from palaestra.rendering.frame_format import Demand
from palaestra.rendering.frame_reader import FrameReader
from palaestra.rendering.frame_writer import FrameWriter
from palaestra.rendering.live_view import LiveView
from palaestra.runs.documents import write_config


@pytest.fixture(autouse=True)
def lanes(tmp_path, monkeypatch):
    location = tmp_path / "lanes"
    location.mkdir()
    monkeypatch.setenv(VARIABLE, str(location))
    return location


def want(reader, slots=(0,)):
    reader.request(Demand(60.0, 0, frozenset(slots), 1, 1), monotonic() + 2)


class Audience:
    """Looks at an evaluation after every episode."""

    def __init__(self, run, slots=(0,)):
        self._path, self._slots = frame_buffer_path(run.directory.id, EVALUATE), slots
        self.frames = {}

    def __call__(self, _episode=None):
        reader = FrameReader(self._path)
        want(reader, self._slots)
        for slot in self._slots:
            frame = reader.read(slot)
            if frame is not None:
                self.frames.setdefault(slot, []).append(frame)
        reader.close()


def test_an_evaluation_that_is_watched_has_the_same_results(trained_run):
    target = load_policy_target("judged:3", trained_run.root)
    plan = make_plan("judged:3", trained_run.env, episodes=20, seed=5, deterministic=False)
    alone = list(LocalEvaluator(target.loaded).evaluate(plan))
    audience = Audience(trained_run)
    with EvaluationSession(target, EvaluationOptions(episodes=20, seed=5, deterministic=False)) as session:
        audience()
        session._evaluator.viewer._view._pacing.budget = 1.0
        report = session.evaluate(callbacks=EvaluationCallbacks(on_episode=audience))
    assert list(report.episodes) == alone
    shown = audience.frames[0]
    assert (shown[-1].header.width, shown[-1].header.height) == (600, 400)
    assert len({frame.sequence for frame in shown}) > 1
    assert all(frame.numbers.total_reward == frame.numbers.length for frame in shown)  # CartPole pays 1 a step
    assert all_frame_buffers() == []


def test_worlds_of_arena_are_reported_by_their_state():
    worlds = EnvConfig(id="palaestra/Arena-v0", kwargs={"agents": 2, "max_steps": 10})
    with FrameBufferOwner(frame_buffer_path("RUN", EVALUATE), 1, 64 * 64 * 3, 1.0) as owner:
        writer, reader = FrameWriter(owner.descriptor, owner.about), FrameReader(owner.path)
        want(reader)
        tile = LiveTile(LiveView(writer, 1.0, 64))
        batch = make_playable(worlds)
        batch.reset([0], [1], [0], RolloutBuffer(batch.interface.observation_space, 1, 2).rows[0])
        tile.on_step(batch, 0.0, 0.0, 0)
        frame = reader.read(0)
        assert not frame.is_image
        assert frame.payload[:2] == b"AR"
        assert struct.unpack_from("<I", frame.payload, 8) == (0,)  # its step
        writer.close()
        reader.close()


def test_switched_off_in_the_run_it_cannot_be_watched(trained_run):
    write_config(trained_run.directory, {"live": {"enabled": False}})
    assert not read_live(trained_run.directory).enabled
    with EvaluationSession(load_policy_target("judged:3", trained_run.root), EvaluationOptions(episodes=1)) as session:
        assert all_frame_buffers() == []
        assert session._evaluator.viewer is None


def test_what_a_run_says_of_its_live_view_and_nobody_understands_is_passed_over(trained_run):
    write_config(trained_run.directory, {"live": {"brightness": 7}})
    assert read_live(trained_run.directory).enabled


def test_a_second_evaluation_of_a_run_is_played_unseen(trained_run, caplog):
    target = load_policy_target("judged:3", trained_run.root)
    with (
        EvaluationSession(target, EvaluationOptions(episodes=1)) as shown,
        EvaluationSession(target, EvaluationOptions(episodes=1)) as unseen,
    ):
        assert shown._evaluator.viewer is not None
        assert unseen._evaluator.viewer is None
        assert unseen.evaluate().complete
    assert all_frame_buffers() == []


def test_a_checkpoint_without_a_run_has_no_frame_buffer(trained_run):
    player = LocalEvaluator(load_policy_target("judged:3", trained_run.root).loaded)
    with publish_frames(None, player):
        assert player.viewer is None
        assert all_frame_buffers() == []


def test_a_process_of_several_shows_in_its_own_slot():
    with FrameBufferOwner(frame_buffer_path("RUN", EVALUATE), 3, 640 * 640 * 3, 1.0) as owner:
        reader = FrameReader(owner.path)
        want(reader, slots=(2,))
        with open_tile(owner.path, 2) as tile:
            env = make_env(EnvConfig(id="CartPole-v1"))
            env.reset(seed=1)
            tile.on_step(env, 0.0, 0.0, 0)
        assert reader.read(2).is_image
        assert reader.read(0) is None
        reader.close()
    with open_tile(owner.path, 2) as tile:
        assert tile is None  # the lane is gone


@pytest.mark.full
@pytest.mark.slow
def test_several_processes_are_as_many_tiles(trained_run):
    target = load_policy_target("judged:3", trained_run.root)
    audience = Audience(trained_run, slots=(0, 1))
    requested = EvaluationOptions(episodes=300, seed=5, deterministic=False, workers=2)
    with EvaluationSession(target, requested) as session:
        audience()
        report = session.evaluate(callbacks=EvaluationCallbacks(on_episode=audience))
    assert len(report.episodes) == 300
    assert set(audience.frames) == {0, 1}
    assert all_frame_buffers() == []


def test_nothing_stays_open_when_an_evaluation_is_over(trained_run):
    target = load_policy_target("judged:3", trained_run.root)
    counts = []
    for _ in range(3):
        with EvaluationSession(target, EvaluationOptions(episodes=1)) as session:
            session.evaluate()
        counts.append(len(list(os.scandir("/proc/self/fd"))))
    assert counts[1] == counts[2]
