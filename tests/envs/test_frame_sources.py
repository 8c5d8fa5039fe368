from math import isnan

import gymnasium
import numpy as np
import pytest

from palaestra.algorithms.buffers.rollout_buffer import RolloutBuffer
from palaestra.config.env import CurriculumConfig, EnvConfig
from palaestra.envs.build import make_vector_envs
from palaestra.envs.frame_sources import (
    BatchSource,
    EnvsSource,
    HasStateMessage,
    frame_source,
    renderer_for,
    view_of_batch,
)
from palaestra.envs.tasks import TaskSwitch
from palaestra.envs.vector.in_process import InProcessEnvs
from palaestra.rendering.offscreen import OffscreenRenderer

NO_TASKS = CurriculumConfig()


class Painted(gymnasium.Env):
    """Pays its step's number, ends after three, and paints itself in the shade of its steps."""

    observation_space = gymnasium.spaces.Box(0.0, 9.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    render_mode = None

    def __init__(self, shade=0):
        self.taken, self.shade = 0, shade

    def reset(self, *, seed=None, options=None):
        self.taken = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.taken += 1
        return np.zeros(1, np.float32), float(self.taken), self.taken == 3, False, {}

    def render(self):
        return np.full((4, 4, 3), self.shade + self.taken, np.uint8)


def test_image_and_numbers_are_of_the_same_step_also_at_the_start_of_an_episode():
    envs = InProcessEnvs(Painted, 2)
    source, out = frame_source(envs), np.zeros((2, 1), np.float32)
    envs.reset([0, 0], out)
    reports = []
    for _ in range(4):
        source.last = envs.step(np.zeros(2, np.int64), out)
        view = source.view(1)
        reports.append(
            (int(view.content[0, 0, 0]), view.numbers.reward, view.numbers.total_reward, view.numbers.length)
        )
    assert reports == [(1, 1.0, 1.0, 1), (2, 2.0, 3.0, 2), (0, 0.0, 0.0, 0), (1, 1.0, 1.0, 1)]


def test_before_the_first_step_there_is_an_image_and_no_reward():
    envs = InProcessEnvs(Painted, 1)
    envs.reset([0], np.zeros((1, 1), np.float32))
    view = EnvsSource(envs).view(0)
    assert (view.content.shape, view.numbers.reward, view.numbers.length) == ((4, 4, 3), 0.0, 0)


def test_arena_worlds_describe_their_state_in_few_bytes():
    envs = make_vector_envs(EnvConfig(id="palaestra/Arena-v0", kwargs={"agents": 4}), NO_TASKS, 8)
    source = frame_source(envs)
    assert isinstance(source, BatchSource)
    assert source.count == 2
    assert isinstance(envs.batch, HasStateMessage)
    out = RolloutBuffer(envs.interface.observation_space, 1, 8).rows[0]
    envs.reset(range(8), out)
    for _ in range(3):
        source.last = envs.step(np.zeros(8, np.int64), out)
    view = source.view(1)
    assert view.content[:2] == b"AR"
    assert len(view.content) * 10 < envs.batch.render(1).nbytes
    assert view.numbers.length == 3
    assert view.numbers.reward == np.mean(source.last.rewards[4:8])


def test_a_batch_without_a_state_message_is_rendered():
    envs = make_vector_envs(EnvConfig(id="palaestra/Crowd-v0"), NO_TASKS, 6)
    view = view_of_batch(envs.batch, 0, 0.5)
    assert view.content.shape[2] == 3
    assert isnan(view.numbers.total_reward)


def test_of_several_tasks_the_current_one_is_rendered():
    switch = TaskSwitch({"dark": Painted, "light": lambda: Painted(shade=100)})
    switch.reset(options={"task": "dark"})
    renderer = renderer_for(switch)
    assert renderer_for(switch, renderer) is renderer
    assert renderer.render()[0, 0, 0] == 0
    switch.reset(options={"task": "light"})
    assert renderer_for(switch, renderer) is not renderer
    assert renderer_for(switch, renderer).render()[0, 0, 0] == 100


def test_environments_of_an_unknown_kind_cannot_be_shown():
    assert frame_source(object()) is None


def test_a_simulation_of_a_mujoco_batch_is_rendered_in_its_current_state():
    pytest.importorskip("mujoco")
    envs = make_vector_envs(EnvConfig(id="InvertedPendulum-v5", stepping="mujoco"), NO_TASKS, 2)
    source, out = frame_source(envs), np.zeros((2, 4), np.float32)
    envs.reset([1, 2], out)
    source.last = envs.step(np.full((2, 1), 3.0, np.float32), out)
    source._renderers[1] = OffscreenRenderer(envs.envs[1])
    drawn = []

    def record_state():
        drawn.append(envs.envs[1].unwrapped.data.qpos.copy())
        return np.zeros((4, 4, 3), np.uint8)

    envs.envs[1].unwrapped.render = record_state
    view = source.view(1)
    assert np.float32(drawn[0]).tolist() == out[1, :2].tolist()
    assert (view.numbers.reward, view.numbers.total_reward, view.numbers.length) == (1.0, 1.0, 1)
