import gymnasium
import numpy as np

from palaestra.apps.scripts.launcher import probe
from palaestra.apps.scripts.launcher.observer import Observer


def test_returns_and_lengths_are_those_that_are_counted_by_hand():
    said = []
    observer = Observer(lambda *message: said.append(message), 0)
    env = probe.Probe(gymnasium.make("CartPole-v1"), observer, 4)
    env.reset(seed=3)
    total, length, ended = 0.0, 0, False
    while not ended:
        _, reward, terminated, truncated, _ = env.step(0)
        total, length, ended = total + reward, length + 1, terminated or truncated
    assert said[0] == ("env", 4)
    assert said[1][:5] == ("episode", 4, total, length, True)
    assert observer.steps == env.steps == length
    env.reset()
    env.step(0)
    assert (env.steps, env.length) == (length + 1, 1), "an episode is forgotten, its steps are not"
    env.close()


class Small(gymnasium.Env):
    """Rewards in single precision, as many environments give them."""

    action_space = observation_space = gymnasium.spaces.Discrete(2)

    def reset(self, **options):
        return 0, {}

    def step(self, action):
        return 0, np.float32(action), False, False, {}


def test_small_rewards_are_not_lost_in_a_large_return():
    env = probe.Probe(Small(), Observer(lambda *_: None, 0), 0)
    env.reset()
    env.step(2**24)
    for _ in range(10):
        env.step(1)
    assert env.total == 2**24 + 10, "in single precision it would stand still"
    assert type(env.reward) is type(env.total) is float
    env.add_up()
    assert (env.reward, env.total, env.length, env.steps) == (1.0, 2**24 + 10, 11, 11), "adding up changes nothing"


def test_a_reward_is_what_it_was_when_it_was_given_although_its_array_is_used_again():
    class Reused(Small):
        given = np.zeros(())

        def step(self, action):
            self.given[...] = action
            return 0, self.given, False, False, {}

    env = probe.Probe(Reused(), Observer(lambda *_: None, 1e9), 0)
    env.reset()
    for action in (1, 2, 4):
        env.step(action)
    assert env.total == 7


def test_what_a_script_makes_to_judge_itself_is_no_training(monkeypatch):
    monkeypatch.setattr(gymnasium, "make", gymnasium.make)
    monkeypatch.setattr(gymnasium.envs.registration, "make", gymnasium.make)
    observer = Observer(lambda *_: None, 0)
    probe.install(observer, is_all=False)

    def make_env():
        return lambda: gymnasium.make("CartPole-v1")

    def evaluate():
        return gymnasium.vector.SyncVectorEnv([make_env()])

    judged, trained = evaluate(), gymnasium.vector.SyncVectorEnv([make_env()])
    assert not isinstance(judged.envs[0], probe.Probe)
    assert isinstance(trained.envs[0], probe.Probe)
    assert trained.envs[0].index == 0
    judged.close()
    trained.close()


def test_every_environment_that_is_made_gets_a_probe_and_a_number(monkeypatch):
    monkeypatch.setattr(gymnasium, "make", gymnasium.make)
    monkeypatch.setattr(gymnasium.envs.registration, "make", gymnasium.make)
    observer = Observer(lambda *_: None, 0)
    probe.install(observer)
    made = [gymnasium.make("CartPole-v1") for _ in range(2)]
    assert [env.index for env in made] == [0, 1]
    assert made[0].spec.id == "CartPole-v1"
    for env in made:
        env.close()
