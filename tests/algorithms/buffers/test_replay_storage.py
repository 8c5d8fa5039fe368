"""The buffer's rows against plain lists of all that was ever added."""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palaestra.algorithms.buffers.frame_storage import stack_axis
from palaestra.algorithms.buffers.replay_buffer import RUNNING, TERMINATED, TRUNCATED, ReplayBuffer
from palaestra.algorithms.buffers.replay_rows import copy_rows, export_rows, load_block, read_blocks
from palaestra.core.episodes import EpisodeResult
from palaestra.core.errors import DamagedFile
from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec, EnvInterface
from palaestra.envs.vector.in_process import Ending

VECTOR = BoxSpec((3,))
STACK = BoxSpec((4, 6, 5), "uint8", (0.0,), (255.0,))
STACK_LAST = BoxSpec((6, 5, 4), "uint8", (0.0,), (255.0,))
COLOUR_STACK = BoxSpec((3, 6, 5, 3), "uint8", (0.0,), (255.0,))
CAMERA = BoxSpec((6, 5, 3), "uint8", (0.0,), (255.0,))
SPACES = {
    "vector": VECTOR,
    "stack": STACK,
    "stack last": STACK_LAST,
    "colour stack": COLOUR_STACK,
    "camera": CAMERA,
    "dictionary": DictSpec((("pixels", STACK), ("goal", VECTOR), ("held", DiscreteSpec(4)))),
}


class Game:
    """Environments that give random observations; stacks move by one frame a step, unless told to jump."""

    def __init__(self, space, env_count, rng):
        self.space, self.env_count, self.rng = space, env_count, rng
        self.now = [self.fresh(env) for env in range(env_count)]

    def fresh(self, _env=None):
        return self._each(self._fresh_part)

    def _each(self, make, *before):
        if isinstance(self.space, DictSpec):
            return {name: make(part, *(one[name] for one in before)) for name, part in self.space.parts}
        return make(self.space, *before)

    def _fresh_part(self, part):
        if isinstance(part, DiscreteSpec):
            return np.int64(self.rng.integers(part.count))
        if part.dtype == "uint8":
            return self.rng.integers(0, 256, part.shape).astype(np.uint8)
        return self.rng.standard_normal(part.shape).astype(np.float32)

    def _next_part(self, part, before):
        fresh, axis = self._fresh_part(part), stack_axis(part)
        if axis is None:
            return fresh
        moved = np.moveaxis(before, axis, 0)[1:]
        newest = np.moveaxis(fresh, axis, 0)[-1:]
        return np.moveaxis(np.concatenate([moved, newest]), 0, axis)

    def write(self, out):
        for env, observation in enumerate(self.now):
            if isinstance(self.space, DictSpec):
                for name, part in observation.items():
                    out[name][env] = part
            else:
                out[env] = observation

    def step(self, env, *, jumps):
        self.now[env] = self.fresh() if jumps else self._each(self._next_part, self.now[env])
        return self.now[env]


class Naive:
    """Everything in lists: observation before, action, reward, how it ended, observation after."""

    def __init__(self):
        self.rows = []  # by number: one list of transitions, one per environment


def interface(space):
    return EnvInterface(space, DiscreteSpec(3))


def play(buffer, game, naive, steps, rng, endings=0.1, jumps=0.05):
    for _ in range(steps):
        actions = rng.integers(0, 3, game.env_count)
        rewards = rng.standard_normal(game.env_count).astype(np.float32)
        row, ended = [], []
        for env in range(game.env_count):
            before = game.now[env]
            after = game.step(env, jumps=naive.rows and rng.random() < jumps)
            end = rng.choice([RUNNING, TERMINATED, TRUNCATED], p=[1 - endings, endings / 2, endings / 2])
            if end != RUNNING:
                episode = EpisodeResult(None, 0.0, 1, terminated=end == TERMINATED, env_index=env)
                ended.append(Ending(env, after, episode))
                game.now[env] = game.fresh()
            row.append((before, actions[env], rewards[env], end, after))
        game.write(buffer.following)
        buffer.add(actions, rewards, ended)
        naive.rows.append(row)


def same(one, other):
    if isinstance(one, dict):
        return all(np.array_equal(one[name], other[name]) for name in one)
    return np.array_equal(one, other)


def at(batch, number):
    return {name: part[number] for name, part in batch.items()} if isinstance(batch, dict) else batch[number]


def check_all(buffer, naive):
    """Every transition that the buffer can give is the one that was added."""
    first = buffer.total_rows - buffer.size
    numbers = np.arange(first, buffer.total_rows)
    indices = ((numbers % buffer.rows)[:, None] * buffer.env_count + np.arange(buffer.env_count)).ravel()
    batch = buffer.gather(indices, 1, 0.9)
    for place, (number, env) in enumerate((n, e) for n in numbers for e in range(buffer.env_count)):
        before, action, reward, end, after = naive.rows[number][env]
        assert same(at(batch.observations, place), before), (number, env)
        assert (batch.actions[place], batch.rewards[place]) == (action, reward)
        assert batch.discounts[place] == np.float32(0.0 if end == TERMINATED else 0.9)
        if end != TERMINATED:
            assert same(at(batch.next_observations, place), after), (number, env)


def played(space, env_count, capacity, steps, seed=0, **chances):
    rng = np.random.default_rng(seed)
    buffer = ReplayBuffer(interface(space), capacity, env_count)
    game, naive = Game(space, env_count, rng), Naive()
    game.write(buffer.current)
    play(buffer, game, naive, steps, rng, **chances)
    return buffer, game, naive, rng


def reread(buffer, capacity=None):
    """Through bytes, as a file has them, into a new buffer."""
    other = ReplayBuffer(EnvInterface(buffer.space, DiscreteSpec(3)), capacity or 1, buffer.env_count)
    if capacity is None:
        other = ReplayBuffer(
            EnvInterface(buffer.space, DiscreteSpec(3)), buffer.capacity * buffer.env_count, buffer.env_count
        )
    other.restore(buffer.capture())
    raw = b"".join(b"".join(views) for _, views in export_rows(buffer, 0))
    for header, payload in read_blocks(other, io.BytesIO(raw), len(raw), "file"):
        load_block(other, header, payload)
    other.finish_loading()
    return other


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
