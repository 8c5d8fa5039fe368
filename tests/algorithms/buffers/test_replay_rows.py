"""Rows as bytes and back."""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palaestra.algorithms.buffers.replay_buffer import ReplayBuffer
from palaestra.algorithms.buffers.replay_rows import copy_rows, export_rows, load_block, read_blocks
from palaestra.core.errors import DamagedFile
from palaestra.core.spaces import BoxSpec
from tests.algorithms.buffers.random_play import SPACES, STACK, VECTOR, check_all, interface, play, played, reread, same


@pytest.mark.parametrize("space", SPACES.values(), ids=list(SPACES))
@settings(max_examples=10, deadline=None)
@given(
    env_count=st.integers(1, 3),
    capacity=st.integers(2, 40),
    steps=st.integers(1, 70),
    more=st.integers(1, 30),
    seed=st.integers(0, 2**31),
)
def test_rows_written_and_read_again_go_on_like_the_first(space, env_count, capacity, steps, more, seed):
    buffer, game, naive, rng = played(space, env_count, capacity, steps, seed)
    other = reread(buffer)
    assert (other.size, other.total_rows, other.position) == (buffer.size, buffer.total_rows, buffer.position)
    check_all(other, naive)
    play(other, game, naive, more, rng)
    check_all(other, naive)


def test_a_larger_or_smaller_buffer_takes_the_newest_rows():
    buffer, _, naive, _ = played(STACK, 2, 60, 70)
    for capacity in (200, 20):
        other = reread(buffer, capacity)
        assert other.size == min(buffer.size, capacity // 2)
        check_all(other, naive)


def test_cleared_it_keeps_the_observations_to_act_on():
    buffer, game, naive, rng = played(SPACES["dictionary"], 2, 60, 70)
    before = {name: part.copy() for name, part in buffer.current.items()}
    buffer.clear()
    assert same(before, buffer.current)
    assert (buffer.size, buffer.total_rows, buffer.transitions) == (0, 0, 0)
    naive.rows.clear()
    play(buffer, game, naive, 70, rng)
    check_all(buffer, naive)


def test_copied_rows_are_the_same():
    buffer, _, naive, _ = played(STACK, 2, 60, 70)
    other = ReplayBuffer(interface(STACK), 60, 2)
    other.restore(buffer.capture())
    copy_rows(buffer, other)
    check_all(other, naive)


def bytes_of(buffer):
    return b"".join(b"".join(views) for _, views in export_rows(buffer, 0))


def read_all(buffer, raw):
    return list(read_blocks(buffer, io.BytesIO(raw), len(raw), "the file"))


def test_rows_of_another_environment_are_refused_with_what_differs():
    buffer, *_ = played(VECTOR, 2, 20, 10)
    raw = bytes_of(buffer)
    other = ReplayBuffer(interface(BoxSpec((4,))), 20, 2)
    with pytest.raises(DamagedFile, match=r"observation/ is float32 \[2, 3\] there and float32 \[2, 4\] in this run"):
        read_all(other, raw)
    more = ReplayBuffer(interface(VECTOR), 20, 3)
    with pytest.raises(DamagedFile, match=r"actions is int64 \[2\] there and int64 \[3\] in this run"):
        read_all(more, raw)


def test_damaged_and_hostile_bytes_are_refused_without_being_believed():
    buffer, *_ = played(SPACES["dictionary"], 2, 20, 10)
    raw = bytes_of(buffer)
    rng = np.random.default_rng(1)
    for _ in range(300):
        changed = bytearray(raw[: rng.integers(1, 1500)] if rng.random() < 0.5 else raw)
        for place in rng.integers(0, min(len(changed), 1500), rng.integers(0, 4)):
            changed[place] = rng.integers(256)
        try:
            blocks = read_all(buffer, bytes(changed))
            for header, payload in blocks:
                load_block(buffer, header, payload)
        except DamagedFile:
            continue


@pytest.mark.parametrize(
    "arrays", ['[["rows","rewards","<f4",[4611686018427387904,2]]]', '[["a","b","O",[1]]]', "[[]]", "[" * 3000, "{}"]
)
def test_headers_that_ask_for_too_much_are_refused(arrays):
    buffer, *_ = played(VECTOR, 2, 20, 10)
    text = f'{{"first_row": 0, "rows": 3, "arrays": {arrays}}}'.encode()
    raw = b"PALROWS1" + len(text).to_bytes(4, "little") + text
    with pytest.raises(DamagedFile):
        read_all(buffer, raw)


def test_a_row_is_at_the_place_of_its_number():
    buffer, *_ = played(VECTOR, 1, 10, 37)
    assert buffer.position == buffer.total_rows % buffer.rows == 37 % 11
    assert buffer.oldest_row == 27
