from __future__ import annotations

import pytest

from palaestra.cli.arguments import TrainArguments, is_other_kind, parse_train_arguments, split_target
from palaestra.core import plugins
from palaestra.core.errors import UsageError


def test_recipe_name_and_settings_are_distinguished_in_any_order():
    expected = TrainArguments(recipe="cartpole", run="first", overrides={"seed": 3})
    assert parse_train_arguments(["cartpole", "run=first", "seed=3"]) == expected
    assert parse_train_arguments(["seed=3", "run=first", "cartpole"]) == expected


def test_a_first_word_with_an_equals_sign_means_no_recipe():
    assert parse_train_arguments(["env.id=CartPole-v1"]) == TrainArguments(
        recipe="", run="", overrides={"env": {"id": "CartPole-v1"}}
    )


@pytest.mark.parametrize("name", ["007", "1e3", "true", "null", "2026-01-02", "a=b"])
def test_a_runs_name_is_taken_as_it_is_typed(name):
    assert parse_train_arguments([f"run={name}"]).run == name


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run=a", "run=b"], "set twice"),
        (["run="], "no name"),
        (["cartpole", "pendulum"], "Expected one name"),
        (["executor=ray", "executor=local"], "set twice"),
        (["executor="], "no value"),
        (["nproc=0"], "nproc: '0'"),
        (["nproc=two"], "nproc: 'two'"),
        (["nproc=2", "nproc=2"], "set twice"),
    ],
)
def test_what_cannot_be_is_refused(words, said):
    with pytest.raises(UsageError, match=said):
        parse_train_arguments(words)


def test_a_target_may_be_missing():
    assert split_target(["a=1"]) == ("", ["a=1"])


def test_who_places_a_training_and_how_many_train_is_no_part_of_its_configuration():
    words = parse_train_arguments(["cartpole", "executor=ray", "nproc=4", "seed=3"])
    assert words == TrainArguments("cartpole", "", {"seed": 3}, executor="ray", nproc=4)
    assert (parse_train_arguments([]).executor, parse_train_arguments([]).nproc) == ("", None)


def test_only_kinds_that_have_no_command_of_their_own_are_meant(monkeypatch):
    names = plugins.names
    strangers = {"workers": ["sleepy", "cartpole"]}
    monkeypatch.setattr(plugins, "names", lambda group: [*names(group), *strangers.get(group, [])])
    assert is_other_kind("sleepy")
    assert not any(map(is_other_kind, ("native", "evaluate", "cartpole", "", "absent")))
