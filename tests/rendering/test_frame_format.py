from __future__ import annotations

import itertools
import math
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaestra.rendering.frame_format import (
    ABOUT,
    CHECK,
    DEMAND,
    FRAME_HEADER,
    HEADER_AT,
    HEARTBEAT,
    LONGEST_LEASE,
    MAX_FRAME_RATE,
    MAX_SIDE,
    MAX_SLOTS,
    PAGE,
    PIXELS,
    REASON_BYTES,
    SLOT_BYTES,
    STATE,
    About,
    Demand,
    FrameHeader,
    Heartbeat,
    Numbers,
    checked,
    merge,
    unpack_about,
    unpack_demand,
    unpack_frame_header,
    unpack_heartbeat,
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
def test_the_header_of_a_frame_buffer_round_trips(about):
    assert unpack_about(about.pack()) == about


@given(ABOUTS)
def test_no_two_regions_of_a_frame_buffer_overlap(about):
    slots = range(about.slot_count)
    assert about.slot_at(about.slot_count - 1) + SLOT_BYTES <= about.head_bytes
    locations = [about.image_at(slot, location) for slot in slots for location in (0, 1)]
    assert locations[0] == about.head_bytes
    assert all(later - sooner >= about.capacity for sooner, later in itertools.pairwise(locations))
    assert locations[-1] + about.capacity <= about.file_bytes
    assert all(location % PAGE == 0 for location in locations)


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


CAPACITY = 1000
NUMBERS = Numbers(env_step=12, reward=-0.5, total_reward=3.25, length=4)


def test_note_and_numbers_come_back_and_fit_their_own_payload_only():
    payload = bytes(range(48))
    note = FrameHeader(5, PIXELS, 4, 4, 48, 1.5, NUMBERS)
    found, checksum = unpack_frame_header(note.pack(payload), CAPACITY)
    assert found == note
    assert found.fits(payload, checksum)
    assert not found.fits(payload[:-1] + b"x", checksum)
    assert not found.fits(payload[:-1], checksum)


def test_the_checksum_is_over_the_payload_and_then_the_note_without_it():
    payload = b"some state"
    packed = FrameHeader(5, STATE, 0, 0, len(payload), 1.5, NUMBERS).pack(payload)
    without = packed[:20] + bytes(4) + packed[24:]
    assert struct.unpack_from("<I", packed, 20)[0] == zlib.crc32(without, zlib.crc32(payload))


@given(st.binary(min_size=FRAME_HEADER.size, max_size=FRAME_HEADER.size))
def test_whatever_stands_there_nobody_reads_more_than_fits(data):
    found = unpack_frame_header(data, CAPACITY)
    assert found in {"kind", "size", "shape"} or found[0].size <= CAPACITY


@pytest.mark.parametrize(
    ("width", "height", "size", "reason"),
    [
        (2**31, 2**31, 48, "shape"),
        (4, 4, 47, "size"),
        (0, 4, 0, "shape"),
        (4, 4, 2**63, "size"),
        (40, 40, 4800, "size"),
        (65536, 65536, 0, "shape"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(width, height, size, reason):
    packed = FRAME_HEADER.pack(1, PIXELS, 3, width, height, 0, size, 0, 0, 0.0, 0.0, 0.0)
    assert unpack_frame_header(packed, CAPACITY) == reason


def test_a_kind_that_nobody_knows_is_refused():
    assert unpack_frame_header(FRAME_HEADER.pack(1, 9, 3, 4, 4, 0, 48, 0, 0, 0.0, 0.0, 0.0), CAPACITY) == "kind"


@given(st.integers(0, 2**63), st.sampled_from(["open", "closed", "failed"]), st.text(max_size=40))
def test_a_heartbeat_round_trips(steps, condition, reason):
    heartbeat = Heartbeat(5.5, steps, 3, 9, 0.25, 10.0, condition, reason.rstrip("\x00"))
    assert unpack_heartbeat(heartbeat.pack()) == heartbeat


def test_the_cost_is_the_share_of_the_time_watched():
    assert Heartbeat(0.0, 0, 0, 0, 0.5, 50.0).cost == 0.01
    assert Heartbeat(0.0, 0, 0, 0, 0.0, 0.0).cost == 0.0


def test_a_long_reason_is_cut_and_stays_readable():
    found = unpack_heartbeat(Heartbeat(0.0, 0, 0, 0, 0.0, 0.0, "failed", "ü" * 1000).pack())
    assert found.reason.startswith("üüü")
    assert len(found.reason) <= REASON_BYTES


def test_an_unwritten_heartbeat_is_none():
    assert unpack_heartbeat(bytes(HEARTBEAT.size + CHECK.size)) is None
    assert unpack_heartbeat(b"") is None


def test_a_heartbeat_with_times_that_are_not_finite_is_none():
    assert unpack_heartbeat(Heartbeat(math.nan, 0, 0, 0, 0.0, 0.0).pack()) is None


@given(st.binary(min_size=HEARTBEAT.size, max_size=HEARTBEAT.size))
def test_random_bytes_never_make_an_invalid_heartbeat(data):
    heartbeat = unpack_heartbeat(checked(data))
    assert heartbeat is None or heartbeat.condition in {"open", "closed", "failed"}


NOW = 1000.0


@given(st.frozensets(st.integers(0, MAX_SLOTS - 1)), st.integers(0, MAX_SIDE), st.floats(0.1, MAX_FRAME_RATE))
def test_a_demand_round_trips_until_its_lease_ends(slots, side, fps):
    demand = Demand(fps, side, slots, notifier=2**64 - 1, ticket=5)
    data = demand.pack(NOW + 2.0)
    assert unpack_demand(data, NOW) == demand
    assert unpack_demand(data, NOW + 2.1) is None


@pytest.mark.parametrize("fps", [math.nan, math.inf, 0.0, -3.0])
def test_a_demand_with_an_invalid_rate_is_none(fps):
    assert unpack_demand(Demand(fps, 0, frozenset({0}), 1, 1).pack(NOW + 1), NOW) is None


def test_a_rate_beyond_the_fastest_is_the_fastest():
    assert unpack_demand(Demand(1e9, 0, frozenset({0}), 1, 1).pack(NOW + 1), NOW).frames_per_second == MAX_FRAME_RATE


@pytest.mark.fault("G14")
def test_a_demand_with_a_lease_from_another_clock_is_none():
    assert unpack_demand(Demand(5.0, 0, frozenset({0}), 1, 1).pack(NOW + LONGEST_LEASE + 1), NOW) is None


def test_a_half_written_demand_is_none():
    old = Demand(5.0, 64, frozenset({0}), 1, 1).pack(NOW + 1)
    new = Demand(9.0, 128, frozenset({3}), 2, 2).pack(NOW + 2)
    mixed = [new[:cut] + old[cut:] for cut in range(len(new))]
    for data in mixed:
        assert unpack_demand(data, NOW) in {None, unpack_demand(old, NOW), unpack_demand(new, NOW)}


@given(st.binary(min_size=DEMAND.size, max_size=DEMAND.size))
def test_random_bytes_never_make_an_invalid_demand(data):
    demand = unpack_demand(checked(data), NOW)
    assert demand is None or (0 < demand.frames_per_second <= MAX_FRAME_RATE and demand.largest_side <= MAX_SIDE)


def test_merged_demands_have_the_highest_rate_the_largest_side_and_every_slot():
    demands = [Demand(5.0, 320, frozenset({0, 1}), 7, 8), Demand(15.0, 64, frozenset({4}), 7, 8)]
    assert merge(demands) == Demand(15.0, 320, frozenset({0, 1, 4}), 7, 8)
    assert merge([*demands, Demand(1.0, 0, frozenset(), 7, 8)]).largest_side == 0
    assert merge([]) is None
