import json
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palaestra.apps.arena.encoding import (
    CHANGES,
    FULL,
    VERSION,
    apply_change,
    decode,
    difference,
    encode_changes,
    encode_full,
    rewards_of,
)
from palaestra.core.errors import DamagedFile


def test_a_whole_world_comes_back_as_it_was(episode, same_state):
    for state in episode.states[::10]:
        received = decode(encode_full(state, 7))
        assert received.episode == 7
        assert same_state(received.state, state)


def test_changes_lead_from_state_to_state(episode, same_state):
    known = decode(encode_full(episode.states[0], 1))
    for before, after in zip(episode.states, episode.states[1:], strict=False):
        known = decode(encode_changes(before, after, 1), known)
        assert same_state(known.state, after)


def test_changes_may_skip_steps(episode, same_state):
    first, later = episode.states[4], episode.states[90]
    known = decode(encode_full(first, 1))
    assert same_state(decode(encode_changes(first, later, 1), known).state, later)


def test_a_message_has_the_bytes_that_the_page_says(world_of):
    """docs/arena.md, byte by byte, written out by hand"""
    state = world_of("##### #>.M# #####", items=[{"heart": 2}], max_steps=300, mine={"stock": 9}).state()
    header = b"AR" + bytes([VERSION, FULL]) + struct.pack("<II", 5, 0)
    sizes = struct.pack("<I", 300) + bytes([3, 5]) + struct.pack("<HH", 1, 1) + bytes([5, 0])
    walls = bytes([0b11111_100, 0b01_11111_0])
    station = bytes([1, 3, 0, 0]) + struct.pack("<i", 9)
    agent = bytes([1, 1, 1, 0, 0, 0, 0, 0, 2, 0, 0])
    assert encode_full(state, 5) == header + sizes + walls + station + agent


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


def test_changes_of_another_episode_or_without_a_start_are_refused(episode):
    changes = encode_changes(episode.states[0], episode.states[1], 2)
    with pytest.raises(DamagedFile, match="changes of episode 2, but nothing was received before"):
        decode(changes)
    with pytest.raises(DamagedFile, match="changes of episode 2, but episode 1 was received before"):
        decode(changes, decode(encode_full(episode.states[0], 1)))


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
    data = bytearray(encode_full(episode.states[0], 1))
    data[position] = value
    if not message:
        decode(bytes(data))
        return
    with pytest.raises(DamagedFile, match=message):
        decode(bytes(data))


def test_a_message_that_is_cut_short_or_goes_on_is_refused_at_every_length(episode):
    whole = encode_full(episode.states[5], 1)
    known = decode(whole)
    changes = encode_changes(episode.states[5], episode.states[6], 1)
    for data, before in ((whole, None), (changes, known)):
        for length in range(len(data)):
            with pytest.raises(DamagedFile):
                decode(data[:length], before)
        with pytest.raises(DamagedFile, match="were expected"):
            decode(data + b"\0", before)


def test_an_index_beyond_the_agents_is_refused(episode):
    known = decode(encode_full(episode.states[5], 1))
    data = bytearray(encode_changes(episode.states[5], episode.states[6], 1))
    struct.pack_into("<H", data, 16, 8)
    with pytest.raises(DamagedFile, match="names agent 8; there are 8"):
        decode(bytes(data), known)


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_whatever_arrives_is_a_possible_world_or_refused(episode, data):
    known = decode(encode_full(episode.states[5], 1))
    genuine = data.draw(
        st.sampled_from([encode_full(episode.states[5], 1), encode_changes(episode.states[5], episode.states[60], 1)])
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


NOTHING = np.zeros(1, np.float32)


def neighbours(episode):
    return zip(episode.states, episode.states[1:], episode.rewards[1:], strict=False)


def test_following_a_change_leads_to_the_next_state_also_through_json(episode, same_state):
    for before, after, rewards in neighbours(episode):
        change = json.loads(json.dumps(difference(before, after, rewards)))
        assert same_state(apply_change(before, change, "x"), after)
        np.testing.assert_array_equal(rewards_of(change, len(rewards), "x"), rewards)


def test_the_episode_has_everything_that_can_change(episode):
    """Else the test above would show less than it seems to"""
    found = {name for before, after, rewards in neighbours(episode) for name in difference(before, after, rewards)}
    assert found == {"cells", "frozen", "items", "cooldowns", "stocks", "actions", "rewards"}


def test_a_step_into_a_wall_says_only_what_was_done(world_of):
    world = world_of("#### #^.# ####")
    before = world.state()
    world.step([1])
    assert difference(before, world.state(), NOTHING) == {"actions": "1"}


def test_a_walk_says_the_new_cell_and_the_facing_follows(world_of, same_state):
    world = world_of("#### #^.# ####")
    before = world.state()
    world.step([2])
    change = difference(before, world.state(), NOTHING)
    assert change == {"cells": [0, 6], "actions": "2"}
    assert same_state(apply_change(before, change, "x"), world.state())


def test_cooling_and_thawing_go_on_unsaid(world_of, same_state):
    world = world_of("##### #>M.# #####", mine={"cooldown": 5})
    world.step([2])
    states = [world.state()]
    for _ in range(7):
        world.step([0])
        states.append(world.state())
        assert difference(states[-2], states[-1], NOTHING) == {"actions": "0"}
        assert same_state(apply_change(states[-2], {"actions": "0"}, "x"), states[-1])
    assert states[0].stations[0, 3] > 0
    assert states[-1].stations[0, 3] == 0


def test_a_facing_that_does_not_follow_from_the_action_is_reported(episode, same_state):
    before, after = episode.states[0], episode.states[1]
    agents = after.agents.copy()
    agents[0, 2] = (agents[0, 2] + 1) % 4
    facings = type(after)(after.step, after.max_steps, after.walls, after.stations, agents, after.inventories)
    change = difference(before, facings, np.zeros(8, np.float32))
    assert "facings" in change
    assert same_state(apply_change(before, change, "x"), facings)


def test_rewards_have_as_few_digits_as_32_bits_need(episode):
    rewards = np.array([0, 0.1, -0.3], np.float32)
    change = difference(episode.states[0], episode.states[1], rewards)
    assert change["rewards"] == [1, 0.1, 2, -0.3]
    np.testing.assert_array_equal(rewards_of(change, 3, "x"), rewards)


@pytest.mark.parametrize(
    ("planted", "message"),
    [
        ({"cells": [0]}, "cells is not a list of at most 8 pairs"),
        ({"cells": [0, 1] * 9}, "at most 8 pairs"),
        ({"cells": "01"}, "cells is not a list"),
        ({"cells": [8, 3]}, "cells has the index 8; there are 8"),
        ({"cells": [-1, 3]}, "index -1"),
        ({"cells": [0, 143]}, "an agent's y is 11"),
        ({"cells": [0, 1.5]}, "32-bit integers"),
        ({"cells": [0, True]}, "32-bit integers"),
        ({"cells": [0, 2**40]}, "32-bit"),
        ({"frozen": [0, 999]}, "frozen is 999"),
        ({"items": [40, 1]}, "items has the index 40; there are 40"),
        ({"stocks": [0, -2]}, "stock is -2"),
        ({"actions": "0"}, "actions are not 8 letters"),
        ({"actions": "00000009"}, "actions are not 8 letters"),
        ({"actions": 5}, "actions are not 8 letters"),
    ],
)
def test_a_change_that_does_not_fit_is_refused_by_name(episode, planted, message):
    with pytest.raises(DamagedFile, match=f"^Step 1: .*{message}"):
        apply_change(episode.states[0], {"actions": "00000000", **planted}, "Step 1")


@pytest.mark.parametrize(
    "planted",
    [
        [0],
        [9, 1.0],
        [-1, 1.0],
        ["0", 1.0],
        [0.5, 1.0],
        [True, 1.0],
        5,
        [0, None],
        [0, 10**400],
        [0, -1e300],
        [10**400, 1],
    ],
)
def test_rewards_that_do_not_fit_are_refused(planted):
    with pytest.raises(DamagedFile, match="reward"):
        rewards_of({"rewards": planted}, 8, "x")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(["cells", "facings", "frozen", "items", "cooldowns", "stocks", "actions", "rewards"])


@settings(max_examples=300, deadline=None)
@given(planted=st.dictionaries(names, json_values))
def test_whatever_a_file_says_is_followed_or_refused(episode, planted):
    try:
        state = apply_change(episode.states[0], {"actions": "00000000", **planted}, "x")
        rewards_of(planted, 8, "x")
    except DamagedFile:
        return
    assert state.step == 1
