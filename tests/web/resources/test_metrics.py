from __future__ import annotations

import json
import math
import struct
from dataclasses import replace

import numpy as np
import pytest

from palaestra.core.metrics_logger import Sample
from palaestra.core.run import RunState
from palaestra.runs.metrics.buckets import BLOCK, POINT, single_blocks, to_buckets
from palaestra.runs.metrics.writer import MetricsWriter
from palaestra.runs.status import read_record, write_record
from palaestra.web.resources.metrics import COLUMNS, pack_columns


def write(directory, steps, **more):
    with MetricsWriter(directory.metrics_file) as writer:
        for step in steps:
            writer.write(Sample(step, {"a": float(step % 10), "b": 1.0}, {"SPS": 5.0}, at=1000.0 + step, **more))


def series(client, **query):
    reply = client.get("/api/metrics", params=query)
    assert reply.status_code == 200, reply.text
    return reply.json()["series"]


def test_metric_names_are_returned_with_their_newest_values(client, make_run):
    write(make_run("first"), range(25))
    reply = client.get("/api/runs/first/metrics").json()
    assert reply["names"] == ["SPS", "a", "b"]
    assert reply["last"]["a"] == {"step": 24, "value": 4.0}


def test_series_of_several_runs_are_returned_in_the_requested_order(client, make_run):
    first, second = make_run("first"), make_run("second")
    write(first, range(100))
    write(second, range(50))
    found = series(client, run=["second", "first"], name=["b", "a"], buckets=10)
    assert [(one["run"], one["name"]) for one in found] == [
        (second.id, "b"),
        (second.id, "a"),
        (first.id, "b"),
        (first.id, "a"),
    ]
    assert [sum(one["count"]) for one in found] == [50, 50, 100, 100]
    assert all(len(one["x"]) == 10 for one in found)


def test_a_narrow_range_returns_the_raw_points(client, make_run):
    write(make_run("first"), range(1000))
    (found,) = series(client, run="first", name="a", buckets=50, **{"from": 100.5, "to": 120})
    assert found["x"] == [float(step) for step in range(101, 121)]
    assert found["min"] == found["max"] == found["mean"] == [float(step % 10) for step in range(101, 121)]


def test_with_axis_time_x_is_seconds_since_1970(client, make_run):
    write(make_run("first"), range(5))
    (found,) = series(client, run="first", name="a", axis="time", **{"from": 1002})
    assert found["x"] == [1002.0, 1003.0, 1004.0]


def test_with_axis_elapsed_every_run_starts_at_zero(client, make_run, daemon):
    begun, waiting = make_run("begun"), make_run("waiting")
    over = replace(read_record(begun), state=RunState.FINISHED, started_at=1000.0, ended_at=2000.0, exit_code=0)
    write_record(begun, over)
    daemon._supervisor.scan_all()
    for directory, zero in ((begun, 1000.0), (waiting, read_record(waiting).created_at)):
        with MetricsWriter(directory.metrics_file) as writer:
            for second in range(8):
                writer.write(Sample(second, {"a": float(second)}, at=zero + second))
    found = series(client, run=["begun", "waiting"], name="a", axis="elapsed", **{"from": 1.5, "to": 4.5})
    assert [one["mean"] for one in found] == [[2.0, 3.0, 4.0]] * 2
    assert [one["x"] for one in found] == [pytest.approx([2.0, 3.0, 4.0], abs=1e-5)] * 2


def test_a_non_finite_value_is_null_and_counted(client, make_run):
    directory = make_run("first")
    with MetricsWriter(directory.metrics_file) as writer:
        for step, value in enumerate((1.0, math.nan, math.inf, 4.0)):
            writer.write(Sample(step, {"a": value}))
    (found,) = series(client, run="first", name="a")
    assert found["mean"] == [1.0, None, None, 4.0]
    assert found["bad"] == [0, 1, 1, 0]
    (found,) = series(client, run="first", name="a", buckets=1)
    assert (found["min"], found["max"], found["mean"], found["count"]) == ([1.0], [4.0], [2.5], [2])


def test_columns_contain_the_same_values_as_json(client, make_run):
    directory = make_run("first")
    write(directory, range(100))
    with MetricsWriter(directory.metrics_file) as writer:
        writer.write(Sample(100, {"a": math.nan}))
    query = {"run": ["first", "first"], "name": ["a", "missing"], "buckets": 70, "from": 20}
    reply = client.get("/api/metrics", params={**query, "form": "columns"})
    assert reply.headers["content-type"] == "application/octet-stream"
    begin = 4 + int.from_bytes(reply.content[:4], "little")
    reports, numbers = json.loads(reply.content[4:begin])["series"], np.frombuffer(reply.content[begin:])
    expected = series(client, **query)
    assert reports == [{"run": one["run"], "name": one["name"], "length": len(one["x"])} for one in expected]
    columns = [one[column] for one in expected for column in ("x", "min", "max", "mean", "count", "bad")]
    assert [None if math.isnan(number) else number for number in numbers] == [x for column in columns for x in column]
    assert None in expected[0]["mean"]


def test_missing_metrics_are_empty_series(client, make_run):
    write(make_run("first"), range(5))
    make_run("second")
    found = series(client, run=["first", "second"], name="missing")
    assert [one["x"] for one in found] == [[], []]
    assert client.get("/api/runs/second/metrics").json() == {"names": [], "last": {}}
    assert client.get("/api/runs/second/metrics/tail").json() == {"points": [], "row": 0}


def test_the_tail_continues_after_the_last_row(client, make_run):
    directory = make_run("first")
    write(directory, range(5))
    first = client.get("/api/runs/first/metrics/tail?limit=3").json()
    assert {point["step"] for point in first["points"]} == {0, 1, 2}
    rest = client.get(f"/api/runs/first/metrics/tail?after={first['row']}").json()
    assert {point["step"] for point in rest["points"]} == {3, 4}
    assert client.get(f"/api/runs/first/metrics/tail?after={rest['row']}").json() == {"points": [], "row": rest["row"]}
    write(directory, [5])
    assert client.get(f"/api/runs/first/metrics/tail?after={rest['row']}").json()["points"][0]["step"] == 5


def test_a_tail_after_the_end_returns_the_last_row(client, make_run):
    write(make_run("first"), range(5))
    assert client.get("/api/runs/first/metrics/tail?after=999").json() == {"points": [], "row": 5}


def test_a_resumed_run_shows_no_removed_points(client, make_run):
    directory = make_run("first")
    write(directory, range(10))
    assert series(client, run="first", name="a")[0]["x"][-1] == 9.0
    with MetricsWriter(directory.metrics_file) as writer:
        writer.rewind(4)
        writer.write(Sample(5, {"a": 99.0}))
    (found,) = series(client, run="first", name="a")
    assert found["x"] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert found["mean"][-1] == 99.0


def test_sparklines_are_returned_for_a_list_of_runs(client, make_run):
    write(make_run("first"), range(100))
    one = client.get("/api/runs/first/sparkline?name=a&buckets=4").json()
    assert one["max"] == [9.0] * 4
    many = client.get("/api/sparklines?run=first&name=a&buckets=4").json()["series"]
    assert many == [one]
    assert client.get("/api/sparklines?run=removed&run=first&name=a&buckets=4").json()["series"] == [one]


@pytest.mark.parametrize(
    "query",
    [
        "run=first",
        "name=a",
        "run=first&name=a&buckets=0",
        "run=first&name=a&buckets=5001",
        "run=first&name=a&axis=epoch",
        "run=first&name=a&form=xml",
        "run=first&name=a&from=nan",
        "run=first&name=a&to=inf",
        "run=first&name=a&from=x",
        "run=first&name=a&colour=red",
        "&".join(["run=first"] * 21 + ["name=a"] * 20),
    ],
)
def test_what_cannot_be_requested_is_refused(client, make_run, query):
    make_run("first")
    reply = client.get(f"/api/metrics?{query}")
    assert reply.status_code == 422, reply.text


def test_ranges_beyond_all_steps_are_accepted(client, make_run):
    write(make_run("first"), range(5))
    (found,) = series(client, run="first", name="a", **{"from": "-1e300", "to": "1e300"})
    assert len(found["x"]) == 5


def test_an_unknown_run_is_not_found(client, make_run):
    make_run("first")
    assert client.get("/api/metrics?run=first&run=nobody&name=a").status_code == 404
    for path in ("metrics", "metrics/tail", "sparkline"):
        assert client.get(f"/api/runs/nobody/{path}").status_code == 404


def test_damaged_metrics_are_named(client, make_run):
    directory = make_run("first")
    directory.metrics_file.write_bytes(b"no database at all, but long enough to be looked at" * 100)
    reply = client.get("/api/metrics?run=first&name=a")
    assert reply.status_code == 409
    assert "metrics.db" in reply.json()["error"]["message"]


def curve(*values):
    points = [(step, 1000.0 + step, value) for step, value in enumerate(values)]
    return to_buckets(single_blocks(np.array(points, POINT)), len(points))


def unpacked(content):
    """Number by number, without numpy."""
    (length,) = struct.unpack_from("<I", content)
    reports, location, found = json.loads(content[4 : 4 + length])["series"], 4 + length, []
    for one in reports:
        columns = {}
        for column in COLUMNS:
            columns[column] = list(struct.unpack_from(f"<{one['length']}d", content, location))
            location += 8 * one["length"]
        found.append((one["run"], one["name"], columns))
    assert location == len(content)
    return found


def test_packed_columns_are_read_as_written():
    (first, second) = unpacked(pack_columns([("01A", "a", curve(0.1, -2.5, 1e300)), ("01B", "b/ü", curve(7.0))]))
    assert first[:2] == ("01A", "a")
    assert first[2]["x"] == [0.0, 1.0, 2.0]
    assert first[2]["min"] == first[2]["max"] == first[2]["mean"] == [0.1, -2.5, 1e300]
    assert first[2]["count"] == [1.0, 1.0, 1.0]
    assert second == ("01B", "b/ü", {**{name: [7.0] for name in COLUMNS}, "x": [0.0], "count": [1.0], "bad": [0.0]})


def test_a_missing_value_is_nan_and_counted():
    ((_, _, columns),) = unpacked(pack_columns([("01A", "a", curve(1.0, float("inf")))]))
    assert np.isnan([columns[name][1] for name in ("min", "max", "mean")]).all()
    assert columns["bad"] == [0.0, 1.0]


def test_an_empty_series_is_packed_with_length_0():
    empty = to_buckets(np.empty(0, BLOCK), 1)
    found = unpacked(pack_columns([("01A", "a", empty), ("01B", "a", curve(3.0))]))
    assert [(run, columns["mean"]) for run, _, columns in found] == [("01A", []), ("01B", [3.0])]


@pytest.mark.parametrize("name", ["a" * length for length in range(1, 9)])
def test_packed_doubles_are_aligned(name):
    content = pack_columns([("01A", name, curve(1.0))])
    assert (4 + struct.unpack_from("<I", content)[0]) % 8 == 0
