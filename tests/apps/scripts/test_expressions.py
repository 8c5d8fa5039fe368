import ast

import pytest

from palaestra.apps.scripts.expressions import NotPlain, work_out


def value(text):
    return work_out(ast.parse(text, mode="eval").body, "ppo")


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
    with pytest.raises(NotPlain):
        value(text)
