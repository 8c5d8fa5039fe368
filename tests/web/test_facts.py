import pytest

from palaestra.runs.annotations import Annotations
from palaestra.web.facts import FactBook, read_facts


def test_seed_environment_and_group_are_read_from_the_config(make_run):
    def facts(name, config):
        return read_facts(make_run(name, config=config))

    first = facts("a", {"seed": 1, "env": {"id": "CartPole-v1", "settings": {}}, "ppo": {"gamma": 0.9}})
    other_seed = facts("b", {"seed": 2, "env": {"id": "CartPole-v1", "settings": {}}, "ppo": {"gamma": 0.9}})
    other_gamma = facts("c", {"seed": 1, "env": {"id": "CartPole-v1", "settings": {}}, "ppo": {"gamma": 0.8}})
    assert (first.seed, first.env, other_seed.seed) == (1, "CartPole-v1", 2)
    assert first.group == other_seed.group != other_gamma.group


@pytest.mark.parametrize("env", ["ALE/Breakout-v5", "module:Env-v0", "a: b", "yes", "1.5", "ä # b"])
def test_whatever_the_environment_is_called_it_is_told_as_it_is(make_run, env):
    assert read_facts(make_run(config={"seed": 3, "env": {"id": env}})).env == env


def test_a_seed_inside_a_section_is_not_the_run_s(make_run):
    found = read_facts(make_run(config={"evaluation": {"seed": 7}, "x": {"env": {"id": "no"}}}))
    assert (found.seed, found.env) == (None, None)


def test_a_run_without_a_config_has_no_facts(make_run):
    directory = make_run()
    directory.config_file.unlink()
    assert read_facts(directory).seed is None


def test_a_book_remembers_until_it_is_told_otherwise(make_run):
    directory, book = make_run(), FactBook()
    assert book.annotations(directory) == Annotations()
    book.annotate(directory, Annotations(("x",)))
    assert book.annotations(directory).tags == ("x",)
    assert FactBook().annotations(directory).tags == ("x",)  # it is on disk
    book.forget(directory.id)
    assert book.annotations(directory).tags == ("x",)
