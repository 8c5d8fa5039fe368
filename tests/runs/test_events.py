from __future__ import annotations

import re
from pathlib import Path

from palaestra.runs.events import EVENTS

PAGE = Path(__file__).parents[2] / "docs" / "events.md"


def test_every_event_has_a_level_a_meaning_and_a_name_of_two_words():
    for name, spec in EVENTS.items():
        assert re.fullmatch(r"[a-z]+\.[a-z]+", name)
        assert spec.level in {"debug", "info", "warning", "error"}
        assert spec.meaning
        assert len(set(spec.fields)) == len(spec.fields)


def test_the_page_for_people_says_what_the_table_says():
    rows = re.findall(r"^\| `([a-z.]+)` \| (\w+) \| (.*?) \| (.*?) \|$", PAGE.read_text(), re.MULTILINE)
    written = {name: (level, re.findall(r"`(\w+)`", fields), meaning) for name, level, fields, meaning in rows}
    assert written == {name: (spec.level, list(spec.fields), spec.meaning) for name, spec in EVENTS.items()}
