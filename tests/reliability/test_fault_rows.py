"""The fault matrix is complete: every row has a test in the services, or a reason why not."""

import re
from pathlib import Path

import pytest

from palaestra.core.errors import UsageError
from tools.reliability.fault_rows import BY_ID, GROUPS, NOT_MET, ROWS, check_ids, choose_rows, named_rows

TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def met():
    """Rows that tests of the services name; this file talks of markers without having any."""
    files = [path for path in TESTS.rglob("test_*.py") if not path.name.startswith("test_chaos")]
    return {row for path in files for row in named_rows(path.read_text())}


def test_every_row_has_a_test_or_a_reason_why_not(met):
    assert sorted(set(BY_ID) - met) == sorted(NOT_MET)


def test_no_test_names_a_row_that_there_is_not(met):
    assert met - set(BY_ID) == set()


def test_few_rows_are_not_met():
    assert len(NOT_MET) <= 3


def test_rows_are_numbered_from_one_within_their_part():
    for letter in GROUPS:
        ids = [row.id for row in ROWS if row.letter == letter]
        assert ids == [f"{letter}{number}" for number in range(1, len(ids) + 1)]
    assert {row.letter for row in ROWS} == set(GROUPS)


def test_every_row_says_what_is_done_and_what_must_hold():
    assert all(row.fault and row.promise for row in ROWS)


def test_rows_are_chosen_by_part_or_by_number_and_nothing_means_all():
    assert choose_rows([]) == ROWS
    assert [row.id for row in choose_rows(["G2", "S"])] == ["G2", "S1", "S2", "S3", "S4", "S5", "S6"]
    assert [row.id for row in choose_rows(["C1"])] == ["C1"], "C1 is not C10"


def test_an_unknown_row_is_refused_with_what_there_is():
    with pytest.raises(UsageError, match=r"no 'Q'.*parts C, R, E"):
        choose_rows(["Q"])
    with pytest.raises(UsageError, match=r"no 'c1'. Did you mean|no 'c1'. Known"):
        choose_rows(["c1"])


@pytest.mark.parametrize("ids", [("C99",), (1,), (), ("C1", "C0")])
def test_a_marker_that_names_no_row_is_refused_with_its_place(ids):
    with pytest.raises(UsageError, match=re.escape("tests/test_x.py::test_y")):
        check_ids(ids, "tests/test_x.py::test_y")


def test_markers_are_found_in_the_text_of_a_file_also_at_parameters():
    text = '@pytest.mark.fault("C1", "G2")\nparam(3, marks=[mark.fault(\n    "S1"), mark.chaos])\nmark.fault_of("W1")'
    assert named_rows(text) == {"C1", "G2", "S1"}
