from __future__ import annotations

import pytest

from palaestra.runs.annotations import Annotations
from palaestra.web.context import AppContext, RunFactsCache, read_run_facts


def test_app_contexts_share_no_services_and_no_facts():
    first, second = AppContext(None, None, None, None), AppContext(None, None, None, None)
    first.services["x"] = 1
    assert second.services == {}
    assert first.run_facts is not second.run_facts
    assert first.run_facts.boot != second.run_facts.boot


def test_seed_environment_and_group_are_read_from_the_config(make_run):
    def facts(name, config):
        return read_run_facts(make_run(name, config=config))

    first = facts("a", {"seed": 1, "env": {"id": "CartPole-v1", "settings": {}}, "ppo": {"gamma": 0.9}})
    other_seed = facts("b", {"seed": 2, "env": {"id": "CartPole-v1", "settings": {}}, "ppo": {"gamma": 0.9}})
    other_gamma = facts("c", {"seed": 1, "env": {"id": "CartPole-v1", "settings": {}}, "ppo": {"gamma": 0.8}})
    assert (first.seed, first.env, other_seed.seed) == (1, "CartPole-v1", 2)
    assert first.group == other_seed.group != other_gamma.group


def test_seed_environment_and_group_of_a_script_are_read_from_its_arguments(make_run):
    def facts(name, seed, env_id, arguments):
        settings = {"exp_name": "ppo", "seed": seed, "env_id": env_id, "gamma": 0.9}
        return read_run_facts(make_run(name, config={"script": "/a/ppo.py", "argv": arguments, "settings": settings}))

    first = facts("a", 1, "CartPole-v1", [])
    other_seed = facts("b", 2, "CartPole-v1", ["--seed", "2"])
    negative = facts("c", -2, "CartPole-v1", ["--seed=-2"])
    other_env = facts("d", 1, "Acrobot-v1", ["--env-id", "Acrobot-v1"])
    assert (first.seed, first.env, other_seed.seed, negative.seed) == (1, "CartPole-v1", 2, -2)
    assert first.group == other_seed.group == negative.group != other_env.group


@pytest.mark.parametrize("env", ["ALE/Breakout-v5", "module:Env-v0", "a: b", "yes", "1.5", "ä # b"])
def test_any_environment_id_is_returned_unchanged(make_run, env):
    assert read_run_facts(make_run(config={"seed": 3, "env": {"id": env}})).env == env


def test_a_seed_inside_a_section_is_not_that_of_the_run(make_run):
    found = read_run_facts(make_run(config={"evaluation": {"seed": 7}, "x": {"env": {"id": "no"}}}))
    assert (found.seed, found.env) == (None, None)


def test_a_run_without_a_config_has_no_facts(make_run):
    directory = make_run()
    directory.config_file.unlink()
    assert read_run_facts(directory).seed is None


def test_facts_are_cached_until_invalidated(make_run):
    directory, cache = make_run(), RunFactsCache()
    assert cache.annotations(directory) == Annotations()
    cache.annotate(directory, Annotations(("x",)))
    assert cache.annotations(directory).tags == ("x",)
    assert RunFactsCache().annotations(directory).tags == ("x",)  # it is on disk
    cache.invalidate(directory.id)
    assert cache.annotations(directory).tags == ("x",)
