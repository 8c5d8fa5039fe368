import gymnasium
import numpy as np
import pytest

from palaestra.config.env import CurriculumConfig, EnvConfig, TaskConfig
from palaestra.core.errors import UsageError
from palaestra.envs import snapshot, tasks
from palaestra.envs.make import make_env
from palaestra.envs.tasks import TaskSwitch, make_task_env
from palaestra.envs.vector.in_process import InProcessEnvs

LENGTHS = CurriculumConfig(tasks={"short": {"kwargs": {"steps": 2}}, "long": {"kwargs": {"steps": 5}}})
IDENTITY = EnvConfig(id="palaestra/Identity-v0", kwargs={"count": 3})


def length_of(env, task: str, seed: int | None = None) -> int:
    env.reset(seed=seed, options={"task": task})
    for step in range(1, 100):
        if env.step(0)[2]:
            return step
    raise AssertionError("no end")


def test_the_task_named_at_reset_is_the_one_that_plays():
    env = make_task_env(IDENTITY, LENGTHS)
    assert [length_of(env, task) for task in ("short", "long", "short")] == [2, 5, 2]


def test_a_tasks_settings_are_its_own():
    """Trap 25: the last task says nothing of steps, so it has the environment's own, whatever others say."""
    env = make_task_env(IDENTITY, LENGTHS.model_copy(update={"tasks": {**LENGTHS.tasks, "usual": TaskConfig()}}))
    env.make_all()
    assert [length_of(env, task) for task in ("usual", "short", "usual", "long")] == [16, 2, 16, 5]
    assert IDENTITY.kwargs == {"count": 3}


def test_environments_are_made_when_first_played():
    made = []

    def maker(name):
        def make():
            made.append(name)
            return make_env(IDENTITY)

        return make

    env = TaskSwitch({name: maker(name) for name in ("a", "b", "c")})
    assert made == ["a"]
    env.reset(seed=1, options={"task": "c"})
    assert made == ["a", "c"]
    env.make_all()
    assert made == ["a", "c", "b"]


def test_a_tasks_spaces_must_be_those_of_the_first():
    curriculum = CurriculumConfig(tasks={"three": {}, "four": {"kwargs": {"count": 4}}})
    env = make_task_env(IDENTITY, curriculum)
    with pytest.raises(UsageError, match="'three' and 'four' differ .*: 3 choices and 4 choices"):
        env.make_all()


def test_without_tasks_and_for_environments_that_read_options_one_environment_is_made():
    assert not isinstance(make_task_env(IDENTITY, CurriculumConfig()), TaskSwitch)
    assert not isinstance(make_task_env(IDENTITY, LENGTHS.model_copy(update={"given_by": "options"})), TaskSwitch)


def observations(env, task: str, episodes: int = 3) -> list[int]:
    observed = []
    for _ in range(episodes):
        observation, _ = env.reset(options={"task": task})
        observed.append(int(observation))
        while True:
            observation, _, ended, _, _ = env.step(0)
            observed.append(int(observation))
            if ended:
                break
    return observed


def test_the_seed_decides_every_tasks_episodes_and_tasks_differ():
    first, second, other = (make_task_env(EnvConfig(id="palaestra/Identity-v0"), LENGTHS) for _ in range(3))
    for env, seed in ((first, 1), (second, 1), (other, 2)):
        env.reset(seed=seed, options={"task": "short"})
    second.reset(options={"task": "long"})  # when a task is first played does not change what it plays
    first.reset(options={"task": "long"})
    assert observations(first, "long") == observations(second, "long") != observations(other, "long")


def test_the_whole_state_comes_back_bit_for_bit_in_mid_episode():
    env = make_task_env(IDENTITY, LENGTHS)
    env.reset(seed=3, options={"task": "long"})
    env.step(0)
    env.reset(options={"task": "short"})
    env.step(0)
    saved = tasks.capture(env)
    other = make_task_env(IDENTITY, LENGTHS)
    other.reset(seed=99, options={"task": "short"})
    tasks.restore(other, saved)
    assert env.step(0)[:3] == other.step(0)[:3]
    assert observations(env, "long") == observations(other, "long")
    assert observations(env, "short") == observations(other, "short")


def test_an_environment_without_tasks_is_captured_as_by_snapshot():
    env = make_env(IDENTITY)
    env.reset(seed=1)
    assert tasks.capture(env) == snapshot.capture(env)
    assert tasks.why_not(env) == ""


class Opaque(gymnasium.Env):
    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self) -> None:
        self.thread_like = iter([1, 2])


def test_one_task_that_cannot_be_captured_makes_the_whole_say_so_by_its_name():
    env = TaskSwitch(
        {"plain": lambda: make_env(IDENTITY.model_copy(update={"kwargs": {"count": 2}})), "opaque": Opaque}
    )
    env.make_all()
    assert tasks.capture(env) is None
    assert tasks.why_not(env).startswith("Task 'opaque': The state of Opaque cannot be captured")


class Listening(gymnasium.Env):
    """Understands `options={"task": …}` itself; its observation is the task's number."""

    observation_space = gymnasium.spaces.Discrete(10)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.number = options["number"]
        return np.int64(self.number), {}

    def step(self, action):
        return np.int64(self.number), float(self.number), True, False, {}


class Turns:
    """A source of tasks that counts."""

    def __init__(self) -> None:
        self.given, self.results = 0, []

    def next_options(self, env_index):
        self.given += 1
        return {"task": f"task {self.given}", "number": self.given}

    def ended(self, env_index, total_reward):
        self.results.append((env_index, total_reward))


def test_vectorised_environments_request_a_task_per_episode_and_report_its_return():
    turns, out = Turns(), np.zeros(2, np.int64)
    envs = InProcessEnvs(Listening, 2, turns)
    envs.reset([1, 2], out)
    assert out.tolist() == [1, 2]
    envs.step(np.zeros(2, np.int64), out)
    assert out.tolist() == [3, 4]
    assert turns.results == [(0, 1.0), (1, 2.0)]
