"""Which way an environment is stepped, asked of one that offers a batch and of one that does not."""

import gymnasium
import numpy as np
import pytest

import palaestra.testing.crowd  # noqa: F401  registers it, as the entry point does
from palaestra.config.env import CurriculumConfig, EnvConfig
from palaestra.core.errors import UsageError
from palaestra.envs import build
from palaestra.envs.build import describe_stepping, make_native_batch, make_playable, make_vector_envs
from palaestra.envs.frame_sources import frame_source
from palaestra.envs.vector.batch import BatchEnvs
from palaestra.envs.vector.in_process import InProcessEnvs
from palaestra.envs.vector.published import PublishedEnvs
from palaestra.envs.vector.workers import WorkerEnvs

CROWD = EnvConfig(id="palaestra/Crowd-v0", kwargs={"agents": 4})
NO_TASKS = CurriculumConfig()


def test_a_class_that_offers_a_batch_is_stepped_as_one_and_every_other_copy_by_copy():
    batch = make_vector_envs(CROWD, NO_TASKS, 12)
    assert isinstance(batch, BatchEnvs)
    assert (batch.count, batch.batch.world_count, batch.batch.agents) == (12, 3, 4)
    assert isinstance(make_vector_envs(EnvConfig(id="CartPole-v1"), NO_TASKS, 2), InProcessEnvs)


@pytest.mark.parametrize(("count", "near"), [(10, "=8 or ppo.env_count=12"), (3, "=4.")])
def test_a_part_of_a_world_is_refused_with_the_nearest_numbers(count, near):
    with pytest.raises(UsageError) as refused:
        make_vector_envs(CROWD, NO_TASKS, count)
    assert f"ppo.env_count={count} is not a multiple of the 4 agents" in refused.value.message
    assert near in refused.value.hint


def test_a_time_limit_reaches_the_batch():
    envs = make_vector_envs(CROWD.model_copy(update={"max_episode_steps": 2}), NO_TASKS, 4)
    out = np.zeros(4, np.int64)
    envs.reset([1, 2, 3, 4], out)
    lengths = [[end.episode.length for end in envs.step(np.zeros(4, np.int64), out).endings] for _ in range(2)]
    assert lengths == [[], [2, 2, 2, 2]]


def test_each_task_is_the_settings_with_its_own_laid_over_them():
    tasks = CurriculumConfig(tasks={"short": {"kwargs": {"steps": 3}}, "long": {"kwargs": {"steps": 5}}})
    batch = make_native_batch(CROWD, 2, tasks)
    out = np.zeros(8, np.int64)
    batch.reset([0, 1], [1, 2], [0, 1], out)
    ended = [[end.world for end in batch.step(out, out, np.zeros(8, np.float32))] for _ in range(5)]
    assert ended == [[], [], [0], [], [1]]


def test_tasks_with_other_players_are_refused():
    tasks = CurriculumConfig(tasks={"few": {}, "many": {"kwargs": {"agents": 8}}})
    with pytest.raises(UsageError, match="differ in agents"):
        make_vector_envs(CROWD, tasks, 8)


def test_tasks_by_options_are_refused_with_the_way_to_give_them():
    tasks = CurriculumConfig(tasks={"one": {}}, given_by="options")
    with pytest.raises(UsageError, match="by their kwargs"):
        make_vector_envs(CROWD, tasks, 8)


def test_an_episode_of_an_evaluation_is_one_world_with_all_its_players():
    playable = make_playable(CROWD)
    assert (playable.world_count, playable.agents) == (1, 4)
    assert isinstance(make_playable(EnvConfig(id="CartPole-v1")), gymnasium.Env)


def test_an_id_with_wrappers_of_its_own_is_not_made_as_a_batch(monkeypatch):
    spec = gymnasium.spec("palaestra/Crowd-v0")
    wrapper = gymnasium.wrappers.RecordEpisodeStatistics.wrapper_spec()
    monkeypatch.setattr(spec, "additional_wrappers", (wrapper,))
    assert isinstance(make_vector_envs(CROWD, NO_TASKS, 2), InProcessEnvs)


def test_a_render_mode_in_the_registration_is_not_passed_to_the_batch():
    drawn = CROWD.model_copy(update={"kwargs": {"agents": 4, "render_mode": "rgb_array"}})
    assert isinstance(make_vector_envs(drawn, NO_TASKS, 4), BatchEnvs)


class Hired(WorkerEnvs):
    """Nobody is started; only their number is known"""

    def __init__(self, env, curriculum, count, tasks) -> None:
        self.count, self.workers = count, [None] * env.workers


@pytest.mark.parametrize(("count", "asked", "made"), [(3, 9, 2), (4, 2, 2), (2, 1, 1)])
def test_fewer_environments_than_workers_use_fewer_workers(monkeypatch, count, asked, made):
    monkeypatch.setattr(build, "WorkerEnvs", Hired)
    envs = make_vector_envs(EnvConfig(id="CartPole-v1", workers=asked), NO_TASKS, count)
    assert len(envs.workers) == made


def test_one_environment_uses_no_worker_and_a_warning_says_so(caplog):
    assert isinstance(make_vector_envs(EnvConfig(id="CartPole-v1", workers=4), NO_TASKS, 1), InProcessEnvs)
    assert "1 environments keep 0 workers busy, not 4" in caplog.text


def test_a_batch_of_its_own_is_preferred_to_workers():
    assert isinstance(make_vector_envs(CROWD.model_copy(update={"workers": 2}), NO_TASKS, 4), BatchEnvs)


def test_mujoco_without_a_rule_goes_to_the_workers_and_the_log_says_why(monkeypatch, caplog):
    pytest.importorskip("mujoco")
    monkeypatch.setattr(build, "WorkerEnvs", Hired)
    with caplog.at_level("INFO"):
        make_vector_envs(EnvConfig(id="Ant-v5", workers=1), NO_TASKS, 2)
    assert "2 copies of Ant-v5 are stepped by 1 worker processes and the one that trains" in caplog.text
    assert "not as a MuJoCo batch, because there is no rule for AntEnv." in caplog.text


def test_mujoco_with_tasks_is_not_a_batch():
    tasks = CurriculumConfig(tasks={"one": {}, "two": {"kwargs": {"ctrl_cost_weight": 0.5}}})
    with pytest.raises(UsageError, match="it has several tasks"):
        make_vector_envs(EnvConfig(id="HalfCheetah-v5", stepping="mujoco"), tasks, 2)


def test_the_way_of_stepping_is_described_in_a_few_words():
    assert describe_stepping(make_vector_envs(CROWD, NO_TASKS, 4)) == "as a batch of their own"
    alone = make_vector_envs(EnvConfig(id="CartPole-v1"), NO_TASKS, 2)
    assert describe_stepping(alone) == "one after the other in the process that trains"
    pytest.importorskip("mujoco")
    batch = make_vector_envs(EnvConfig(id="Reacher-v5", workers=1), NO_TASKS, 2)
    assert describe_stepping(batch) == "as a MuJoCo batch on 2 threads"
    watched = PublishedEnvs(batch, frame_source(batch), None, 0, 2)
    assert describe_stepping(watched) == "as a MuJoCo batch on 2 threads"
