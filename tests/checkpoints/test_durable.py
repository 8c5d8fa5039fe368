import errno
import os
import shutil

import pytest

from palaestra.checkpoints import durable
from palaestra.checkpoints.files import RealFileSystem, SaveFailed
from palaestra.core.errors import DamagedFile, NotFound

PARTS = {
    1: {"model_0001.safetensors": b"W1" * 500, "trainer_state_0001.pt": b"S1" * 500},
    2: {"model_0002.safetensors": b"W2" * 600, "trainer_state_0002.pt": b"S2" * 600},
}


class FailingFileSystem(RealFileSystem):
    """Fails at the n-th thing asked of it, after a write of half the data where it is a write."""

    def __init__(self, fails_at, code):
        self.calls = 0
        self.fails_at = fails_at
        self.code = code

    def _step(self):
        self.calls += 1
        if self.calls == self.fails_at:
            raise OSError(self.code, os.strerror(self.code))

    def write_temporary(self, path, data):
        if self.calls + 1 == self.fails_at:
            path.write_bytes(data[: len(data) // 2])
        self._step()
        super().write_temporary(path, data)

    def rename(self, source, target):
        self._step()
        super().rename(source, target)

    def fsync_directory(self, directory):
        self._step()
        super().fsync_directory(directory)


@pytest.fixture
def directory(tmp_path, describe):
    durable.commit(tmp_path, 1, PARTS[1], describe(1))
    return tmp_path


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def test_the_exact_tree_after_a_commit(directory):
    assert names(directory) == ["model_0001.safetensors", "model_0001.yaml", "trainer_state_0001.pt"]


def test_what_was_committed_verifies(directory, describe):
    checkpoint, parts = durable.verify(directory, 1)
    assert parts == PARTS[1]
    assert checkpoint.agent_step == describe(1).agent_step
    assert checkpoint.path == directory / "model_0001.yaml"


@pytest.mark.fault("C4")
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS])
@pytest.mark.parametrize("fails_at", range(1, 9))
def test_a_disk_that_fails_at_any_step_leaves_the_old_and_no_remains(directory, describe, fails_at, code):
    fs = FailingFileSystem(fails_at, code)
    with pytest.raises(SaveFailed, match=os.strerror(code)):
        durable.commit(directory, 2, PARTS[2], describe(2), fs)
    assert fs.calls == fails_at
    assert durable.verify(directory, 1)[1] == PARTS[1]
    if fails_at < 8:
        assert names(directory) == ["model_0001.safetensors", "model_0001.yaml", "trainer_state_0001.pt"]
    else:  # only the last sync failed: the new one stands, but nobody was promised that it survives a power loss
        assert durable.verify(directory, 2)[1] == PARTS[2]
    durable.commit(directory, 2, PARTS[2], describe(2))
    assert durable.verify(directory, 2)[1] == PARTS[2]


def test_a_commit_takes_eight_steps(directory, describe):
    fs = FailingFileSystem(0, 0)
    durable.commit(directory, 2, PARTS[2], describe(2), fs)
    assert fs.calls == 8


@pytest.mark.fault("C5")
def test_a_directory_that_is_gone_is_a_failed_save(tmp_path, describe):
    with pytest.raises(SaveFailed, match="No such file"):
        durable.commit(tmp_path / "gone", 1, PARTS[1], describe(1))


@pytest.mark.fault("C10")
@pytest.mark.parametrize("name", PARTS[1])
def test_a_missing_file_is_named(directory, name):
    (directory / name).unlink()
    with pytest.raises(DamagedFile, match=f"{name} is missing"):
        durable.verify(directory, 1)


@pytest.mark.fault("C6")
@pytest.mark.parametrize("name", PARTS[1])
def test_a_truncated_file_is_refused_by_name(directory, name):
    os.truncate(directory / name, 700)
    with pytest.raises(DamagedFile, match=f"{name}: 700 bytes, the sidecar says 1000"):
        durable.verify(directory, 1)


@pytest.mark.fault("C7")
@pytest.mark.parametrize("name", PARTS[1])
def test_one_flipped_bit_is_refused_by_name(directory, damage, name):
    damage(directory / name)
    with pytest.raises(DamagedFile, match=f"{name}: its bytes are not those"):
        durable.verify(directory, 1)


@pytest.mark.fault("C9")
def test_weights_without_a_sidecar_are_no_checkpoint_but_are_listed(directory):
    (directory / "model_0001.yaml").unlink()
    assert durable.committed_epochs(directory) == []
    assert [path.name for path in durable.uncommitted_files(directory)] == sorted(PARTS[1])
    with pytest.raises(NotFound):
        durable.verify(directory, 1)


@pytest.mark.fault("C8")
def test_a_sidecar_copied_from_another_epoch_is_refused(directory, describe):
    durable.commit(directory, 2, PARTS[2], describe(2))
    shutil.copy(directory / "model_0001.yaml", directory / "model_0002.yaml")
    with pytest.raises(DamagedFile, match="speaks of epoch 1"):
        durable.verify(directory, 2)


def test_a_link_in_place_of_weights_is_not_followed(directory):
    weights = directory / "model_0001.safetensors"
    weights.rename(directory / "elsewhere")
    weights.symlink_to(directory / "elsewhere")
    with pytest.raises(DamagedFile):
        durable.verify(directory, 1)


def test_a_pipe_in_place_of_a_sidecar_does_not_hang(directory):
    (directory / "model_0001.yaml").unlink()
    os.mkfifo(directory / "model_0001.yaml")
    with pytest.raises(DamagedFile, match="not a regular file"):
        durable.verify(directory, 1)


def test_epochs_are_ordered_by_number(tmp_path, describe):
    for epoch in (10000, 9999, 0, 100):
        durable.commit(tmp_path, epoch, {f"model_{epoch:04d}.safetensors": b"w"}, describe(epoch))
    assert durable.committed_epochs(tmp_path) == [0, 100, 9999, 10000]


def test_a_state_dropped_while_it_is_read_is_no_damage(directory, describe, monkeypatch):
    """Retention rewrites the sidecar and deletes the state between our reading the one and the other."""
    first = durable.read_sidecar(directory, 1)
    real_read = durable.read_regular_file

    def drop_then_read(path, max_bytes):
        if path.name == "model_0001.safetensors" and (directory / "trainer_state_0001.pt").exists():
            only_weights = {path.name: first.files[path.name]}
            durable.rewrite_sidecar(directory, describe(1, files=only_weights))
            (directory / "trainer_state_0001.pt").unlink()
        return real_read(path, max_bytes)

    monkeypatch.setattr(durable, "read_regular_file", drop_then_read)
    assert durable.verify(directory, 1)[1] == {"model_0001.safetensors": PARTS[1]["model_0001.safetensors"]}


def test_committing_an_epoch_again_replaces_it_whole(directory, describe):
    again = {"model_0001.safetensors": b"other"}
    durable.commit(directory, 1, again, describe(1))
    assert durable.verify(directory, 1)[1] == again


def test_rewriting_a_sidecar_keeps_the_files(directory):
    before = durable.read_sidecar(directory, 1)
    durable.rewrite_sidecar(directory, before.__class__(**{**before.__dict__, "score": 7.0}))
    checkpoint, parts = durable.verify(directory, 1)
    assert checkpoint.score == 7.0
    assert parts == PARTS[1]


@pytest.mark.parametrize("fails_at", [1, 2])
def test_a_full_disk_while_an_epoch_is_saved_anew_keeps_the_first(directory, describe, fails_at):
    again = dict.fromkeys(PARTS[1], b"other" * 300)
    with pytest.raises(SaveFailed):
        durable.commit(directory, 1, again, describe(1), FailingFileSystem(fails_at, errno.ENOSPC))
    assert durable.verify(directory, 1)[1] == PARTS[1]


@pytest.mark.parametrize("fails_at", [1, 2])
def test_a_small_file_that_cannot_be_replaced_stays_and_leaves_no_remains(directory, fails_at):
    before = (directory / "model_0001.yaml").read_bytes()
    with pytest.raises(SaveFailed, match="model_0001.yaml could not be saved"):
        durable.replace_file(directory, "model_0001.yaml", b"new", FailingFileSystem(fails_at, errno.ENOSPC))
    assert (directory / "model_0001.yaml").read_bytes() == before
    assert names(directory) == ["model_0001.safetensors", "model_0001.yaml", "trainer_state_0001.pt"]


def test_one_of_the_remains_that_cannot_be_removed_does_not_keep_the_others(directory, describe, monkeypatch):
    first = next(iter(PARTS[2]))

    unlink_really = type(directory).unlink

    def unlink(path):
        if path.name.endswith(first):
            raise OSError(errno.EIO, "it stays")
        unlink_really(path)

    monkeypatch.setattr(type(directory), "unlink", unlink)
    with pytest.raises(SaveFailed):
        durable.commit(directory, 2, PARTS[2], describe(2), FailingFileSystem(3, errno.EIO))
    assert [name.endswith(first) for name in names(directory) if "0002" in name] == [True]


def test_an_error_without_a_number_is_told_in_its_own_words(directory, describe):
    class Broken(RealFileSystem):
        def write_temporary(self, path, data):
            raise OSError("the tape is full")

    with pytest.raises(SaveFailed, match="the tape is full"):
        durable.commit(directory, 2, PARTS[2], describe(2), Broken())


@pytest.mark.parametrize("change", ["shorter", "link", "gone"])
def test_a_listing_looks_at_every_file_and_its_size(directory, change):
    weights = directory / "model_0001.safetensors"
    if change == "shorter":
        os.truncate(weights, 999)
    else:
        weights.rename(directory / "elsewhere")
    if change == "link":  # to something of the right size
        weights.symlink_to(directory / "elsewhere")
    told = {"shorter": "999 bytes, the sidecar says 1000", "link": "the sidecar says 1000", "gone": "is missing"}
    with pytest.raises(DamagedFile, match=told[change]):
        durable.read_checked(directory, 1)


@pytest.mark.parametrize("changes", [4, 5, 6])
def test_a_sidecar_that_changes_under_each_of_five_looks_is_given_up(describe, changes):
    looks = []
    described = (describe(1, files={"n": {"size": size}}) for size in range(100))

    def read(checkpoint):
        looks.append(checkpoint.files["n"]["size"])
        if len(looks) <= changes:
            raise DamagedFile("gone in between")
        return "seen"

    if changes == 4:
        assert durable.retry_while_replaced(lambda: next(described), read)[1] == "seen"
    else:
        with pytest.raises(DamagedFile, match="changes faster"):
            durable.retry_while_replaced(lambda: next(described), read)
    assert looks == [0, 1, 2, 3, 4]


def test_where_nothing_was_ever_saved_nothing_is_listed(tmp_path):
    assert durable.committed_epochs(tmp_path / "never") == []
    assert durable.uncommitted_files(tmp_path / "never") == []
