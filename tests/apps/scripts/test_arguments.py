from __future__ import annotations

import argparse
import ast

import pytest

from palaestra.apps.scripts.arguments import (
    Argument,
    ArgumentType,
    Mismatch,
    NotConstant,
    argparse_arguments,
    build_argv,
    evaluate_constant,
    read_type,
    resolve_values,
)


def argument(name, kind, default, **more):
    flag = "--" + name.replace("_", "-")
    return Argument(name, flag, ArgumentType(kind, is_optional=default is None), "", True, True, default, **more)


TRACK = argument("track", "bool", False)
CUDA = argument("cuda", "bool", True)
TARGET_KL = argument("target_kl", "float", None)
BATCH = argument("batch_size", "int", 0, is_derived=True)
ALL = (TRACK, CUDA, TARGET_KL, BATCH)


def test_without_settings_the_run_equals_the_bare_script():
    values, complaints = resolve_values(ALL, {})
    assert (values, complaints) == ({"track": False, "cuda": True, "target_kl": None}, [])
    assert build_argv(ALL, values) == []


def test_explicit_defaults_equal_the_bare_script():
    values, _ = resolve_values(ALL, {"track": False, "cuda": True, "target_kl": None})
    assert build_argv(ALL, values) == []


def test_false_is_sent():
    values, _ = resolve_values(ALL, {"cuda": False, "track": True})
    assert build_argv(ALL, values) == ["--track", "--no-cuda"]


def test_none_is_sent_instead_of_a_number_and_zero_is_not_none():
    number = argument("target_kl", "float", 0.5)
    assert build_argv([number], {"target_kl": None}) == ["--target-kl", "None"]
    values, _ = resolve_values(ALL, {"target_kl": 0})
    assert build_argv(ALL, values) == ["--target-kl", "0.0"]


def test_a_derived_argument_cannot_be_set():
    _, complaints = resolve_values(ALL, {"batch_size": 5})
    assert [one.key for one in complaints] == ["batch_size"]


def test_an_argument_without_a_default_must_be_given():
    needed = Argument("env_id", "--env-id", ArgumentType("str"), "", False, False, None)
    assert [one.key for one in resolve_values([needed], {})[1]] == ["env_id"]
    assert resolve_values([needed], {"env_id": "X"}) == ({"env_id": "X"}, [])


@pytest.mark.parametrize(("value", "words"), [(True, ["--track", "True"]), (False, ["--track", "False"])])
def test_older_parsers_take_a_truth_as_a_word(value, words):
    assert argument("track", "bool", None, takes_boolean_value=True).to_argv(value) == words


def test_a_list_is_written_word_by_word():
    assert argument("sizes", "list", None).to_argv([1, 2]) == ["--sizes", "1", "2"]


@pytest.mark.parametrize("value", ["-minus", "--two", "two words", "ALE/Pong-v5", "None?", "a=b"])
def test_a_text_comes_out_of_a_parser_as_it_went_in(value):
    parser = argparse.ArgumentParser()
    parser.add_argument("--exp-name")
    parser.add_argument("--other")
    words = argument("exp_name", "str", "x").to_argv(value)
    assert parser.parse_args(words).exp_name == value


def test_a_number_below_nothing_is_not_taken_for_a_flag():
    parser = argparse.ArgumentParser()
    parser.add_argument("--v-min", type=float)
    parser.add_argument("-3", dest="three")  # a parser that has such a flag takes -10 for one, too
    assert parser.parse_args(argument("v_min", "float", 0.0).to_argv(-10.0)).v_min == -10


def read(text):
    return read_type(ast.parse(text, mode="eval").body)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("int", ArgumentType("int")),
        ("Optional[float]", ArgumentType("float", is_optional=True)),
        ("float | None", ArgumentType("float", is_optional=True)),
        ("Union[str, None]", ArgumentType("str", is_optional=True)),
        ("'int'", ArgumentType("int")),
        ("Literal['a', 'b']", ArgumentType("choice", choices=("a", "b"))),
        ("List[int]", ArgumentType("list", item="int")),
        ("tuple[float, ...]", ArgumentType("list", item="float")),
        ("int | str", ArgumentType("any")),
        ("np.ndarray", ArgumentType("any")),
    ],
)
def test_annotations_are_understood(text, wanted):
    assert read(text) == wanted


@pytest.mark.parametrize(
    ("name", "given", "wanted"),
    [("int", 1e5, 100_000), ("float", 1, 1.0), ("bool", False, False), ("str", 7, "7"), ("any", "x", "x")],
)
def test_values_come_out_in_the_type_that_the_script_has(name, given, wanted):
    fitted = ArgumentType(name).convert(given)
    assert fitted == wanted
    assert type(fitted) is type(wanted)


@pytest.mark.parametrize(
    ("name", "given"), [("int", 1.5), ("int", True), ("bool", 1), ("float", "x"), ("str", True), ("int", None)]
)
def test_values_of_another_type_are_refused(name, given):
    with pytest.raises(Mismatch, match="must be"):
        ArgumentType(name).convert(given)


def test_none_stays_none_where_it_may_be():
    assert ArgumentType("float", is_optional=True).convert(None) is None


def test_a_misspelt_choice_is_replied_to_with_the_nearest():
    with pytest.raises(Mismatch, match="'linear'"):
        ArgumentType("choice", choices=("linear", "cosine")).convert("liner")


def test_schemas_say_what_may_be_null():
    assert ArgumentType("float", is_optional=True).schema() == {"type": ["number", "null"]}
    assert ArgumentType("list", item="int").schema() == {"type": "array", "items": {"type": "integer"}}
    assert ArgumentType("choice", choices=("a",)).schema() == {"enum": ["a"]}


def value(text):
    return evaluate_constant(ast.parse(text, mode="eval").body, "ppo")


@pytest.mark.parametrize(
    "text",
    [
        "1",
        "-2.5",
        "1e6",
        "'text'",
        "None",
        "True",
        "4 * 128",
        "2**10",
        "10 // 3",
        "[1, 2]",
        "1 - 2 / 8",
        "int(1e6)",
        "float(3)",
    ],
)
def test_plain_expressions_come_out_as_python_has_them(text):
    assert value(text) == ast.literal_eval(text) if text[0] in "'NT[" else value(text) == eval(text)


def test_a_tuple_becomes_a_list():
    assert value("(64, 64)") == [64, 64]


def test_the_scripts_own_name_is_known():
    assert value("os.path.basename(__file__)[: -len('.py')]") == "ppo"


def test_fields_with_factories_are_worked_out():
    assert value("field(default_factory=lambda: [1, 2])") == [1, 2]
    assert value("dataclasses.field(default=3)") == 3
    assert value("field(default_factory=list)") == []


@pytest.mark.parametrize(
    "text",
    ["open('x')", "time.time()", "1 / 0", "2 ** 9999", "'a' * 10**9", "field(init=False)", "int('5')", "int(1e999)"],
)
def test_what_would_need_running_is_not_worked_out(text):
    with pytest.raises(NotConstant):
        value(text)


SOURCE = """
parser.add_argument("--exp-name", type=str, default=os.path.basename(__file__).rstrip(".py"), help="the name")
parser.add_argument("--learning-rate", type=float, default=2.5e-4, help="the\\n rate")
parser.add_argument("--track", type=lambda x: bool(strtobool(x)), default=False, nargs="?", const=True)
parser.add_argument("--target-kl", type=float, default=None)
parser.add_argument("--mode", choices=["a", "b"], default="a")
parser.add_argument("--sizes", type=int, nargs="+", default=[1])
parser.add_argument("--path", required=True)
parser.add_argument("--verbose", action="store_true")
parser.add_argument("--no-cuda", action="store_false", dest="cuda")
parser.add_argument("--render", action=argparse.BooleanOptionalAction, default=True)
parser.add_argument("--version", action="version")
parser.add_argument("positional")
"""


def test_flags_of_an_older_script_are_read_with_types_and_defaults():
    found = {one.name: one for one in argparse_arguments(ast.parse(SOURCE), "old")}
    assert {name: one.default for name, one in found.items()} == {
        "exp_name": "old",
        "learning_rate": 2.5e-4,
        "track": False,
        "target_kl": None,
        "mode": "a",
        "sizes": [1],
        "path": None,
        "verbose": False,
        "cuda": True,
        "render": True,
    }
    assert (found["verbose"].to_argv(True), found["verbose"].to_argv(False)) == (["--verbose"], [])
    assert found["cuda"].to_argv(False) == ["--no-cuda"]
    assert found["render"].to_argv(False) == ["--no-render"]
    assert found["track"].type.name == "bool"
    assert found["track"].to_argv(True) == ["--track", "True"]
    assert found["target_kl"].type.is_optional
    assert found["learning_rate"].description == "the rate"
    assert not found["path"].has_default
