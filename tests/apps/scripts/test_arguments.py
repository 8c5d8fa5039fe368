import argparse

import pytest

from palaestra.apps.scripts.argument_types import ArgumentType
from palaestra.apps.scripts.arguments import Argument, command_words, complete


def argument(name, kind, default, **more):
    flag = "--" + name.replace("_", "-")
    return Argument(name, flag, ArgumentType(kind, is_optional=default is None), "", True, True, default, **more)


TRACK = argument("track", "bool", False)
CUDA = argument("cuda", "bool", True)
TARGET_KL = argument("target_kl", "float", None)
BATCH = argument("batch_size", "int", 0, is_derived=True)
ALL = (TRACK, CUDA, TARGET_KL, BATCH)


def test_nothing_said_is_exactly_the_bare_script():
    values, complaints = complete(ALL, {})
    assert (values, complaints) == ({"track": False, "cuda": True, "target_kl": None}, [])
    assert command_words(ALL, values) == []


def test_the_defaults_said_aloud_are_still_the_bare_script():
    values, _ = complete(ALL, {"track": False, "cuda": True, "target_kl": None})
    assert command_words(ALL, values) == []


def test_false_is_sent():
    values, _ = complete(ALL, {"cuda": False, "track": True})
    assert command_words(ALL, values) == ["--track", "--no-cuda"]


def test_none_is_sent_in_the_place_of_a_number_and_zero_is_not_none():
    number = argument("target_kl", "float", 0.5)
    assert command_words([number], {"target_kl": None}) == ["--target-kl", "None"]
    values, _ = complete(ALL, {"target_kl": 0})
    assert command_words(ALL, values) == ["--target-kl", "0.0"]


def test_a_derived_argument_cannot_be_set():
    _, complaints = complete(ALL, {"batch_size": 5})
    assert [one.key for one in complaints] == ["batch_size"]


def test_an_argument_without_a_default_must_be_given():
    needed = Argument("env_id", "--env-id", ArgumentType("str"), "", False, False, None)
    assert [one.key for one in complete([needed], {})[1]] == ["env_id"]
    assert complete([needed], {"env_id": "X"}) == ({"env_id": "X"}, [])


@pytest.mark.parametrize(("value", "words"), [(True, ["--track", "True"]), (False, ["--track", "False"])])
def test_older_parsers_take_a_truth_as_a_word(value, words):
    assert argument("track", "bool", None, is_word=True).words(value) == words


def test_a_list_is_written_word_by_word():
    assert argument("sizes", "list", None).words([1, 2]) == ["--sizes", "1", "2"]


@pytest.mark.parametrize("value", ["-minus", "--two", "two words", "ALE/Pong-v5", "None?", "a=b"])
def test_a_text_comes_out_of_a_parser_as_it_went_in(value):
    parser = argparse.ArgumentParser()
    parser.add_argument("--exp-name")
    parser.add_argument("--other")
    words = argument("exp_name", "str", "x").words(value)
    assert parser.parse_args(words).exp_name == value


def test_a_number_below_nothing_is_not_taken_for_a_flag():
    parser = argparse.ArgumentParser()
    parser.add_argument("--v-min", type=float)
    parser.add_argument("-3", dest="three")  # a parser that has such a flag takes -10 for one, too
    assert parser.parse_args(argument("v_min", "float", 0.0).words(-10.0)).v_min == -10
