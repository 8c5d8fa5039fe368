import json
import struct

import numpy as np
import pytest

from palaestra.runs.series_blocks import BLOCK, single
from palaestra.runs.series_buckets import bucketed
from palaestra.runs.series_points import POINT
from palaestra.web.series_columns import COLUMNS, pack


def curve(*values):
    points = [(step, 1000.0 + step, value) for step, value in enumerate(values)]
    return bucketed(single(np.array(points, POINT)), len(points))


def unpacked(content):
    """Number by number, without numpy."""
    (length,) = struct.unpack_from("<I", content)
    told, place, found = json.loads(content[4 : 4 + length])["series"], 4 + length, []
    for one in told:
        columns = {}
        for column in COLUMNS:
            columns[column] = list(struct.unpack_from(f"<{one['length']}d", content, place))
            place += 8 * one["length"]
        found.append((one["run"], one["name"], columns))
    assert place == len(content)
    return found


def test_every_number_comes_back_as_it_was():
    (first, second) = unpacked(pack([("01A", "a", curve(0.1, -2.5, 1e300)), ("01B", "b/ü", curve(7.0))]))
    assert first[:2] == ("01A", "a")
    assert first[2]["x"] == [0.0, 1.0, 2.0]
    assert first[2]["min"] == first[2]["max"] == first[2]["mean"] == [0.1, -2.5, 1e300]
    assert first[2]["count"] == [1.0, 1.0, 1.0]
    assert second == ("01B", "b/ü", {**{name: [7.0] for name in COLUMNS}, "x": [0.0], "count": [1.0], "bad": [0.0]})


def test_what_is_not_a_number_is_nan_and_counted():
    ((_, _, columns),) = unpacked(pack([("01A", "a", curve(1.0, float("inf")))]))
    assert np.isnan([columns[name][1] for name in ("min", "max", "mean")]).all()
    assert columns["bad"] == [0.0, 1.0]


def test_a_curve_without_points_has_a_place_among_the_others():
    empty = bucketed(np.empty(0, BLOCK), 1)
    found = unpacked(pack([("01A", "a", empty), ("01B", "a", curve(3.0))]))
    assert [(run, columns["mean"]) for run, _, columns in found] == [("01A", []), ("01B", [3.0])]


@pytest.mark.parametrize("name", ["a" * length for length in range(1, 9)])
def test_doubles_begin_where_a_page_can_look_at_them_in_place(name):
    content = pack([("01A", name, curve(1.0))])
    assert (4 + struct.unpack_from("<I", content)[0]) % 8 == 0
