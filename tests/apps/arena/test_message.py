import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palaestra.apps.arena.message import CHANGES, VERSION, WHOLE, decode, encode_changes, encode_whole
from palaestra.core.errors import DamagedFile


def test_a_whole_world_comes_back_as_it_was(episode, same_state):
    for state in episode.states[::10]:
        received = decode(encode_whole(state, 7))
        assert received.episode == 7
        assert same_state(received.state, state)


def test_changes_lead_from_state_to_state(episode, same_state):
    known = decode(encode_whole(episode.states[0], 1))
    for before, after in zip(episode.states, episode.states[1:], strict=False):
        known = decode(encode_changes(before, after, 1), known)
        assert same_state(known.state, after)


def test_changes_may_skip_steps(episode, same_state):
    first, later = episode.states[4], episode.states[90]
    known = decode(encode_whole(first, 1))
    assert same_state(decode(encode_changes(first, later, 1), known).state, later)


def test_a_message_has_the_bytes_that_the_page_says(world_of):
    """docs/arena.md, byte by byte, written out by hand"""
    state = world_of("##### #>.M# #####", items=[{"heart": 2}], max_steps=300, mine={"stock": 9}).state()
    header = b"AR" + bytes([VERSION, WHOLE]) + struct.pack("<II", 5, 0)
    sizes = struct.pack("<I", 300) + bytes([3, 5]) + struct.pack("<HH", 1, 1) + bytes([5, 0])
    walls = bytes([0b11111_100, 0b01_11111_0])
    station = bytes([1, 3, 0, 0]) + struct.pack("<i", 9)
    agent = bytes([1, 1, 1, 0, 0, 0, 0, 0, 2, 0, 0])
    assert encode_whole(state, 5) == header + sizes + walls + station + agent


def test_changes_have_the_bytes_that_the_page_says(world_of):
    world = world_of("##### #>.M# #####", max_steps=300)
    before = world.state()
    world.step([2])
    header = b"AR" + bytes([VERSION, CHANGES]) + struct.pack("<II", 5, 1)
    agent = struct.pack("<H", 0) + bytes([1, 2, 1, 0, 0, 3, 0, 0, 0, 0, 0])
    assert encode_changes(before, world.state(), 5) == header + struct.pack("<HH", 1, 0) + agent
    between = world.state()
    world.step([2])
    station = struct.pack("<H", 0) + bytes([int(world.state().stations[0, 3])]) + struct.pack("<i", -1)
    assert encode_changes(between, world.state(), 5).endswith(station)


def test_a_step_is_much_smaller_than_an_image(episode):
    """Measured with 24 agents on a map of 25 x 25: 471 bytes, then 308 a step; all agents act at random."""
    sizes = [len(encode_changes(*pair, 1)) for pair in zip(episode.states, episode.states[1:], strict=False)]
    assert max(sizes) <= 16 + 13 * 8 + 7 * 9


def test_changes_of_another_episode_or_without_a_beginning_are_refused(episode):
    changes = encode_changes(episode.states[0], episode.states[1], 2)
    with pytest.raises(DamagedFile, match="changes of episode 2, and nothing was known"):
        decode(changes)
    with pytest.raises(DamagedFile, match="changes of episode 2, and episode 1 was known"):
        decode(changes, decode(encode_whole(episode.states[0], 1)))


@pytest.mark.parametrize(
    ("position", "value", "message"),
    [
        (0, 0, "begins with"),
        (2, VERSION + 1, f"version {VERSION + 1}; this Palaestra reads {VERSION}"),
        (3, 9, "of kind 9"),
        (16, 200, "height is 200; it must be from 1 to 128"),
        (16, 0, "height is 0"),
        (19, 255, "number of agents is"),
        (22, 6, "knows 6 kinds of items"),
        (11, 255, "the step is"),
        (26, 255, ""),
    ],
)
def test_a_bent_message_is_refused_with_the_number_or_is_a_possible_world(episode, position, value, message):
    data = bytearray(encode_whole(episode.states[0], 1))
    data[position] = value
    if not message:
        decode(bytes(data))
        return
    with pytest.raises(DamagedFile, match=message):
        decode(bytes(data))


def test_a_message_that_is_cut_short_or_goes_on_is_refused_at_every_length(episode):
    whole = encode_whole(episode.states[5], 1)
    known = decode(whole)
    changes = encode_changes(episode.states[5], episode.states[6], 1)
    for data, before in ((whole, None), (changes, known)):
        for length in range(len(data)):
            with pytest.raises(DamagedFile):
                decode(data[:length], before)
        with pytest.raises(DamagedFile, match="were expected"):
            decode(data + b"\0", before)


def test_an_index_beyond_the_agents_is_refused(episode):
    known = decode(encode_whole(episode.states[5], 1))
    data = bytearray(encode_changes(episode.states[5], episode.states[6], 1))
    struct.pack_into("<H", data, 16, 8)
    with pytest.raises(DamagedFile, match="names agent 8; there are 8"):
        decode(bytes(data), known)


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_whatever_arrives_is_a_possible_world_or_refused(episode, data):
    known = decode(encode_whole(episode.states[5], 1))
    genuine = data.draw(
        st.sampled_from([encode_whole(episode.states[5], 1), encode_changes(episode.states[5], episode.states[60], 1)])
    )
    bent = bytearray(genuine)
    for _ in range(data.draw(st.integers(1, 4))):
        bent[data.draw(st.integers(0, len(bent) - 1))] = data.draw(st.integers(0, 255))
    try:
        received = decode(bytes(bent), known)
    except DamagedFile:
        return
    assert 0 <= received.state.agents[:, 0].max() < received.state.height
    assert 0 <= received.state.agents[:, 1].max() < received.state.width


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=64))
def test_noise_is_refused(noise):
    with pytest.raises(DamagedFile):
        decode(noise)
