import pytest

from palaestra.cli.parser import Parser, natural, positive
from palaestra.core.errors import UsageError


@pytest.fixture
def parser():
    made = Parser("train", "train")
    made.add_argument("words", nargs="*")
    made.add_flag("--json", action="store_true")
    made.add_flag("--episodes", type=positive, default=20)
    made.add_flag("--seed", type=natural, default=0)
    return made


def test_flags_may_stand_anywhere_between_the_words(parser):
    arguments = parser.parse(["cartpole", "--json", "seed=1", "--episodes", "1e3", "run=x"])
    assert arguments.words == ["cartpole", "seed=1", "run=x"]
    assert (arguments.json, arguments.episodes) == (True, 1000)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--jso"], "Did you mean '--json'"),
        (["--zzz"], "palaestra train -h"),
        (["--lr", "3e-4"], "ppo.learning_rate.*key=value, without dashes"),
        (["--algo", "dqn"], "Algorithms: ppo"),
        (["--episodes"], "expected one argument"),
        (["--episodes", "0"], "at least 1"),
        (["--episodes", "1.5"], "whole number"),
        (["--episodes", "nan"], "whole number"),
        (["--seed", "-1"], "at least 0"),
        (["--json=5"], "ignored explicit argument"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_printed(parser, words, said, capsys):
    with pytest.raises(UsageError, match=said):
        parser.parse(words)
    assert capsys.readouterr() == ("", "")


def test_infinity_is_no_count():
    with pytest.raises(Exception, match="whole number"):
        positive("inf")
