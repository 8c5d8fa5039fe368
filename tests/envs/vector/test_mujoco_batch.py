"""MuJoCo's batch against Gymnasium's own environments, bit by bit, over whole episodes with resets."""

import gymnasium
import numpy as np
import pytest

from palaestra.config.env import CurriculumConfig, EnvConfig
from palaestra.core.errors import RunFailed, UsageError
from palaestra.envs.build import make_vector_envs
from palaestra.envs.make import make_env
from palaestra.envs.vector import mujoco_batch
from palaestra.envs.vector.in_process import InProcessEnvs
from palaestra.envs.vector.mujoco_batch import MujocoEnvs, why_not_batched
from palaestra.envs.vector.workers import WorkerEnvs

pytest.importorskip("mujoco")
NO_TASKS = CurriculumConfig()
SETTINGS = {
    "HalfCheetah-v5": {},
    "Hopper-v5": {},
    "Walker2d-v5": {},
    "Swimmer-v5": {"exclude_current_positions_from_observation": False},
    "InvertedPendulum-v5": {},
    "InvertedDoublePendulum-v5": {},
    "Reacher-v5": {},
    "Pusher-v5": {},
}


def maker(env_id, **settings):
    limit = settings.pop("limit", 40)
    return lambda: make_env(EnvConfig(id=env_id, kwargs=settings, max_episode_steps=limit))


def both(env_id, count=3, threads=2, **settings):
    make = maker(env_id, **settings)
    return InProcessEnvs(make, count), MujocoEnvs(make, count, threads)


def played(envs, steps, out, seed=0):
    """Everything that a trainer gets, as bits."""
    chance, observed = np.random.default_rng(seed), []
    size = envs.interface.action_space.size
    for _ in range(steps):
        result = envs.step(chance.normal(size=(envs.count, size)).astype(np.float32), out)
        finals = [
            (end.env_index, end.final_observation.tolist(), end.final_observation.dtype) for end in result.endings
        ]
        observed.append((out.tolist(), list(result.rewards), finals, [end.episode for end in result.endings]))
    return observed


def rows(envs):
    return np.zeros((envs.count, *envs.interface.observation_space.shape))  # float64: nothing is rounded away


@pytest.mark.parametrize(("env_id", "settings"), SETTINGS.items(), ids=str)
def test_every_number_is_gymnasiums_to_the_last_bit(env_id, settings):
    stories = []
    for envs in both(env_id, **settings):
        out = rows(envs)
        envs.reset([5, 6, 7], out)
        stories.append([out.tolist(), played(envs, 130, out)])
        envs.close()
    assert stories[0] == stories[1]
    ends = [episode for *_, episodes in stories[0][1] for episode in episodes]
    assert len(ends) >= 9
    may_fall = ("Hopper", "Walker2d", "InvertedPendulum", "InvertedDoublePendulum")
    assert any(end.terminated for end in ends) == env_id.startswith(may_fall)


@pytest.mark.parametrize(
    ("env_id", "settings"),
    [
        ("HalfCheetah-v5", {"ctrl_cost_weight": 0.3, "forward_reward_weight": 2.5, "frame_skip": 3}),
        ("Hopper-v5", {"terminate_when_unhealthy": False, "healthy_reward": 0.3}),
        ("Walker2d-v5", {"exclude_current_positions_from_observation": False, "healthy_z_range": (1.1, 1.3)}),
    ],
)
def test_other_settings_give_other_numbers_and_still_gymnasiums(env_id, settings):
    stories = []
    for envs in both(env_id, **settings):
        out = rows(envs)
        envs.reset([5, 6, 7], out)
        stories.append(played(envs, 50, out))
    assert stories[0] == stories[1]


@pytest.mark.parametrize("env_id", ["HalfCheetah-v5", "Hopper-v5", "InvertedDoublePendulum-v5", "Pusher-v5"])
def test_a_state_goes_from_the_batch_to_single_environments_and_back(env_id):
    alone, batch = both(env_id)
    out = rows(batch)
    assert batch.why_inexact() == ""
    batch.reset([1, 2, 3], out)
    played(batch, 25, out)
    state, observed = batch.capture(), out.copy()
    expected = played(batch, 60, out, seed=1)
    for other in (alone, batch):
        other.reset([7, 8, 9], out)
        other.restore(state)
        out[:] = observed
        assert played(other, 60, out, seed=1) == expected
    middle = alone.capture()
    going_on = played(alone, 30, out, seed=2)
    batch.restore(middle)
    assert played(batch, 30, out, seed=2) == going_on


def test_rendering_and_capturing_leave_no_trace():
    watched, alone = both("Hopper-v5")[1], both("Hopper-v5")[1]
    stories = []
    for envs in (watched, alone):
        out = rows(envs)
        envs.reset([1, 2, 3], out)
        story = []
        for part in range(12):
            story += played(envs, 5, out, seed=part)
            if envs is watched:
                envs.put(1)
                envs.capture()
        stories.append(story)
    assert stories[0] == stories[1]


def test_the_number_of_threads_does_not_matter():
    stories = []
    for threads in (1, 3):
        envs = MujocoEnvs(maker("HalfCheetah-v5"), 5, threads)
        out = rows(envs)
        envs.reset([1, 2, 3, 4, 5], out)
        stories.append(played(envs, 20, out))
    assert stories[0] == stories[1]


def test_how_an_episode_stands_is_known():
    envs = MujocoEnvs(maker("HalfCheetah-v5"), 2, 1)
    out = rows(envs)
    envs.reset([1, 2], out)
    rewards = [step[1][1] for step in played(envs, 3, out)]
    assert envs.episode_progress(1) == (sum(rewards[1:], rewards[0]), 3)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (maker("Ant-v5"), "no rule for AntEnv"),
        (maker("CartPole-v1"), "no rule for CartPoleEnv"),
        (maker("Hopper-v5", render_mode="rgb_array"), "it draws"),
        (lambda: gymnasium.wrappers.ClipAction(maker("Hopper-v5")()), "wrapped in ClipAction"),
        (lambda: gymnasium.wrappers.TimeAwareObservation(gymnasium.make("Hopper-v5")), "wrapped in TimeAware"),
    ],
)
def test_what_does_not_fit_is_not_batched(make, reason):
    assert reason in why_not_batched(make)


def test_a_gymnasium_that_pays_otherwise_is_noticed(monkeypatch):
    from gymnasium.envs.mujoco.hopper_v5 import HopperEnv

    assert why_not_batched(maker("Hopper-v5")) == ""
    monkeypatch.setattr(HopperEnv, "control_cost", lambda self, action: 0.0)
    assert "numbers are others" in why_not_batched(maker("Hopper-v5"))


def test_a_simulation_that_fails_is_named(monkeypatch):
    envs = MujocoEnvs(maker("HalfCheetah-v5"), 2, 1)
    out = rows(envs)
    envs.reset([11, 12], out)

    class SimulationError(RuntimeError):
        ids = np.array([1])

    def fails(nstep):
        raise SimulationError("stack overflow")

    monkeypatch.setattr(envs._batch, "step", fails)
    with pytest.raises(RunFailed, match=r"Environment 1 \(seed 12\) raised SimulationError at step 1"):
        envs.step(np.zeros((2, 6), np.float32), out)


def test_workers_are_threads_where_the_mujoco_batch_fits_and_processes_elsewhere():
    batch = make_vector_envs(EnvConfig(id="HalfCheetah-v5", workers=1), NO_TASKS, 4)
    assert isinstance(batch, MujocoEnvs)
    assert batch.threads == 2
    copies = make_vector_envs(EnvConfig(id="HalfCheetah-v5", workers=1, stepping="copies"), NO_TASKS, 4)
    assert isinstance(copies, WorkerEnvs)
    copies.close()
    assert isinstance(make_vector_envs(EnvConfig(id="HalfCheetah-v5"), NO_TASKS, 4), InProcessEnvs)
    assert isinstance(make_vector_envs(EnvConfig(id="HalfCheetah-v5", stepping="mujoco"), NO_TASKS, 4), MujocoEnvs)


def test_a_batch_requested_by_name_is_refused_with_the_reason_where_it_does_not_fit():
    with pytest.raises(UsageError, match="cannot be stepped as a MuJoCo batch: there is no rule for AntEnv"):
        make_vector_envs(EnvConfig(id="Ant-v5", stepping="mujoco"), NO_TASKS, 2)


def test_the_check_plays_as_many_steps_as_it_says(monkeypatch):
    counted = []
    step = InProcessEnvs.step
    monkeypatch.setattr(InProcessEnvs, "step", lambda *arguments: counted.append(1) or step(*arguments))
    assert why_not_batched(maker("HalfCheetah-v5")) == ""
    assert len(counted) == mujoco_batch.CHECKED_STEPS


@pytest.mark.full
@pytest.mark.parametrize("env_id", SETTINGS)
def test_whole_episodes_of_a_thousand_steps_are_gymnasiums_to_the_last_bit(env_id):
    stories = []
    for envs in both(env_id, count=4, limit=None):
        out = rows(envs)
        envs.reset([1, 2, 3, 4], out)
        stories.append(played(envs, 2100, out))
    assert stories[0] == stories[1]
