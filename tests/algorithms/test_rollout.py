"""Played on a scripted environment whose every number is known, with a critic that can be read by eye."""

import copy

import gymnasium
import numpy as np
import pytest
import torch

from palaestra.algorithms.buffers.rollout_buffer import RolloutBuffer
from palaestra.algorithms.rollout import collect_rollout
from palaestra.core.errors import NonFinite, RunFailed
from palaestra.envs.vector.in_process import InProcessEnvs
from palaestra.policies.agent import Agent
from palaestra.policies.base import Intent, Policy, PolicyOutput
from palaestra.policies.distributions import Categorical


class Counting(gymnasium.Env):
    """Observes (episode, step), pays 10 * episode + step, ends after `length` steps by `how`."""

    observation_space = gymnasium.spaces.Box(-1e6, 1e6, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, length: int, how: str, poison_at: int | None = None) -> None:
        self.length, self.how, self.poison_at = length, how, poison_at
        self.episode, self.taken = -1, 0

    def observe(self):
        return np.array([self.episode, self.taken], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode, self.taken = self.episode + 1, 0
        return self.observe(), {}

    def step(self, action):
        self.taken += 1
        reward = 10.0 * self.episode + self.taken
        if self.taken == self.poison_at:
            reward = float("nan")
        is_over = self.taken == self.length
        return self.observe(), reward, is_over and self.how == "terminated", is_over and self.how == "truncated", {}


class ReadableCritic(Policy):
    """Values an observation (episode, step) at 100 * episode + step."""

    def __init__(self) -> None:
        super().__init__()
        self.logits = torch.nn.Parameter(torch.zeros(2))

    def forward(self, observation, memory, starts=None):
        value = observation[..., 0] * 100 + observation[..., 1]
        return PolicyOutput(Categorical(self.logits.expand(*value.shape, 2)), value, memory)


def play(length: int, how: str, horizon: int, rollouts: int = 1, **kwargs):
    envs = InProcessEnvs(lambda: Counting(length, how, **kwargs), 2)
    agent = Agent(ReadableCritic(), envs.interface, normalize_observations=False, normalize_returns=False)
    buffer = RolloutBuffer(envs.interface.observation_space, horizon, 2)
    envs.reset([1, 2], buffer.rows[0])
    generator = torch.Generator().manual_seed(0)
    results = []
    for _ in range(rollouts):
        rollout, _, episodes = collect_rollout(agent, envs, buffer, {}, generator)
        results.append((copy.deepcopy(rollout), episodes, rollout.observations.clone()))  # the buffer is used again
        buffer.rewind()
    return results


def test_observations_rewards_and_ends_line_up():
    [(rollout, episodes, observations)] = play(3, "terminated", horizon=5)
    assert observations[:, 0].tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1]]
    assert rollout.rewards[:, 0].tolist() == [1, 2, 3, 11, 12]
    assert rollout.ended[:, 0].tolist() == [False, False, True, False, False]
    assert rollout.starts[:, 0].tolist() == [True, False, False, True, False]
    assert [(episode.total_reward, episode.length, episode.terminated) for episode in episodes] == [(6.0, 3, True)] * 2


def test_after_a_terminal_step_nothing_follows():
    [(rollout, _, _)] = play(3, "terminated", horizon=5)
    assert rollout.next_values[:, 0].tolist() == [1, 2, 0, 101, 102]


def test_a_truncated_episode_bootstraps_from_its_own_last_observation_not_the_next_episodes():
    [(rollout, episodes, _)] = play(3, "truncated", horizon=5)
    assert rollout.next_values[:, 0].tolist() == [1, 2, 3, 101, 102]
    assert not episodes[0].terminated


def test_a_cut_on_the_very_last_step_of_the_tape_keeps_its_own_value():
    [(rollout, _, _)] = play(3, "truncated", horizon=3)
    assert rollout.next_values[-1].tolist() == [3, 3]


def test_the_next_rollout_goes_on_where_the_last_one_stopped():
    (_, _, first), (second, _, observations) = play(3, "terminated", horizon=4, rollouts=2)
    assert first[-1, 0].tolist() == [1, 0]
    assert observations[:, 0].tolist() == [[1, 1], [1, 2], [2, 0], [2, 1]]
    assert second.starts[:, 0].tolist() == [False, False, True, False]


def test_a_critic_that_is_asked_afterwards_says_the_same_as_one_asked_at_every_step(monkeypatch):
    def act_without_judging(self, observation, memory, starts=None):
        distribution, _, memory = self.forward(observation, memory, starts)
        return Intent(distribution, memory, None)

    [(asked, _, _)] = play(3, "truncated", horizon=5)
    monkeypatch.setattr(ReadableCritic, "act", act_without_judging)
    [(later, _, _)] = play(3, "truncated", horizon=5)
    for field in ("values", "next_values", "log_probs", "actions"):
        assert torch.equal(getattr(later, field), getattr(asked, field)), field


def test_log_probs_are_of_the_actions_taken_and_can_be_differentiated_later():
    [(rollout, _, _)] = play(3, "terminated", horizon=4)
    assert torch.allclose(rollout.log_probs, torch.full((4, 2), 0.5).log())
    (rollout.values * torch.ones(1, requires_grad=True)).sum().backward()


@pytest.mark.fault("R9")
def test_a_reward_that_is_not_finite_stops_with_environment_and_step():
    with pytest.raises(NonFinite, match=r"reward that is not finite \(environment 0, step 1 of this rollout: NaN"):
        play(3, "terminated", horizon=4, poison_at=2)


@pytest.mark.parametrize("last", [np.nan, 1e300])
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_the_last_observation_of_a_cut_episode_must_fit_too(monkeypatch, last):
    """It is in no row of the rollout, only in the value after the one."""
    observe = Counting.observe
    monkeypatch.setattr(Counting, "observe", lambda env: np.array([0, last]) if env.taken == 3 else observe(env))
    with pytest.raises(NonFinite, match="Environment 0 ended an episode with an observation") as failed:
        play(3, "truncated", horizon=4)
    assert "from the environment" in failed.value.hint


@pytest.mark.parametrize("reshape", [lambda value: value[..., None], lambda value: value[0]])
def test_a_value_of_another_shape_is_refused_with_both_shapes(monkeypatch, reshape):
    forward = ReadableCritic.forward

    def wrong(*arguments):
        output = forward(*arguments)
        return output._replace(value=reshape(output.value))

    monkeypatch.setattr(ReadableCritic, "forward", wrong)
    with pytest.raises(RunFailed, match=r"value has the shape \[.*\] where \[1, 2\] is expected"):
        play(3, "terminated", horizon=4)
