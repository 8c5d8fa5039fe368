"""A world with all its players, against a crowd whose right answers are known."""

import numpy as np
import pytest
import torch

import palaestra.testing.crowd  # noqa: F401  registers it, as the entry point does
from palaestra.config.env import EnvConfig
from palaestra.core.errors import RunFailed
from palaestra.envs.build import make_playable
from palaestra.evaluation.plan import make_plan
from palaestra.evaluation.play import play
from palaestra.evaluation.stage import OutOfTime
from palaestra.evaluation.world import play_world
from palaestra.policies.agent import Agent
from palaestra.policies.base import Policy, PolicyOutput
from palaestra.policies.distributions import Categorical

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
        said = torch.where(is_early, (observation + 1) % 4, observation)
        logits = torch.nn.functional.one_hot(said, 4) * self.certainty
        return PolicyOutput(Categorical(logits), torch.zeros(said.shape), {"steps": memory["steps"] + 1})


def agent_of(network):
    interface = make_playable(CROWD).interface
    return Agent(network, interface, normalize_observations=False, normalize_returns=False)


def plan_of(seeds, deterministic=True):
    return make_plan("run:1", CROWD, episodes=len(seeds), seed=seeds[0], deterministic=deterministic)


def test_all_players_act_at_once_and_the_result_is_their_mean():
    network = Echo()
    episode = play_world(agent_of(network), make_playable(CROWD), 7, deterministic=True)
    assert (episode.seed, episode.total_reward, episode.length, episode.terminated) == (7, 12.0, 12, False)
    assert episode.extras == {"world_mean": 12.0}
    assert network.batches == {(1, 3)}


def test_a_world_is_stopped_at_max_steps_with_the_rewards_so_far():
    episode = play_world(agent_of(Echo()), make_playable(CROWD), 7, deterministic=True, max_steps=5)
    assert (episode.total_reward, episode.length, episode.terminated, episode.capped) == (5.0, 5, False, True)


def test_everyone_has_a_memory_of_its_own_that_starts_anew_with_every_episode():
    agent, worlds = agent_of(Echo(blunders=2)), make_playable(CROWD)
    assert [play_world(agent, worlds, seed, deterministic=True).total_reward for seed in (1, 2)] == [10.0, 10.0]


@pytest.mark.parametrize("deterministic", [True, False])
def test_who_plays_which_seeds_makes_no_difference(deterministic):
    agent = agent_of(Echo(certainty=1.0))
    whole = play(plan_of(range(5, 11), deterministic), agent, lambda: make_playable(CROWD))
    torch.manual_seed(99)  # torch's own dice must not matter
    parts = [
        play(plan_of(seeds, deterministic), agent, lambda: make_playable(CROWD)).episodes
        for seeds in (range(8, 11), [5], [6, 7])
    ]
    assert sorted(sum(parts, ()), key=lambda episode: episode.seed) == list(whole.episodes)
    assert (len(set(whole.returns)) > 1) is not deterministic


def test_frames_are_those_before_every_step_and_the_last_one():
    frames = []
    play_world(agent_of(Echo()), make_playable(CROWD), 1, deterministic=True, on_frame=frames.append)
    assert len(frames) == 13
    assert frames[0].shape == (16, 48, 3)
    assert not np.array_equal(frames[0], frames[1])


def test_time_can_run_out_in_the_middle():
    with pytest.raises(OutOfTime):
        play_world(agent_of(Echo()), make_playable(CROWD), 1, deterministic=True, is_late=lambda: True)


def test_a_world_that_raises_is_named_with_seed_and_step():
    worlds = make_playable(CROWD)

    def fail(actions, out, rewards):
        raise ZeroDivisionError("of a stranger")

    worlds.step = fail
    with pytest.raises(RunFailed, match="world of seed 4 raised ZeroDivisionError at step 1: of a stranger"):
        play_world(agent_of(Echo()), worlds, 4, deterministic=True)


def test_an_onlooker_sees_means_over_the_players():
    glances = []

    class Onlooker:
        def glance(self, playing, reward, total_reward, length):
            glances.append((reward, total_reward, length))

    worlds = make_playable(CROWD)
    episode = play_world(agent_of(Echo(blunders=2)), worlds, 3, deterministic=True, onlooker=Onlooker())
    assert [length for *_, length in glances] == list(range(13))
    assert [reward for reward, *_ in glances] == [0.0, 0.0, 0.0] + [1.0] * 10
    assert glances[-1][1] == episode.total_reward == 10.0
