from __future__ import annotations

import shutil
from pathlib import Path

import av
import numpy as np
import pytest

from palaestra.checkpoints.manager import CheckpointManager
from palaestra.config.env import EnvConfig
from palaestra.config.policy import PolicyConfig
from palaestra.core.checkpoint import Checkpoint
from palaestra.core.errors import UsageError
from palaestra.core.run import RunRequest
from palaestra.core.spaces import encode_interface
from palaestra.envs.make import make_env
from palaestra.envs.spaces import interface_of
from palaestra.evaluation import episode_video
from palaestra.evaluation.episode_video import VideoOptions, make_video
from palaestra.evaluation.session import evaluate_target
from palaestra.policies.build import build_policy
from palaestra.runs.journal import read_journal
from palaestra.runs.store import RunStore

HOLD = round(episode_video.HOLD_SECONDS * 50)  # CartPole has 50 frames per second


def decoded(path):
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(stream)]
        return frames, float(stream.average_rate), dict(container.metadata)


def test_episodes_follow_each_other_in_one_file_and_are_those_that_are_evaluated(trained_run):
    recording = make_video("judged", trained_run.root, VideoOptions(episodes=2, seed=5))
    target = evaluate_target("judged", trained_run.root, episodes=2, seed=5)
    assert recording.episodes == target.episodes
    frames, rate, _ = decoded(recording.path)
    lengths = [episode.length for episode in recording.episodes]
    assert len(frames) == recording.frames == sum(length + 1 + HOLD for length in lengths)
    assert rate == recording.frame_rate == 50
    assert frames[0].shape == (recording.height, recording.width, 3) == (400, 600, 3)


def test_side_by_side_all_begin_together_and_whoever_has_ended_is_dimmed(trained_run):
    recording = make_video("judged", trained_run.root, VideoOptions(grid=4, seed=5, deterministic=False))
    lengths = [episode.length for episode in recording.episodes]
    assert len(lengths) == 4
    assert len(set(lengths)) > 1, "the seeds should end at different times"
    frames, _, _ = decoded(recording.path)
    assert len(frames) == max(lengths) + 1 + HOLD
    middle = (recording.height // 2 + 9, recording.width // 2 + 9)
    corners = [(top, left) for top in (9, middle[0]) for left in (9, middle[1])]
    for length, (top, left) in zip(lengths, corners, strict=True):  # CartPole's sky is white
        sky = [frame[top : top + 40, left : left + 40].mean() for frame in frames]
        assert min(sky[: length + 1]) > 220
        if length < max(lengths):
            assert max(sky[length + 1 :]) < 130


def test_more_episodes_than_tiles_are_shown_page_by_page(trained_run):
    short = {"env": {"max_episode_steps": 9}}
    recording = make_video("judged", trained_run.root, VideoOptions(episodes=3, grid=2, seed=5, overrides=short))
    lengths = [episode.length for episode in recording.episodes]
    assert recording.frames == max(lengths[:2]) + 1 + HOLD + lengths[2] + 1 + HOLD
    assert recording.width > recording.height


def test_a_video_is_traced_in_both_directions(trained_run):
    recording = make_video("judged", trained_run.root, VideoOptions(episodes=1, seed=5))
    assert recording.path == trained_run.directory.videos / "3-seeds5to5.mp4"
    (entry,) = [one for one in read_journal(trained_run.directory.journal_file) if one.event == "video.saved"]
    assert entry.data["file"] == "videos/3-seeds5to5.mp4"
    assert (entry.data["epoch"], entry.data["episodes"]) == (3, 1)
    about = decoded(recording.path)[2]
    assert about["title"] == "judged:3"
    assert f"checkpoint {trained_run.directory.id}:3, seeds 5 to 5, CartPole-v1" in about["comment"]


def test_the_place_and_the_rate_can_be_chosen(trained_run, tmp_path):
    out = tmp_path / "here.mp4"
    recording = make_video("judged", trained_run.root, VideoOptions(episodes=1, frame_rate=12, out=out))
    assert recording.path == out
    assert decoded(out)[1] == 12
    (entry,) = [one for one in read_journal(trained_run.directory.journal_file) if one.event == "video.saved"]
    assert entry.data["file"] == str(out)


def test_the_environment_can_be_changed(trained_run):
    order = VideoOptions(episodes=1, overrides={"env": {"max_episode_steps": 4}})
    assert make_video("judged", trained_run.root, order).episodes[0].length == 4


def test_a_checkpoint_without_its_run_is_recorded_where_one_stands(trained_run, tmp_path, monkeypatch):
    shutil.copytree(trained_run.directory.checkpoints, tmp_path / "away")
    monkeypatch.chdir(tmp_path)
    recording = make_video(str(tmp_path / "away/model_0003.yaml"), trained_run.root, VideoOptions(episodes=1, seed=1))
    assert recording.path == Path("videos/3-seeds1to1.mp4")
    assert recording.path.is_file()


@pytest.mark.parametrize(
    ("order", "said"),
    [
        (VideoOptions(grid=0), "grid: 0"),
        (VideoOptions(grid=65), "grid: 65 .must be from 1 to 64"),
        (VideoOptions(frame_rate=0), "frame rate: 0"),
        (VideoOptions(frame_rate=float("nan")), "frame rate: nan"),
        (VideoOptions(out=Path("film.avi")), ".mp4"),
        (VideoOptions(out=Path("nowhere/film.mp4")), "not a directory"),
        (VideoOptions(episodes=0), "episodes: 0"),
    ],
)
def test_invalid_options_are_refused(trained_run, order, said):
    with pytest.raises(UsageError, match=said):
        make_video("judged", trained_run.root, order)
    assert list(trained_run.directory.videos.iterdir()) == []


def test_a_failure_leaves_no_video_and_no_word_in_the_journal(trained_run):
    class Broken(Exception):
        pass

    def break_off(_episode):
        raise Broken

    with pytest.raises(Broken):
        make_video("judged", trained_run.root, VideoOptions(episodes=2), break_off)
    assert list(trained_run.directory.videos.iterdir()) == []
    assert "video.saved" not in [one.event for one in read_journal(trained_run.directory.journal_file)]


@pytest.fixture
def arena_run(tmp_path):
    env = EnvConfig(id="palaestra/Arena-v0", kwargs={"width": 9, "height": 9, "max_steps": 6})
    made = make_env(env)
    policy = build_policy(PolicyConfig(graph="mlp", settings={"hidden": [8]}), interface_of(made))
    made.close()
    root = tmp_path / "runs"
    directory = RunStore(root).create(
        RunRequest(kind="native", recipe="arena.tiny", config={}), config={}, name="arena"
    )
    described = Checkpoint(
        epoch=1,
        agent_step=1,
        total_time=1.0,
        run=directory.id,
        run_name="arena",
        saved_at=0.0,
        policy=PolicyConfig(graph="mlp", settings={"hidden": [8]}).model_dump(),
        env=env.model_dump(),
        interface=encode_interface(policy.interface),
    )
    CheckpointManager(directory).save(policy, described)
    return root


def test_worlds_of_arena_are_recorded_too(arena_run):
    recording = make_video("arena", arena_run, VideoOptions(grid=4))
    assert [episode.length for episode in recording.episodes] == [6] * 4
    frames, _, _ = decoded(recording.path)
    assert len(frames) == recording.frames >= 7
    quarters = [half for row in np.array_split(frames[0], 2) for half in np.array_split(row, 2, axis=1)]
    assert all(quarter.std() > 5 for quarter in quarters), "a world is drawn in each"
