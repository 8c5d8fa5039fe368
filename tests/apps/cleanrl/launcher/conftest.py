import os
from contextlib import ExitStack, closing

import gymnasium
import pytest

from palaestra.apps.cleanrl.launcher.lane import Lane
from palaestra.apps.cleanrl.launcher.live import Show
from palaestra.envs.headless import prepare_rendering
from palaestra.frames.lane import LaneOwner
from palaestra.frames.reader import FrameReader


@pytest.fixture
def lane_file(tmp_path):
    """The path of a lane of three slots, made by our side, and our reader of it."""
    with LaneOwner(tmp_path / "a.lane", 3, 3 * 64**2, 0.0) as owner, closing(FrameReader(owner.path)) as reader:
        assert owner.about.owner_pid == os.getpid()
        yield owner.path, reader


@pytest.fixture
def open_lane():
    with ExitStack() as stack:
        yield lambda path: stack.enter_context(closing(Lane(path)))


@pytest.fixture
def open_show():
    with ExitStack() as stack:
        yield lambda *given: stack.enter_context(closing(Show(*given)))


@pytest.fixture
def cartpole():
    """To be drawn, as it stands after a reset."""
    prepare_rendering("rgb_array")
    env = gymnasium.make("CartPole-v1")
    env.reset(seed=3)
    yield env
    env.close()
