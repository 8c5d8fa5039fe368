"""What happened to tests becomes what is said of rows; what was not seen is never called held."""

import json

import pytest

from tools.reliability import fault_report
from tools.reliability.fault_report import evaluate_rows, figures_line, is_good, table, to_json
from tools.reliability.fault_rows import NOT_MET, Row, choose_rows

ROW = Row("C1", "something is broken", "nothing is lost")


def observed(outcome, *, rows=("C1",), seconds=1.0, figures=(), **more):
    return {"test": "t::t", "outcome": outcome, "seconds": seconds, "rows": list(rows), "figures": figures, **more}


@pytest.mark.parametrize(
    ("tests", "left_out", "verdict", "good"),
    [
        ([observed("passed")], set(), "held", True),
        ([observed("passed"), observed("skipped")], set(), "held", True),
        ([observed("passed"), observed("failed")], set(), "FAILED", False),
        ([observed("skipped")], set(), "SKIPPED", False),
        ([], set(), "NO TEST", False),
        ([], {"C1"}, "published only", True),
        ([observed("passed", rows=("C10",))], set(), "NO TEST", False),
    ],
)
def test_a_row_is_evaluated_by_its_own_tests(tests, left_out, verdict, good):
    results = evaluate_rows([ROW], tests, left_out)
    assert results[0].verdict == verdict
    assert is_good(results) is good


def test_a_row_that_is_not_met_says_why_and_does_not_count_until_a_test_of_it_fails(monkeypatch):
    monkeypatch.setitem(NOT_MET, ROW.id, "nobody measures it yet")
    [result] = evaluate_rows([ROW], [], set())
    assert (result.verdict, result.reasons) == ("not met", ("nobody measures it yet",))
    assert is_good([result])
    assert not is_good(evaluate_rows([ROW], [observed("failed")], set()))


def test_the_reason_of_a_failure_is_reported_with_its_test():
    [result] = evaluate_rows([ROW], [observed("failed", reason="assert 1 == 0")], set())
    assert result.reasons == ("t::t: assert 1 == 0",)
    assert "t::t: assert 1 == 0" in table([result])


def test_seconds_and_figures_are_those_of_all_its_tests():
    tests = [observed("passed", seconds=1.5, figures=[("kills", 25)]), observed("passed", figures=[("kills", 400)])]
    [result] = evaluate_rows([ROW], tests, set())
    assert (result.tests, result.seconds) == (2, 2.5)
    assert [figure.value for figure in result.figures] == [25, 400]


def figures(*pairs):
    return [fault_report.Figure(name, value, "t") for name, value in pairs]


def test_figures_of_one_name_are_shown_from_the_least_to_the_greatest():
    assert (
        figures_line(figures(("kills", 25), ("lost", 0), ("kills", 1400), ("lost", 0))) == "kills 25 to 1,400; lost 0"
    )
    assert figures_line(figures(("seconds", 0.123456))) == "seconds 0.123"
    assert figures_line(figures(("way", "fork"), ("way", "spawn"), ("way", "fork"))) == "way fork, spawn"


def test_many_figures_are_counted_and_not_all_shown():
    line = figures_line(figures(*((f"f{number}", number) for number in range(11))))
    assert line.endswith("f7 7; and 3 more in the JSON")


def test_the_table_has_a_line_for_each_row_under_its_part_and_a_sum():
    rows = choose_rows(["C1", "W12"])
    text = table(evaluate_rows(rows, [observed("passed", seconds=2.0)], {"W12"}))
    lines = text.splitlines()
    assert lines[0] == "C  checkpoints"
    assert lines[1] == f"C1   held             1 tests      2.0 s  {rows[0].fault}"
    assert lines[3] == "W  web"
    assert lines[-1] == "2 rows: 1 held, 1 published only"


def test_the_json_has_everything_and_is_plain():
    results = evaluate_rows([ROW], [observed("passed", figures=[("kills", 25)])], set())
    summary = json.loads(json.dumps(to_json(results, {"size": "small"})))
    assert (summary["size"], summary["good"]) == ("small", True)
    assert summary["rows"][0]["figures"] == [{"name": "kills", "value": 25, "test": "t::t"}]
