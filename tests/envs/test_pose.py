import gymnasium
import numpy as np
import pytest

from palaestra.config.env import EnvConfig
from palaestra.envs.easel import Easel
from palaestra.envs.make import make_env
from palaestra.envs.pose import NoPose, Poser, strike_pose
from palaestra.envs.tasks import TaskSwitch
from palaestra.envs.wire import packed, unpacked

pytestmark = pytest.mark.filterwarnings("ignore:builtin type:DeprecationWarning")  # of Box2D, when it is imported
TOLD = {
    "CartPole-v1": {"state"},
    "Pendulum-v1": {"state", "last_u"},
    "Acrobot-v1": {"state"},
    "MountainCar-v0": {"state"},
    "FrozenLake-v1": {"s", "lastaction"},
}


class Copy:
    """What another process has: an environment made alike, and an easel."""

    def __init__(self, env_id, **kwargs):
        self.env = make_env(EnvConfig(id=env_id, kwargs=kwargs))
        self.env.reset(seed=0)
        self.own = dict(vars(self.env.unwrapped))
        self.easel = Easel(self.env)

    def agree(self, poser):
        own = Poser(self.env).digests()
        poser.agree(name for name, digest in poser.digests().items() if own.get(name) == digest)

    def draw(self, pose):
        strike_pose(self.env, self.own, unpacked(*packed(pose)))
        return self.easel.draw()


def begun(env_id, steps=3, **kwargs):
    env = make_env(EnvConfig(id=env_id, kwargs=kwargs))
    env.reset(seed=4)
    env.action_space.seed(1)
    for _ in range(steps):
        env.step(env.action_space.sample())
    return env


@pytest.mark.parametrize("env_id", TOLD)
def test_the_copy_is_drawn_to_the_last_pixel_as_the_environment_itself(env_id):
    env, copy = begun(env_id), Copy(env_id)
    poser, easel = Poser(env), Easel(env)
    copy.agree(poser)
    shown = set()
    for _ in range(12):
        here = easel.draw()
        assert np.array_equal(copy.draw(poser.take(0, env)), here)
        shown.add(here.tobytes())
        if any(env.step(env.action_space.sample())[2:4]):
            env.reset()
    assert len(shown) > 2, "and it moves"


@pytest.mark.parametrize(("env_id", "told"), TOLD.items())
def test_only_what_the_copy_does_not_have_is_told(env_id, told):
    env = begun(env_id)
    poser = Poser(env)
    everything = poser.take(0, env).keys()
    assert everything > told
    assert not everything & {"_np_random", "spec", "action_space", "observation_space", "render_mode"}
    Copy(env_id).agree(poser)
    poser.take(0, env)
    assert set(poser.take(0, env)) <= told


def test_copies_whose_simulation_lags_a_substep_behind_are_drawn_as_they_stand():
    pytest.importorskip("mujoco")
    env, copy = begun("InvertedPendulum-v5", 5), Copy("InvertedPendulum-v5")
    poser = Poser(env)
    assert poser.has_simulation
    copy.agree(poser)
    pose = poser.take(0, env)
    ours, theirs = env.unwrapped.data, copy.env.unwrapped.data
    lagging = ours.geom_xpos.copy()
    env.step(env.action_space.sample())  # the pose is of the moment before
    strike_pose(copy.env, copy.own, unpacked(*packed(pose)))
    assert np.array_equal(theirs.geom_xpos, lagging)
    assert not np.array_equal(ours.geom_xpos, lagging)


def test_what_is_told_does_not_change_with_the_environment():
    env = begun("CartPole-v1")
    env.unwrapped.state = np.array([0.0, 1.0, 2.0, 3.0])
    env.unwrapped.trail = [[1], np.zeros(2)]
    poser = Poser(env)
    pose = poser.take(0, env)
    before = packed(pose)
    env.unwrapped.state[:] = 9.0
    env.unwrapped.trail[0].append(2)
    env.unwrapped.trail[1][:] = 7.0
    assert packed(pose) == before
    assert packed(poser.take(0, env)) != before


def test_a_constant_that_somebody_changes_is_told_from_then_on_and_for_that_one_only():
    first, second, copy = begun("CartPole-v1"), begun("CartPole-v1"), Copy("CartPole-v1")
    poser = Poser(first)
    copy.agree(poser)
    assert "length" not in poser.take(1, second)
    second.unwrapped.length = 0.25
    assert np.array_equal(copy.draw(poser.take(1, second)), Easel(second).draw())
    assert np.array_equal(copy.draw(poser.take(0, first)), Easel(first).draw())


def test_a_table_that_is_changed_within_is_told():
    env, copy = begun("FrozenLake-v1"), Copy("FrozenLake-v1")
    poser = Poser(env)
    copy.agree(poser)
    assert "P" not in poser.take(0, env)
    env.unwrapped.P[0][1].append((1.0, 2, 0.0, False))
    assert "P" in poser.take(0, env)
    assert "desc" not in poser.take(0, env)
    env.unwrapped.desc[1, 1] = b"F"
    assert np.array_equal(copy.draw(poser.take(0, env)), Easel(env).draw())


def test_other_settings_than_the_copys_are_told_always():
    env, copy = begun("FrozenLake-v1", map_name="8x8"), Copy("FrozenLake-v1")
    poser = Poser(env)
    copy.agree(poser)
    assert {"P", "nrow", "desc"} <= poser.take(0, env).keys()


def test_equal_values_of_another_kind_are_not_taken_for_the_same():
    env, copy = begun("CartPole-v1"), Copy("CartPole-v1")
    poser = Poser(env)
    copy.agree(poser)
    env.unwrapped.isopen = 1
    assert poser.take(0, env)["isopen"] == 1


class Framed(gymnasium.Wrapper):
    def render(self):
        return self.env.render()[1:]


class Discreet(gymnasium.Env):
    def get_state(self):
        return 1

    def set_state(self, state):
        """There is nothing to set"""


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: begun("LunarLander-v3"), "b2World"),
        (lambda: Framed(begun("CartPole-v1")), "Framed has a say in how it is drawn"),
        (lambda: TaskSwitch({"one": lambda: begun("CartPole-v1")}), "several tasks"),
        (Discreet, "Discreet keeps its state itself"),
    ],
    ids=["bodies of a physics engine", "a wrapper that draws", "several tasks", "state of its own"],
)
def test_what_cannot_be_told_in_full_has_no_pose(make, reason):
    with pytest.raises(NoPose, match=reason):
        Poser(make())


def test_what_appears_later_and_is_no_plain_data_ends_it():
    env = begun("CartPole-v1")
    poser = Poser(env)
    env.unwrapped.friend = object()
    with pytest.raises(NoPose, match="friend is a builtins.object"):
        poser.take(0, env)


def test_what_is_taken_away_from_the_environment_ends_it():
    env, copy = begun("CartPole-v1"), Copy("CartPole-v1")
    poser = Poser(env)
    copy.agree(poser)
    del env.unwrapped.tau
    with pytest.raises(NoPose, match=r"CartPoleEnv has lost \['tau'\]"):
        poser.take(0, env)
