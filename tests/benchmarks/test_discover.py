import json

import discover
import pytest

from palaestra.apps.matmul.field import Field
from palaestra.apps.matmul.format import parse_format
from palaestra.apps.matmul.known_ranks import known_rank


def test_no_row_asks_for_less_than_is_known_to_be_possible():
    for row in discover.table():
        assert row.rank >= known_rank(parse_format(row.format), Field(row.field))
        assert 1 <= row.wanted <= row.seeds


@pytest.mark.parametrize("field", ["gf2", "z"])
def test_a_row_is_run_and_told(field, tmp_path, capsys):
    results = tmp_path / "results.json"
    words = ["--rows", "2x2x2", "--field", field, "--seeds", "2", "--walkers", "1", "--json", str(results)]
    assert discover.main(words) == 0
    told = capsys.readouterr().out
    assert told.startswith(f"2x2x2 {field} 7: 2 of 2 ")
    data = json.loads(results.read_text())
    assert [one["rank"] for one in data["rows"][0]["found"]] == [7, 7]
    assert data["hardware"]["cpu"]


def test_a_miss_is_told_as_plainly_as_a_hit():
    row = discover.Row("3x3x3", "gf2", 23, 60, 2, 2)
    missed = [discover.Found(1, 24, 60.0, 59.0, 10), discover.Found(2, 23, 1.5, 1.0, 10)]
    assert discover.line(row, missed) == (
        "3x3x3 gf2 23: 1 of 2 1.5 to 1.5 s, CPU up to 1.0 s; others stood at 24 (goal: 2 of 2 in 60 s)"
    )
