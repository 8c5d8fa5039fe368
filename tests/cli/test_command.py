from __future__ import annotations

import json

import pytest

from palaestra.cli.candidates import complete
from palaestra.cli.command import Command, Group
from palaestra.cli.main import VERBS, help_text, main
from palaestra.core import plugins
from palaestra.core.app import App, CommandPlugin, CommandResult
from palaestra.core.errors import UsageError


def make(name="show", observed=None):
    return Command(
        name=f"things {name}",
        summary="show a thing",
        examples=("palaestra things show x",),
        add_arguments=lambda parser: parser.add_argument("thing"),
        run=lambda arguments: (observed if observed is not None else []).append((name, arguments.thing)) or 7,
        details=lambda argv: [f"details for {list(argv)}"],
    )


def test_a_command_runs_with_its_arguments_and_gives_the_exit_code():
    observed = []
    assert make(observed=observed).main(["x"]) == 7
    assert observed == [("show", "x")]


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_is_shown_anywhere_on_the_line_and_nothing_is_run(flag, capsys):
    observed = []
    assert make(observed=observed).main(["x", flag]) == 0
    out = capsys.readouterr().out
    assert observed == []
    assert "details for ['x']" in out
    assert out.rstrip().endswith("palaestra things show x")


def test_a_group_hands_on_to_the_action_and_has_a_default():
    observed = []
    group = Group("things", "things", {"show": make("show", observed), "hide": make("hide", observed)}, default="show")
    group.main(["hide", "x"])
    assert observed == [("hide", "x")]
    with pytest.raises(UsageError, match="required: thing"):
        group.main([])  # the default action, which wants a thing


def test_an_unknown_action_is_reported_with_the_nearest():
    group = Group("things", "things", {"show": make()})
    with pytest.raises(UsageError, match="Did you mean 'show'"):
        group.main(["shwo"])
    with pytest.raises(UsageError, match="needs an action"):
        group.main([])


def _argv(parser):
    parser.add_argument("name")


def greet(arguments):
    return CommandResult({"hello": arguments.name}, ("hello",), ((arguments.name,),), ("That was all.",), exit_code=3)


GREET = CommandPlugin("greets", ("palaestra greet a",) * 3, _argv, f"{__name__}:greet")


@pytest.fixture
def brought(monkeypatch):
    """`brought(name=command)`: an app with these commands is installed."""

    def put(**commands):
        monkeypatch.setattr(plugins, "_apps", lambda: {"brought": App(commands=commands)})

    return put


@pytest.fixture(autouse=True)
def _work_is_found(monkeypatch):
    monkeypatch.setattr("palaestra.cli.command._work_of", lambda _place: greet)


def test_a_plugins_verb_is_called_and_its_reply_printed(brought, call):
    brought(greet=GREET)
    assert call("greet", "you") == (3, "hello\nyou\n", "That was all.\n")


def test_with_json_only_the_data_is_printed(brought, call):
    brought(greet=GREET)
    code, out, err = call("greet", "you", "--json")
    assert (code, json.loads(out), err) == (3, {"hello": "you"}, "")


def test_help_and_completion_know_it(brought):
    brought(greet=GREET)
    assert "greets" in help_text()
    assert "greet" in complete(["gre"])


def test_a_plugin_that_cannot_be_loaded_does_not_take_the_help_away(brought, call):
    brought(greet="no_such_module:GREET")
    assert all(verb in help_text() for verb in VERBS)
    code, _, err = call("greet", "you")
    assert code == 2
    assert "cannot be imported" in err


def test_what_is_no_command_is_refused(brought, call):
    brought(greet=5)
    code, _, err = call("greet")
    assert code == 2
    assert "not a CommandPlugin" in err


def test_a_plugin_cannot_take_a_verb_of_ours(brought, capsys):
    brought(train=GREET)
    assert help_text().count("\n  train ") == 1
    assert main(["train", "-h"]) == 0
    assert "greets" not in capsys.readouterr().out


def test_a_verb_that_is_nearly_typed_is_named(brought, call):
    brought(greet=GREET)
    assert "Did you mean 'greet'?" in call("gret")[2]
