import json

import discover
import pytest

from palaestra.apps.matmul.schemes.factorization import parse_format
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.known_ranks import known_rank


def test_no_row_requires_less_than_the_best_known_rank():
    for row in discover.table():
        assert row.rank >= known_rank(parse_format(row.format), Field(row.field))
        assert 1 <= row.wanted <= row.seeds


@pytest.mark.parametrize("field", ["gf2", "z"])
def test_a_row_is_run_and_reported(field, tmp_path, capsys):
    results = tmp_path / "results.json"
    arguments = ["--rows", "2x2x2", "--field", field, "--seeds", "2", "--walkers", "1", "--json", str(results)]
    assert discover.main(arguments) == 0
    reports = capsys.readouterr().out
    assert reports.startswith(f"2x2x2 {field} 7: 2 of 2 ")
    data = json.loads(results.read_text())
    assert [one["rank"] for one in data["rows"][0]["found"]] == [7, 7]
    assert data["hardware"]["cpu"]


def test_missed_ranks_are_reported():
    row = discover.Row("3x3x3", "gf2", 23, 60, 2, 2)
    missed = [discover.Found(1, 24, 60.0, 59.0, 10), discover.Found(2, 23, 1.5, 1.0, 10)]
    assert discover.line(row, missed) == (
        "3x3x3 gf2 23: 1 of 2 1.5 to 1.5 s, CPU up to 1.0 s; others stood at 24 (goal: 2 of 2 in 60 s)"
    )


def test_repeated_rows_replace_older_ones(tmp_path):
    results = tmp_path / "results.json"
    arguments = ["--field", "gf2", "--walkers", "1", "--clock", "cpu", "--json", str(results)]
    discover.main([*arguments, "--rows", "2x2x2", "2x2x3", "--seeds", "1"])
    results.write_text(json.dumps(json.loads(results.read_text()) | {"additions": [15]}))
    discover.main([*arguments, "--rows", "2x2x2", "--seeds", "2"])
    data = json.loads(results.read_text())
    assert {one["row"]["format"]: len(one["found"]) for one in data["rows"]} == {"2x2x3": 1, "2x2x2": 2}
    assert {one["clock"] for one in data["rows"]} == {"cpu"}
    assert data["additions"] == [15]


def test_cpu_seconds_are_divided_by_the_walkers(monkeypatch):
    monkeypatch.setattr(discover.time, "process_time", lambda: 30.0)
    monkeypatch.setattr(discover.time, "monotonic", lambda: 100.0)
    assert discover.Watch(2, "cpu", 0.0, 10.0).counted == 10.0
    assert discover.Watch(2, "wall", 0.0, 10.0).counted == 100.0
