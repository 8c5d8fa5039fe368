from __future__ import annotations

import pytest

from palaestra.cli.candidates import complete, complete_keys, key_lines, run_names, run_selectors, show
from palaestra.cli.main import VERBS
from palaestra.config.keys import list_keys
from palaestra.config.schedule import linear
from palaestra.config.train import TrainConfig


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["tr"], ["train"]),
        (["train", "cartp"], ["cartpole"]),
        (["train", "cartpole", "--dr"], ["--dry-run"]),
        (["train", "cartpole", "ppo.gam"], ["ppo.gamma="]),
        (["train", "loggers.csv=t"], ["loggers.csv=true"]),
        (["config", "sch"], ["schema"]),
        (["config", "show", "walker"], ["walker2d"]),
        (["completion", "z"], ["zsh"]),
        (["runs", "show", "--j"], ["--json"]),
        (["--ver"], ["--version"]),
        (["nonsense", "x"], []),
        (["runs", "nonsense", "x"], []),
    ],
)
def test_the_word_that_is_being_typed_is_completed(words, expected):
    assert complete(words) == expected


def test_an_empty_line_offers_every_verb():
    assert set(VERBS) < set(complete([""]))
    assert complete([]) == complete([""])


def test_after_a_recipe_no_other_recipe_is_offered():
    offered = complete(["train", "cartpole", ""])
    assert "total_steps=" in offered
    assert "run=" in offered
    assert "pendulum" not in offered


def test_runs_are_offered_with_their_selectors(runs):
    assert complete(["eval", "first"]) == ["first", "first:best", "first:latest"]
    assert complete(["runs", "rm", "s"]) == ["second"]


def test_names_and_selectors_are_offered(runs):
    assert run_names() == ["first", "second", "third", "latest"]
    assert {"first", "first:best", "second:latest"} <= set(run_selectors())


def test_without_runs_there_is_nothing_to_offer(workplace):
    assert run_names() == run_selectors() == []


def test_every_key_is_listed_with_default_type_and_meaning():
    text = "\n".join(key_lines(list_keys(TrainConfig)))
    for key in list_keys(TrainConfig):
        assert f"    {key.path}={show(key.default)}\n        {key.accepts}; {key.description}" in text
    assert "    run=" in text


def test_values_are_shown_as_they_would_be_typed():
    typed = [show(value) for value in (None, True, (), ("a", "b"), 1e-5, 100_000, linear(0.1))]
    assert typed == ["null", "true", "[]", "[a, b]", "1e-05", "100000", "linear 0.1 to 0"]


def test_keys_are_completed_up_to_the_equals_sign_and_then_their_choices():
    assert "ppo.clip=" in complete_keys("pp")
    assert "run=" in complete_keys("")
    assert complete_keys("loggers.csv=") == ["loggers.csv=true", "loggers.csv=false"]
    assert complete_keys("total_steps=") == []
