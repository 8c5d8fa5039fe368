"""The table of faults: what counts as held, what is shown, and that a part of the rows can be measured anew."""

from __future__ import annotations

import pytest

from tests.machines.matrix import Row, as_page, as_text, load, merge, write


@pytest.mark.parametrize(
    "row",
    [
        Row("late", limit=30, seconds=30.1),
        Row("never ended", limit=30),
        Row("lost", lost=1),
        Row("doubled", doubled=1),
        Row("other weights", equal=False),
    ],
    ids=lambda row: row.fault,
)
def test_a_row_that_breaks_its_promise_fails(row):
    with pytest.raises(AssertionError, match=row.fault):
        row.check()


def test_a_row_within_its_limit_holds():
    Row("kill", limit=30, seconds=29.9, lost=0, doubled=0, equal=True).check()


def test_the_table_shows_numbers_and_dashes():
    text = as_text([Row("kill", limit=30.0, seconds=1.25, lost=0, equal=True, outcome="held"), Row("delay")])
    assert text.splitlines()[1].split() == ["kill", "30.0", "1.2", "0", "-", "yes", "held"]
    assert text.splitlines()[2].split() == ["delay", "-", "-", "-", "-", "-", "failed"]


def test_rows_measured_again_replace_the_old_ones_in_place():
    merged = merge([Row("a", seconds=1), Row("b", seconds=2)], [Row("a", seconds=3), Row("c")])
    assert [(row.fault, row.seconds) for row in merged] == [("a", 3), ("b", 2), ("c", None)]


def test_what_is_written_can_be_read_and_is_on_the_page(tmp_path):
    row = Row("kill", seconds=1.0, note="Rank 1 ended.", outcome="held", commit="ranks abc")
    write(tmp_path, [row])
    write(tmp_path, [])
    assert load(tmp_path / "machines.json") == [row]
    page = (tmp_path / "machines.md").read_text()
    assert page == as_page([row])
    assert "| kill | - | 1.0 | - | - | - | held |" in page
    assert "- kill: Rank 1 ended." in page
