"""Random play that fills a replay buffer and a plain list of all that was ever added, to compare the two."""

import io

import numpy as np

from palaestra.algorithms.buffers.frame_storage import stack_axis
from palaestra.algorithms.buffers.replay_buffer import RUNNING, TERMINATED, TRUNCATED, ReplayBuffer
from palaestra.algorithms.buffers.replay_rows import export_rows, load_block, read_blocks
from palaestra.core.episodes import EpisodeResult
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
