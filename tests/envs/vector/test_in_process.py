"""Many environments side by side, against environments whose every number is known."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from palaestra.config.env import EnvConfig
from palaestra.core.errors import RunFailed, UsageError
from palaestra.envs.make import make_env
from palaestra.envs.spaces import action_converter, space_spec
from palaestra.envs.vector.in_process import InProcessEnvs, scalars


class Counting(gymnasium.Env):
    """Observes (seed, step), pays the step's number, ends after `length` steps by `how`; remembers its actions."""

    observation_space = spaces.Box(-1e9, 1e9, (2,), np.float32)
    action_space = spaces.Discrete(5)

    def __init__(self, length=3, how="terminated", raise_at=None) -> None:
        self.length, self.how, self.raise_at = length, how, raise_at
        self.seed, self.taken = -1, 0
        self.buffer = np.zeros(2, np.float32)  # one array for all observations, as some environments do it

    def observe(self):
        self.buffer[:] = (self.seed, self.taken)
        return self.buffer

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seed, self.taken = self.seed if seed is None else seed, 0
        return self.observe(), {}

    def step(self, action):
        self.taken += 1
        if self.taken == self.raise_at:
            raise ZeroDivisionError("of a stranger")
        is_over = self.taken >= self.length
        info = {"height": np.float32(1.5), "name": "not a number", "won": True}
        reward = float(self.taken)
        terminated, truncated = is_over and "terminated" in self.how, is_over and "truncated" in self.how
        return self.observe(), reward, terminated, truncated, info


def opened(*make_each):
    """Environments that differ, in their order, reset with seeds 10, 20, …"""
    waiting = list(make_each)
    envs = InProcessEnvs(lambda: waiting.pop(0), len(make_each))
    out = np.zeros((len(make_each), 2), np.float32)
    envs.reset([10 * (index + 1) for index in range(len(make_each))], out)
    return envs, out


def test_each_environment_gets_its_own_seed_and_its_own_row():
    _, out = opened(Counting(), Counting())
    assert out.tolist() == [[10, 0], [20, 0]]


def test_an_episode_that_ends_is_reset_in_the_same_step_and_keeps_its_last_observation():
    envs, out = opened(Counting(length=2), Counting(length=9))
    envs.step(np.array([0, 0]), out)
    result = envs.step(np.array([0, 0]), out)
    assert out.tolist() == [[10, 0], [20, 2]]
    [ending] = result.endings
    assert ending.env_index == 0
    assert ending.final_observation.tolist() == [10, 2]  # although the environment writes into one array only
    assert result.rewards == [2.0, 2.0]


def test_an_ending_carries_return_length_and_the_numbers_of_info_and_counting_begins_anew():
    envs, out = opened(Counting(length=3))
    episodes = [ending.episode for _ in range(6) for ending in envs.step(np.array([0]), out).endings]
    assert [(one.total_reward, one.length, one.seed, one.env_index) for one in episodes] == [(6.0, 3, None, 0)] * 2
    assert episodes[0].extras == {"height": 1.5, "won": 1.0}


@pytest.mark.parametrize(
    ("how", "terminated"), [("terminated", True), ("truncated", False), ("terminated and truncated", True)]
)
def test_a_time_limit_is_no_end_unless_the_episode_ended_as_well(how, terminated):
    envs, out = opened(Counting(length=1, how=how))
    [ending] = envs.step(np.array([0]), out).endings
    assert ending.episode.terminated is terminated


@pytest.mark.fault("E1")
def test_an_environment_that_raises_is_named_with_index_seed_step_and_action():
    envs, out = opened(Counting(length=9), Counting(length=9, raise_at=2))
    envs.step(np.array([0, 3]), out)
    with pytest.raises(RunFailed) as failed:
        envs.step(np.array([0, 4]), out)
    text = str(failed.value)
    assert all(part in text for part in ("Environment 1", "seed 20", "ZeroDivisionError", "step 2", "action 4"))
    assert "of a stranger" in text


class Paying(Counting):
    """Pays whatever it was made with, and ends."""

    def __init__(self, reward) -> None:
        super().__init__()
        self.reward = reward

    def step(self, action):
        return self.observe(), self.reward, True, False, {}


@pytest.mark.parametrize("reward", ["12", b"12", "a prize", None])
def test_a_reward_that_is_not_a_number_is_refused_by_name(reward):
    envs, out = InProcessEnvs(lambda: Paying(reward), 1), np.zeros((1, 2), np.float32)
    envs.reset([20], out)
    with pytest.raises(RunFailed, match=r"Environment 0 \(seed 20\) raised TypeError at step 1 of its episode"):
        envs.step(np.array([4]), out)


@pytest.mark.parametrize("reward", [1, True, np.float32(1), np.array(1.0)])
def test_every_kind_of_number_is_a_reward(reward):
    envs, out = InProcessEnvs(lambda: Paying(reward), 1), np.zeros((1, 2), np.float32)
    envs.reset([20], out)
    rewards, [ending] = envs.step(np.array([4]), out)
    assert (rewards, ending.episode.total_reward) == ([1.0], 1.0)
    assert type(rewards[0]) is float


@pytest.mark.fault("E4")
def test_an_observation_of_another_shape_is_named_with_its_environment():
    class Growing(Counting):
        def observe(self):
            return np.zeros(2 + self.taken, np.float32)

    envs, out = opened(Counting(), Growing())
    with pytest.raises(RunFailed, match="Environment 1 .*step 1"):
        envs.step(np.array([0, 0]), out)


ACTION_SPACES = [
    spaces.Discrete(4),
    spaces.Discrete(4, start=-2),
    spaces.MultiDiscrete([2, 5, 3]),
    spaces.MultiDiscrete([2, 5], start=[1, -3]),
    spaces.MultiBinary(4),
    spaces.Box(-1.0, 2.0, (3,), np.float32),
    spaces.Box(np.array([-1.0, 0.0]), np.array([1.0, 5.0]), dtype=np.float64),
    spaces.Box(-1.0, 1.0, (2, 3), np.float32),
    spaces.Box(-np.inf, np.inf, (2,), np.float32),
    spaces.Box(np.arange(6).reshape(2, 3).astype(np.float32), 9.0, (2, 3), np.float32),
]


def network_actions(space, count: int):
    """What a policy hands out: choices counted from 0, or unbounded flat numbers."""
    chance = np.random.default_rng(5)
    match space:
        case spaces.Discrete():
            return chance.integers(space.n, size=count)
        case spaces.MultiDiscrete():
            return chance.integers(space.nvec, size=(count, len(space.nvec)))
        case spaces.MultiBinary():
            return chance.integers(2, size=(count, space.n))
        case _:
            return chance.normal(scale=3.0, size=(count, int(np.prod(space.shape)))).astype(np.float32)


@pytest.mark.parametrize("space", ACTION_SPACES, ids=str)
def test_every_action_reaches_its_environment_as_the_interface_for_one_gives_it(space):
    """The batch door and the one for a single environment are written apart; both must say the same."""

    class Listening(Counting):
        action_space = space

        def step(self, action):
            self.heard = action
            return super().step(action)

    envs, out = opened(*(Listening(length=99) for _ in range(7)))
    actions = network_actions(space, 7)
    envs.step(actions, out)
    convert = action_converter(space_spec(space))
    for env, action in zip(envs.envs, actions, strict=True):
        expected = convert(action)
        assert env.action_space.contains(env.heard), env.heard
        assert np.array_equal(env.heard, expected)
        assert np.asarray(env.heard).dtype == np.asarray(expected).dtype
        assert np.shape(env.heard) == np.shape(expected)


def test_actions_with_parts_are_refused():
    class Parted(Counting):
        action_space = spaces.Dict(a=spaces.Discrete(2))

    with pytest.raises(UsageError, match="several parts"):
        InProcessEnvs(Parted, 1)


@pytest.mark.parametrize(
    ("space", "given", "written"),
    [
        (
            spaces.Dict(camera=spaces.Box(0, 255, (2,), np.uint8), door=spaces.Discrete(3)),
            {"door": 2, "camera": np.array([7, 8], np.uint8)},
            {"camera": [[7, 8], [7, 8]], "door": [2, 2]},
        ),
        (
            spaces.Tuple([spaces.Discrete(3), spaces.Box(0, 1, (1,), np.float32)]),
            (1, np.array([0.5], np.float32)),
            {"0": [1, 1], "1": [[0.5], [0.5]]},
        ),
    ],
    ids=["dict", "tuple"],
)
def test_observations_with_parts_are_written_by_name(space, given, written):
    class Parted(Counting):
        observation_space = space

        def observe(self):
            return given

    envs = InProcessEnvs(Parted, 2)
    dtypes = {"camera": np.uint8, "door": np.int64, "0": np.int64, "1": np.float32}
    out = {name: np.zeros(np.shape(rows), dtypes[name]) for name, rows in written.items()}
    envs.reset([1, 2], out)
    envs.step(np.array([0, 0]), out)
    assert {name: rows.tolist() for name, rows in out.items()} == written


def test_the_last_observation_of_an_episode_has_its_parts_by_name_too():
    class Parted(Counting):
        observation_space = spaces.Tuple([spaces.Discrete(99), spaces.MultiBinary((2, 2))])

        def observe(self):
            return self.taken, np.eye(2, dtype=np.int8)

    envs = InProcessEnvs(lambda: Parted(length=1, how="truncated"), 1)
    out = {"0": np.zeros(1, np.int64), "1": np.zeros((1, 4), np.int64)}
    envs.reset([1], out)
    [ending] = envs.step(np.array([0]), out).endings
    assert {name: part.tolist() for name, part in ending.final_observation.items()} == {"0": 1, "1": [1, 0, 0, 1]}


def test_a_table_of_choices_is_written_as_a_row():
    class Table(Counting):
        observation_space = spaces.MultiDiscrete([[2, 2], [2, 2]])

        def observe(self):
            return np.array([[0, 1], [1, 1]])

    out = np.zeros((1, 4), np.int64)
    InProcessEnvs(Table, 1).reset([1], out)
    assert out.tolist() == [[0, 1, 1, 1]]


def test_captured_and_restored_it_goes_on_as_if_nothing_had_happened():
    def cartpoles():
        return InProcessEnvs(lambda: make_env(EnvConfig(id="CartPole-v1", max_episode_steps=15)), 3)

    def play(envs, steps, out):
        observed = []
        for step in range(steps):
            result = envs.step(np.array([step % 2, 1, 0]), out)
            observed.append((out.tolist(), result.rewards, [ending.episode for ending in result.endings]))
        return observed

    envs, out = cartpoles(), np.zeros((3, 4), np.float32)
    assert envs.why_inexact() == ""
    envs.reset([1, 2, 3], out)
    play(envs, 8, out)
    state = envs.capture()
    expected = play(envs, 60, out)
    other = cartpoles()
    other.reset([7, 8, 9], out)
    other.restore(state)
    assert play(other, 60, out) == expected
    assert any(endings for _, _, endings in expected)


@pytest.mark.fault("R8")
def test_an_environment_that_cannot_give_its_state_says_why():
    class Secret(Counting):
        def __init__(self) -> None:
            super().__init__()
            self.file = (number for number in range(3))

    envs, _ = opened(Secret())
    assert envs.capture() is None
    assert "Secret.file" in envs.why_inexact()


def test_closing_closes_every_environment():
    closed = []

    class Closing(Counting):
        def close(self):
            closed.append(self)

    envs, _ = opened(Closing(), Closing())
    envs.close()
    assert closed == envs.envs


def test_how_an_episode_stands_is_known_between_steps():
    envs, out = InProcessEnvs(Counting, 2), np.zeros((2, 2), np.float32)
    envs.reset([1, 2], out)
    assert envs.episode_progress(1) == (0.0, 0)
    reports = []
    for _ in range(4):
        envs.step(np.zeros(2, np.int64), out)
        reports.append(envs.episode_progress(1))
    assert reports == [(1.0, 1), (3.0, 2), (0.0, 0), (1.0, 1)]


def test_an_episode_that_was_stepped_elsewhere_goes_on_where_it_was_placed():
    envs, out = InProcessEnvs(Counting, 2), np.zeros((2, 2), np.float32)
    envs.reset([1, 2], out)
    envs.set_episode_progress(1, 40.0, 7)
    assert [envs.episode_progress(index) for index in range(2)] == [(0.0, 0), (40.0, 7)]
    envs.step(np.zeros(2, np.int64), out)
    assert envs.episode_progress(1) == (41.0, 8)


def test_scalars_of_the_last_info_become_extras():
    info = {"score": np.float32(0.5), "won": True, "lives": 3, "flag": np.bool(False), "name": "x", "map": np.zeros(2)}
    assert scalars(info) == {"score": 0.5, "won": 1.0, "lives": 3.0, "flag": 0.0}
