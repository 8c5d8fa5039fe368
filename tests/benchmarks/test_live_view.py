import os
import struct

import live_view
import numpy as np
import pytest


def side(*seconds):
    return [{"seconds": each, "processor_seconds": each / 2} for each in seconds]


def test_the_page_compares_each_segment_with_that_of_its_own_turn():
    result = {
        "turns": 3,
        "engine": "torch",
        "steps": 1000,
        "cores": 2,
        "load_before": 0.5,
        "sides": {
            "off": side(10.0, 20.0, 10.0),
            "nobody watches": side(10.1, 20.2, 10.1),
            "drawn for nobody": side(10.2, 20.4, 10.2),
            "watched": side(10.3, 20.6, 10.3),
        },
        "drawing": 0.824,
        "seen": {"sent": 100, "encoded": 10, "bytes": 2_000_000, "ages": [0.01, 0.02]},
    }
    text = live_view.page(result)
    assert "| off | 100 |  |  |" in text
    assert "| nobody watches | 99 | +1.00% (+1.00% to +1.00%) | +1.00% (+1.00% to +1.00%) |" in text
    assert "| drawn for nobody | 98 | +2.00%" in text
    assert "| watched | 97 | +3.00%" in text
    assert "the watched run spent 2.00% of its time" in text
    assert "2 pictures/s in all from 0.2 encodings/s, 0.05 MB/s" in text


def test_the_interval_is_that_of_a_mean_and_one_segment_far_out_does_not_move_it():
    drawn = (1.02 * np.exp(np.random.default_rng(1).normal(0, 0.1, 400))).tolist()
    off, other = side(*[1.0] * 401), side(*drawn, 50.0)
    middle, low, high = live_view.slower(other, off, "seconds")
    assert middle == pytest.approx(0.02, abs=0.01)
    assert low < middle < high
    assert high - low == pytest.approx(2 * 1.96 * 0.1 / 400**0.5, rel=0.25)


def test_jitter_alone_is_no_cost():
    rng = np.random.default_rng(2)
    off, other = (side(*np.exp(rng.normal(0, 0.3, 4000)).tolist()) for _ in range(2))
    middle, _, _ = live_view.slower(other, off, "seconds")
    assert abs(middle) < 0.03  # the mean of the ratios themselves is 9 % too large


def test_the_age_of_a_frame_is_read_where_the_page_on_the_live_view_says():
    assert live_view.captured_at(b"PF" + bytes(38) + struct.pack("<d", 12.5) + bytes(16)) == 12.5


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("engine", ["torch", "native"])
def test_a_small_try_sees_frames_and_leaves_no_frame_buffer_and_no_word_of_where_they_were(engine):
    before = os.environ.get("PALAESTRA_FRAME_BUFFERS_DIR")
    found = live_view.measure_all(1, 4, engine)
    assert os.environ.get("PALAESTRA_FRAME_BUFFERS_DIR") == before
    assert found["seen"]["sent"] >= found["seen"]["encoded"]
    assert [len(segments) for segments in found["sides"].values()] == [1, 1, 1, 1]
