"""Through Arena, our own plugin behind the door that a stranger's package would use."""

import json

import pytest

from palaestra.config.env import EnvConfig
from palaestra.core import plugins
from palaestra.core.errors import UsageError
from palaestra.evaluation.local import evaluate_target
from palaestra.evaluation.replays import require_recorder
from palaestra.runs.replays import list_replays

ARENA = EnvConfig(
    id="palaestra/Arena-v0",
    kwargs={"agents": 2, "width": 9, "height": 9, "rewards": {"ore": 1.0}, "mine": {"count": 6, "cost": 0}},
    max_episode_steps=25,
)


@pytest.fixture
def arena_run(trained_run):
    run = type(trained_run)(trained_run.root, trained_run.directory, ARENA)
    run.save(epoch=7)
    return run


def judge(run, **settings):
    return evaluate_target("judged:7", run.root, episodes=3, seed=50, deterministic=False, **settings)


def test_every_episode_is_recorded_and_the_recording_says_what_the_report_says(arena_run):
    report = judge(arena_run, replays=True)
    files = {path.name: path for path in list_replays(arena_run.directory)}
    assert sorted(files) == ["7-seed50.json.gz", "7-seed51.json.gz", "7-seed52.json.gz"]
    assert sum(report.returns) > 0
    for episode in report.episodes:
        summary = plugins.load("replays", "arena")(files[f"7-seed{episode.seed}.json.gz"]).summary()
        assert summary["return_per_agent"] == pytest.approx(episode.total_reward)
        assert summary["steps"] == episode.length == 25
        assert (summary["run"], summary["epoch"], summary["seed"]) == (arena_run.directory.id, 7, episode.seed)
        assert summary["deterministic"] is False


def test_recording_changes_no_result(arena_run):
    assert judge(arena_run, replays=True).returns == judge(arena_run).returns


def test_the_journal_names_the_replays_and_nothing_is_written_unasked(arena_run):
    judge(arena_run)
    assert list_replays(arena_run.directory) == []
    judge(arena_run, replays=True, video=True)
    lines = [json.loads(line) for line in arena_run.directory.journal_file.read_text().splitlines()]
    saved = {line["event"]: line["data"] for line in lines if line["event"].endswith(".saved")}
    expected = {"checkpoint": f"{arena_run.directory.id}:7", "epoch": 7, "episodes": 3}
    assert saved["replay.saved"] == {**expected, "file": "replays"}
    assert saved["video.saved"] == {**expected, "file": "videos"}


def test_an_environment_that_cannot_be_recorded_is_refused_before_it_is_played(trained_run):
    with pytest.raises(UsageError, match="'CartPole-v1' cannot be recorded"):
        evaluate_target("judged", trained_run.root, episodes=1, seed=0, deterministic=True, replays=True)
    assert not (trained_run.directory.evaluations / "3-1.json").exists()
    require_recorder("palaestra/Arena-v0")
