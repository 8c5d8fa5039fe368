import pytest

from palaestra.cli.run_tool import split_tool, verb_arguments
from palaestra.core.errors import NotFound, UsageError


@pytest.mark.parametrize(
    ("words", "same"),
    [
        (["arena.basic.train", "run=a", "--quiet"], ["train", "arena.basic", "run=a", "--quiet"]),
        (["cartpole.play", "--seed", "3"], ["play", "cartpole", "--seed", "3"]),
        (["arena.basic.eval", "first:best"], ["eval", "first:best", "suite=arena.basic"]),
        (["arena.basic.sim", "first"], ["eval", "first", "suite=arena.basic"]),
        (["arena.basic.replay", "first"], ["replay", "first"]),
        (["cartpole.eval", "-h"], ["eval", "-h"]),
    ],
)
def test_a_recipe_and_a_tool_are_the_words_of_the_verb(words, same):
    assert verb_arguments(words[0], words[1:]) == same


def test_a_recipe_followed_by_train_trains_it(call, workplace):
    code, out, _ = call("run", "cartpole.train", "--dry-run")
    assert code == 0
    assert out == call("train", "cartpole", "--dry-run")[1]


def test_what_is_no_recipe_or_no_tool_is_refused_with_the_nearest():
    with pytest.raises(NotFound, match="'cartpol'.*'cartpole'"):
        split_tool("cartpol.train")
    with pytest.raises(UsageError, match="'trian'|Did you mean 'train'"):
        split_tool("cartpole.trian")
    with pytest.raises(UsageError, match="needs a run"):
        verb_arguments("cartpole.eval", ["--episodes=3"])


def test_without_the_verb_the_whole_command_is_named(call):
    code, _, err = call("arena.basic_easy_shaped.train", "run=a")
    assert code == 2
    assert "palaestra run arena.basic_easy_shaped.train" in err
