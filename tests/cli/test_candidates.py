import pytest

from palaestra.cli.candidates import complete
from palaestra.cli.main import VERBS


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
