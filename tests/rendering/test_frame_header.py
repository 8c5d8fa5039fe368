import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaestra.rendering.frame_header import FRAME_HEADER, PIXELS, STATE, FrameHeader, Numbers, unpack_frame_header

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
