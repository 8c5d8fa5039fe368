from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

import palaestra.testing.crowd  # noqa: F401  registers it, as the entry point does
from palaestra.config.env import EnvConfig
from palaestra.config.policy import PolicyConfig
from palaestra.core.errors import RunFailed, UsageError
from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec, EnvInterface
from palaestra.envs.build import make_playable
from palaestra.envs.make import make_env
from palaestra.envs.spaces import interface_of
from palaestra.evaluation.plans import make_plan
from palaestra.evaluation.play import (
    BatchedPolicy,
    OutOfTime,
    make_other_players,
    play,
    play_batch_episode,
    play_episode,
    play_episodes,
    send_frame,
    step_limit,
)
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


def test_torchs_own_random_numbers_are_left_alone(policy):
    before = torch.random.get_rng_state()
    play_episode(policy, make_env(CARTPOLE), 3, deterministic=False)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_judging_does_not_change_the_policy():
    env = make_env(CARTPOLE)
    target = policy_for(env, normalize_observations=True).train()
    before = {name: value.clone() for name, value in target.state_dict().items()}
    play_episode(target, env, 0, deterministic=True)
    assert target.training
    assert all(torch.equal(value, before[name]) for name, value in target.state_dict().items())


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
def test_an_environment_that_renders_nothing_is_refused(policy):
    with pytest.raises(RunFailed, match="instead of an image"):
        play_episode(policy, make_env(CARTPOLE), 2, deterministic=True, on_frame=print)


class EpisodeViewer:
    def __init__(self):
        self.glances = []

    def on_step(self, playing, reward, total_reward, length):
        self.glances.append((playing.unwrapped.state is not None, reward, total_reward, length))


def test_a_viewer_gets_the_reset_and_every_step_with_its_numbers(policy):
    viewer = EpisodeViewer()
    plan = plan_of([5, 6])
    observed = list(play_episodes(plan, policy, lambda: make_env(CARTPOLE), viewer=viewer))
    assert observed == list(play_episodes(plan, policy, lambda: make_env(CARTPOLE)))
    first, second = (episode.length for episode in observed)
    lengths = [length for *_, length in viewer.glances]
    assert lengths == [*range(first + 1), *range(second + 1)]
    assert all(reward == (1.0 if length else 0.0) for _, reward, _, length in viewer.glances)
    assert all(total == length for _, _, total, length in viewer.glances)


def test_a_frame_is_handed_on_as_bytes():
    shown = []
    send_frame(np.ones((2, 3, 3)), shown.append, "env")
    assert (shown[0].dtype, shown[0].shape) == (np.uint8, (2, 3, 3))


@pytest.mark.parametrize(
    "drawn", [None, "text", np.zeros((4, 4)), np.zeros((4, 4, 4))], ids=["none", "text", "grey", "rgba"]
)
def test_a_frame_that_is_no_image_is_refused(drawn):
    with pytest.raises(RunFailed, match="<Crowd> rendered .* instead of an image"):
        send_frame(drawn, print, "<Crowd>")


CROWD = EnvConfig(id="palaestra/Crowd-v0", kwargs={"agents": 3, "steps": 12})


class Echo(Policy):
    """Says what it sees, but for the first `blunders` of its steps, which its memory counts, player by player."""

    def __init__(self, blunders=0.0, certainty=50.0):
        super().__init__()
        self.unused = torch.nn.Parameter(torch.zeros(1))
        self.blunders, self.certainty = blunders, certainty
        self.batches = set()

    def initial_memory(self, batch_size):
        return {"steps": torch.zeros(batch_size)}

    def forward(self, observation, memory, starts=None):
        self.batches.add(tuple(observation.shape))
        is_early = memory["steps"] < self.blunders
        reported = torch.where(is_early, (observation + 1) % 4, observation)
        logits = torch.nn.functional.one_hot(reported, 4) * self.certainty
        return PolicyOutput(Categorical(logits), torch.zeros(reported.shape), {"steps": memory["steps"] + 1})


def agent_of(network):
    interface = make_playable(CROWD).interface
    return Agent(network, interface, normalize_observations=False, normalize_returns=False)


def batch_plan_of(seeds, deterministic=True):
    return make_plan("run:1", CROWD, episodes=len(seeds), seed=seeds[0], deterministic=deterministic)


def test_all_players_act_at_once_and_the_result_is_their_mean():
    network = Echo()
    episode = play_batch_episode(agent_of(network), make_playable(CROWD), 7, deterministic=True)
    assert (episode.seed, episode.total_reward, episode.length, episode.terminated) == (7, 12.0, 12, False)
    assert episode.extras == {"world_mean": 12.0}
    assert network.batches == {(1, 3)}


def test_a_world_is_stopped_at_max_steps_with_the_rewards_so_far():
    episode = play_batch_episode(agent_of(Echo()), make_playable(CROWD), 7, deterministic=True, max_steps=5)
    assert (episode.total_reward, episode.length, episode.terminated, episode.capped) == (5.0, 5, False, True)


def test_everyone_has_a_memory_of_its_own_that_starts_anew_with_every_episode():
    agent, worlds = agent_of(Echo(blunders=2)), make_playable(CROWD)
    assert [play_batch_episode(agent, worlds, seed, deterministic=True).total_reward for seed in (1, 2)] == [10.0, 10.0]


@pytest.mark.parametrize("deterministic", [True, False])
def test_results_of_a_batch_environment_do_not_depend_on_the_other_seeds(deterministic):
    agent = agent_of(Echo(certainty=1.0))
    whole = play(batch_plan_of(range(5, 11), deterministic), agent, lambda: make_playable(CROWD))
    torch.manual_seed(99)  # torch's own dice must not matter
    parts = [
        play(batch_plan_of(seeds, deterministic), agent, lambda: make_playable(CROWD)).episodes
        for seeds in (range(8, 11), [5], [6, 7])
    ]
    assert sorted(sum(parts, ()), key=lambda episode: episode.seed) == list(whole.episodes)
    assert (len(set(whole.returns)) > 1) is not deterministic


def test_frames_of_a_batch_environment_are_those_before_every_step_and_the_last_one():
    frames = []
    play_batch_episode(agent_of(Echo()), make_playable(CROWD), 1, deterministic=True, on_frame=frames.append)
    assert len(frames) == 13
    assert frames[0].shape == (16, 48, 3)
    assert not np.array_equal(frames[0], frames[1])


def test_time_can_run_out_in_the_middle():
    with pytest.raises(OutOfTime):
        play_batch_episode(agent_of(Echo()), make_playable(CROWD), 1, deterministic=True, is_stopped=lambda: True)


def test_an_error_of_a_batch_environment_names_seed_and_step():
    worlds = make_playable(CROWD)

    def fail(actions, out, rewards):
        raise ZeroDivisionError("of a stranger")

    worlds.step = fail
    with pytest.raises(RunFailed, match="environment with seed 4 raised ZeroDivisionError at step 1: of a stranger"):
        play_batch_episode(agent_of(Echo()), worlds, 4, deterministic=True)


def test_a_viewer_gets_means_over_the_players():
    glances = []

    class EpisodeViewer:
        def on_step(self, playing, reward, total_reward, length):
            glances.append((reward, total_reward, length))

    worlds = make_playable(CROWD)
    episode = play_batch_episode(agent_of(Echo(blunders=2)), worlds, 3, deterministic=True, viewer=EpisodeViewer())
    assert [length for *_, length in glances] == list(range(13))
    assert [reward for reward, *_ in glances] == [0.0, 0.0, 0.0] + [1.0] * 10
    assert glances[-1][1] == episode.total_reward == 10.0


BYTES = BoxSpec((3,), "uint8", (0.0,), (255.0,))
PLAIN = EnvInterface(BYTES, DiscreteSpec(6))
NAMED = EnvInterface(DictSpec((("left", BYTES), ("right", BYTES))), DiscreteSpec(6))


def batch_policy_for(interface, **settings):
    torch.manual_seed(0)
    return build_policy(PolicyConfig(graph="mlp", settings={"hidden": [8], **settings}), interface).eval()


def rows(count, seed=0):
    return np.random.default_rng(seed).integers(0, 255, (count, 3), dtype=np.uint8)


def test_every_player_gets_the_action_that_it_would_get_alone():
    policy = batch_policy_for(PLAIN)
    observed = torch.from_numpy(rows(5))[None]
    with torch.inference_mode():
        together = BatchedPolicy(policy, 5, 0, deterministic=True).act(observed)
        alone = [BatchedPolicy(policy, 1, 0, deterministic=True).act(observed[:, [row]])[0] for row in range(5)]
    assert together.tolist() == alone


class Counts(Policy):
    """Plays how often this player was asked before, plus what it sees first."""

    interface = PLAIN

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def initial_memory(self, batch_size):
        return {"asked": torch.zeros(batch_size, dtype=torch.int64)}

    def forward(self, observation, memory, starts=None):
        actions = observation[..., 0].long() + memory["asked"]
        return PolicyOutput(SimpleNamespace(mode=lambda: actions), actions, {"asked": memory["asked"] + 1})


def test_memory_is_stored_from_step_to_step_and_each_has_its_own():
    crew = BatchedPolicy(Counts(), 2, 3, deterministic=True)
    observed = torch.tensor([[[0, 9, 9], [2, 9, 9]]], dtype=torch.uint8)
    assert [crew.act(observed).tolist() for _ in range(3)] == [[0, 2], [1, 3], [2, 4]]


@pytest.mark.parametrize("interface", [PLAIN, NAMED])
def test_a_created_crew_takes_the_arrays_of_a_batch(interface):
    act = make_other_players(batch_policy_for(interface), interface, 4, 7)
    observed = rows(4) if interface is PLAIN else {"left": rows(4), "right": rows(4, 1)}
    drawn = [act(observed) for _ in range(40)]
    assert drawn[0].shape == (4,)
    assert {int(action) for actions in drawn for action in actions} == set(range(6))  # drawn, not the likeliest
    again = make_other_players(batch_policy_for(interface), interface, 4, 7)
    np.testing.assert_array_equal(np.array(drawn), np.array([again(observed) for _ in range(40)]))


def test_a_policy_for_other_spaces_is_not_created():
    with pytest.raises(UsageError):
        make_other_players(batch_policy_for(PLAIN), NAMED, 4, 7)
