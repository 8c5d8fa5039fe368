"""What algorithms with a replay buffer have in common, seen with one that learns nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import pytest

import palaestra.testing.envs  # noqa: F401  registers the tiny environments
from palaestra.algorithms.base import Progress
from palaestra.algorithms.buffers.replay_buffer import TRUNCATED, ReplayBuffer
from palaestra.algorithms.counter_rng import CounterRng
from palaestra.algorithms.group import ALONE, Group
from palaestra.algorithms.off_policy import (
    FigureMeans,
    OffPolicy,
    action_scaling,
    multiples_between,
    uniform_actions,
    updates_due,
)
from palaestra.config.off_policy import OffPolicyConfig
from palaestra.config.train import TrainConfig
from palaestra.core.errors import NonFinite
from palaestra.core.seeds import draw_seed
from palaestra.core.spaces import BoxSpec, DiscreteSpec
from palaestra.envs.build import make_vector_envs

if TYPE_CHECKING:
    from collections.abc import Mapping

COUNTS = [(1, 1), (3, 1), (4, 2), (7, 1), (32, 2)]  # environments of a process, processes


class Idle(OffPolicy):
    """Acts by counting and writes down when it would learn."""

    name, engine, replicated = "idle", "torch", frozenset()

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.learned: list[tuple[int, int]] = []  # (steps over all ranks, updates)
        self.targets: list[tuple[int, int]] = []
        self.taken_in: list[int] = []

    @property
    def interface(self):
        return self.envs.interface

    def policy(self):
        raise NotImplementedError

    weights = policy

    def explore(self, observations, now):
        return np.ones(self.envs.count, np.int64)

    def learn(self, count, now):
        self.learned.append((now.env_steps, count))
        self.update_count += count
        self.figures.add({"losses/one": 3.0 * count}, count)

    def after_steps(self, before, now):
        self.targets.append((before.env_steps, now.env_steps))

    def take_in(self, row_count):
        self.taken_in.append(row_count)

    def capture_learning(self) -> dict[str, Any]:
        return {}

    def restore_learning(self, saved: Mapping[str, Any]) -> None: ...


class Pair(Group):
    """One of two ranks that never speak."""

    world_size = 2

    def __init__(self, rank: int) -> None:
        self.rank = rank


def idle(group=ALONE, env="CartPole-v1", seed=1, **settings: Any) -> Idle:
    dqn = {"steps_per_iteration": 60, "learning_starts": 20, "buffer_size": 1000, "batch_size": 1, **settings}
    config = TrainConfig(algorithm="dqn", total_steps=10_000, seed=seed, env=env, dqn=dqn)
    envs = make_vector_envs(config.env, config.curriculum, config.dqn.env_count)
    buffer = ReplayBuffer(envs.interface, config.dqn.buffer_size, envs.count)
    algorithm = Idle(config, config.dqn, envs, buffer, group)
    algorithm.reset_envs(list(range(envs.count)))
    return algorithm


def test_updates_follow_steps_over_all_environments():
    algorithm = idle(env_count=3, train_interval=10, gradient_steps=2)
    iteration = algorithm.iterate(Progress(0, 0, 10_000))
    # Steps come in threes; multiples of 10 beyond 20 are passed at 30, 42 (40), 51 (50) and 60.
    assert algorithm.learned == [(30, 2), (42, 2), (51, 2), (60, 2)]
    assert algorithm.update_count == 8
    assert iteration.env_steps == 60
    assert iteration.update.metrics() == {"losses/one": 3.0}
    assert iteration.metrics["replay/transitions"] == 60
    assert algorithm.targets == [(at, at + 3) for at in range(0, 60, 3)]
    assert algorithm.taken_in == [20]


def test_steps_of_all_ranks_count():
    algorithm = idle(Pair(1), env_count=2, train_interval=10)
    algorithm.iterate(Progress(0, 0, 10_000))
    assert algorithm.learned == [(at, 1) for at in (32, 40, 52, 60, 72, 80, 92, 100, 112, 120)]


@pytest.mark.parametrize(("env_count", "ranks"), COUNTS)
@pytest.mark.parametrize("train_interval", [1, 4, 10])
def test_as_many_updates_are_due_whatever_the_number_of_environments(env_count, ranks, train_interval):
    settings = OffPolicyConfig(env_count=1, learning_starts=100, train_interval=train_interval, gradient_steps=3)
    at_once = env_count * ranks
    steps = range(0, 40 * at_once, at_once)
    total = sum(updates_due(settings, at, at + at_once) for at in steps)
    one_by_one = sum(3 for step in range(101, 40 * at_once + 1) if step % train_interval == 0)
    assert total == one_by_one


def test_no_multiple_of_an_interval_is_missed_by_jumps():
    assert [multiples_between(500, at, at + 300) for at in range(0, 1800, 300)] == [0, 1, 0, 1, 1, 0]
    assert multiples_between(500, 400, 1600) == 3
    assert multiples_between(500, 1600, 400) == 0


def test_the_first_actions_are_random_and_those_of_their_stream():
    algorithm = idle(env_count=2, steps_per_iteration=20, learning_starts=10)
    algorithm.iterate(Progress(0, 0, 10_000))
    seed = draw_seed(1, "exploration")
    expected = [CounterRng(seed, row).below(2, 2).tolist() for row in range(5)]
    assert algorithm.buffer.actions[:5].tolist() == expected
    assert (algorithm.buffer.actions[5:10] == 1).all()


def test_ranks_explore_and_sample_differently():
    first, second = (idle(Pair(rank)) for rank in (0, 1))
    for purpose in ("exploration", "replay"):
        assert first.rng(purpose, 0).key != second.rng(purpose, 0).key
    assert first.rng("exploration", 0).key == idle().rng("exploration", 0).key, (
        "the leader's is that of a process alone"
    )


def test_random_actions_of_a_box_fill_it_and_stay_inside():
    space = BoxSpec((3,), low=(-2.0, 0.0, 10.0), high=(2.0, 1.0, 30.0))
    drawn = action_scaling(space)(uniform_actions(space, CounterRng(1, 1), 5000))
    assert drawn.dtype == np.float32
    assert drawn.shape == (5000, 3)
    np.testing.assert_allclose(drawn.min(axis=0), space.low, atol=0.02)
    np.testing.assert_allclose(drawn.max(axis=0), space.high, atol=0.02)
    assert (drawn >= np.array(space.low)).all()
    assert (drawn <= np.array(space.high)).all()


def test_random_choices_are_counted_from_zero():
    space = DiscreteSpec(5, start=3)  # the environment's own start is added when it is stepped
    drawn = action_scaling(space)(uniform_actions(space, CounterRng(1, 1), 500))
    assert set(drawn.tolist()) == set(range(5))


def test_the_environment_gets_scaled_actions_and_the_buffer_those_of_the_network():
    algorithm = idle(env="Pendulum-v1", learning_starts=60, steps_per_iteration=60)
    stepped = []
    step = algorithm.envs.step
    algorithm.envs.step = lambda actions, out: stepped.append(actions) or step(actions, out)
    algorithm.iterate(Progress(0, 0, 10_000))
    np.testing.assert_allclose(np.concatenate(stepped), 2 * algorithm.buffer.actions[:60, 0], rtol=1e-6)
    assert np.abs(algorithm.buffer.actions[:60]).max() > 0.9


def test_returns_and_stored_rewards_are_the_environments_own():
    algorithm = idle(env="Pendulum-v1", learning_starts=200, steps_per_iteration=200)
    episode = algorithm.iterate(Progress(0, 0, 10_000)).episodes[0]
    env = gymnasium.make("Pendulum-v1")
    env.reset(seed=0)
    rewards = [float(env.step(action)[1]) for action in 2 * algorithm.buffer.actions[:200, 0]]
    assert min(rewards) < -5  # clipping would be seen
    np.testing.assert_allclose(algorithm.buffer.rewards[:200, 0], rewards, rtol=1e-5)
    assert episode.total_reward == pytest.approx(sum(rewards), rel=1e-5)


def test_episodes_that_are_broken_off_by_new_environments_count_as_truncated():
    algorithm = idle(env_count=2, steps_per_iteration=6, buffer_size=100)
    algorithm.iterate(Progress(0, 0, 10_000))
    last = algorithm.buffer.current.copy()
    algorithm.reset_envs([5, 6])
    assert not np.array_equal(algorithm.buffer.current, last)
    newest = np.array([2 * 2, 2 * 2 + 1])
    assert algorithm.buffer.ends[2].tolist() == [TRUNCATED, TRUNCATED]
    batch = algorithm.buffer.gather(newest, 1, 0.9)
    assert np.array_equal(batch.next_observations, last)
    assert batch.discounts.tolist() == pytest.approx([0.9, 0.9])


def test_the_environment_is_named_when_its_reward_is_not_finite():
    algorithm = idle(env_count=2, steps_per_iteration=6, buffer_size=100)
    step = algorithm.envs.step

    def broken(actions, out):
        result = step(actions, out)
        return result._replace(rewards=[1.0, float("nan")] if algorithm.buffer.total_rows == 1 else result.rewards)

    algorithm.envs.step = broken
    with pytest.raises(NonFinite, match=r"reward that is not finite \(environment 1, step 1 of this iteration: NaN"):
        algorithm.iterate(Progress(0, 0, 10_000))


def test_the_environment_is_named_when_learning_meets_its_numbers_first():
    algorithm = idle(steps_per_iteration=60)
    step = algorithm.envs.step

    def broken(actions, out):
        result = step(actions, out)
        out[0, 2] = np.inf
        return result

    def refuse(count, now):
        raise NonFinite("The gradient's norm is nan.")

    algorithm.envs.step, algorithm.learn = broken, refuse
    with pytest.raises(NonFinite, match="observation that is not finite .environment 0, step 1 of this iteration"):
        algorithm.iterate(Progress(0, 0, 10_000))
    algorithm.envs.step = step
    algorithm.buffer.blocks[""][:] = 0
    with pytest.raises(NonFinite, match="gradient"):
        algorithm.iterate(Progress(0, 60, 10_000))


def test_a_capture_holds_the_observations_to_act_on_next():
    algorithm = idle(env_count=2, steps_per_iteration=6, train_interval=1, learning_starts=0)
    algorithm.iterate(Progress(0, 0, 10_000))
    saved, expected = algorithm.capture(), algorithm.buffer.current.copy()
    algorithm.iterate(Progress(1, 6, 10_000))
    other = idle(env_count=2)
    other.restore(saved)
    assert np.array_equal(other.buffer.current, expected)
    assert other.buffer.transitions == 6, "the rows are loaded apart"
    other.clear_buffer()
    assert np.array_equal(other.buffer.current, expected)
    assert other.buffer.transitions == 0
    assert other.update_count == 6


def test_figures_are_means_over_the_updates_that_have_them():
    figures = FigureMeans()
    figures.add({"a": 1.0})
    figures.add({"a": 2.0, "b": 5.0})
    figures.add({"a": 6.0}, count=3)
    assert figures.means() == {"a": 9 / 5, "b": 5.0}
    assert FigureMeans().means() == {}
