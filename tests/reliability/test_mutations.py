"""What is changed in a source, and what is left alone."""

import ast
import textwrap
from pathlib import Path

import pytest

from tools.reliability.mutations import mutants_of


def changes(source):
    return [mutant.change for mutant in mutants_of(textwrap.dedent(source))]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a < b", ["a < b -> (a <= b)"]),
        ("a >= b", ["a >= b -> (a > b)"]),
        ("a == b", ["a == b -> (a != b)"]),
        ("a is None", ["a is None -> (a is not None)"]),
        ("a not in b", ["a not in b -> (a in b)"]),
        ("a and b", ["a and b -> (a or b)"]),
        ("not a", ["not a -> (a)"]),
        ("a + b", ["a + b -> (a - b)"]),
        ("a / b", ["a / b -> (a * b)"]),
        ("a if b else c", ["a if b else c -> (c if b else a)"]),
        ("True", ["True -> (False)"]),
        ("7", ["7 -> (8)"]),
        ("'.yaml'", ["'.yaml' -> ('.yamlq')"]),
        ("b'x'", ["b'x' -> (b'xq')"]),
        ("a < b <= c", ["a < b <= c -> (a <= b <= c)", "a < b <= c -> (a < b < c)"]),
    ],
)
def test_an_expression_is_turned_into_its_neighbour(source, expected):
    assert changes(f"value = {source}") == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("check(x)", ["check(x) -> pass"]),
        ("raise ValueError(x)", ["raise ValueError(x) -> pass"]),
        ("def f():\n    return x", ["return x -> return None"]),
        ("for x in y:\n    break", ["break -> continue"]),
        ("for x in y:\n    continue", ["continue -> break"]),
        ("a += b", ["a += b -> a -= b"]),
        ("if ready(): pass", ["ready() -> (not ready())"]),
        ("while x: pass", ["x -> (not x)"]),
        ("y = [x for x in z if x.ok]", ["x.ok -> (not x.ok)"]),
    ],
)
def test_a_statement_is_left_out_or_turned(source, expected):
    assert changes(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        "'A docstring'",
        "def f():\n    'A docstring of one'\n    pass",
        "logger.warning('word', 3)",
        "logging = 'Words of a message to people'",
        "from a import b",
        "if TYPE_CHECKING:\n    x = 1 < 2",
        "def f(x: Literal['a', 'b']) -> Literal[3]: pass",
        "@dataclass(frozen=True)\nclass A: pass",
        "Verdict = Literal['ours', 'foreign']",
        "x = f'{a < b}'",
        "def f():\n    return None",
        "''",
    ],
)
def test_what_no_test_should_hold_is_left_alone(source):
    assert changes(source) == []


def test_everything_but_the_place_stays_as_it_was_also_behind_letters_of_several_bytes():
    source = 'name = "Größe"; other = a  <  b  # wie früher\nrest = 1\n'
    (first, second, third) = mutants_of(source)
    assert first.source == 'name = ("Größeq"); other = a  <  b  # wie früher\nrest = 1\n'.replace('"', "'")
    assert second.source == 'name = "Größe"; other = (a <= b)  # wie früher\nrest = 1\n'
    assert (third.line, third.text) == (2, "rest = 1")


def test_every_mutant_of_a_real_file_can_be_read_and_differs_from_it():
    source = Path(textwrap.__file__).read_text()[:6000].rpartition("\n    def ")[0]
    for mutant in mutants_of(source):
        assert ast.dump(ast.parse(mutant.source)) != ast.dump(ast.parse(source)), mutant.change


def test_every_other_line_stays_where_it_was():
    source = "def f():\n    return (a\n        < b)  # why\n\n\ndef g(): raise ValueError(\n    1\n)\n\n\nLAST = x\n"
    for mutant in mutants_of(source):
        assert mutant.source.splitlines()[10:] == ["LAST = x"], mutant.change


@pytest.mark.parametrize(
    ("source", "is_inner"),
    [
        ("x = 1", False),
        ("def f(x=1): pass", False),
        ("class A:\n    x: int = 1", False),
        ("def f():\n    x = 1", True),
        ("class A:\n    def f(self): return x", True),
        ("f = lambda: 1", True),
        ("def f():\n    def g(x=1): pass", True),
    ],
)
def test_what_stands_within_a_function_is_reported_from_what_is_run_when_a_file_is_loaded(source, is_inner):
    assert {mutant.is_inner for mutant in mutants_of(source)} == {is_inner}


def test_an_argument_for_people_is_left_alone_and_one_for_the_program_is_not():
    assert changes("x = f(help='word', durable=True)") == ["True -> (False)"]
