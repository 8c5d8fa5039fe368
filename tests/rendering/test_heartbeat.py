import math

from hypothesis import given
from hypothesis import strategies as st

from palaestra.rendering.heartbeat import HEARTBEAT, REASON_BYTES, Heartbeat, unpack_heartbeat
from palaestra.rendering.layout import CHECK, checked


@given(st.integers(0, 2**63), st.sampled_from(["open", "closed", "failed"]), st.text(max_size=40))
def test_a_beat_comes_back(steps, condition, reason):
    beat = Heartbeat(5.5, steps, 3, 9, 0.25, 10.0, condition, reason.rstrip("\x00"))
    assert unpack_heartbeat(beat.pack()) == beat


def test_the_cost_is_the_share_of_the_time_watched():
    assert Heartbeat(0.0, 0, 0, 0, 0.5, 50.0).cost == 0.01
    assert Heartbeat(0.0, 0, 0, 0, 0.0, 0.0).cost == 0.0


def test_a_long_reason_is_cut_and_stays_readable():
    found = unpack_heartbeat(Heartbeat(0.0, 0, 0, 0, 0.0, 0.0, "failed", "ü" * 1000).pack())
    assert found.reason.startswith("üüü")
    assert len(found.reason) <= REASON_BYTES


def test_what_was_never_written_is_no_beat():
    assert unpack_heartbeat(bytes(HEARTBEAT.size + CHECK.size)) is None
    assert unpack_heartbeat(b"") is None


def test_times_that_are_no_numbers_are_no_beat():
    assert unpack_heartbeat(Heartbeat(math.nan, 0, 0, 0, 0.0, 0.0).pack()) is None


@given(st.binary(min_size=HEARTBEAT.size, max_size=HEARTBEAT.size))
def test_whatever_stands_there_a_beat_has_a_condition(data):
    beat = unpack_heartbeat(checked(data))
    assert beat is None or beat.condition in {"open", "closed", "failed"}
