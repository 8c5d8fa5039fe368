"""Worlds of a batch stepped inside the engine, against the same training with a call from Python for every step."""

from itertools import pairwise

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import palaestra.apps.arena  # noqa: F401  registers it, as the entry point does
from palaestra.algorithms.buffers.rollout_buffer import RolloutBuffer
from palaestra.config.recipes.registry import find_recipe
from palaestra.config.train import TrainConfig
from palaestra.core.episodes import EpisodeResult
from palaestra.core.errors import RunFailed, UsageError
from palaestra.core.spaces import BoxSpec, DictSpec, EnvInterface
from palaestra.envs.spaces import space_spec
from palaestra.envs.vector.batch import SeedStream, WorldEnding
from palaestra.envs.vector.in_process import Ending
from palaestra.envs.vector.published import PublishedEnvs
from palaestra.testing import batch_step_api
from palaestra.testing.batch_step_api import make_capsule, make_step_api, read_capsule
from palaestra.training.engines import native_engine
from palaestra.training.engines.native_rollout import EpisodeEnds, NetworkInputs
from palaestra.training.engines.network_plan import NetworkPlan, TablePlan
from palaestra.training.state import new_training_state
from palaestra.training.trainer import train

pytestmark = pytest.mark.skipif(native_engine.native_learner is None, reason="built without a C++ compiler")


class Raffle(gymnasium.Env):
    """What a stranger might bring: pairs of players whose episodes end when chance has it, half of them cut."""

    observation_space = spaces.Box(-9, 9, (3,), np.float32)
    action_space = spaces.Discrete(3)

    def __init__(self, shortest=2):
        self.shortest = shortest

    @classmethod
    def native_batch(cls, world_count, tasks, max_episode_steps):
        return RaffleBatch(world_count, [cls(**task) for task in tasks])


class RaffleBatch:
    agents = 2
    metadata: dict = {}  # noqa: RUF012

    def __init__(self, world_count, tasks):
        self.world_count, self.tasks = world_count, tasks
        self.interface = EnvInterface(space_spec(Raffle.observation_space), space_spec(Raffle.action_space))
        self.dice, self.left, self.steps = ([None] * world_count for _ in range(3))
        self.is_cut = [False] * world_count
        self.returns = np.zeros((world_count, 2))
        self.api = make_step_api(world_count, 2, {"": ("float32", 3)}, self.step_worlds)
        self.calls_from_python = 0

    def reset(self, worlds, seeds, tasks, out):
        for world, seed, task in zip(worlds, seeds, tasks, strict=True):
            self.dice[world] = SeedStream(seed)
            drawn = self.dice[world].next()
            self.left[world], self.is_cut[world] = self.tasks[task].shortest + drawn % 7, drawn % 2 == 0
            self.steps[world], self.returns[world] = 0, 0.0
            self._show(world, out)

    def _show(self, world, out):
        for agent in range(2):
            out[2 * world + agent] = [self.dice[world].next() % 97 / 97, agent, self.left[world] / 5]

    def step_worlds(self, first, last, actions, seen, rewards, ended):
        for world in range(first, last):
            if self.left[world] <= 0:
                raise ValueError(f"world {world} is over")
            rows = slice(2 * world, 2 * world + 2)
            self.left[world] -= 1
            self.steps[world] += 1
            rewards[rows] = (actions[rows] - 1) * (self.dice[world].next() % 5) / 4
            self.returns[world] += rewards[rows]
            self._show(world, seen[0].reshape(-1, 3))
            ended[world] = self.left[world] == 0

    def step(self, actions, out, rewards):
        self.calls_from_python += 1
        ended = np.zeros(self.world_count, np.uint8)
        self.step_worlds(0, self.world_count, actions, [out], rewards, ended)
        return [self.ending(int(world)) for world in np.flatnonzero(ended)]

    def ending(self, world):
        extras = {"steps": np.full(2, self.steps[world])}
        return WorldEnding(world, not self.is_cut[world], self.steps[world], self.returns[world].copy(), extras)

    def step_api(self):
        return make_capsule(self.api)

    def render(self, world):
        return None

    def capture(self):
        return None

    def close(self):
        pass


gymnasium.register("engines/Raffle-v0", Raffle)

PPO = {"env_count": 12, "horizon": 16, "minibatch_size": 48}
TASKS = {"short": {"kwargs": {"shortest": 1}}, "long": {"kwargs": {"shortest": 6}}}


def raffle(policy="mlp", **other):
    graph = {"segment_length": 8} if policy == "memory" else {}
    return TrainConfig(
        engine="native",
        total_steps=10**6,
        env="engines/Raffle-v0",
        policy={"graph": policy},
        ppo={**PPO, **graph},
        **other,
    )


def arena(name, threads=1):
    """The recipe's world, four of them, with episodes that are cut in the middle of a rollout."""
    recipe = find_recipe(f"arena.{name}").config
    ppo = recipe.ppo.model_copy(update={"env_count": 96, "horizon": 16, "minibatch_size": 768})
    env = recipe.env.model_copy(update={"max_episode_steps": 21})
    return recipe.model_copy(update={"ppo": ppo, "env": env, "engine": "native", "torch_threads": threads})


def begun(config, inside=True):
    state = new_training_state(config)
    assert state.algorithm.compute._batch is not None
    if not inside:
        state.algorithm.compute._batch = None
    return state


def told(state, iterations):
    """Everything that a training tells and leaves behind but for time, to the last bit."""
    reports = [report for _, report in zip(range(iterations), train(state), strict=False)]
    rows = [(report.env_steps, report.update, list(report.episodes), report.metrics) for report in reports]
    recording = {name: part.tobytes() for name, part in state.algorithm.compute.arrays.items()}
    memory = {name: part.numpy().tobytes() for name, part in state.algorithm.tensors.memory.items()}
    return (
        rows,
        state.algorithm.tensors.optimizer.flat.numpy().tobytes(),
        recording,
        memory,
        state.algorithm.tensors.reward_sums.numpy().tobytes(),
    )


def ends_of(story):
    return [episode for row in story[0] for episode in row[2]]


@pytest.mark.parametrize("name", ["basic_easy_shaped", "combat", "curriculum"])
def test_arena_learns_the_same_bits_inside_and_from_python_whatever_the_threads(name):
    expected = told(begun(arena(name), inside=False), 5)
    assert len(ends_of(expected)) == 3 * 96
    assert ends_of(expected)[0].extras
    for threads in (1, 2):
        assert told(begun(arena(name, threads)), 5) == expected


@pytest.mark.parametrize("tasks", [{}, TASKS], ids=["one task", "a curriculum"])
@pytest.mark.parametrize("policy", ["mlp", "memory"])
def test_third_party_batches_give_the_same_bits_too(policy, tasks):
    settings = {"curriculum": {"tasks": tasks, "kind": "learning_progress"}} if tasks else {}
    expected = told(begun(raffle(policy, **settings), inside=False), 5)
    assert {(episode.terminated, episode.length > 3) for episode in ends_of(expected)} == {
        (terminated, is_long) for terminated in (True, False) for is_long in (True, False)
    }
    for threads in (1, 2, 5, 9):  # more than there are worlds
        assert told(begun(raffle(policy, torch_threads=threads, **settings)), 5) == expected


@pytest.mark.parametrize(("first", "then"), [(True, True), (True, False), (False, True)])
def test_a_training_stopped_in_mid_episode_goes_on_exactly_inside_or_from_python(first, then):
    state = begun(arena("combat", threads=2), inside=first)
    told(state, 2)
    assert state.env_steps // 96 % 21 == 11
    saved, weights = (
        state.capture(),
        {name: part.clone() for name, part in state.algorithm.policy().state_dict().items()},
    )
    expected = told(state, 3)
    other = begun(arena("combat"), inside=then)
    told(other, 1)  # it has been elsewhere
    other.algorithm.policy().load_state_dict(weights)
    other.restore(saved)
    assert told(other, 3) == expected
    assert ends_of(expected)


def counted_calls(state):
    batch = state.algorithm.compute._batch
    stops, run_until_end = [], batch._rollout.run_until_end

    class Counting:
        start = batch._rollout.start

        def run_until_end(self):
            stops.append(run_until_end())
            return stops[-1]

    batch._rollout = Counting()
    return stops


def test_a_rollout_is_one_call_and_one_more_for_each_step_in_which_episodes_ended():
    state = begun(arena("combat"))
    stops = counted_calls(state)
    told(state, 1)
    assert stops == [(16, [])]
    told(state, 1)
    assert stops[1:] == [(4, [0, 1, 2, 3]), (16, [])]


def test_python_takes_no_step_and_rows_of_a_world_end_together():
    state = begun(raffle(torch_threads=2))
    stops = counted_calls(state)
    told(state, 3)
    assert state.envs.batch.calls_from_python == 0
    assert all(worlds == sorted(set(worlds)) for _, worlds in stops)
    steps = [step for step, _ in stops]
    for first, second in pairwise(steps):
        assert first < second or first == 16


class Publisher:
    """Who is told of steps; `is_watched` as it is set."""

    due = 0.0
    episodes = 0
    env_steps = 0

    def __init__(self, is_watched):
        self.is_watched, self.looks = is_watched, []

    def check(self, source, bring_up_to_date=lambda: None):
        bring_up_to_date()
        self.looks.append((source.env_step, np.array(source.last.rewards)))


class Scene:
    last = None


def test_a_viewer_sees_every_step_and_otherwise_every_rollout_is_published():
    expected = told(begun(raffle()), 3)
    state = begun(raffle())
    publisher = Publisher(is_watched=False)
    batch = state.envs.batch
    state.use_envs(PublishedEnvs(state.envs, Scene(), publisher, 1000, 12))
    found = told(state, 1)
    assert (batch.calls_from_python, [step for step, _ in publisher.looks]) == (0, [16])
    assert publisher.looks[0][1].tolist() == state.algorithm.buffer.rewards[-1].tolist()
    assert publisher.env_steps == 1000 + 16 * 12
    assert publisher.episodes == len(ends_of(found)) > 0
    publisher.is_watched = True
    found = told(state, 1)
    assert (batch.calls_from_python, [step for step, _ in publisher.looks[1:]]) == (16, list(range(17, 33)))
    publisher.is_watched = False
    found = told(state, 1)
    assert batch.calls_from_python == 16
    assert found[1:] == expected[1:]


def test_the_description_says_where_worlds_are_stepped_and_why(monkeypatch):
    assert new_training_state(raffle()).algorithm.description.endswith(
        "environments stepped inside, but step by step from Python while a viewer is connected"
    )
    monkeypatch.setattr(RaffleBatch, "step_api", lambda self: None)
    state = new_training_state(raffle())
    assert state.algorithm.description.endswith(
        "stepped in Python: a batch of class RaffleBatch without a batch step API"
    )
    told(state, 1)
    crowd = TrainConfig(engine="native", env="palaestra/Crowd-v0", ppo=PPO)
    assert "a batch of class CrowdBatch without a batch step API" in new_training_state(crowd).algorithm.description


@pytest.mark.parametrize("space", [spaces.Discrete(3, start=1), spaces.Box(-1, 1, (2,), np.float32)], ids=str)
def test_actions_that_are_not_counted_from_zero_are_stepped_in_python(space, monkeypatch):
    monkeypatch.setattr(Raffle, "action_space", space)
    assert new_training_state(raffle()).algorithm.description.endswith(
        "stepped in Python: actions of a batch that are not discrete and counted from 0"
    )


def changed(**fields):
    def change(api):
        for name, value in fields.items():
            setattr(api, name, value)

    return change


def part(**fields):
    def change(api):
        for name, value in fields.items():
            setattr(api.parts[0], name, value)

    return change


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (changed(version=7), "version 7 of the struct is not supported (expected version 1)"),
        (changed(step=batch_step_api.STEP()), "one of the functions begin, end and step is missing"),
        (changed(begin=batch_step_api.BEGIN()), "one of the functions begin, end and step is missing"),
        (changed(world_count=5), "5 worlds of 2 agents do not match the 12 rows of the rollout buffer"),
        (changed(world_count=-6, agents=-2), "-6 worlds of -2 agents do not match the 12 rows"),
        (changed(agents=2**30 + 2), "6 worlds of 1073741826 agents do not match the 12 rows"),
        (changed(action_items=2), "an action has 2 discrete entries, but the policy's has 1"),
        (changed(part_count=0), "observations have 0 parts, but the rollout buffer has 1"),
        (changed(part_count=2), "observations have 2 parts, but the rollout buffer has 1"),
        (changed(parts=None), "observations have 1 parts"),
        (part(name=b"cells"), "part 'cells' does not exist in the observation space"),
        (part(name=None), "a part of the observation has no name or no dtype"),
        (part(dtype=b"uint8"), "part '' has dtype uint8, but the rollout buffer has float32"),
        (part(items=4), "part '' has 4 items per row, but the rollout buffer has 3"),
        (part(items=-3), "part '' has -3 items per row, but the rollout buffer has 3"),
    ],
)
def test_a_step_api_that_does_not_fit_is_an_error_that_says_why(change, why, monkeypatch):
    def wrong(self):
        change(self.api)
        return make_capsule(self.api)

    monkeypatch.setattr(RaffleBatch, "step_api", wrong)
    with pytest.raises(UsageError, match="Invalid batch step API of RaffleBatch: ") as refused:
        new_training_state(raffle())
    assert why in str(refused.value)
    assert "native/batch_step_api.h" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("capsule", "why"),
    [
        (lambda batch: 5, "expected a PyCapsule named 'palaestra.batch_step_api', got int"),
        (lambda batch: make_capsule(batch.api, b"other"), "got one named 'other'"),
        (lambda batch: make_capsule(batch.api, None), "got one named nothing"),
    ],
)
def test_anything_but_the_capsule_is_an_error(capsule, why, monkeypatch):
    monkeypatch.setattr(RaffleBatch, "step_api", capsule)
    with pytest.raises(UsageError) as refused:
        new_training_state(raffle())
    assert why in str(refused.value)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_failing_world_ends_the_training_with_its_message(threads):
    state = begun(raffle(torch_threads=threads))
    state.envs.batch.left[4] = 0
    with pytest.raises(RunFailed, match="The batch of 6 worlds failed: world 4 is over"):
        next(train(state))


def test_an_exception_at_an_episode_end_names_the_batch(monkeypatch):
    def ending(self, world):
        raise ZeroDivisionError("of a stranger")

    monkeypatch.setattr(RaffleBatch, "ending", ending)
    with pytest.raises(RunFailed, match="6 worlds raised ZeroDivisionError: of a stranger"):
        told(begun(raffle()), 2)


def test_a_code_outside_its_space_is_an_error_from_any_thread():
    state = begun(arena("combat", threads=2))
    state.algorithm.buffer.rows[0]["cells"][80, 1, 1] = 255
    with pytest.raises(RunFailed, match="'palaestra/Arena-v0' left its own observation space: code 255 has no entry"):
        next(train(state))


def test_a_batch_in_use_by_another_caller_is_an_error():
    state = begun(arena("combat"))
    capsule = state.envs.batch.step_api()
    api = read_capsule(capsule)
    api.acquire()
    with pytest.raises(RunFailed, match="these worlds are being stepped by another thread"):
        next(train(state))
    api.release()
    told(state, 1)


VIEW = BoxSpec((2, 3), "uint8", low=(0.0,) * 6, high=(6.0,) * 6)
OWN = BoxSpec((4,), "uint8", low=(0.0,) * 4, high=(255.0,) * 4)
SPACE = DictSpec((("cells", VIEW), ("self", OWN)))


def table(part):
    fields = ("target", "cells", "rows_per_cell", "size", "weight_offset")
    return TablePlan(part=part, clips_codes=False, bias_offset=None, activation=0, **dict.fromkeys(fields, 1))


BOTH = NetworkPlan([4], input_part="self", tables=[table("cells"), table("self")])


def test_network_inputs_are_views_of_the_buffers_blocks():
    buffer = RolloutBuffer(SPACE, horizon=5, env_count=3)
    inputs = NetworkInputs(BOTH, buffer)
    assert inputs.vector is buffer.blocks["self"]
    assert inputs.codes[0] is buffer.blocks["cells"]
    assert inputs.codes[1] is buffer.blocks["self"]


def test_final_observations_are_stacked_in_order_with_the_buffers_dtypes():
    inputs = NetworkInputs(BOTH, RolloutBuffer(SPACE, horizon=5, env_count=3))
    last = [{"cells": np.full((2, 3), k, np.int64), "self": np.arange(4) + k} for k in (5, 2)]
    vector, (cells, own) = inputs.stack(last)
    assert vector.dtype == cells.dtype == np.uint8
    assert vector.tolist() == own.tolist() == [[5, 6, 7, 8], [2, 3, 4, 5]]
    assert cells[:, 1, 2].tolist() == [5, 2]


def test_without_truncations_there_are_no_rows():
    vector, codes = NetworkInputs(BOTH, RolloutBuffer(SPACE, horizon=5, env_count=3)).stack([])
    assert vector.shape == (0, 4)
    assert [part.shape for part in codes] == [(0, 2, 3), (0, 4)]


def test_an_observation_without_named_parts_is_one_vector():
    inputs = NetworkInputs(NetworkPlan([4]), RolloutBuffer(BoxSpec((4,)), horizon=5, env_count=3))
    vector, codes = inputs.stack([np.ones(4), np.zeros(4)])
    assert vector.dtype == np.float32
    assert vector.shape == (2, 4)
    assert codes == inputs.codes == []


def test_codes_alone_need_no_vector():
    plan = NetworkPlan([0], input_part=None, tables=[table("cells")])
    inputs = NetworkInputs(plan, RolloutBuffer(SPACE, horizon=5, env_count=3))
    assert inputs.vector.size == inputs.stack([{"cells": np.zeros((2, 3))}])[0].size == 0


def ending(env_index, terminated):
    return Ending(env_index, None, EpisodeResult(None, 1.0, 5, terminated, env_index=env_index))


def test_episode_ends_are_marked_in_the_buffer_and_truncations_are_kept():
    buffer = RolloutBuffer(BoxSpec((2,)), horizon=4, env_count=3)
    ends = EpisodeEnds(buffer)
    endings = [ending(0, True), ending(2, False)]
    ends.add(1, endings)
    ends.add(3, [])
    assert buffer.starts.tolist() == [[True] * 3, [False] * 3, [True, False, True], [False] * 3, [False] * 3]
    assert buffer.terminated.sum() == buffer.terminated[1, 0] == 1
    assert ends.episodes == [one.episode for one in endings]
    assert ends.truncations == [(1, endings[1])]


def test_a_new_rollout_keeps_only_the_episode_starts_of_its_first_step():
    buffer = RolloutBuffer(BoxSpec((2,)), horizon=4, env_count=3)
    EpisodeEnds(buffer).add(3, [ending(1, True)])
    buffer.rewind()
    EpisodeEnds(buffer)
    assert buffer.starts[0].tolist() == [False, True, False]
    assert not buffer.starts[1:].any()
    assert not buffer.terminated.any()
