"""What may a power loss leave? Record what a commit asks of the file system, work out every legal state, read each.

The model (POSIX, pessimistic): data that was not synced may be gone, cut, zeros or whole; names made, changed or
removed since the last sync of the directory may have reached the disk in any combination. A kill -9 cannot show this.
"""

import itertools
from dataclasses import dataclass

import pytest

from palaestra.checkpoints import durable
from palaestra.checkpoints.files import RealFileSystem
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.checkpoints.retention import retain
from palaestra.checkpoints.selection import open_latest, survey
from palaestra.config.train import CheckpointConfig
from palaestra.core.errors import DamagedFile

OLD = {"model_0001.safetensors": b"W1" * 40, "trainer_state_0001.pt": b"S1" * 40}
NEW = {"model_0002.safetensors": b"W2" * 50, "trainer_state_0002.pt": b"S2" * 50}
CONTENT = {1: OLD, 2: NEW}


@dataclass(frozen=True)
class Step:
    """`link` name -> inode, `unlink` name, `sync` an inode's data, `barrier`: the directory is synced."""

    kind: str
    name: str = ""
    inode: int = -1


class Recorder(RealFileSystem):
    """Does everything for real and remembers it; a mutant leaves out one kind of sync."""

    def __init__(self, leave_out=()):
        self.steps, self.data, self.names = [], {}, {}
        self.leave_out = leave_out

    def write_temporary(self, path, data):
        super().write_temporary(path, data)
        inode = len(self.data)
        self.data[inode], self.names[path.name] = path.read_bytes(), inode
        self.steps.append(Step("link", path.name, inode))
        if "file sync" not in self.leave_out:
            self.steps.append(Step("sync", inode=inode))

    def rename(self, source, target):
        super().rename(source, target)
        inode = self.names.pop(source.name)
        self.names[target.name] = inode
        self.steps.append(Step("rename", f"{source.name}>{target.name}", inode))

    def unlink(self, path):
        super().unlink(path)
        self.steps.append(Step("unlink", path.name))

    def fsync_directory(self, directory):
        if "directory sync" not in self.leave_out:
            self.steps.append(Step("barrier"))


@dataclass
class Verdict:
    states: int = 0
    served_corrupt: int = 0
    acknowledged_but_lost: int = 0
    nothing_left: int = 0
    broken_promises: int = 0  # a sidecar whose files do not hold

    @property
    def is_clean(self):
        return not (self.served_corrupt or self.acknowledged_but_lost or self.nothing_left or self.broken_promises)


def apply(names, step):
    if step.kind == "link":
        names[step.name] = step.inode
    elif step.kind == "rename":
        source, target = step.name.split(">")
        names.pop(source, None)
        names[target] = step.inode
    elif step.kind == "unlink":
        names.pop(step.name, None)


def crash_states(base, steps, data):
    """(whether all steps were done, {name: bytes}) for every instant and every choice the disk may have made."""
    for instant in range(len(steps) + 1):
        done = steps[:instant]
        synced = {step.inode for step in done if step.kind == "sync"}
        barrier = max((index for index, step in enumerate(done) if step.kind == "barrier"), default=-1)
        settled = [step for step in done[: barrier + 1] if step.kind in ("link", "rename", "unlink")]
        loose = [step for step in done[barrier + 1 :] if step.kind in ("link", "rename", "unlink")]
        for count in range(len(loose) + 1):
            for lucky in itertools.combinations(loose, count):
                names = dict.fromkeys(base)
                for step in (*settled, *lucky):
                    apply(names, step)
                for contents in data_choices(names, synced, data):
                    files = {name: base[name] if inode is None else contents[inode] for name, inode in names.items()}
                    yield instant == len(steps), files


def data_choices(names, synced, data):
    inodes = sorted({inode for inode in names.values() if inode is not None})
    options = [
        [data[inode]] if inode in synced else [b"", data[inode][:37], bytes(len(data[inode])), data[inode]]
        for inode in inodes
    ]
    for choice in itertools.product(*options):
        yield dict(zip(inodes, choice, strict=True))


def judge(base, steps, data, room, expected_after, saved=CONTENT):
    """Read every state; `expected_after` is the epoch that must be the latest once the writer was told "saved"."""
    verdict, seen = Verdict(), set()
    room.mkdir()
    for is_done, files in crash_states(base, steps, data):
        key = (is_done, frozenset(files.items()))
        if key in seen:
            continue
        seen.add(key)
        verdict.states += 1
        for path in room.iterdir():
            path.unlink()
        for name, content in files.items():
            (room / name).write_bytes(content)
        look_at(room, is_done, expected_after, verdict, saved)
    return verdict


def look_at(room, is_done, expected_after, verdict, saved):
    verdict.broken_promises += len(survey(room).refused)
    try:
        opened = open_latest(room)
    except DamagedFile:
        opened = None
    if opened is None:
        verdict.nothing_left += 1
        return
    epoch = opened.checkpoint.epoch
    verdict.broken_promises += len(opened.refused)
    verdict.served_corrupt += any(saved[epoch][name] != content for name, content in opened.parts.items())
    verdict.acknowledged_but_lost += is_done and epoch != expected_after


@pytest.fixture
def old(tmp_path, describe):
    directory = tmp_path / "run"
    directory.mkdir()
    durable.commit(directory, 1, OLD, describe(1))
    return directory


def content_of(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def committed_under(recorder, old, describe):
    base = content_of(old)
    durable.commit(old, 2, NEW, describe(2), recorder)
    return base


@pytest.mark.fault("C3")
def test_no_power_loss_during_a_commit_loses_or_corrupts_anything(tmp_path, old, describe, figure):
    recorder = Recorder()
    base = committed_under(recorder, old, describe)
    verdict = judge(base, recorder.steps, recorder.data, tmp_path / "room", expected_after=2)
    assert verdict.is_clean, verdict
    assert verdict.states > 20
    figure("crash states of a commit, all clean", verdict.states)


@pytest.mark.fault("C3")
def test_no_power_loss_during_retention_loses_or_corrupts_anything(tmp_path, old, describe):
    durable.commit(old, 2, NEW, describe(2))
    base, recorder = content_of(old), Recorder()
    retain(old, survey(old).checkpoints, keep=1, keep_trainer_states=1, fs=recorder)
    verdict = judge(base, recorder.steps, recorder.data, tmp_path / "room", expected_after=2)
    assert verdict.is_clean, verdict
    assert verdict.states > 5


@pytest.mark.fault("C3")
def test_no_power_loss_while_a_trainer_state_is_dropped_loses_anything(tmp_path, old, describe):
    durable.commit(old, 2, NEW, describe(2))
    base, recorder = content_of(old), Recorder()
    retain(old, survey(old).checkpoints, keep=2, keep_trainer_states=1, fs=recorder)
    verdict = judge(base, recorder.steps, recorder.data, tmp_path / "room", expected_after=2)
    assert verdict.is_clean, verdict
    assert verdict.states > 3


@pytest.mark.fault("C3")
def test_no_power_loss_while_a_score_is_written_loses_anything(tmp_path, old):
    base, recorder = content_of(old), Recorder()
    before = durable.read_sidecar(old, 1)
    durable.rewrite_sidecar(old, before.__class__(**{**before.__dict__, "score": 1.0}), recorder)
    verdict = judge(base, recorder.steps, recorder.data, tmp_path / "room", expected_after=1)
    assert verdict.is_clean, verdict


@pytest.mark.fault("C3")
def test_no_power_loss_during_a_whole_save_with_log_and_retention_loses_anything(
    tmp_path, save, describe, policy, figure
):
    directory = tmp_path / "checkpoints"
    saved = {}
    for epoch in (1, 2):
        save(epoch, keep=1)
        saved[epoch] = durable.verify(directory, epoch)[1]
    base, recorder = content_of(directory), Recorder()
    manager = CheckpointManager(tmp_path, CheckpointConfig(keep=1, keep_trainer_states=1), fs=recorder)
    manager.save(policy, describe(3), {"epoch": 3})
    saved[3] = durable.verify(directory, 3)[1]
    verdict = judge(base, recorder.steps, recorder.data, tmp_path / "room", 3, saved)
    assert verdict.is_clean, verdict
    assert verdict.states > 25
    figure("crash states of a whole save, all clean", verdict.states)


@pytest.mark.fault("C3")
@pytest.mark.parametrize("left_out", [("file sync",), ("directory sync",), ("file sync", "directory sync")])
def test_leaving_out_a_sync_is_seen(tmp_path, old, describe, left_out, figure):
    recorder = Recorder(left_out)
    base = committed_under(recorder, old, describe)
    verdict = judge(base, recorder.steps, recorder.data, tmp_path / "room", expected_after=2)
    assert verdict.acknowledged_but_lost > 0
    assert verdict.served_corrupt == 0  # the checksums still hold the line
    figure("planted defect seen", f"no {' nor '.join(left_out)}")


@pytest.mark.fault("C3")
def test_writing_the_sidecar_first_is_seen(tmp_path, old, describe, figure):
    recorder = Recorder()
    base = committed_under(recorder, old, describe)
    first = next(index for index, step in enumerate(recorder.steps) if step.name.endswith(".yaml"))
    reordered = recorder.steps[first:] + recorder.steps[:first]
    verdict = judge(base, reordered, recorder.data, tmp_path / "room", expected_after=2)
    assert verdict.broken_promises > 0
    figure("planted defect seen", "sidecar first")


@pytest.mark.fault("C3")
def test_a_reader_without_checksums_is_seen(tmp_path, old, describe, monkeypatch, figure):
    """With a sloppy writer, only the checksum stands between a reader and zeros."""
    recorder = Recorder(("file sync",))
    base = committed_under(recorder, old, describe)
    monkeypatch.setattr(durable, "_verified_bytes", lambda directory, name, _: (directory / name).read_bytes())
    verdict = judge(base, recorder.steps, recorder.data, tmp_path / "room", expected_after=2)
    assert verdict.served_corrupt > 0
    figure("planted defect seen", "no checksums")


@pytest.mark.fault("C3")
def test_deleting_the_weights_before_the_sidecar_is_seen(tmp_path, old, describe, figure):
    durable.commit(old, 2, NEW, describe(2))
    base, recorder = content_of(old), Recorder()
    retain(old, survey(old).checkpoints, keep=1, keep_trainer_states=1, fs=recorder)
    verdict = judge(base, recorder.steps[::-1], recorder.data, tmp_path / "room", expected_after=2)
    assert verdict.broken_promises > 0
    figure("planted defect seen", "weights deleted first")


@pytest.mark.fault("C3")
def test_no_power_loss_while_an_epoch_is_replaced_mixes_the_two(tmp_path, old, describe):
    """The replaced one may be gone; what is served is whole, and the older one is always there."""
    durable.commit(old, 2, NEW, describe(2))
    base, recorder, room = content_of(old), Recorder(), tmp_path / "room"
    newer = {name: content[::-1] + b"newer" for name, content in NEW.items()}
    durable.commit(old, 2, newer, describe(2), recorder)
    room.mkdir()
    served = []
    for is_done, files in crash_states(base, recorder.steps, recorder.data):
        for path in room.iterdir():
            path.unlink()
        for name, content in files.items():
            (room / name).write_bytes(content)
        opened = open_latest(room)
        assert opened.refused == ()
        assert opened.parts in ([newer] if is_done else [OLD, NEW, newer])
        served.append(opened.parts)
    assert all(parts in served for parts in (OLD, NEW, newer))
