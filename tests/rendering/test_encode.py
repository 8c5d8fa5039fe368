import io
import struct

import numpy as np
import pytest
from PIL import Image

from palaestra.rendering.encode import JPEG, MESSAGE, STATE, encode, jpeg


@pytest.fixture
def frame_of(open_lane, numbers):
    def make(content):
        ends = open_lane(slots=4, capacity=700 * 700 * 3)
        ends.writer.write(3, content, numbers(env_step=99, reward=-1.5, total_reward=2.5, length=8))
        return ends.reader.read(3)

    return make


def test_a_message_says_what_it_is_byte_by_byte(frame_of, picture):
    """As docs/live.md has it, without the struct that writes it."""
    frame = frame_of(picture(100, height=30, width=40))
    message = encode(frame, 320, 75)
    assert message[:4] == b"PF\x01\x01"
    assert struct.unpack_from("<HHH", message, 4) == (3, 40, 30)
    assert struct.unpack_from("<QQQ", message, 16) == (1, 99, 8)
    assert struct.unpack_from("<ddd", message, 40) == (frame.note.captured_at, -1.5, 2.5)
    assert message[64:66] == b"\xff\xd8"
    assert MESSAGE.size == 64


def test_the_jpeg_shows_the_picture(frame_of):
    content = np.zeros((120, 200, 3), np.uint8)
    content[:, :100] = (250, 20, 20)
    content[:, 100:] = (20, 20, 250)
    shown = np.asarray(Image.open(io.BytesIO(encode(frame_of(content), 320, 90)[64:])))
    assert shown.shape == content.shape
    assert np.abs(shown.astype(int) - content).max() < 12


def test_a_large_picture_is_made_as_small_as_asked(frame_of, picture):
    message = encode(frame_of(picture(seed=1, height=400, width=600)), 128, 75)
    assert struct.unpack_from("<HH", message, 6) == (128, 85)
    assert Image.open(io.BytesIO(message[64:])).size == (128, 85)


def test_a_state_is_sent_as_it_is(frame_of):
    message = encode(frame_of(b"AR state"), 320, 75)
    assert message[3] == STATE != JPEG
    assert message[64:] == b"AR state"
    assert struct.unpack_from("<HH", message, 6) == (0, 0)


def test_single_pixels_of_small_pictures_keep_their_colour():
    dots = np.full((64, 64, 3), 30, np.uint8)
    dots[::4, ::4] = (250, 30, 30)
    small = np.asarray(Image.open(io.BytesIO(jpeg(dots, 90)))).astype(int)
    assert (small[::4, ::4, 0] - small[::4, ::4, 2]).mean() > 150


def test_better_quality_is_larger(picture):
    noise = picture(seed=2, height=100, width=100)
    assert len(jpeg(noise, 50)) < len(jpeg(noise, 75)) < len(jpeg(noise, 90))
