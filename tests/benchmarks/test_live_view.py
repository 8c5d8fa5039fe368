import os
import struct

import live_view
import pytest


def side(*seconds):
    return [{"seconds": each, "processor_seconds": each / 2, "drawing": each / 50} for each in seconds]


def test_the_page_compares_each_round_with_its_own_and_takes_the_median():
    result = {
        "rounds": 3,
        "steps": 1000,
        "cores": 2,
        "load_before": 0.5,
        "sides": {
            "off": side(10.0, 20.0, 10.0),
            "nobody watches": side(10.0, 20.1, 10.1),
            "watched": side(10.1, 20.4, 10.2),
        },
        "seen": {"sent": 100, "encoded": 10, "bytes": 2_000_000, "ages": [0.01, 0.02]},
    }
    text = live_view.page(result)
    assert "| off | 100 |  |  |" in text
    assert "| nobody watches | 99 | +0.50% (+0.00% to +1.00%) | +0.50% (+0.00% to +1.00%) |" in text
    assert "| watched | 98 | +2.00% (+1.00% to +2.00%) | +2.00% (+1.00% to +2.00%) |" in text
    assert "the watched run spent 2.00% of its time" in text
    assert "2 pictures/s in all from 0.2 encodings/s, 0.05 MB/s" in text


def test_the_interval_narrows_with_the_number_of_rounds():
    off, other = side(*[1.0] * 100), side(*[1 + number / 1000 for number in range(100)])
    middle, low, high = live_view.slower(other, off, "seconds")
    assert middle == pytest.approx(0.0495)
    assert (low, high) == pytest.approx((0.040, 0.060))


def test_the_age_of_a_picture_is_read_where_the_page_on_the_live_view_says():
    assert live_view.captured_at(b"PF" + bytes(38) + struct.pack("<d", 12.5) + bytes(16)) == 12.5


@pytest.mark.full
@pytest.mark.slow
def test_a_small_try_sees_pictures_and_leaves_no_lane_and_no_word_of_where_they_were():
    before = os.environ.get("PALAESTRA_LANES_DIR")
    found = live_view.measure_all(1, 4)
    assert os.environ.get("PALAESTRA_LANES_DIR") == before
    assert found["seen"]["sent"] >= found["seen"]["encoded"]
    assert [len(stretches) for stretches in found["sides"].values()] == [1, 1, 1]
