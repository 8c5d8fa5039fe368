from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from palaestra.core import errors
from palaestra.core.errors import MissingExtra, PalaestraError, UsageError, did_you_mean, escape_controls

SOURCE = Path(errors.__file__).parents[1]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("PalaestraError", 1),
        ("UsageError", 2),
        ("NotFound", 3),
        ("MissingExtra", 4),
        ("RunFailed", 1),
        ("NonFinite", 1),
        ("DamagedFile", 1),
        ("RefusedFile", 1),
        ("BelowScore", 5),
    ],
)
def test_exit_codes_are_those_of_the_contract(name, code):
    kind = getattr(errors, name)
    assert kind.exit_code == code
    assert issubclass(kind, PalaestraError)


def test_every_error_of_the_house_is_drawn_under_the_one_it_is_a_kind_of():
    classes = [
        node
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    ]
    parents = {node.name: {base.id for base in node.bases if isinstance(base, ast.Name)} for node in classes}
    known = {"PalaestraError"}
    while more := {name for name, bases in parents.items() if bases & known} - known:
        known |= more
    assert drawn_tree() == {name: next(iter(parents[name] & known)) for name in known - {"PalaestraError"}}


def drawn_tree() -> dict[str, str]:
    """{error: its parent}, read off the picture by how far each line is indented."""
    path: list[tuple[int, str]] = []
    found = {}
    for indent, name in re.findall(r"^( +(?:[│├└─ ]*))([A-Z]\w+)", errors.__doc__, re.MULTILINE):
        path = [each for each in path if each[0] < len(indent)]
        if path:
            found[name] = path[-1][1]
        path.append((len(indent), name))
    return found


def test_a_missing_extra_says_how_to_install_it():
    assert "pip install 'palaestra[mujoco]'" in str(MissingExtra("Walker2d-v5", "mujoco"))


def test_an_error_reads_as_message_and_hint():
    assert str(PalaestraError("It broke.", "Try again.")) == "It broke. Try again."
    assert str(PalaestraError("It broke.")) == "It broke."


def test_did_you_mean_is_silent_when_nothing_is_near():
    assert did_you_mean("cartpol", ["cartpole", "pendulum"]) == "Did you mean 'cartpole'?"
    assert did_you_mean("xyz", ["cartpole"]) == ""
    assert did_you_mean("xyz", []) == ""


@pytest.mark.fault("W11")
def test_an_error_as_text_has_no_control_characters_but_line_breaks():
    assert str(UsageError("one\ntwo \x1b[31m", "\u202e")) == "one\ntwo \\x1b[31m \\u202e"


def test_ordinary_text_is_not_changed():
    assert escape_controls("größer 模 100 % \\x1b") == "größer 模 100 % \\x1b"


@pytest.mark.fault("W11")
def test_control_and_direction_characters_are_shown_as_escapes():
    assert escape_controls("\x1b[31m\n\u202e\u2028\x9b\0") == r"\x1b[31m\n\u202e\u2028\x9b\x00"


def test_characters_to_keep_stay_as_they_are():
    assert escape_controls("a\n\tb\r\x07", keep="\n\t") == "a\n\tb\\r\\x07"
