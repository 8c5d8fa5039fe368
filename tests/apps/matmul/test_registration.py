import gymnasium

from palaestra.apps.matmul.registration import ENTRIES, register
from palaestra.config.env import EnvConfig
from palaestra.envs.make import make_env


def test_all_environments_are_created_by_id():
    for name in ENTRIES:
        env = make_env(EnvConfig(id=name))
        assert env.unwrapped.spec.id == name
        env.close()


def test_registering_twice_changes_nothing():
    before = {name: gymnasium.registry[name] for name in ENTRIES}
    register()
    assert {name: gymnasium.registry[name] for name in ENTRIES} == before
