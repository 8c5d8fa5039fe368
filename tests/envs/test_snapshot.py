from __future__ import annotations

import importlib.util
import logging
import math
import re

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import NormalizeObservation, TimeLimit

from palaestra.checkpoints.weights import trainer_state_from_bytes, trainer_state_to_bytes
from palaestra.config.env import EnvConfig
from palaestra.core.errors import DamagedFile
from palaestra.envs.make import make_env
from palaestra.envs.snapshot import (
    capture,
    read_simulation,
    restore,
    why_not,
    why_not_simulation,
    write_simulation,
)

mujoco = pytest.importorskip("mujoco", reason="the extra 'mujoco' is not installed")

FALLING = """
<mujoco><worldbody><geom type="plane" size="5 5 1"/>
<body pos="0 0 0.3"><freejoint/><geom type="box" size=".1 .1 .1"/></body></worldbody></mujoco>
"""


def falling_box(steps):
    model = mujoco.MjModel.from_xml_string(FALLING)
    data = mujoco.MjData(model)
    data.qvel[:] = [0.3, 0.1, 0, 1, 2, 3]
    for _ in range(steps):
        mujoco.mj_step(model, data)
    return data


@pytest.mark.parametrize("steps", [0, 5, 150, 400])
def test_a_box_falls_on_as_it_would_have(steps):
    original = falling_box(steps)
    state = {
        name: np.copy(value) if isinstance(value, np.ndarray) else value
        for name, value in read_simulation(original).items()
    }
    copy = falling_box(33)
    write_simulation(copy, state)
    for _ in range(200):
        assert copy.xpos.tobytes() == original.xpos.tobytes()
        assert copy.qpos.tobytes() == original.qpos.tobytes()
        assert copy.time == original.time
        mujoco.mj_step(original.model, original)
        mujoco.mj_step(copy.model, copy)


def test_computing_the_derived_fields_anew_would_not_be_exact():
    """The reason why they are saved: after a step, xpos is that of the position before it."""
    data = falling_box(5)
    before = data.xpos.copy()
    mujoco.mj_forward(data.model, data)
    assert not np.array_equal(before, data.xpos)


def test_a_state_of_another_model_is_refused():
    state = read_simulation(falling_box(1))
    ant = make_env(EnvConfig(id="Ant-v5")).unwrapped
    with pytest.raises(DamagedFile, match="does not fit this model"):
        write_simulation(ant.data, state)


def test_a_simulation_without_engine_plugins_can_be_captured():
    data = falling_box(0)
    assert why_not_simulation(data) == ""


TABLES = ["CartPole-v1", "Acrobot-v1", "Pendulum-v1", "MountainCar-v0", "MountainCarContinuous-v0", "FrozenLake-v1"]
TABLES += ["Taxi-v4", "CliffWalking-v1", "Blackjack-v1"]
BODIES = [
    "Ant-v5",
    "Humanoid-v5",
    "HalfCheetah-v5",
    "Walker2d-v5",
    "Hopper-v5",
    "Swimmer-v5",
    "Reacher-v5",
    "Pusher-v5",
]
BODIES += ["InvertedPendulum-v5", "InvertedDoublePendulum-v5", "HumanoidStandup-v5"]
NO_MUJOCO = pytest.mark.skipif(not importlib.util.find_spec("mujoco"), reason="the extra 'mujoco' is not installed")
NO_BOX2D = pytest.mark.skipif(not importlib.util.find_spec("Box2D"), reason="the extra 'box2d' is not installed")


def story(env, actions):
    """Everything a learner sees, as bytes, with the resets that the vectoriser would make."""
    observed = []
    for action in actions:
        observation, reward, terminated, truncated, _ = env.step(action)
        observed.append((np.asarray(observation).tobytes(), np.float64(reward).tobytes(), terminated, truncated))
        if terminated or truncated:
            observed.append(np.asarray(env.reset()[0]).tobytes())
    return observed


def through_a_file(state):
    return trainer_state_from_bytes(trainer_state_to_bytes({"env": state}), "a test")["env"]


@pytest.mark.parametrize("steps_before", [0, 1, 37])
@pytest.mark.parametrize("env_id", [*TABLES, *(pytest.param(name, marks=NO_MUJOCO) for name in BODIES)])
def test_a_fresh_environment_goes_on_bit_for_bit(env_id, steps_before):
    config = EnvConfig(id=env_id, max_episode_steps=60)
    original = make_env(config)
    original.reset(seed=5)
    original.action_space.seed(1)
    actions = [original.action_space.sample() for _ in range(steps_before + 200)]
    story(original, actions[:steps_before])
    state = through_a_file(capture(original))
    expected = story(original, actions[steps_before:])
    assert len(expected) > 200, "there must be resets in the compared part"
    fresh = make_env(config)
    restore(fresh, state)
    assert story(fresh, actions[steps_before:]) == expected


@pytest.mark.parametrize("env_id", ["CartPole-v1", pytest.param("Hopper-v5", marks=NO_MUJOCO)])
def test_a_used_environment_is_turned_back_too(env_id):
    env = make_env(EnvConfig(id=env_id))
    env.reset(seed=5)
    env.action_space.seed(1)
    actions = [env.action_space.sample() for _ in range(120)]
    state = capture(env)
    expected = story(env, actions)
    restore(env, state)
    assert story(env, actions) == expected


def test_capturing_changes_nothing():
    first, second = (make_env(EnvConfig(id="CartPole-v1")) for _ in range(2))
    for env in (first, second):
        env.reset(seed=1)
    capture(first)
    assert story(first, [0, 1] * 50) == story(second, [0, 1] * 50)


@pytest.mark.fault("R8")
def test_box2d_is_refused_with_a_clear_reason():
    pytest.importorskip("Box2D", reason="the extra 'box2d' is not installed")
    env = make_env(EnvConfig(id="LunarLander-v3"))
    env.reset(seed=0)
    assert capture(env) is None
    assert why_not(env).startswith("The state of LunarLander-v3 cannot be captured: LunarLander.world is a Box2D")


def test_an_environment_that_can_be_captured_has_no_reason_against_it():
    env = make_env(EnvConfig(id="CartPole-v1"))
    env.reset(seed=0)
    assert why_not(env) == ""


def test_rendered_images_are_no_state():
    drawn = make_env(EnvConfig(id="CartPole-v1"), render_mode="rgb_array")
    drawn.reset(seed=3)
    drawn.render()
    state = capture(drawn)
    expected = story(drawn, [0, 1] * 40)
    blind = make_env(EnvConfig(id="CartPole-v1"))
    restore(blind, state)
    assert story(blind, [0, 1] * 40) == expected
    assert blind.unwrapped.render_mode is None
    again = make_env(EnvConfig(id="CartPole-v1"), render_mode="rgb_array")
    again.reset(seed=0)
    again.render()
    restore(again, state)
    assert again.render().shape == (400, 600, 3)


class Toy(gymnasium.Env):
    """One number that grows by a random step; `more` are further attributes."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = spaces.Discrete(2)

    def __init__(self, **more):
        self.place = np.zeros(1)
        vars(self).update(more)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = np.zeros(1)
        return self.place.copy(), {}

    def step(self, action):
        self.place += self.np_random.normal() + action
        return self.place.copy(), 0.0, False, False, {}


class Thing:
    pass


def closure():
    hidden = [0]
    return lambda: hidden


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (Thing(), r"Toy\.extra is a .*Thing"),
        ([1, {"k": Thing()}], r"Toy\.extra\[1\]\['k'\] is a .*Thing"),
        (closure(), r"Toy\.extra is a builtins\.function"),
        (iter([1]), r"Toy\.extra is a builtins\.list_iterator"),
        ([math.sin, 1], r"Toy\.extra\[0\]"),
    ],
)
def test_one_opaque_attribute_is_enough_to_refuse(value, said):
    env = Toy(extra=value)
    assert capture(env) is None
    assert re.match(rf"The state of Toy cannot be captured: {said}", why_not(env))


def test_what_never_changes_is_left_as_it_is():
    constants = {"maths": math, "kind": dict, "act": math.sin, "log": logging.getLogger("x"), "box": spaces.Discrete(3)}
    env = Toy(**constants, several=[math.sin, math.cos])
    env.reset(seed=1)
    other = Toy(**constants, several=[math.sin, math.cos])
    restore(other, capture(env))
    assert story(other, [0] * 5) == story(env, [0] * 5)


def test_a_function_that_was_exchanged_is_noticed():
    with pytest.raises(DamagedFile, match=r"Toy\.act was math\.sin"):
        restore(Toy(act=math.cos), capture(Toy(act=math.sin)))


def test_generators_shared_between_attributes_stay_shared():
    env = Toy()
    env.reset(seed=1)
    env.dice = env.np_random
    copy = Toy()
    restore(copy, capture(env))
    assert copy.dice is copy.np_random
    assert story(copy, [1] * 5) == story(env, [1] * 5)


def test_an_array_viewed_through_two_attributes_is_refused():
    env = Toy()
    env.window = env.place[:1]
    assert "shares its memory" in why_not(env)


def test_attributes_that_did_not_exist_then_are_gone_again():
    env = Toy()
    state = capture(env)
    env.debris = 1
    restore(env, state)
    assert not hasattr(env, "debris")


def test_attributes_in_slots_are_refused():
    class Slotted(Toy):
        __slots__ = ("hidden",)

    assert "__slots__" in why_not(Slotted())


def test_wrappers_have_state_too():
    env = TimeLimit(Toy(), 10)
    env.reset(seed=0)
    story(env, [0] * 7)
    fresh = TimeLimit(Toy(), 10)
    restore(fresh, capture(env))
    assert [fresh.step(0)[3] for _ in range(3)] == [False, False, True]


def test_a_wrapper_with_an_opaque_attribute_is_refused_by_name():
    assert "NormalizeObservation.obs_rms" in why_not(NormalizeObservation(Toy()))


@pytest.mark.parametrize(
    ("target", "match"),
    [
        (lambda: TimeLimit(Toy(), 10), "is of .*Toy, not of .*Toy in .*TimeLimit"),
        (lambda: make_env(EnvConfig()), "CartPole"),
    ],
)
def test_the_state_of_another_environment_is_refused(target, match):
    with pytest.raises(DamagedFile, match=match):
        restore(target(), capture(Toy()))


@pytest.mark.parametrize(
    "state",
    [{}, {"format": 1}, {"format": 99, "layers": []}, {"format": 1, "layers": [{}]}, {"format": 1, "layers": 3}],
)
def test_a_mangled_state_is_refused_and_leaves_the_environment_alone(state):
    env = Toy()
    env.reset(seed=1)
    before = capture(env)
    with pytest.raises(DamagedFile):
        restore(env, state)
    assert capture(env) == before


class Opaque(Toy):
    """Keeps what we cannot see into, and gives it itself."""

    def __init__(self):
        super().__init__()
        self.thing = Thing()
        self.thing.count = 0

    def step(self, action):
        self.thing.count += 1
        observation, _, _, _, info = super().step(action)
        return observation, float(self.thing.count), False, False, info

    def get_state(self):
        return {"place": self.place.copy(), "count": self.thing.count}

    def set_state(self, state):
        self.place = state["place"]
        self.thing.count = state["count"]


def test_an_environment_may_provide_its_own_state_and_its_generator_is_added():
    env = Opaque()
    env.reset(seed=4)
    story(env, [1] * 9)
    fresh = Opaque()
    restore(fresh, through_a_file(capture(env)))
    assert story(fresh, [1] * 9) == story(env, [1] * 9)


@NO_MUJOCO
def test_a_model_that_changed_at_run_time_is_noticed():
    env = make_env(EnvConfig(id="Hopper-v5"))
    env.reset(seed=0)
    env.unwrapped.model.body_mass[1] *= 2
    with pytest.raises(DamagedFile, match=r"HopperEnv\.model"):
        restore(make_env(EnvConfig(id="Hopper-v5")), capture(env))


@NO_MUJOCO
def test_a_view_into_the_simulation_is_refused():
    env = make_env(EnvConfig(id="Hopper-v5"))
    env.reset(seed=0)
    env.unwrapped.shortcut = env.unwrapped.data.qpos
    assert "HopperEnv.shortcut is a view into memory" in why_not(env)


def test_the_state_of_a_rendered_environment_restores_into_a_fresh_one():
    """It has no window of its own yet; where it looks for one, there must still be none."""
    drawn = make_env(EnvConfig(id="CartPole-v1"), render_mode="rgb_array")
    drawn.reset(seed=3)
    drawn.render()
    fresh = make_env(EnvConfig(id="CartPole-v1"), render_mode="rgb_array")
    restore(fresh, through_a_file(capture(drawn)))
    assert fresh.unwrapped.screen is None
    assert np.array_equal(fresh.render(), drawn.render())
    fresh.close()
