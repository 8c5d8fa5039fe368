import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from palaestra.cli import output
from palaestra.core.run import RunState


@dataclass(frozen=True)
class Thing:
    path: Path
    values: tuple[float, ...]


def test_json_is_strict_and_carries_our_types(capsys):
    output.print_json(
        {"thing": Thing(Path("/x"), (1.0, float("nan"), float("inf"))), "state": RunState.LOST, "n": None}
    )
    assert json.loads(capsys.readouterr().out) == {
        "thing": {"path": "/x", "values": [1.0, None, None]},
        "state": "lost",
        "n": None,
    }


def test_beside_json_everything_that_is_printed_goes_to_stderr(capfd):
    with output.stdout_only_for_json():
        print("printed by an environment")
        os.write(1, b"written by compiled code\n")
        subprocess.run(["echo", "printed by a child"], check=True)
        output.print_json({"score": 1})
    print("after it")
    reports = capfd.readouterr()
    assert reports.out == '{\n  "score": 1\n}\nafter it\n'
    assert reports.err.split("\n") == [
        "printed by an environment",
        "written by compiled code",
        "printed by a child",
        "",
    ]


def test_a_stdout_without_a_descriptor_gets_the_json_too(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    with output.stdout_only_for_json():
        print("printed by an environment")
        output.print_json([1], indent=None)
    assert stream.getvalue() == "[1]\n"


def test_a_plain_table_is_aligned_without_colours(capsys, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    output.print_table(("name", "steps"), [("a-long-name", 5), ("b", None)])
    assert capsys.readouterr().out == "name         steps\na-long-name  5\nb            -\n"


def test_a_table_without_rows_says_so_on_stderr(capsys):
    output.print_table(("name",), [], empty="Nothing here.")
    assert capsys.readouterr() == ("", "Nothing here.\n")


@pytest.mark.parametrize("hostile", ["\x1b[31mred", "a\nb", "\u202egnp.exe", "\x07", "\x9b1m"])
def test_control_characters_never_reach_the_terminal(hostile, capsys):
    output.print_table(("name",), [(hostile,)])
    output.print_pairs({"name": hostile})
    shown = capsys.readouterr().out
    assert not set(hostile) & set("\x1b\u202e\x07\x9b") & set(shown)
    assert len(shown.splitlines()) == 3


@pytest.mark.parametrize("hostile", ["\x1b[31mred", "\u202egnp.exe", "\x07", "\x9b1m", "\x7f"])
def test_notes_texts_and_json_are_escaped_and_json_keeps_its_values(hostile, capsys):
    output.note(hostile)
    output.print_text(f"name: {hostile}\nsecond line\n")
    shown = capsys.readouterr()
    assert (shown.out + shown.err).replace("\n", "").isprintable()
    assert len(shown.out.splitlines()) == 2
    output.print_json({"name": hostile})
    printed = capsys.readouterr().out
    assert printed.replace("\n", "").isprintable()
    assert json.loads(printed) == {"name": hostile}


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("variables", "is_terminal", "fancy"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, True, False),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
    ],
)
def test_colours_only_where_they_are_wanted(variables, is_terminal, fancy, monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stdout", Terminal() if is_terminal else io.StringIO())
    assert output.is_fancy() is fancy


def test_on_a_terminal_a_name_is_never_read_as_markup(monkeypatch, capsys):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    output.print_table(("name",), [("[red]x[/red]",)])
    assert "[red]x[/red]" in capsys.readouterr().out
