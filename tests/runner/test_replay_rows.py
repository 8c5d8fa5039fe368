"""Rows of replay buffers between ranks and checkpoints, with ranks that are threads."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest

from palaestra.algorithms.buffers.replay_buffer import ReplayBuffer
from palaestra.algorithms.group import ALONE, Group
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.checkpoints.replay_segments import segments_of
from palaestra.core.checkpoint import Checkpoint
from palaestra.core.errors import DamagedFile
from palaestra.core.spaces import BoxSpec, DiscreteSpec, EnvInterface
from palaestra.runner import replay_rows
from palaestra.runner.replay_rows import RowLoader, gather_rows, is_much

INTERFACE = EnvInterface(BoxSpec((3,)), DiscreteSpec(2))


class Ranks(Group):
    """One rank of several threads: collectives meet at a barrier."""

    def __init__(self, rank, shared):
        self.rank, self.shared = rank, shared
        self.world_size = shared.count

    def broadcast_bytes(self, data):
        if self.is_leader:
            self.shared.value = data
        self.shared.barrier.wait(10)
        value = self.shared.value
        self.shared.barrier.wait(10)
        return value

    def gather_bytes(self, data):
        self.shared.parts[self.rank] = data
        self.shared.barrier.wait(10)
        found = [self.shared.parts[rank] for rank in range(self.world_size)] if self.is_leader else []
        self.shared.barrier.wait(10)
        return found


def ranks(count):
    shared = SimpleNamespace(count=count, barrier=threading.Barrier(count), parts={}, value=b"")
    return [Ranks(rank, shared) for rank in range(count)]


def state_of(buffer, group=ALONE, *, saved=True):
    config = SimpleNamespace(checkpoints=SimpleNamespace(replay_buffer=saved))
    return SimpleNamespace(algorithm=SimpleNamespace(replay_buffer=buffer), group=group, config=config)


def filled(row_count, seed=0, env_count=2, capacity=40, interface=INTERFACE):
    rng = np.random.default_rng(seed)
    buffer = ReplayBuffer(interface, capacity, env_count)
    buffer.current[:] = rng.standard_normal(buffer.current.shape)
    add(buffer, row_count, rng)
    return buffer


def add(buffer, row_count, rng):
    for _ in range(row_count):
        buffer.following[:] = rng.standard_normal(buffer.following.shape)
        buffer.add(rng.integers(0, 2, buffer.env_count), rng.standard_normal(buffer.env_count), [])


def described(epoch):
    return Checkpoint(epoch, epoch, 1.0, "run", "name", 1.0, {}, {}, {})


def save(manager, state, epoch=1, *, copied=False):
    rows = gather_rows(state, manager.segments, copied=copied)
    weights = {"weight": np.zeros(1, np.float32)}
    return manager.save(weights, described(epoch), {"epoch": epoch}, rows)


def loaded(manager, buffer, *, capture=None, is_left_out=False, like=None):
    """A new buffer with the rows of the newest checkpoint, and why it has none."""
    like = like or buffer
    new = ReplayBuffer(EnvInterface(like.space, DiscreteSpec(2)), like.capacity * like.env_count, like.env_count)
    new.restore(capture or buffer.capture())
    point = manager.load_for_resume(with_replay_rows=not is_left_out)
    loader = RowLoader(manager, point, ALONE, is_left_out)
    return new, loader(new), loader.why_not


def equal(one, other):
    indices = np.arange(one.total_rows - one.size, one.total_rows) % one.rows * one.env_count
    batches = [vars(buffer.gather(indices, 1, 0.9)) for buffer in (one, other)]
    return one.size == other.size and all(np.array_equal(part, batches[1][name]) for name, part in batches[0].items())


@pytest.fixture
def manager(tmp_path):
    return CheckpointManager(tmp_path)


@pytest.mark.parametrize("copied", [False, True])
def test_rows_come_back_from_a_checkpoint(manager, copied):
    buffer = filled(30)
    save(manager, state_of(buffer), copied=copied)
    new, is_loaded, why_not = loaded(manager, buffer)
    assert (is_loaded, why_not) == (True, "")
    assert equal(new, buffer)


def test_a_copy_stays_as_it_was_while_rows_are_overwritten(manager):
    buffer = filled(25, seed=1)
    expected, capture = filled(25, seed=1), buffer.capture()
    rows = gather_rows(state_of(buffer), manager.segments, copied=True)
    add(buffer, 40, np.random.default_rng(2))
    manager.save({"weight": np.zeros(1, np.float32)}, described(1), {}, rows)
    new, *_ = loaded(manager, buffer, capture=capture)
    assert equal(new, expected)


def test_a_second_save_brings_only_what_is_new(manager):
    buffer = filled(10)
    save(manager, state_of(buffer))
    add(buffer, 3, np.random.default_rng(1))
    (rows,) = gather_rows(state_of(buffer), manager.segments)
    assert (rows.first_row, [end for end, _ in rows.blocks]) == (10, [13])


def test_every_rank_gets_its_own_rows_and_only_the_leader_touches_files(manager):
    buffers = [filled(15, seed=rank) for rank in range(3)]
    new = [ReplayBuffer(INTERFACE, 40, 2) for _ in buffers]
    group = ranks(3)
    results = {}

    def work(rank):
        own = manager if rank == 0 else None
        state = state_of(buffers[rank], group[rank])
        rows = gather_rows(state, own.segments if own else None)
        point = None
        if own:
            manager.save({"weight": np.zeros(1, np.float32)}, described(1), {}, rows)
            point = manager.load_for_resume()
        new[rank].restore(buffers[rank].capture())
        results[rank] = RowLoader(own, point, group[rank])(new[rank])

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {0: True, 1: True, 2: True}
    assert all(equal(one, other) for one, other in zip(new, buffers, strict=True))


def test_a_row_that_changed_after_it_was_saved_is_saved_again(manager):
    """Environments that cannot be restored cut their episodes when a run resumes."""
    buffer = filled(10)
    save(manager, state_of(buffer))
    buffer.cut_episodes()
    add(buffer, 2, np.random.default_rng(1))
    save(manager, state_of(buffer), 2)
    new, *_ = loaded(manager, buffer)
    assert equal(new, buffer)
    assert new.ends[9].tolist() == [2, 2]


def test_left_out_of_the_configuration_nothing_is_written_and_the_resume_says_so(manager):
    buffer = filled(10)
    assert save(manager, state_of(buffer, saved=False)).replay_segments == {}
    _, is_loaded, why_not = loaded(manager, buffer)
    assert not is_loaded
    assert "checkpoints.replay_buffer=false" in why_not


def test_left_out_by_the_user_a_damaged_segment_is_not_read(manager):
    buffer = filled(10)
    save(manager, state_of(buffer))
    for path in (manager.directory / "replay").iterdir():
        path.unlink()
    _, is_loaded, why_not = loaded(manager, buffer, is_left_out=True)
    assert not is_loaded
    assert "--without-replay-buffer" in why_not


def test_before_the_first_step_there_is_nothing_to_miss(manager):
    buffer = filled(0)
    save(manager, state_of(buffer))
    assert loaded(manager, buffer)[1:] == (True, "")


@pytest.mark.fault("C20")
def test_rows_of_another_environment_are_refused_with_the_file_and_what_differs(manager):
    buffer = filled(10, interface=EnvInterface(BoxSpec((5,)), DiscreteSpec(2)))
    saved = save(manager, state_of(buffer))
    own = filled(10)
    (segment,) = segments_of(saved)
    with pytest.raises(DamagedFile, match=r"observation/ is float32 \[2, 5\] there and float32 \[2, 3\]") as caught:
        loaded(manager, own)
    assert segment.name in caught.value.message


def test_rows_that_are_missing_in_between_are_noticed(manager):
    buffer = filled(10)
    save(manager, state_of(buffer))
    capture = buffer.capture() | {"total_rows": 14, "size": 14}
    with pytest.raises(DamagedFile, match="from row 10 on"):
        loaded(manager, buffer, capture=capture)


def test_what_is_too_much_to_be_copied_is_written_while_training_waits(manager, monkeypatch):
    buffer = filled(10)
    assert not is_much(state_of(buffer), manager.segments)
    monkeypatch.setattr(replay_rows, "MOST_COPIED_BYTES", 100)
    assert is_much(state_of(buffer), manager.segments)
    assert not is_much(state_of(buffer, saved=False), manager.segments)
    save(manager, state_of(buffer))
    assert not is_much(state_of(buffer), manager.segments)


def test_an_algorithm_without_a_buffer_has_no_rows(manager):
    assert gather_rows(state_of(None), manager.segments) == []
    assert not is_much(state_of(None), manager.segments)
