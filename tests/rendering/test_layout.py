import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaestra.rendering.frame_header import FRAME_HEADER
from palaestra.rendering.layout import (
    ABOUT,
    CHECK,
    HEADER_AT,
    MAX_SLOTS,
    PAGE,
    SLOT_BYTES,
    About,
    checked,
    unpack_about,
)

ABOUTS = st.builds(
    About,
    st.integers(1, MAX_SLOTS),
    st.integers(1, 3 * 2048**2),
    st.integers(1, 2**22),
    st.floats(0, 1e9),
    st.floats(0, 1e10),
)


@given(ABOUTS)
def test_what_a_lane_says_of_itself_comes_back(about):
    assert unpack_about(about.pack()) == about


@given(ABOUTS)
def test_no_two_places_of_a_lane_overlap(about):
    slots = range(about.slot_count)
    assert about.slot_at(about.slot_count - 1) + SLOT_BYTES <= about.head_bytes
    places = [about.image_at(slot, place) for slot in slots for place in (0, 1)]
    assert places[0] == about.head_bytes
    assert all(later - sooner >= about.capacity for sooner, later in itertools.pairwise(places))
    assert places[-1] + about.capacity <= about.file_bytes
    assert all(place % PAGE == 0 for place in places)


def test_the_two_notes_of_a_slot_do_not_overlap():
    assert HEADER_AT[0] >= 8
    assert HEADER_AT[0] + FRAME_HEADER.size <= HEADER_AT[1]
    assert HEADER_AT[1] + FRAME_HEADER.size <= SLOT_BYTES


@given(st.binary(max_size=2 * ABOUT.size))
def test_anything_else_is_refused_with_a_reason(data):
    assert isinstance(unpack_about(data), str)


@pytest.mark.parametrize(
    ("about", "reason"),
    [
        (About(0, 1, 1, 0.0, 0.0), "0 slots"),
        (About(MAX_SLOTS + 1, 1, 1, 0.0, 0.0), f"{MAX_SLOTS + 1} slots"),
        (About(1, 0, 1, 0.0, 0.0), "room for 0 bytes"),
        (About(1, 2**60, 1, 0.0, 0.0), f"room for {2**60} bytes"),
    ],
)
def test_sizes_that_cannot_be_are_refused_though_the_checksum_is_right(about, reason):
    assert reason in unpack_about(about.pack())


@given(st.integers(0, ABOUT.size + CHECK.size - 1), st.integers(1, 255))
def test_a_flipped_bit_is_noticed(at, bits):
    data = bytearray(About(8, 1000, 5, 6.0, 7.0).pack())
    data[at] ^= bits
    assert isinstance(unpack_about(bytes(data)), str)


def test_another_version_is_named():
    data = bytearray(About(8, 1000, 5, 6.0, 7.0).pack()[: -CHECK.size])
    data[8] = 9
    assert "version 9" in unpack_about(checked(bytes(data)))
