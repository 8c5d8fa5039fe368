"""Plants are edits of today's source; one that no longer fits would prove nothing."""

import ast
from pathlib import Path

import pytest
from traps.plants import PLANTS

from tests.test_traps import TRAPS

SOURCE = Path(__file__).parents[2] / "src" / "palaestra"


@pytest.mark.parametrize("planted", PLANTS, ids=lambda each: f"{each.trap}: {each.what}")
def test_every_edit_fits_once_changes_something_and_leaves_python(planted):
    texts = {edit.file: (SOURCE / edit.file).read_text() for edit in planted.edits}
    for edit in planted.edits:
        assert texts[edit.file].count(edit.before) == 1, f"{edit.file}: {edit.before}"
        texts[edit.file] = texts[edit.file].replace(edit.before, edit.after)
    for file, text in texts.items():
        assert text != (SOURCE / file).read_text()
        ast.parse(text)


def test_every_trap_is_planted():
    assert {each.trap for each in PLANTS} == TRAPS.keys()


def test_no_two_plants_are_reported_alike():
    reports = [(each.trap, each.what) for each in PLANTS]
    assert len(set(reports)) == len(reports)
