import sys
import types
from pathlib import Path
from types import SimpleNamespace

import gymnasium
import pytest

from palaestra.apps.scripts.films import pictures_in
from palaestra.apps.scripts.launcher import moviepy_stand_in
from palaestra.apps.scripts.launcher.filming import controlled, is_wanted
from palaestra.rendering.offscreen import prepare_rendering


@pytest.fixture
def said(monkeypatch):
    """With a MoviePy that puts pictures aside."""
    for name in moviepy_stand_in.MODULES:
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    messages = []
    moviepy_stand_in.install(lambda *message: messages.append(message))
    prepare_rendering("rgb_array")
    return messages


def make():
    return gymnasium.make("CartPole-v1", render_mode="rgb_array")


def play(env):
    """One episode; how many pictures there are of it."""
    env.reset(seed=1)
    steps, ended = 0, False
    while not ended:
        _, _, terminated, truncated, _ = env.step(0)
        steps, ended = steps + 1, terminated or truncated
    return steps + 1


def test_an_episode_is_filmed_with_every_picture_of_it(said, tmp_path):
    record = controlled(gymnasium.wrappers.RecordVideo, lambda: True, None)
    env = record(make(), str(tmp_path / "films"))
    pictures = play(env)
    env.close()
    ((kind, aside, film, rate),) = said
    assert (kind, Path(film).name, rate) == ("film", "rl-video-episode-0.mp4", 50.0)
    assert sum(1 for _ in pictures_in(Path(aside))) == pictures


def test_a_film_that_nobody_asked_for_is_not_made(said, tmp_path):
    env = make()
    assert controlled(gymnasium.wrappers.RecordVideo, lambda: False, None)(env, str(tmp_path / "films")) is env
    assert list(tmp_path.iterdir()) == []
    env.close()


def test_wandb_finds_the_last_film_when_it_is_there_and_none_otherwise(said, tmp_path):
    told = []
    record = controlled(gymnasium.wrappers.RecordVideo, lambda: True, lambda *message: told.append(message))
    env = record(make(), str(tmp_path / "films"))
    assert not env.enabled
    play(env)
    (tmp_path / "films" / "rl-video-episode-0.mp4").write_bytes(b"as MoviePy would have it")
    env.close()
    assert env.enabled
    assert told == [("film", "", env.path, 0.0)]


def test_the_scripts_own_switch_decides_where_it_has_one():
    assert is_wanted({"args": SimpleNamespace(capture_video=True)})
    assert not is_wanted({"args": SimpleNamespace(capture_video=False)})
    assert is_wanted({"args": SimpleNamespace()})
    assert is_wanted({})
