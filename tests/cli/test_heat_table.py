from palaestra.cli.heat_table import print_heat_table

ROWS = [[("[bold]one", None), ("1.5", 0.0)], [("two\x1b[2J", None), (None, None)]]


def test_without_a_terminal_it_is_a_plain_table(monkeypatch, capsys):
    monkeypatch.setenv("NO_COLOR", "1")
    print_heat_table(("name", "score"), ROWS)
    assert capsys.readouterr().out.splitlines() == ["name        score", "[bold]one   1.5", r"two\x1b[2J  -"]


def test_on_a_terminal_numbers_stand_on_colours_and_names_are_never_markup(monkeypatch, capsys):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    print_heat_table(("name", "score"), ROWS)
    out = capsys.readouterr().out
    assert "48;2;44;52;110m" in out  # the lowest shade as ground
    assert "[bold]one" in out
    assert "\x1b[2J" not in out
