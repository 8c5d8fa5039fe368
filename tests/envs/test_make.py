from __future__ import annotations

import importlib.util
import signal
import sys

import gymnasium
import numpy as np
import pytest

from palaestra.config.env import EnvConfig
from palaestra.core import plugins
from palaestra.core.errors import MissingExtra, MissingPackage, NotFound, UsageError
from palaestra.envs import make
from palaestra.envs.make import make_env


def test_a_time_limit_truncates_and_does_not_terminate():
    env = make_env(EnvConfig(id="Pendulum-v1", max_episode_steps=3))
    env.reset(seed=0)
    flags = [env.step(np.zeros(1, np.float32))[2:4] for _ in range(3)]
    assert flags == [(False, False), (False, False), (False, True)]


def test_the_environments_own_time_limit_stays():
    assert make_env(EnvConfig(id="CartPole-v1")).spec.max_episode_steps == 500


def test_gymnasiums_checkers_are_not_blocking_and_stay_there_for_others():
    assert str(make_env(EnvConfig(id="CartPole-v1"))) == "<TimeLimit<CartPoleEnv<CartPole-v1>>>"
    assert gymnasium.registry["CartPole-v1"].order_enforce


def test_kwargs_reach_the_environment():
    assert make_env(EnvConfig(id="Pendulum-v1", kwargs={"g": 1.5})).unwrapped.g == 1.5


def test_two_environments_of_one_config_share_nothing():
    config = EnvConfig(id="FrozenLake-v1", kwargs={"desc": ["SF", "FG"]})
    first, second = make_env(config), make_env(config)
    first.unwrapped.desc[0, 1] = b"H"
    assert second.unwrapped.desc[0, 1] == b"F"


@pytest.mark.parametrize(
    ("asked", "meant"),
    [("CartPol-v1", "CartPole-v1"), ("CartPole-v9", "CartPole-v1"), ("CartPole", "CartPole-v1")],
)
def test_an_unknown_id_names_the_one_that_was_meant(asked, meant):
    with pytest.raises(NotFound, match=f"'{asked}'.*Did you mean '{meant}'"):
        make_env(EnvConfig(id=asked))


def test_the_newest_version_is_suggested():
    class Nothing(gymnasium.Env):
        pass

    for version in (2, 10, 9):
        gymnasium.register(f"palaestra_test/Versions-v{version}", Nothing)
    try:
        with pytest.raises(NotFound, match="Versions-v10"):
            make_env(EnvConfig(id="palaestra_test/Versions-v3"))
    finally:
        for version in (2, 10, 9):
            del gymnasium.registry[f"palaestra_test/Versions-v{version}"]


def test_a_module_is_imported_before_its_id_is_searched(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_envs.py").write_text(
        "import gymnasium\n"
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        "gymnasium.register('palaestra_test/Mine-v0', CartPoleEnv, max_episode_steps=7)\n"
    )
    env = make_env(EnvConfig(id="my_envs:palaestra_test/Mine-v0"))
    assert env.spec.max_episode_steps == 7
    del gymnasium.registry["palaestra_test/Mine-v0"], sys.modules["my_envs"]


def test_a_module_that_is_not_there_is_not_found():
    with pytest.raises(NotFound, match="no_such_module"):
        make_env(EnvConfig(id="no_such_module:X-v0"))


def test_a_module_whose_own_import_fails_is_not_called_absent(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "half_there.py").write_text("import something_absent\n")
    with pytest.raises(MissingPackage, match="something_absent"):
        make_env(EnvConfig(id="half_there:X-v0"))


@pytest.mark.parametrize(
    ("env_id", "package", "extra"),
    [
        ("ALE/Breakout-v5", "ale_py", "atari"),
        ("BreakoutNoFrameskip-v4", "ale_py", "atari"),
        ("Pong-ram-v4", "ale_py", "atari"),
        ("MiniGrid-Empty-5x5-v0", "minigrid", "minigrid"),
    ],
)
def test_a_missing_extra_is_named(env_id, package, extra):
    if importlib.util.find_spec(package):
        pytest.skip(f"{package} is installed")
    with pytest.raises(MissingExtra, match=rf"palaestra\[{extra}\]") as caught:
        make_env(EnvConfig(id=env_id))
    assert caught.value.exit_code == 4


@pytest.mark.parametrize(
    ("env_id", "package"), [("FetchReach-v4", "gymnasium_robotics"), ("highway-fast-v0", "highway_env")]
)
def test_an_environment_of_a_package_that_is_not_installed_names_the_package(env_id, package):
    if importlib.util.find_spec(package):
        pytest.skip(f"{package} is installed")
    with pytest.raises(MissingPackage, match=f"{package}.*pip install {package.replace('_', '-')}") as caught:
        make_env(EnvConfig(id=env_id))
    assert caught.value.exit_code == 4


@pytest.mark.parametrize(
    ("env_id", "package", "extra"), [("LunarLander-v3", "Box2D", "box2d"), ("Ant-v5", "mujoco", "mujoco")]
)
def test_an_extra_that_vanished_is_named(env_id, package, extra, monkeypatch):
    """As if not installed: neither the import system nor the cache of modules knows the package."""
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.startswith(("gymnasium.envs.box2d", "gymnasium.envs.mujoco"))]:
        monkeypatch.delitem(sys.modules, name)
    finder = _Blind(package)
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    monkeypatch.setattr(
        make.importlib.util, "find_spec", lambda name: None if name == package else importlib.machinery.ModuleSpec
    )
    with pytest.raises(MissingExtra, match=rf"palaestra\[{extra}\]"):
        make_env(EnvConfig(id=env_id))


class _Blind:
    def __init__(self, package):
        self.package = package

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == self.package:
            raise ModuleNotFoundError(f"No module named '{self.package}'", name=self.package)


@pytest.mark.filterwarnings("ignore:.*out of date:DeprecationWarning")
def test_an_installed_package_is_never_called_missing():
    pytest.importorskip("mujoco")
    with pytest.raises(MissingPackage, match=r"gymnasium-robotics.*Did you mean 'Humanoid-v5'"):
        make_env(EnvConfig(id="Humanoid-v3"))


def test_an_unknown_setting_names_environment_and_setting():
    with pytest.raises(UsageError, match=r"'Pendulum-v1' has no setting 'gravity'.*It knows: .*\bg\b"):
        make_env(EnvConfig(id="Pendulum-v1", kwargs={"gravity": 1.0}))


def test_a_near_setting_is_suggested():
    with pytest.raises(UsageError, match="Did you mean 'sutton_barto_reward'"):
        make_env(EnvConfig(id="CartPole-v1", kwargs={"sutton_bart_reward": True}))


def test_a_value_that_the_environment_refuses_is_reported_with_its_reason():
    with pytest.raises(UsageError, match=r"FrozenLake-v1.*map_name='9x9'"):
        make_env(EnvConfig(id="FrozenLake-v1", kwargs={"map_name": "9x9"}))


def test_an_unknown_way_to_render_is_refused_with_those_known():
    with pytest.raises(UsageError, match=r"cannot render as 'hologram'.*rgb_array"):
        make_env(EnvConfig(id="CartPole-v1"), render_mode="hologram")


@pytest.mark.fault("E5")
def test_rendering_leaves_our_signal_handlers_alone():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    env = make_env(EnvConfig(id="CartPole-v1"), render_mode="rgb_array")
    env.reset(seed=0)
    assert env.render().shape == (400, 600, 3)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_a_broken_plugin_matters_only_for_its_own_environments(monkeypatch):
    def load(kind, name):
        raise UsageError("The env 'broken' cannot be imported: no torchrl.")

    monkeypatch.setattr(plugins, "names", lambda kind: ["broken"])
    monkeypatch.setattr(plugins, "load", load)
    make.load_plugins.cache_clear()
    try:
        make_env(EnvConfig(id="CartPole-v1"))
        with pytest.raises(NotFound, match="'broken' cannot be imported"):
            make_env(EnvConfig(id="Broken-v0"))
    finally:
        make.load_plugins.cache_clear()
