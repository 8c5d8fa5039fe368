import pytest

from palaestra.cli.command import Command, Group
from palaestra.core.errors import UsageError


def make(name="show", seen=None):
    return Command(
        name=f"things {name}",
        summary="show a thing",
        examples=("palaestra things show x",),
        add_arguments=lambda parser: parser.add_argument("thing"),
        run=lambda arguments: (seen if seen is not None else []).append((name, arguments.thing)) or 7,
        details=lambda words: [f"details for {list(words)}"],
    )


def test_a_command_runs_with_its_arguments_and_gives_the_exit_code():
    seen = []
    assert make(seen=seen).main(["x"]) == 7
    assert seen == [("show", "x")]


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_is_shown_anywhere_on_the_line_and_nothing_is_run(flag, capsys):
    seen = []
    assert make(seen=seen).main(["x", flag]) == 0
    out = capsys.readouterr().out
    assert seen == []
    assert "details for ['x']" in out
    assert out.rstrip().endswith("palaestra things show x")


def test_a_group_hands_on_to_the_action_and_has_a_default():
    seen = []
    group = Group("things", "things", {"show": make("show", seen), "hide": make("hide", seen)}, default="show")
    group.main(["hide", "x"])
    assert seen == [("hide", "x")]
    with pytest.raises(UsageError, match="required: thing"):
        group.main([])  # the default action, which wants a thing


def test_an_unknown_action_is_told_with_the_nearest():
    group = Group("things", "things", {"show": make()})
    with pytest.raises(UsageError, match="Did you mean 'show'"):
        group.main(["shwo"])
    with pytest.raises(UsageError, match="needs an action"):
        group.main([])
