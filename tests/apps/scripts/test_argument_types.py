import ast

import pytest

from palaestra.apps.scripts.argument_types import ArgumentType, NotFitting, read_type


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
    fitted = ArgumentType(name).fit(given)
    assert fitted == wanted
    assert type(fitted) is type(wanted)


@pytest.mark.parametrize(
    ("name", "given"), [("int", 1.5), ("int", True), ("bool", 1), ("float", "x"), ("str", True), ("int", None)]
)
def test_values_of_another_type_are_refused(name, given):
    with pytest.raises(NotFitting, match="must be"):
        ArgumentType(name).fit(given)


def test_none_stays_none_where_it_may_be():
    assert ArgumentType("float", is_optional=True).fit(None) is None


def test_a_misspelt_choice_is_answered_with_the_nearest():
    with pytest.raises(NotFitting, match="'linear'"):
        ArgumentType("choice", choices=("linear", "cosine")).fit("liner")


def test_schemas_say_what_may_be_null():
    assert ArgumentType("float", is_optional=True).schema() == {"type": ["number", "null"]}
    assert ArgumentType("list", item="int").schema() == {"type": "array", "items": {"type": "integer"}}
    assert ArgumentType("choice", choices=("a",)).schema() == {"enum": ["a"]}
