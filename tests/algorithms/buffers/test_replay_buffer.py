"""What is sampled: n-step windows against plain lists, and steps whose successors are still there."""

from __future__ import annotations

import numpy as np
import pytest

from palaestra.algorithms.buffers.replay_buffer import ReplayBuffer
from palaestra.algorithms.counter_rng import CounterRng
from palaestra.core.episodes import EpisodeResult
from palaestra.core.spaces import BoxSpec, DiscreteSpec, EnvInterface
from palaestra.envs.vector.in_process import Ending

INTERFACE = EnvInterface(BoxSpec((1,)), DiscreteSpec(5))
GAMMA = 0.9


class Recorded:
    """A buffer, and all that went into it: step, action, reward, whether it ended and how, next observation."""

    def __init__(self, capacity: int, env_count: int, steps: int, seed: int = 1, ending: float = 0.25) -> None:
        self.rng = np.random.default_rng(seed)
        self.buffer = ReplayBuffer(INTERFACE, capacity, env_count)
        self.steps: list[list[dict[str, float]]] = [[] for _ in range(env_count)]
        self.now = self.rng.random(env_count).astype(np.float32)
        self.buffer.current[:, 0] = self.now
        for _ in range(steps):
            self.step(ending)

    def step(self, ending: float) -> None:
        count = len(self.now)
        actions, rewards = self.rng.integers(0, 5, count), self.rng.random(count).astype(np.float32)
        endings, following = [], self.rng.random(count).astype(np.float32)
        for env in range(count):
            fate = self.rng.choice(["on", "terminated", "truncated"], p=[1 - ending, ending / 2, ending / 2])
            final = np.array([self.rng.random()], np.float32)
            self.steps[env].append(
                {
                    "observation": float(self.now[env]),
                    "action": int(actions[env]),
                    "reward": float(rewards[env]),
                    "fate": fate,
                    "next": float(following[env] if fate == "on" else final[0]),
                }
            )
            if fate != "on":
                endings.append(Ending(env, final, EpisodeResult(None, 0.0, 1, fate == "terminated", env)))
        self.buffer.following[:, 0] = following
        self.buffer.add(actions, rewards, endings)
        self.now = following

    def window(self, env: int, first: int, n_step: int) -> dict[str, float]:
        """The definition: rewards up to n steps, the episode's end or the newest step; then what follows."""
        total, discount = 0.0, 1.0
        for step in self.steps[env][first : first + n_step]:
            total += discount * step["reward"]
            discount *= GAMMA
            if step["fate"] != "on":
                break
        return {"reward": total, "discount": 0.0 if step["fate"] == "terminated" else discount, "next": step["next"]}


@pytest.mark.parametrize("n_step", [1, 2, 3, 5])
@pytest.mark.parametrize(("capacity", "env_count", "steps"), [(100, 1, 40), (12, 2, 50), (30, 3, 9), (8, 1, 200)])
def test_windows_are_those_of_their_definition(n_step, capacity, env_count, steps):
    recorded = Recorded(capacity, env_count, steps)
    buffer = recorded.buffer
    for age in range(1, buffer.size + 1):
        row, step = (buffer.position - age) % buffer.rows, steps - age
        batch = buffer.gather(row * env_count + np.arange(env_count), n_step, GAMMA)
        for env in range(env_count):
            own, expected = recorded.steps[env][step], recorded.window(env, step, n_step)
            assert batch.observations[env, 0] == np.float32(own["observation"])
            assert batch.actions[env] == own["action"]
            assert batch.rewards[env] == pytest.approx(expected["reward"], rel=1e-5)
            assert batch.discounts[env] == pytest.approx(expected["discount"], rel=1e-5)
            if expected["discount"] > 0:
                assert batch.next_observations[env, 0] == np.float32(expected["next"])


def test_a_truncated_step_is_followed_by_its_own_last_observation():
    recorded = Recorded(1000, 1, 300)
    fates = [step["fate"] for step in recorded.steps[0]]
    batch = recorded.buffer.gather(np.arange(300), 1, GAMMA)
    assert set(batch.discounts[[fate == "terminated" for fate in fates]]) == {0.0}
    is_cut = np.array([fate == "truncated" for fate in fates])
    assert is_cut.sum() > 10
    assert set(batch.discounts[is_cut]) == {np.float32(GAMMA)}
    own = np.array([step["next"] for step in recorded.steps[0]], np.float32)
    assert np.array_equal(batch.next_observations[is_cut, 0], own[is_cut])
    following = np.array([step["observation"] for step in recorded.steps[0][1:]] + [recorded.now[0]], np.float32)
    assert (own[is_cut] != following[is_cut]).all(), "the next row begins another episode"


@pytest.mark.parametrize(("capacity", "env_count", "steps"), [(9, 3, 2), (9, 3, 3), (9, 3, 50), (100, 2, 30)])
def test_every_step_that_is_complete_is_drawn_and_no_other(capacity, env_count, steps):
    """The successor of the newest is the row to act on next; that of an overwritten one is gone with it."""
    buffer = Recorded(capacity, env_count, steps).buffer
    kept = min(steps, capacity // env_count)
    expected = {
        (buffer.position - age) % buffer.rows * env_count + env
        for age in range(1, kept + 1)
        for env in range(env_count)
    }
    drawn = np.concatenate([buffer.draw(CounterRng(3, index), 100) for index in range(20)])
    assert set(drawn.tolist()) == expected
    counts = np.unique(drawn, return_counts=True)[1]
    assert ((counts - counts.mean()) ** 2 / counts.mean()).sum() < len(expected) + 6 * len(expected) ** 0.5
