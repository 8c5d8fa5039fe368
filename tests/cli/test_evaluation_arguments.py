import pytest

from palaestra.cli.main import load_verb


@pytest.mark.parametrize("verb", ["eval", "request-eval"])
def test_in_both_directions_to_evaluate_take_the_same_plan(verb):
    requested = load_verb(verb).parser().parse(["first", "--episodes", "3", "--seed", "7", "--stochastic"])
    assert (requested.episodes, requested.seed, requested.stochastic) == (3, 7, True)


@pytest.mark.parametrize("verb", ["eval", "request-eval"])
@pytest.mark.parametrize("words", [["--episodes", "0"], ["--seed", "-1"]])
def test_a_plan_that_cannot_be_is_refused_at_once(verb, words):
    with pytest.raises(Exception, match=words[1]):
        load_verb(verb).parser().parse(["first", *words])
