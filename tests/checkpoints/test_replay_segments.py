import errno
import hashlib
from contextlib import suppress

import pytest

from palaestra.checkpoints import durable, replay_segments
from palaestra.checkpoints.files import RealFileSystem, SaveFailed, is_temporary, rank_of_segment, segment_entry
from palaestra.checkpoints.replay_segments import FOLDER, Rows, segment_rows, segments_of
from palaestra.checkpoints.store import CheckpointStore
from palaestra.config.train import CheckpointConfig
from palaestra.core.errors import DamagedFile

CAPACITY = 160  # rows of the buffer in these tests
SEGMENT = segment_rows(CAPACITY, 1 << 20, 1)  # 10


def content(rank, row):
    """The bytes of a row: they tell whose it is."""
    return f"<{rank}:{row:06d}>".encode() * 3


def rows_from(first, end, rank=0, block=7, oldest=None):
    """What a buffer of `CAPACITY` rows gives of the rows [first, end)."""
    oldest = max(0, end - CAPACITY) if oldest is None else oldest
    first = max(first, oldest)
    blocks = []
    for start in range(first, end, block):
        stop = min(end, start + block)
        blocks.append((stop, [b"".join(content(rank, row) for row in range(start, stop))]))
    return Rows(rank, first, oldest, SEGMENT, blocks)


@pytest.fixture
def store(tmp_path):
    return CheckpointStore(tmp_path / "checkpoints", CheckpointConfig(keep=3, keep_trainer_states=2))


@pytest.fixture
def save(policy, describe):
    """`save(store, epoch, end)`: with all rows of a buffer up to `end` that its checkpoints do not have."""

    def one(store, epoch, end, ranks=1):
        rows = [rows_from(store.segments.next_row(rank, SEGMENT), end, rank) for rank in range(ranks)]
        return store.save(policy, describe(epoch), {"epoch": epoch}, rows)

    return one


def read_rows(store, checkpoint, rank=0):
    """The numbers of the rows that its segments hold, in the order in which they are read."""

    def read(stream, size, source):
        data = stream.read(size)
        length = len(content(rank, 0))
        for start in range(0, len(data), length):
            row = int(data[start + 3 : start + 9])
            assert data[start : start + length] == content(rank, row)
            yield row

    return list(store.read_replay_rows(checkpoint, rank, read))


def needed(end):
    return list(range(max(0, end - CAPACITY), end))


def holds(store, checkpoint, end, rank=0):
    rows = read_rows(store, checkpoint, rank)
    assert rows == list(range(rows[0], end)), "in order, each once"
    return rows[-len(needed(end)) :] == needed(end)


def files(store):
    folder = store.directory / FOLDER
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.exists() else {}


def test_a_save_writes_the_rows_that_are_new(store, save):
    first = save(store, 1, 4)
    (name,) = first.replay_segments
    before = files(store)[name]
    second = save(store, 2, 9)
    assert list(second.replay_segments) == [name]  # the segment grew
    assert files(store)[name].startswith(before)
    assert read_rows(store, first) == needed(4)
    assert read_rows(store, second) == needed(9)


def test_a_checkpoint_without_rows_has_no_folder(store, policy, describe):
    assert store.save(policy, describe(1), {"epoch": 1}).replay_segments == {}
    assert not (store.directory / FOLDER).exists()


def test_a_segment_that_is_full_is_followed_by_another(store, save):
    for epoch, end in enumerate(range(5, 60, 5), start=1):
        saved = save(store, epoch, end)
        assert holds(store, saved, end)
    assert len(saved.replay_segments) == 55 // SEGMENT + 1
    assert all(end - first <= SEGMENT + 7 for first, end, *_ in map(segment_entry, saved.replay_segments.values()))


def test_what_is_on_the_disk_is_bounded_by_the_buffer_and_an_interval(store, save):
    largest = 0
    for epoch, end in enumerate(range(20, 2_000, 20), start=1):
        saved = save(store, epoch, end)
        largest = max(largest, sum(map(len, files(store).values())))
    assert holds(store, saved, end)
    row = len(content(0, 0))
    assert largest <= (CAPACITY + 2 * 20 + 2 * (SEGMENT + 7)) * row  # two checkpoints can be continued from
    assert len(files(store)) < 3 * replay_segments.SEGMENTS


def test_rows_that_were_overwritten_before_they_were_saved_are_not_missed(store, save):
    save(store, 1, 30)
    assert holds(store, save(store, 2, 1_000), 1_000)
    assert holds(store, save(store, 3, 1_010), 1_010)


def test_each_rank_has_its_own_segments(store, save):
    save(store, 1, 30, ranks=3)
    saved = save(store, 2, 41, ranks=3)
    assert {rank_of_segment(name) for name in saved.replay_segments} == {0, 1, 2}
    assert all(holds(store, saved, 41, rank) for rank in range(3))


def test_many_ranks_have_few_segments_so_that_a_sidecar_can_name_all(store, save, policy, describe):
    ranks, size = 100, segment_rows(CAPACITY, 1 << 20, 100)
    rows = [Rows(rank, 0, 0, size, [(row + 16, [b"x"]) for row in range(0, CAPACITY, 16)]) for rank in range(ranks)]
    assert len(store.save(policy, describe(1), {}, rows).replay_segments) <= 3 * ranks


def test_after_a_resume_nothing_is_added_to_old_segments_and_small_ones_are_written_anew(store, save):
    old = save(store, 1, 13)
    before = files(store)
    resumed = CheckpointStore(store.directory, CheckpointConfig(keep=3, keep_trainer_states=2))
    assert resumed.load_for_resume().checkpoint == old
    saved = save(resumed, 2, 16)
    assert holds(resumed, saved, 16)
    assert {name: files(store)[name] for name in before} == before
    assert holds(resumed, old, 13)


def test_sixty_resumes_leave_few_segments(store, save):
    end = 0
    for epoch in range(1, 61):
        store = CheckpointStore(store.directory, CheckpointConfig(keep=3, keep_trainer_states=2))
        store.load_for_resume()
        end += 3
        saved = save(store, epoch, end)
        assert holds(store, saved, end)
    assert len(saved.replay_segments) <= 2 * (end // SEGMENT + 1)


def test_the_same_epoch_saved_again_keeps_its_segments(store, save):
    first = save(store, 1, 13)
    again = save(store, 1, 13)
    assert again.replay_segments == first.replay_segments
    assert holds(store, again, 13)


def test_segments_that_no_checkpoint_needs_are_removed(store, save):
    for epoch, end in enumerate(range(40, 400, 40), start=1):
        saved = save(store, epoch, end)
    named = {name for one in store.list_all_checkpoints() for name in one.replay_segments}
    assert set(files(store)) == named
    assert set(saved.replay_segments) < named
    without_state = [one for one in store.list_all_checkpoints() if len(one.files) == 1]
    assert without_state
    assert all(one.replay_segments == {} for one in without_state)


def test_segments_of_a_damaged_checkpoint_stay_while_its_sidecar_is_there(store, save, damage):
    save(store, 1, 30)
    newest = save(store, 2, 90)
    damage(store.directory / "model_0002.safetensors")
    (store.directory / "trainer_state_0002.pt").unlink()
    store.retain(keep=1, keep_trainer_states=1)
    assert set(newest.replay_segments) <= set(files(store))


@pytest.mark.fault("C15")
def test_what_a_dead_writer_left_is_removed(store, save):
    save(store, 1, 5)
    stale = store.directory / FOLDER / ".tmp-999999-1-rank0_000000000000_00000000.rows"
    stale.write_bytes(b"half")
    save(store, 2, 9)
    assert not stale.exists()


def damaged_by(store, change):
    path = max((store.directory / FOLDER).iterdir(), key=lambda one: one.name[:18])
    change(path)
    return path


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def cut(path):
    path.write_bytes(path.read_bytes()[:10])


def link(path):
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


@pytest.mark.fault("C20")
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (flip, "its bytes are not those that were saved"),
        (cut, "cut short"),
        (lambda path: path.unlink(), "is missing"),
        (link, "cannot be opened"),
    ],
    ids=["flipped", "cut", "missing", "link"],
)
def test_a_damaged_segment_is_named_and_no_checkpoint_that_needs_it_is_resumed(store, save, change, reason):
    save(store, 1, 5)
    save(store, 2, 9)
    path = damaged_by(store, change)
    with pytest.raises(DamagedFile, match=reason) as caught:
        store.load_for_resume()
    assert str(path) in caught.value.message
    assert "--without-replay-buffer" in caught.value.hint
    assert store.load_for_resume(with_replay_rows=False).checkpoint.epoch == 2


@pytest.mark.fault("C20")
def test_where_only_the_newest_checkpoint_needs_it_the_one_before_is_resumed(store, save):
    save(store, 1, 20)
    save(store, 2, 39)
    damaged_by(store, flip)
    assert store.load_for_resume().checkpoint.epoch == 1


def test_weights_are_read_without_the_segments(store, save):
    save(store, 1, 5)
    damaged_by(store, lambda path: path.unlink())
    assert store.load_weights()[1].epoch == 1
    assert store.survey().refused == ()


class Failing(RealFileSystem):
    """One call after the other fails, with and without having done its work."""

    def __init__(self, fails_at, code):
        self.calls, self.fails_at, self.code = 0, fails_at, code

    def _count(self):
        self.calls += 1
        if self.calls == self.fails_at:
            raise OSError(self.code, "injected")

    def write_temporary(self, path, data):
        self._count()
        super().write_temporary(path, data)

    def append(self, path, size, data):
        pieces = [data] if isinstance(data, bytes) else list(data)
        try:
            self._count()
        except OSError:
            super().append(path, size, [b"".join(pieces)[:5]])  # a part of it
            raise
        super().append(path, size, pieces)

    def rename(self, source, target):
        self._count()
        super().rename(source, target)

    def fsync_directory(self, directory):
        self._count()
        super().fsync_directory(directory)


@pytest.mark.fault("C4")
@pytest.mark.parametrize("fails_at", range(1, 12))
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_fails_at_any_call_loses_nothing_and_the_next_save_is_whole(
    tmp_path, save, policy, describe, fails_at, code
):
    fs = Failing(0, code)
    store = CheckpointStore(tmp_path / "checkpoints", CheckpointConfig(), fs)
    save(store, 1, 8)
    fs.calls, fs.fails_at = 0, fails_at
    with suppress(SaveFailed):  # the log comes after the sidecar; its failure is only named
        save(store, 2, 25)  # adds to a segment and begins another
    fs.fails_at = 0
    point = CheckpointStore(tmp_path / "checkpoints").load_for_resume()
    assert holds(store, point.checkpoint, {1: 8, 2: 25}[point.checkpoint.epoch])
    saved = save(store, 3, 31)
    assert holds(store, saved, 31)
    assert not any(is_temporary(path.name) for path in (store.directory / FOLDER).iterdir())


def test_a_segment_that_somebody_removed_fails_one_save_and_the_next_writes_all_rows(store, save):
    save(store, 1, 5)
    damaged_by(store, lambda path: path.unlink())
    with pytest.raises(SaveFailed, match="replay buffer"):
        save(store, 2, 9)
    assert holds(store, save(store, 3, 12), 12)


@pytest.mark.fault("C1")
def test_bytes_behind_those_that_the_sidecar_names_are_ignored(store, save):
    """A writer that was killed leaves them."""
    saved = save(store, 1, 5)
    (path,) = (store.directory / FOLDER).iterdir()
    with path.open("ab") as stream:
        stream.write(b"torn")
    assert store.load_for_resume().checkpoint == saved
    assert holds(store, saved, 5)


@pytest.mark.fault("C3")
def test_the_order_is_segments_then_directory_then_sidecar(tmp_path, save):
    """So a sidecar that can be read promises segments that are on the disk."""
    done = []

    class Watched(RealFileSystem):
        def write_temporary(self, path, data):
            super().write_temporary(path, data)
            done.append(path.name.rpartition("-")[2])

        def append(self, path, size, data):
            super().append(path, size, data)
            done.append(f"append {path.name}")

        def rename(self, source, target):
            super().rename(source, target)
            done.append(f"rename {target.name}")

        def fsync_directory(self, directory):
            super().fsync_directory(directory)
            done.append(f"sync {directory.name}")

    store = CheckpointStore(tmp_path / "checkpoints", None, Watched())
    saved = save(store, 1, 5)
    (name,) = saved.replay_segments
    sidecar = done.index("rename model_0001.yaml")
    expected = ["sync checkpoints", name, f"rename {name}", "sync replay"]
    assert done[:4] == expected
    assert sidecar > 4
    done.clear()
    save(store, 2, 9)
    assert done[0] == f"append {name}"
    assert done.index("rename model_0002.yaml") > 0


def test_the_checksum_is_that_of_the_bytes_up_to_the_size(store, save):
    save(store, 1, 5)
    saved = save(store, 2, 9)
    save(store, 3, 10)
    (segment,) = segments_of(saved)
    data = (store.directory / FOLDER / segment.name).read_bytes()
    assert segment.sha256 == hashlib.sha256(data[: segment.size]).hexdigest()
    assert len(data) > segment.size


def test_a_link_in_place_of_a_segment_is_not_written_through(tmp_path, store, save):
    save(store, 1, 5)
    (path,) = (store.directory / FOLDER).iterdir()
    other = tmp_path / "other"
    other.write_bytes(b"x" * 10_000)
    path.unlink()
    path.symlink_to(other)
    with pytest.raises(SaveFailed):
        save(store, 2, 9)
    assert other.read_bytes() == b"x" * 10_000


def test_epochs_are_committed_as_before(store, save):
    save(store, 1, 5)
    assert durable.committed_epochs(store.directory) == [1]
