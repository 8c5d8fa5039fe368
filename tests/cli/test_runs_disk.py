from __future__ import annotations

import json

import pytest

from palaestra.cli.runs_disk import format_bytes


def test_runs_are_listed_with_what_they_take_the_largest_first(call, make_run):
    small, large = make_run("small"), make_run("large")
    (large.videos / "film.mp4").write_bytes(bytes(3_000_000))
    code, out, _ = call("runs", "disk", "--json")
    found = json.loads(out)
    assert code == 0
    assert [one["name"] for one in found] == ["large", "small"]
    assert [one["id"] for one in found] == [large.id, small.id]
    assert found[0]["bytes"] == sum(found[0]["parts"].values()) > 3_000_000
    _, table, _ = call("runs", "disk")
    assert "videos 3" in table
    assert "all" in table.splitlines()[-1]


def test_one_run_can_be_asked_for(call, make_run):
    make_run("first")
    make_run("second")
    _, out, _ = call("runs", "disk", "second", "--json")
    assert [one["name"] for one in json.loads(out)] == ["second"]


def test_without_runs_it_says_how_to_start_one(call):
    code, out, err = call("runs", "disk")
    assert code == 0
    assert "palaestra train cartpole" in out + err


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (20_639_744, "20.6 MB"), (3.2e9, "3.2 GB")]
)
def test_bytes_are_told_with_three_digits(count, text):
    assert format_bytes(count) == text
