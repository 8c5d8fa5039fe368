from __future__ import annotations

from dataclasses import replace

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from palaestra.config.env import EnvConfig
from palaestra.config.policy import PolicyConfig
from palaestra.core.errors import RunFailed
from palaestra.envs.make import make_env
from palaestra.envs.spaces import interface_of
from palaestra.evaluation.plan import make_plan
from palaestra.evaluation.play import play, play_episode, play_episodes, step_limit
from palaestra.policies.agent import Agent
from palaestra.policies.base import Policy, PolicyOutput
from palaestra.policies.build import build_policy
from palaestra.policies.distributions import Categorical

CARTPOLE = EnvConfig(id="CartPole-v1", max_episode_steps=50)


def policy_for(env, seed=0, **config):
    torch.manual_seed(seed)
    settings = {"hidden": [8]}
    return build_policy(PolicyConfig(graph="mlp", settings=settings, **config), interface_of(env))


@pytest.fixture
def policy():
    return policy_for(make_env(CARTPOLE), seed=1)


def plan_of(seeds, deterministic=True):
    return make_plan("run:1", CARTPOLE, episodes=len(seeds), seed=seeds[0], deterministic=deterministic)


@pytest.mark.parametrize("deterministic", [True, False])
def test_who_plays_which_seeds_makes_no_difference(policy, deterministic):
    whole = play(plan_of(range(5, 17), deterministic), policy, lambda: make_env(CARTPOLE))
    torch.manual_seed(99)  # torch's own dice must not matter
    parts = [
        play(plan_of(seeds, deterministic), policy, lambda: make_env(CARTPOLE)).episodes
        for seeds in (range(9, 17), [5], [6, 7, 8])
    ]
    assert sorted(sum(parts, ()), key=lambda episode: episode.seed) == list(whole.episodes)
    assert len({episode.length for episode in whole.episodes}) > 1


class Leaky(gymnasium.Env):
    """Like BipedalWalker: something of the last episode survives `reset(seed=…)`."""

    observation_space = spaces.Box(-9, 9, (4,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self):
        self.episodes = 0
        self.closed = False

    def reset(self, *, seed=None, options=None):
        self.episodes += 1
        return np.zeros(4, np.float32), {}

    def step(self, action):
        return np.zeros(4, np.float32), float(self.episodes), True, False, {}

    def close(self):
        self.closed = True


class Endless(Leaky):
    """Half a point per step, for ever."""

    def step(self, action):
        return np.zeros(4, np.float32), 0.5, False, False, {}


def test_an_episode_without_an_end_is_stopped_at_max_steps_and_says_so(policy):
    report = play(replace(plan_of([1, 2]), max_steps=7), policy, Endless)
    assert [(one.total_reward, one.length, one.terminated, one.capped) for one in report.episodes] == [
        (3.5, 7, False, True),
        (3.5, 7, False, True),
    ]
    assert report.complete


def test_an_episode_that_the_environment_ends_is_not_called_capped(policy):
    report = play(replace(plan_of([1]), max_steps=50), policy, lambda: make_env(CARTPOLE))
    assert report.episodes[0].length <= 50
    assert not report.episodes[0].capped


def test_without_max_steps_the_time_limit_of_the_environment_counts_and_else_ten_thousand_steps():
    plan = replace(plan_of([1]), max_episode_steps=None)
    assert step_limit(plan, Endless()) == 10_000
    assert step_limit(plan, make_env(EnvConfig(id="CartPole-v1"))) == 500
    assert step_limit(plan, make_env(CARTPOLE)) == 50
    assert step_limit(replace(plan, max_steps=3), make_env(CARTPOLE)) == 3


def test_an_environment_that_remembers_its_last_episode_gives_equal_results_all_the_same(policy):
    made = []

    def make():
        made.append(Leaky())
        return made[-1]

    assert play(plan_of([1, 2, 3]), policy, make).returns == [1.0, 1.0, 1.0]
    assert [env.closed for env in made] == [True, True, True]


def test_sampled_actions_differ_from_the_likeliest_and_repeat_with_the_seed(policy):
    env = make_env(CARTPOLE)
    runs = [play_episode(policy, env, 3, deterministic=False) for _ in range(2)]
    assert runs[0] == runs[1]
    lengths = {play_episode(policy, env, seed, deterministic=False).length for seed in range(8)}
    assert len(lengths) > 1


def test_torchs_own_dice_are_left_alone(policy):
    before = torch.random.get_rng_state()
    play_episode(policy, make_env(CARTPOLE), 3, deterministic=False)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_judging_does_not_change_the_policy():
    env = make_env(CARTPOLE)
    judged = policy_for(env, normalize_observations=True).train()
    before = {name: value.clone() for name, value in judged.state_dict().items()}
    play_episode(judged, env, 0, deterministic=True)
    assert judged.training
    assert all(torch.equal(value, before[name]) for name, value in judged.state_dict().items())


def test_a_cut_episode_is_not_called_terminated_and_its_return_is_the_sum_of_rewards(policy):
    env = make_env(EnvConfig(id="CartPole-v1", max_episode_steps=4))
    episode = play_episode(policy, env, 1, deterministic=True)
    assert (episode.total_reward, episode.length, episode.terminated, episode.seed) == (4.0, 4, False, 1)


class CountingPolicy(Policy):
    """Its memory counts the steps; it goes left on even ones and right on odd ones."""

    def initial_memory(self, batch_size):
        return {"steps": torch.zeros(batch_size)}

    def forward(self, observation, memory, starts=None):
        assert observation.shape[:2] == (1, 1)
        turn = memory["steps"] % 2
        logits = torch.stack([1 - turn, turn], dim=-1)[None]
        return PolicyOutput(Categorical(logits), torch.zeros(1, 1), {"steps": memory["steps"] + 1})

    def __init__(self):
        super().__init__()
        self.unused = torch.nn.Parameter(torch.zeros(1))


class Recording(gymnasium.Wrapper):
    def __init__(self, env):
        super().__init__(env)
        self.actions = []

    def step(self, action):
        self.actions.append(action)
        return super().step(action)


def test_memory_goes_round_and_starts_anew_with_every_episode():
    env = Recording(make_env(EnvConfig(id="CartPole-v1", max_episode_steps=5)))
    agent = Agent(CountingPolicy(), interface_of(env), normalize_observations=False, normalize_returns=False)
    for _ in range(2):
        play_episode(agent, env, 0, deterministic=True)
    assert env.actions == [0, 1, 0, 1, 0] * 2


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "FrozenLake-v1", "Blackjack-v1"])
def test_other_spaces_can_be_played_too(env_id):
    env = make_env(EnvConfig(id=env_id, max_episode_steps=5))
    assert play_episode(policy_for(env), env, 0, deterministic=False).length >= 1


class Ticking:
    """A clock on which every look takes one second."""

    def __init__(self):
        self.seconds = 0.0

    def monotonic(self):
        self.seconds += 1.0
        return self.seconds

    def now(self):
        return 0.0


def test_a_time_limit_gives_what_was_finished_and_says_that_it_is_not_all(policy):
    report = play(plan_of(range(50)), policy, lambda: make_env(CARTPOLE), time_limit=100, clock=Ticking())
    assert not report.complete
    assert 0 < len(report.episodes) < 50
    full = play(plan_of(range(50)), policy, lambda: make_env(CARTPOLE))
    assert full.complete
    assert report.episodes == full.episodes[: len(report.episodes)]


def test_a_time_limit_stops_an_endless_episode_too(policy):
    class Endless(Leaky):
        def step(self, action):
            return np.zeros(4, np.float32), 0.0, False, False, {}

    with pytest.raises(RunFailed, match="No episode of 'CartPole-v1' ended within 20 s"):
        play(plan_of([1]), policy, Endless, time_limit=20, clock=Ticking())


def test_episodes_come_one_by_one_so_that_a_listener_can_stop(policy):
    made = []

    def make():
        made.append(make_env(CARTPOLE))
        return made[-1]

    episodes = play_episodes(plan_of(range(100)), policy, make)
    assert next(episodes).seed == 0
    episodes.close()
    assert len(made) == 1


def test_frames_are_those_before_every_step_and_the_last_one(policy):
    frames = []
    env = make_env(CARTPOLE, render_mode="rgb_array")
    episode = play_episode(policy, env, 2, deterministic=True, on_frame=frames.append)
    assert len(frames) == episode.length + 1
    assert frames[0].shape == (400, 600, 3)
    assert not np.array_equal(frames[0], frames[-1])


@pytest.mark.filterwarnings("ignore:.*without specifying any render mode")
def test_an_environment_that_draws_nothing_is_refused_in_words(policy):
    with pytest.raises(RunFailed, match="instead of a picture"):
        play_episode(policy, make_env(CARTPOLE), 2, deterministic=True, on_frame=print)


class Onlooker:
    def __init__(self):
        self.glances = []

    def glance(self, playing, reward, total_reward, length):
        self.glances.append((playing.unwrapped.state is not None, reward, total_reward, length))


def test_an_onlooker_sees_the_reset_and_every_step_with_its_numbers(policy):
    onlooker = Onlooker()
    plan = plan_of([5, 6])
    seen = list(play_episodes(plan, policy, lambda: make_env(CARTPOLE), onlooker=onlooker))
    assert seen == list(play_episodes(plan, policy, lambda: make_env(CARTPOLE)))
    first, second = (episode.length for episode in seen)
    lengths = [length for *_, length in onlooker.glances]
    assert lengths == [*range(first + 1), *range(second + 1)]
    assert all(reward == (1.0 if length else 0.0) for _, reward, _, length in onlooker.glances)
    assert all(total == length for _, _, total, length in onlooker.glances)
