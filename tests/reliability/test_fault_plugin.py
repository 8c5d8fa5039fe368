"""What the plugin picks and keeps of a session of pytest, with stand-ins for items and reports."""

import json
from types import SimpleNamespace

import pytest

from tools.reliability.fault_plugin import Recorder, pytest_collection_modifyitems, rows_in_source, rows_of


class Item:
    def __init__(self, *marks):
        self.nodeid, self.user_properties = "tests/t.py::t", []
        self._marks = [SimpleNamespace(args=rows) for rows in marks]

    def iter_markers(self, name):
        assert name == "fault"
        return iter(self._marks)


class Config:
    def __init__(self, rows):
        self.hook, self.deselected, self._rows = self, [], rows

    def getoption(self, name):
        assert name == "--chaos-rows"
        return self._rows

    def pytest_deselected(self, items):
        self.deselected = items


def test_rows_of_a_test_and_of_its_parameter_come_together():
    assert rows_of(Item(("C1", "C2"), ("C2", "G1"))) == ("C1", "C2", "G1")


def test_a_row_that_there_is_not_ends_the_session_with_the_test_s_name():
    with pytest.raises(pytest.UsageError, match="t.py::t names the row 'C99'"):
        rows_of(Item(("C99",)))


@pytest.mark.parametrize(("wanted", "kept"), [("", [0, 1]), ("G1,C2", [1]), ("W1", [])])
def test_only_tests_of_the_wanted_rows_are_run_and_never_one_without_a_row(wanted, kept):
    items = [Item(("C1",)), Item(("C2", "S1")), Item()]
    chosen, config = list(items), Config(wanted)
    pytest_collection_modifyitems(config, chosen)
    assert chosen == [items[index] for index in kept]
    assert set(config.deselected) == set(items) - set(chosen)
    assert items[1].user_properties == [("faults", ["C2", "S1"])]


def test_rows_of_a_test_that_cannot_be_requested_stand_in_its_source(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = """
@pytest.mark.fault("C1")
def test_one(): pass

class TestMore:
    @pytest.mark.parametrize("way", [pytest.param(1, marks=pytest.mark.fault("G2")), 2])
    @pytest.mark.fault("G1")
    def test_two(self): pass
"""
    (tmp_path / "t.py").write_text(source)
    assert rows_in_source("t.py::test_one") == ["C1"]
    assert rows_in_source("t.py::TestMore::test_two[a::b]") == ["G1", "G2"]
    assert rows_in_source("t.py::test_three") == []
    assert rows_in_source("gone.py::test_one") == []


def report(when, outcome="passed", figures=(), longrepr=None, text=""):
    return SimpleNamespace(
        nodeid="t.py::t",
        when=when,
        outcome=outcome,
        duration=0.5,
        user_properties=[("faults", ["C1"]), *(("figure", pair) for pair in figures)],
        longrepr=longrepr,
        longreprtext=text,
    )


def kept(tmp_path, *reports):
    recorder = Recorder(tmp_path / "new" / "seen.json")
    for one in reports:
        recorder.pytest_runtest_logreport(one)
    recorder.pytest_sessionfinish()
    return json.loads((tmp_path / "new" / "seen.json").read_text())


def test_the_phases_of_a_test_are_one_entry_with_its_figures(tmp_path):
    figures = [("kills", 25), ("lost", 0)]
    [entry] = kept(tmp_path, report("setup"), report("call", figures=figures), report("teardown", figures=figures))
    assert entry == {
        "test": "t.py::t",
        "outcome": "passed",
        "seconds": 1.5,
        "rows": ["C1"],
        "figures": [["kills", 25], ["lost", 0]],
    }


def test_a_test_that_passed_and_could_not_be_cleaned_up_has_failed(tmp_path):
    broken = report("teardown", "failed", text="def t():\n>   assert x\nE   assert 1 == 0\nE    +  where")
    [entry] = kept(tmp_path, report("setup"), report("call"), broken)
    assert (entry["outcome"], entry["reason"]) == ("failed", "assert 1 == 0")


def test_why_a_test_was_skipped_is_stored(tmp_path):
    skipped = report("setup", "skipped", longrepr=("t.py", 3, "Skipped: strace is not there"))
    [entry] = kept(tmp_path, skipped, report("teardown"))
    assert (entry["outcome"], entry["reason"]) == ("skipped", "strace is not there")
