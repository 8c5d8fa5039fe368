"""Whatever is sampled is what was added, in frames or whole."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palaestra.algorithms.buffers.replay_buffer import TRUNCATED, ReplayBuffer
from palaestra.core.spaces import BoxSpec
from tests.algorithms.buffers.random_play import SPACES, Game, Naive, check_all, interface, play, played, reread


@pytest.mark.parametrize("space", SPACES.values(), ids=list(SPACES))
@settings(max_examples=15, deadline=None)
@given(
    env_count=st.integers(1, 3),
    capacity=st.integers(2, 40),
    steps=st.integers(1, 70),
    seed=st.integers(0, 2**31),
    endings=st.sampled_from([0.0, 0.1, 0.6]),
    jumps=st.sampled_from([0.0, 0.3]),
)
def test_every_transition_is_given_back_as_it_was_added(space, env_count, capacity, steps, seed, endings, jumps):
    buffer, *_, naive, _ = played(space, env_count, capacity, steps, seed, endings=endings, jumps=jumps)
    check_all(buffer, naive)


@pytest.mark.parametrize("name", ["stack", "stack last", "colour stack"])
def test_a_frame_is_stored_once(name):
    buffer, *_ = played(SPACES[name], 2, 400, 200, endings=0.0, jumps=0.0)
    (stack,) = buffer.stacks.values()
    assert buffer.blocks == {}
    assert stack.frames[0, 0].nbytes * stack.stack == np.prod(SPACES[name].shape)
    assert np.count_nonzero(stack.whole.slots >= 0) == 2  # the first of each environment


def test_images_that_are_no_stacks_are_stored_whole():
    four_planes = BoxSpec((4, 6, 5), "uint8", (0.0,), (255.0,))
    rng = np.random.default_rng(0)
    buffer = ReplayBuffer(interface(four_planes), 10, 1)
    game, naive = Game(four_planes, 1, rng), Naive()
    game.write(buffer.current)
    game.step = lambda env, jumps: game.now.__setitem__(env, game.fresh()) or game.now[env]
    play(buffer, game, naive, 15, rng, endings=0.0)
    assert (list(buffer.blocks), buffer.stacks) == ([""], {})
    check_all(buffer, naive)


def test_slots_of_overwritten_rows_are_used_again():
    buffer, *_ = played(SPACES["dictionary"], 2, 20, 2_000, endings=0.9, jumps=0.5)
    assert all(len(kept) <= 64 for kept in buffer.finals.values())
    assert len(buffer.stacks["pixels"].whole.arrays) <= 64


@pytest.mark.parametrize("name", ["vector", "stack", "dictionary"])
def test_episodes_that_are_cut_off_bootstrap_from_their_own_last_observation(name):
    """Environments that cannot be restored begin new episodes in the middle of the old ones."""
    buffer, game, naive, rng = played(SPACES[name], 2, 50, 10, endings=0.0)
    buffer.cut_episodes()
    naive.rows[-1] = [(before, action, reward, TRUNCATED, after) for before, action, reward, _, after in naive.rows[-1]]
    game.now = [game.fresh(), game.fresh()]
    game.write(buffer.current)
    play(buffer, game, naive, 20, rng)
    check_all(buffer, naive)
    assert buffer.rewritten_row == 9
    check_all(reread(buffer), naive)
