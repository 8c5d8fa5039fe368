"""In a process of its own, as it is used: it changes Gymnasium for everybody in it."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.envs.registration import EnvSpec

from palaestra.apps.scripts.launcher import bootstrap as start_module
from palaestra.apps.scripts.launcher import snapshot
from palaestra.apps.scripts.launcher.play import EpisodeCounter, as_action, batch_of, load_family, play, time_limit_of
from palaestra.apps.scripts.launcher.probe import Probe
from palaestra.envs import make


@pytest.fixture
def counter():
    return EpisodeCounter()


def act(observations, deterministic):
    return torch.tensor([int(observations[0, 2] > 0)])


def by_hand(seed):
    env = gymnasium.make("CartPole-v1")
    observation, _ = env.reset(seed=seed)
    total, ended = 0.0, False
    while not ended:
        observation, reward, terminated, truncated, _ = env.step(int(observation[2] > 0))
        total, ended = total + reward, terminated or truncated
    env.close()
    return total


def test_an_episode_has_the_return_that_is_counted_by_hand(counter):
    env = Probe(gymnasium.make("CartPole-v1"), counter, 0)
    calls = []
    played = play(env, act, 3, counter, deterministic=True, on_step=lambda: calls.append(1))
    assert played["total_reward"] == by_hand(3)
    assert played["length"] == by_hand(3) == len(calls) - 1
    assert (played["seed"], played["terminated"]) == (3, True)
    env.close()


class Lives(gymnasium.Wrapper):
    """Ends an episode for the learner every third step, and shows rewards as signs of themselves."""

    def step(self, action):
        observation, _, terminated, truncated, info = self.env.step(action)
        self.count += 1
        self.is_over = terminated or truncated
        return observation, -1.0, terminated or self.count % 3 == 0, truncated, info

    def reset(self, **options):
        if getattr(self, "is_over", True):
            self.count, self.is_over = 0, False
            return self.env.reset(**options)
        observation, _, terminated, truncated, info = self.env.step(0)
        self.is_over = terminated or truncated
        return observation, info


def test_a_lost_life_does_not_end_the_episode_and_rewards_are_the_environments_own(counter):
    env = Lives(Probe(gymnasium.make("CartPole-v1"), counter, 0))
    played = play(env, act, 3, counter, deterministic=True)
    assert played["total_reward"] == played["length"] > 4
    env.close()


def test_a_time_limit_of_the_scripts_own_ends_an_episode(counter):
    env = gymnasium.wrappers.TimeLimit(Probe(gymnasium.make("CartPole-v1"), counter, 0), 5)
    played = play(env, act, 3, counter, deterministic=True)
    assert (played["total_reward"], played["length"], played["terminated"]) == (5.0, 5, False)
    env.close()


def test_an_episode_without_an_end_is_stopped_at_max_steps(counter):
    env = Lives(Probe(gymnasium.make("CartPole-v1"), counter, 0))
    played = play(env, act, 3, counter, deterministic=True, max_steps=2)
    assert (played["total_reward"], played["length"], played["terminated"], played["capped"]) == (2.0, 2, False, True)
    env.close()


def test_an_environment_that_nobody_probed_is_counted_from_above(counter):
    env = gymnasium.make("CartPole-v1")
    assert play(env, act, 3, counter, deterministic=True)["total_reward"] == by_hand(3)
    env.close()


def test_results_depend_on_the_seed_alone(counter):
    def draw(observations, deterministic):
        return torch.randint(0, 2, (1,))

    env = Probe(gymnasium.make("CartPole-v1"), counter, 0)
    returns = [play(env, draw, seed, counter, deterministic=False)["total_reward"] for seed in (7, 8, 7)]
    assert returns[0] == returns[2]
    env.close()


def test_observations_and_actions_have_the_forms_of_scripts():
    assert batch_of({"a": np.zeros((2, 3), np.uint8)})["a"].shape == (1, 2, 3)
    assert batch_of(np.zeros(4)).dtype == torch.float32
    assert as_action(torch.tensor([3])) == 3
    assert as_action(torch.tensor([[0.5]])).shape == (1,)
    assert as_action(np.array([[1, 2]])).tolist() == [1, 2]


def atari_like(**settings):
    """As ale_py registers its games: they end after a number of frames, not of steps."""
    return EnvSpec("Game-v0", kwargs={"max_num_frames_per_episode": 108_000, **settings})


@pytest.mark.parametrize(
    ("spec", "limit"),
    [
        *[(name, 200) for name in ("MountainCar-v0", "Pendulum-v1", "Taxi-v4")],
        *[("CartPole-v1", 500), ("Acrobot-v1", 500), ("FrozenLake-v1", 100), ("Reacher-v5", 50)],
        *[("LunarLander-v3", 1000), ("Walker2d-v5", 1000), ("BipedalWalker-v3", 1600)],
        *[("CliffWalking-v1", None), ("Blackjack-v1", None), (None, None)],
        *[(atari_like(), 108_000), (atari_like(frameskip=4), 27_000), (atari_like(frameskip=(2, 5)), None)],
        (EnvSpec("Game-v0", max_episode_steps=7, kwargs=atari_like().kwargs), 7),
    ],
)
def test_the_time_limit_is_the_one_that_palaestra_itself_finds(spec, limit):
    """The function exists twice, because what runs inside a script may not import palaestra."""
    found = gymnasium.spec(spec) if isinstance(spec, str) else spec
    assert time_limit_of(SimpleNamespace(spec=found)) == limit
    assert make.time_limit_of(found) == limit


TIMEOUT_SECONDS = 120


def ask(start, *plans):
    """What is answered, line by line."""
    reading, writing = os.pipe()
    lines = [start, *({"plan": plan} for plan in plans)]
    done = subprocess.run(
        [sys.executable, start_module.__file__, "play", str(writing)],
        input="".join(json.dumps(line) + "\n" for line in lines),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        pass_fds=(writing,),
        timeout=TIMEOUT_SECONDS,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    os.close(writing)
    with os.fdopen(reading) as stream:
        return [json.loads(line) for line in stream], done


@pytest.fixture
def start(scripts, tmp_path, ppo_agent):
    path = tmp_path / "made.safetensors"
    tensors, classes = snapshot.collect_tensors({"agent": ppo_agent})
    args = {"env_id": "CartPole-v1", "capture_video": False, "num_envs": 2}
    source = (scripts / "ppo.py").read_text()
    notes = {"source": source, "args": json.dumps(args), "classes": json.dumps(classes)}
    snapshot.write(path, tensors, notes)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return {"weights": str(path), "sha256": digest, "script": str(scripts / "ppo.py"), "parent": os.getpid()}


def plan(**changes):
    return {"env_id": "CartPole-v1", "seeds": [4, 5], "deterministic": True, **changes}


@pytest.mark.slow
@pytest.mark.full
def test_plans_are_replied_to_by_episodes_and_nonsense_by_one_sentence(start):
    answers, done = ask(start, plan(), plan(seeds=[5]), plan(env_id="CartPool-v1"))
    assert [one["episode"]["seed"] for one in answers[:-1]] == [4, 5, 5], done.stdout
    assert answers[1] == answers[2], "a seed gives what it gave before"
    assert answers[0]["family"] == "policy gradient"
    assert "CartPole" in answers[-1]["error"], "Gymnasium names the nearest"
    assert done.returncode == 1


@pytest.mark.slow
@pytest.mark.full
def test_a_file_that_changed_since_it_was_verified_is_refused_before_anything_of_it_runs(start, tmp_path):
    Path(start["weights"]).write_bytes(b"other")
    answers, done = ask(start, plan())
    assert [one["error"] for one in answers] == [
        "The checkpoint cannot be played: made.safetensors is not the file that was verified."
    ]
    assert done.stdout == ""


def test_a_plugins_family_is_loaded_by_its_path(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("class Mine:\n    name = 'mine'\nFAMILY = Mine()\n")
    assert load_family(path).name == "mine"
