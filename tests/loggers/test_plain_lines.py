import sys
from io import StringIO

from palaestra.loggers.plain_lines import PlainLines


def test_a_line_goes_to_stderr_as_it_is_when_it_is_said(monkeypatch):
    lines = PlainLines()
    first, second = StringIO(), StringIO()
    monkeypatch.setattr(sys, "stderr", first)
    lines.say("step 512 [bold]")
    monkeypatch.setattr(sys, "stderr", second)
    lines.say("step 1,024")
    assert (first.getvalue(), second.getvalue()) == ("step 512 [bold]\n", "step 1,024\n")
