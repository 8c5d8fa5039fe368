import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palaestra.apps.arena.changes import difference, follow, rewards_of
from palaestra.core.errors import DamagedFile

NOTHING = np.zeros(1, np.float32)


def neighbours(episode):
    return zip(episode.states, episode.states[1:], episode.rewards[1:], strict=False)


def test_following_a_change_leads_to_the_next_state_also_through_json(episode, same_state):
    for before, after, rewards in neighbours(episode):
        change = json.loads(json.dumps(difference(before, after, rewards)))
        assert same_state(follow(before, change, "x"), after)
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
    assert same_state(follow(before, change, "x"), world.state())


def test_cooling_and_thawing_go_on_unsaid(world_of, same_state):
    world = world_of("##### #>M.# #####", mine={"cooldown": 5})
    world.step([2])
    states = [world.state()]
    for _ in range(7):
        world.step([0])
        states.append(world.state())
        assert difference(states[-2], states[-1], NOTHING) == {"actions": "0"}
        assert same_state(follow(states[-2], {"actions": "0"}, "x"), states[-1])
    assert states[0].stations[0, 3] > 0
    assert states[-1].stations[0, 3] == 0


def test_a_facing_that_does_not_follow_from_the_action_is_reported(episode, same_state):
    before, after = episode.states[0], episode.states[1]
    agents = after.agents.copy()
    agents[0, 2] = (agents[0, 2] + 1) % 4
    facings = type(after)(after.step, after.max_steps, after.walls, after.stations, agents, after.inventories)
    change = difference(before, facings, np.zeros(8, np.float32))
    assert "facings" in change
    assert same_state(follow(before, change, "x"), facings)


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
        ({"cells": [0, 1.5]}, "whole numbers"),
        ({"cells": [0, True]}, "whole numbers"),
        ({"cells": [0, 2**40]}, "32 bits"),
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
        follow(episode.states[0], {"actions": "00000000", **planted}, "Step 1")


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
        state = follow(episode.states[0], {"actions": "00000000", **planted}, "x")
        rewards_of(planted, 8, "x")
    except DamagedFile:
        return
    assert state.step == 1
