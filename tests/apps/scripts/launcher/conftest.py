import os
from contextlib import ExitStack, closing

import gymnasium
import pytest

from palaestra.apps.scripts.launcher.live import ScriptView
from palaestra.rendering.frame_buffer import FrameBufferOwner
from palaestra.rendering.frame_reader import FrameReader
from palaestra.rendering.offscreen import prepare_rendering


@pytest.fixture
def frame_buffer(tmp_path):
    """The path of a frame buffer of three slots, made by our side, and our reader of it."""
    with (
        FrameBufferOwner(tmp_path / "a.frames", 3, 3 * 64**2, 0.0) as owner,
        closing(FrameReader(owner.path)) as reader,
    ):
        assert owner.about.owner_pid == os.getpid()
        yield owner.path, reader


@pytest.fixture
def open_view():
    with ExitStack() as stack:
        yield lambda *given: stack.enter_context(closing(ScriptView(*given)))


@pytest.fixture
def cartpole():
    """To be drawn, as it stands after a reset."""
    prepare_rendering("rgb_array")
    env = gymnasium.make("CartPole-v1")
    env.reset(seed=3)
    yield env
    env.close()
